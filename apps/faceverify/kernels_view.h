/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels_view.h: a block's own part of the server's memory, replies, and the end of a client. Functions of
 * kernels_*.h whose names begin with one_ are for the block's first thread; all threads call the others.
 */
#ifndef FACE_KERNELS_VIEW_H
#define FACE_KERNELS_VIEW_H

#include "apps/faceverify/kernels.h"

/* The block's part. Each thread has its own copy. Entry 0 of fds is the listener; then come the links, and
 * then the clients. */
struct face_view {
    const struct face_args *a;
    struct gw_net *net, *clients; /* for memcacheds; for clients: often the same */
    int listener;                 /* its number does not change: read once, as it lies in host memory */
    uint32_t *open, sharers;      /* clients of the set; its blocks */
    struct face_block *b;
    struct mc_link *link;
    struct face_conn *conn;
    struct face_slot *slot;
    struct pollfd *fds, *link_fds, *conn_fds;
    uint8_t *buffer;
    uint64_t now;
    uint32_t round;
};

GW_DEV void face_view_make(struct face_view *v, const struct face_args *a)
{
    uint64_t i = gw_block_idx();
    uint32_t doors = a->clients ? 1 : a->nets, door = (uint32_t)(i % doors);

    v->a = a;
    v->net = a->net[i % a->nets];
    v->clients = a->clients ? a->clients : v->net;
    v->listener = a->listener[door];
    v->open = &a->open[door];
    v->sharers = (gw_grid_dim() - door + doors - 1) / doors;
    v->b = &a->block[i];
    v->link = a->link + i * a->ring.servers;
    v->conn = a->conn + i * a->conns;
    v->slot = a->slot + i * FACE_SLOTS;
    v->fds = a->fds + i * (1 + a->ring.servers + a->conns);
    v->link_fds = v->fds + 1;
    v->conn_fds = v->link_fds + a->ring.servers;
    v->buffer = a->buffer + i * a->conns * FACE_BUFFER;
    v->now = gw_clock_ns();
    v->round = 0;
}

GW_DEV uint8_t *face_buffer(const struct face_view *v, uint32_t conn)
{
    return v->buffer + (uint64_t)conn * FACE_BUFFER;
}

/* How long a close waits for the proxy to take what was sent: usually microseconds. */
#define FACE_GOODBYE_NS 1000000000u

/* ---- clients ------------------------------------------------------------------------------------------- */

/* Ends a client's connection. Nothing more is sent to it. patience_ns: for what was sent. */
GW_DEV void one_conn_close(struct face_view *v, uint32_t i, uint64_t patience_ns)
{
    struct face_conn *c = &v->conn[i];

    if (c->state == FACE_CONN_FREE) return;
    if (c->have == c->want && !c->begun) v->b->full--;
    gw_sock_close_thread(v->clients, c->fd, patience_ns ? gw_clock_ns() + patience_ns : 0);
    c->state = FACE_CONN_FREE;
    c->uses++;
    v->conn_fds[i].fd = -1;
    v->b->conns--;
    gw_add_relaxed_u32_gpu(v->open, 0u - 1);
}

/* The same, because of something that the client did. */
GW_DEV void one_conn_lose(struct face_view *v, uint32_t i)
{
    v->b->counts.lost++;
    one_conn_close(v, i, 0);
}

/* Its buffer is free for the next request. */
GW_DEV void one_conn_next(struct face_view *v, uint32_t i)
{
    v->conn[i].have = v->conn[i].begun = 0;
    v->conn[i].want = face_request_bytes(1);
    v->conn_fds[i].events = v->conn[i].state == FACE_CONN_ENDING ? 0 : POLLIN;
}

/* ---- replies ------------------------------------------------------------------------------------------- */

/* Sends a reply, which is complete but for head and verdict. A client that has left hundreds of replies
 * unread finds no room for this one, and is disconnected. */
GW_DEV void one_reply(struct face_view *v, uint32_t i, struct face_reply *r, enum face_verdict verdict)
{
    struct face_conn *c = &v->conn[i];

    r->magic = FACE_REPLY_MAGIC;
    r->version = FACE_WIRE_VERSION;
    r->verdict = (uint8_t)verdict;
    r->zero = 0;
    r->threshold = v->a->threshold;
    v->b->counts.verdicts[verdict]++;
    c->since_ns = v->now;
    if (gw_sock_send_thread(v->clients, c->fd, r, sizeof(*r), MSG_DONTWAIT | MSG_NOSIGNAL, 0) != sizeof(*r))
        one_conn_lose(v, i);
    else if (c->state == FACE_CONN_ENDING && !c->waits)
        one_conn_close(v, i, FACE_GOODBYE_NS);
}

/* A reply to a request that has no slot. */
GW_DEV void one_reply_at_once(struct face_view *v, uint32_t i, uint64_t id, enum face_verdict verdict)
{
    struct face_reply r;

    memset(&r, 0, sizeof(r));
    r.id = id;
    r.ns[FACE_RECEIVED] = v->now;
    r.ns[FACE_REPLIED] = gw_clock_ns();
    one_reply(v, i, &r, verdict);
}

/* Writes down what the page shows of a request. A function of its own: inlined, it would take the registers
 * of the kernel that calls it. */
GW_SLOW_FN void one_recent_write(struct face_recent *r, struct face_recent_pen *pen,
                                 const struct face_slot *slot, float distance, enum face_verdict verdict)
{
    struct face_recent_one one;
    uint32_t i;

    for (i = 0; i < FACE_POINTS; i++) one.ns[i] = slot->ns[i];
    one.distance = distance;
    one.server = slot->server;
    one.verdict = (uint16_t)verdict;
    one.name_len = (uint16_t)(slot->key_len - FACE_PREFIX_LEN);
    memcpy(one.name, slot->key + FACE_PREFIX_LEN, FACE_NAME_MAX);
    face_recent_write(r, pen, &one, slot->ns[FACE_REPLIED]);
}

/* A reply to the request of a slot, which is free then. */
GW_DEV void one_slot_reply(struct face_view *v, uint32_t s, float distance, enum face_verdict verdict)
{
    struct face_slot *slot = &v->slot[s];
    struct face_conn *c = &v->conn[slot->conn];
    struct face_reply r;
    uint32_t i, fresh = v->b->fresh & 1u << s;

    v->b->used &= ~(1u << s);
    v->b->fresh &= ~(1u << s);
    if (c->uses != slot->uses) return; /* the client has gone */
    if (fresh) one_conn_next(v, slot->conn);
    slot->ns[FACE_REPLIED] = gw_clock_ns();
    r.id = slot->id;
    r.distance = distance;
    for (i = 0; i < FACE_POINTS; i++) r.ns[i] = slot->ns[i];
    if (verdict == FACE_MATCH || verdict == FACE_NO_MATCH)
        for (i = 1; i < FACE_POINTS; i++) v->b->counts.ns[i] += slot->ns[i] - slot->ns[i - 1];
    if (v->a->recent && face_recent_may(&v->b->pen, slot->ns[FACE_REPLIED]))
        one_recent_write(&v->a->recent[gw_block_idx()], &v->b->pen, slot, distance, verdict);
    c->waits--;
    one_reply(v, slot->conn, &r, verdict);
}

#endif
