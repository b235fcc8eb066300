/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways to the hosts that a set's datagram sockets send to: an address handle for each, for so many hosts at most. The
 * one that nothing has come from for longest makes room for another. Its peers lose their places in the sockets'
 * tables, and are asked by UDP again; but a kernel may have read such a place just now, and with a proxy that posts a
 * handle is named by its number: so handles are kept for a while after nobody can find them any more.
 */
#include <string.h>

#include "src/socket/rd.h"

#define LEAVING_NS UINT64_C(10000000000)

/* Peers there have no place any more. Their addresses become nobody's: a place between others is not to be free. */
static void forget_peers(struct gw_sockets *set, uint32_t number)
{
    for (uint32_t i = 0; i < set->attr.datagrams; i++) {
        struct rd_end *e = &set->rd->end[i];

        for (uint32_t j = 0; e->owner && j < GW_RD_PEERS_; j++) {
            struct gw_rd_peer_ *p = &e->shared->peer[j];
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
static void let_go(struct gw_rd *rd)
{
    uint64_t now = gw_clock_ns();

    for (; rd->went != rd->leaves; rd->went++) {
        struct rd_leaving *l = &rd->leaving[rd->went % RD_HOSTS];

        if (now - l->since < LEAVING_NS) return;
        gw_ah_destroy(l->ah);
    }
}

/* A place for one more; NULL: all others were given to somebody within the last seconds. */
static struct rd_host *room(struct gw_sockets *set)
{
    struct gw_rd *rd = set->rd;
    struct rd_host *oldest = rd->host;

    if (rd->hosts < RD_HOSTS) return &rd->host[rd->hosts++];
    let_go(rd);
    if (rd->leaves - rd->went == RD_HOSTS) return NULL;
    for (uint32_t i = 1; i < RD_HOSTS; i++)
        if (rd->host[i].used < oldest->used) oldest = &rd->host[i];
    if (oldest->ah) {
        forget_peers(set, oldest->ah->handle.number);
        rd->leaving[rd->leaves++ % RD_HOSTS] = (struct rd_leaving){oldest->ah, gw_clock_ns()};
    }
    *oldest = (struct rd_host){.ah = NULL};
    return oldest;
}

const struct gw_ah_handle *gw_rd_way_to(struct gw_sockets *set, const struct gw_rd_addr *a)
{
    struct gw_endpoint host = {.gid = {[10] = 0xff, [11] = 0xff}};
    struct gw_rd *rd = set->rd;
    struct rd_host *h;

    memcpy((a->w[0] & 0xff) == 4 ? host.gid + 12 : host.gid, &a->w[1], (a->w[0] & 0xff) == 4 ? 4 : 16);
    for (h = rd->host; h < rd->host + rd->hosts; h++)
        if (h->ah && !memcmp(h->gid, host.gid, 16)) break;
    if (h == rd->host + rd->hosts) {
        h = room(set);
        if (!h || gw_ah_create(set->pd, &host, NULL, &h->ah)) return NULL;
        memcpy(h->gid, host.gid, 16);
    }
    h->used = ++rd->uses;
    return &h->ah->handle;
}

void gw_rd_hosts_destroy(struct gw_rd *rd)
{
    for (uint32_t i = 0; i < rd->hosts; i++) gw_ah_destroy(rd->host[i].ah);
    for (; rd->went != rd->leaves; rd->went++) gw_ah_destroy(rd->leaving[rd->went % RD_HOSTS].ah);
}
