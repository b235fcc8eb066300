/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways to the hosts that a set's datagram sockets send to: an address handle for each, for a limited
 * number of hosts. The one that nothing has come from for longest makes room for another. Its peers lose
 * their places in the sockets' tables, and are asked by UDP again. But a kernel may have read such a place
 * just now, and to a proxy that posts, a handle is a number. So handles are kept for a while after they can
 * no longer be found.
 */
#include <string.h>

#include "src/socket/datagram.h"

#define LEAVING_NS UINT64_C(10000000000)

/* Peers there have no place any more. Their places keep no address: a place between others must not become
 * free. */
static void forget_peers(struct gw_sockets *set, uint32_t number)
{
    for (uint32_t i = 0; i < set->attr.datagrams; i++) {
        struct datagram_end *e = &set->datagrams->end[i];

        for (uint32_t j = 0; e->owner && j < GW_DATAGRAM_PEERS_; j++) {
            struct gw_datagram_peer_ *p = &e->shared->peer[j];
            struct gw_ah_handle h;
            uint64_t seq = p->seq;

            memcpy(&h, p->ah, sizeof(h));
            if (!seq || h.number != number) continue;
            gw_st_relaxed_u64(&p->seq, seq + 1);
            gw_fence_release(); /* odd, before anything of it changes */
            for (uint32_t w = 0; w < 3; w++) gw_st_relaxed_u64(&p->addr.w[w], 0);
            gw_st_release_u64(&p->seq, seq + 2); /* release: all of it */
        }
    }
}

/* Handles that were given up long ago. */
static void datagram_hosts_let_go(struct gw_datagrams *datagrams)
{
    uint64_t now = gw_clock_ns();

    for (; datagrams->went != datagrams->leaves; datagrams->went++) {
        struct datagram_leaving *l = &datagrams->leaving[datagrams->went % DATAGRAM_HOSTS];

        if (now - l->since < LEAVING_NS) return;
        gw_ah_destroy(l->ah);
    }
}

/* A place for one more; NULL: all others were given out within the last seconds. */
static struct datagram_host *datagram_hosts_room(struct gw_sockets *set)
{
    struct gw_datagrams *datagrams = set->datagrams;
    struct datagram_host *oldest = datagrams->host;

    if (datagrams->hosts < DATAGRAM_HOSTS) return &datagrams->host[datagrams->hosts++];
    datagram_hosts_let_go(datagrams);
    if (datagrams->leaves - datagrams->went == DATAGRAM_HOSTS) return NULL;
    for (uint32_t i = 1; i < DATAGRAM_HOSTS; i++)
        if (datagrams->host[i].used < oldest->used) oldest = &datagrams->host[i];
    if (oldest->ah) {
        forget_peers(set, oldest->ah->handle.number);
        datagrams->leaving[datagrams->leaves++ % DATAGRAM_HOSTS] =
            (struct datagram_leaving){oldest->ah, gw_clock_ns()};
    }
    *oldest = (struct datagram_host){.ah = NULL};
    return oldest;
}

const struct gw_ah_handle *gw_datagram_way_to(struct gw_sockets *set, const struct gw_datagram_addr *a)
{
    struct gw_endpoint host = {.gid = {[10] = 0xff, [11] = 0xff}};
    struct gw_datagrams *datagrams = set->datagrams;
    struct datagram_host *h;

    memcpy((a->w[0] & 0xff) == 4 ? host.gid + 12 : host.gid, &a->w[1], (a->w[0] & 0xff) == 4 ? 4 : 16);
    for (h = datagrams->host; h < datagrams->host + datagrams->hosts; h++)
        if (h->ah && !memcmp(h->gid, host.gid, 16)) break;
    if (h == datagrams->host + datagrams->hosts) {
        h = datagram_hosts_room(set);
        if (!h || gw_ah_create(set->pd, &host, NULL, &h->ah)) return NULL;
        memcpy(h->gid, host.gid, 16);
    }
    h->used = ++datagrams->uses;
    return &h->ah->handle;
}

void gw_datagram_hosts_destroy(struct gw_datagrams *datagrams)
{
    for (uint32_t i = 0; i < datagrams->hosts; i++) gw_ah_destroy(datagrams->host[i].ah);
    for (; datagrams->went != datagrams->leaves; datagrams->went++)
        gw_ah_destroy(datagrams->leaving[datagrams->went % DATAGRAM_HOSTS].ah);
}
