/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_requests.h: what clients send, until memcached has been asked and the picture has its histogram. */
#ifndef FACE_KERNELS_REQUESTS_H
#define FACE_KERNELS_REQUESTS_H

#include "apps/faceverify/kernels_view.h"
#include "apps/faceverify/lbp.h"

/* Fills in a slot and queues its question. */
GW_DEV void one_ask(struct face_view *v, uint32_t i, uint32_t s, uint32_t server)
{
    const struct face_request *r = (const struct face_request *)face_buffer(v, i);
    struct face_slot *slot = &v->slot[s];
    struct mc_owed owed;
    uint32_t k;

    slot->conn = i;
    slot->uses = v->conn[i].uses;
    slot->server = server;
    slot->id = r->id;
    slot->name_hash = face_name_hash((const char *)(r + 1), r->name_len);
    slot->until_ns = v->now + v->a->limit_ns;
    for (k = 0; k < FACE_POINTS; k++) slot->ns[k] = 0;
    slot->ns[FACE_RECEIVED] = v->now;
    slot->opaque = v->b->opaque++;
    owed.number = s;
    owed.opaque = slot->opaque;
    owed.quiet = 0;
    mc_link_ask(&v->link[server], v->a->protocol, slot->key, slot->key_len, owed);
    slot->ns[FACE_ASKED] = gw_clock_ns();
    v->b->used |= 1u << s;
    v->b->fresh |= 1u << s;
    v->conn[i].begun = 1;
    v->conn[i].waits++;
    v->b->full--;
}

/* A whole request. It stays where it is while there is no slot for it. */
GW_DEV void one_begin(struct face_view *v, uint32_t i)
{
    const struct face_request *r = (const struct face_request *)face_buffer(v, i);
    const char *name = (const char *)(r + 1);
    uint32_t s = 0, server;

    v->conn_fds[i].events = 0;
    if (!face_name_valid(name, r->name_len)) {
        v->b->full--;
        v->b->counts.requests++;
        one_conn_next(v, i);
        one_reply_at_once(v, i, r->id, FACE_MALFORMED);
        return;
    }
    while (s < FACE_SLOTS && v->b->used & 1u << s) s++;
    if (s == FACE_SLOTS) return;
    v->slot[s].key_len = (uint32_t)face_key(v->slot[s].key, name, r->name_len);
    server = mc_server_of(&v->a->ring, v->slot[s].key, v->slot[s].key_len);
    v->b->counts.requests++;
    if (mc_link_has_room(&v->link[server])) {
        one_ask(v, i, s, server);
        return;
    }
    v->b->full--;
    one_conn_next(v, i);
    one_reply_at_once(v, i, r->id, FACE_UNAVAILABLE);
}

/* The head has come: is it one? The length of the whole request follows from it. */
GW_DEV bool one_head(struct face_view *v, uint32_t i)
{
    const struct face_request *r = (const struct face_request *)face_buffer(v, i);
    struct face_conn *c = &v->conn[i];

    if (face_request_valid(r)) {
        c->want = face_request_bytes(r->name_len);
        return true;
    }
    c->state = FACE_CONN_DRAIN;
    c->have = 0;
    v->b->counts.requests++;
    one_reply_at_once(v, i, r->id, FACE_MALFORMED);
    return false;
}

/* A client has sent n bytes, has come to its end (0), or has failed. */
GW_DEV void one_received(struct face_view *v, uint32_t i, int64_t n)
{
    struct face_conn *c = &v->conn[i];
    uint32_t had = c->have;

    if (n == -EAGAIN) return;
    if (n < 0 || (!n && (had || c->state == FACE_CONN_DRAIN))) {
        one_conn_lose(v, i);
    } else if (!n && !c->waits) {
        one_conn_close(v, i, FACE_GOODBYE_NS);
    } else if (!n) {
        c->state = FACE_CONN_ENDING;
        v->conn_fds[i].events = 0;
    } else if (c->state != FACE_CONN_DRAIN) { /* which drops it, and keeps the time of its end */
        c->since_ns = v->now;
        c->have += (uint32_t)n;
        if (had < sizeof(struct face_request) && c->have >= sizeof(struct face_request) && !one_head(v, i))
            return;
        if (c->have < c->want) return;
        v->b->full++;
        one_begin(v, i);
    }
}

/* All clients that have sent something. */
GW_DEV void face_requests(struct face_view *v)
{
    struct face_conn *c;
    uint32_t i;
    int64_t n;

    for (i = 0; i < v->a->conns; i++) {
        c = &v->conn[i];
        if (v->conn_fds[i].fd < 0 || !v->conn_fds[i].revents || c->have == c->want) continue;
        n = gw_sock_recv(v->clients, c->fd, face_buffer(v, i) + c->have, c->want - c->have, MSG_DONTWAIT, 0);
        if (gw_thread_idx() == 0) one_received(v, i, n);
    }
    gw_syncthreads(); /* all have looked at all clients before the first thread goes on */
}

/* Requests that had no slot try again, from another client on each time. */
GW_DEV void one_retry(struct face_view *v)
{
    uint32_t k, i, all = v->a->conns;

    for (k = 0; k < all && v->b->full && v->b->used != (1u << FACE_SLOTS) - 1; k++) {
        i = (k + v->b->opaque) % all;
        if (v->conn[i].state != FACE_CONN_FREE && v->conn[i].have == v->conn[i].want && !v->conn[i].begun)
            one_begin(v, i);
    }
}

/* The pictures of the slots that are new, while memcached answers. */
GW_DEV void face_histograms(struct face_view *v, struct face_desk *d)
{
    const struct face_request *r;
    uint32_t fresh, s, i;

    /* Shared, as the first thread may soon begin further ones. */
    fresh = (uint32_t)gw_group_first(GW_BLOCK, gw_thread_idx() == 0 ? v->b->fresh : 0);
    for (s = 0; s < FACE_SLOTS; s++) {
        if (!(fresh & 1u << s)) continue;
        i = v->slot[s].conn;
        r = (const struct face_request *)face_buffer(v, i);
        face_block_histogram(d, (const uint8_t *)(r + 1) + face_name_room(r->name_len),
                             &v->slot[s].histogram);
        if (gw_thread_idx() == 0) one_conn_next(v, i);
    }
    if (gw_thread_idx() == 0) v->b->fresh = 0;
}

#endif
