/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h: a block's share of each operation. Included by collective.h; names that end in _ are private.
 */
#include <gpuwire/collective.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_COLLECTIVE_RUN_H
#define GPUWIRE_DETAIL_COLLECTIVE_RUN_H

GW_DEV struct gw_team gw_team_all(struct gw_comm_handle *comm)
{
    struct gw_team t;

    t.comm = comm;
    t.block = gw_block_idx();
    t.blocks = gw_grid_dim();
    return t;
}

/* What all ranks must agree on, as a word. */
GW_FN uint32_t gw_coll_tag_(const struct gw_coll *c, uint32_t way, uint32_t straight)
{
    uint64_t count = c->kind == GW_COLL_ALLTOALLV ? 0 : c->count;
    uint64_t v = (c->kind | c->dtype << 4 | c->op << 12 | way << 16 | straight << 20) ^ (uint64_t)c->root
                                                                                            << 32;

    v = (v ^ count * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    return (uint32_t)(v >> 32);
}

GW_FN int gw_coll_moves_(uint32_t kind)
{
    return kind == GW_COLL_BROADCAST || kind == GW_COLL_ALLGATHER || kind == GW_COLL_ALLTOALL ||
           kind == GW_COLL_ALLTOALLV;
}

/* Elements of the whole of a vector: of send (in 0) or recv (in 1). */
GW_FN uint64_t gw_coll_extent_(const struct gw_coll *c, uint32_t ranks, int in)
{
    uint64_t most = 0, end;
    uint32_t i;

    if (c->kind != GW_COLL_ALLTOALLV)
        return c->kind == GW_COLL_ALLTOALL ||
                       (in ? c->kind == GW_COLL_ALLGATHER : c->kind == GW_COLL_REDUCE_SCATTER)
                   ? c->count * ranks
                   : c->count;
    for (i = 0; i < ranks; i++) {
        end = in ? c->recv_at[i] + c->recv_count[i] : c->send_at[i] + c->send_count[i];
        if (end > most) most = end;
    }
    return most;
}

/* Does it go between registered buffers? All-to-all(v) does where both are registered, whatever its sizes:
 * they differ between ranks. */
GW_DEV int gw_coll_straight_(const struct gw_comm_handle *h, const struct gw_coll *c, uint32_t each)
{
    if (!gw_coll_moves_(c->kind)) return 0;
    if (c->kind != GW_COLL_ALLTOALLV && c->count * each < h->direct) return 0;
    if (!gw_buffer_of_(h, c->send, gw_coll_extent_(c, h->ranks, 0) * each)) return 0;
    return gw_buffer_of_(h, c->recv, gw_coll_extent_(c, h->ranks, 1) * each) != NULL;
}

GW_SLOW_DEV void gw_steps_init_(struct gw_steps_ *s, const struct gw_team *t, const struct gw_coll *c,
                                uint64_t deadline_ns)
{
    s->b.h = t->comm;
    s->b.block = t->block;
    s->b.blocks = t->blocks;
    s->b.deadline = deadline_ns;
    s->c = c;
    s->send = (const uint8_t *)c->send;
    s->recv = (uint8_t *)c->recv;
    s->each = c->kind == GW_COLL_BARRIER ? 1 : gw_coll_bytes_(c->dtype);
    s->chunk = t->comm->large / s->each;
    s->ahead = 1;
    s->scale = c->op == GW_AVG ? t->comm->ranks : 1;
    s->reduce = c->kind == GW_COLL_ALLREDUCE || c->kind == GW_COLL_REDUCE_SCATTER;
    s->by_peer =
        c->kind == GW_COLL_ALLTOALL || c->kind == GW_COLL_ALLTOALLV || c->kind == GW_COLL_REDUCE_SCATTER;
    s->layout = GW_LAYOUT_PARTS_;
    if (c->kind == GW_COLL_ALLTOALLV) s->layout = GW_LAYOUT_LISTS_;
    if (c->kind == GW_COLL_ALLREDUCE || c->kind == GW_COLL_BROADCAST) s->layout = GW_LAYOUT_WHOLE_;
    s->own = gw_share_(c->count, s->each, t->block, t->blocks);
    s->into = s->own.at;
    if (c->kind == GW_COLL_REDUCE_SCATTER || c->kind == GW_COLL_ALLTOALL || c->kind == GW_COLL_ALLTOALLV)
        s->own = gw_part_(s, t->comm->rank, 0);
}

/* Messages that may be under way, where an operation takes several. */
GW_DEV void gw_steps_ahead_(struct gw_steps_ *s, uint64_t elements)
{
    uint64_t steps = (elements + s->chunk - 1) / s->chunk;

    s->ahead = GW_COLL_AHEAD_;
    if (steps < s->ahead) s->ahead = steps ? (uint32_t)steps : 1;
}

/* Every rank has come when every rank has heard of one that has heard of … all of them. */
GW_DEV int gw_run_barrier_(const struct gw_steps_ *s)
{
    uint32_t n = s->b.h->ranks, rank = s->b.h->rank, hop;
    int err = 0;

    if (gw_thread_idx() == 0 && s->b.block == 0)
        for (hop = 1; hop < n && !err; hop *= 2) {
            uint32_t to = (rank + hop) % n, from = (rank + n - hop) % n;

            err = gw_pipe_room_(&s->b, to);
            if (!err) err = gw_pipe_send_(&s->b, to, 0);
            if (!err) err = gw_pipe_come_(&s->b, from, 0);
            if (!err) err = gw_pipe_take_(&s->b, from);
        }
    return gw_coll_agree_(err);
}

/* The block's share of this rank's own part, which does not travel. */
GW_DEV void gw_run_keep_(const struct gw_steps_ *s)
{
    struct gw_range_ from = s->own, to = gw_part_(s, s->b.h->rank, 1);

    if (s->c->kind == GW_COLL_BROADCAST && s->c->root != s->b.h->rank) return;
    if (from.n < to.n) to.n = from.n; /* all-to-all(v): what a rank says to itself may differ */
    gw_coll_copy_(s->recv + to.at * s->each, s->send + from.at * s->each, to.n * s->each);
}

/* All-reduce by parts: each is reduced at one rank, and comes to all. */
GW_SLOW_DEV int gw_run_split_(struct gw_steps_ *s, uint32_t way)
{
    int err;

    s->layout = GW_LAYOUT_SPLIT_;
    s->by_peer = 1;
    s->own = gw_part_(s, s->b.h->rank, 0);
    s->into = s->own.at;
    gw_steps_ahead_(s, gw_part_(s, 0, 0).n);
    err = way == GW_WAY_RING ? gw_ring_(s) : gw_exchange_(s);
    if (err) return err;
    s->b.tag++;
    s->by_peer = s->reduce = 0;
    s->send = s->recv; /* it holds this rank's part now */
    return way == GW_WAY_RING ? gw_ring_(s) : gw_exchange_(s);
}

GW_DEV int gw_run_(struct gw_steps_ *s, uint32_t way, uint32_t straight)
{
    const struct gw_coll *c = s->c;
    int err;

    if (c->kind == GW_COLL_BARRIER) return gw_run_barrier_(s);
    if (gw_coll_moves_(c->kind)) gw_run_keep_(s);
    if (straight) return gw_straight_(s);
    if (c->kind == GW_COLL_ALLREDUCE && way != GW_WAY_DIRECT) return gw_run_split_(s, way);
    gw_steps_ahead_(s, s->layout == GW_LAYOUT_LISTS_ ? UINT32_MAX : gw_part_(s, 0, 0).n);
    if (way != GW_WAY_RING || c->kind == GW_COLL_ALLTOALL || c->kind == GW_COLL_ALLTOALLV)
        return gw_exchange_(s);
    if (c->kind == GW_COLL_BROADCAST) return gw_chain_(s);
    gw_syncthreads(); /* an all-gather sends from recv what gw_run_keep_ has put there */
    err = gw_ring_(s);
    return err;
}

/* One rank alone: it has everything. */
GW_SLOW_DEV int gw_run_alone_(const struct gw_steps_ *s)
{
    struct gw_reduce_ red;
    const uint8_t *in[1];

    if (s->c->kind == GW_COLL_BARRIER) return 0;
    if (gw_coll_moves_(s->c->kind)) {
        gw_run_keep_(s);
    } else {
        in[0] = s->send + s->own.at * s->each;
        red.to = s->recv + s->into * s->each;
        red.in = in;
        red.count = s->own.n;
        red.inputs = red.scale = 1;
        red.dtype = s->c->dtype;
        red.op = s->c->op;
        gw_reduce_run_(&red, gw_thread_idx(), gw_block_dim());
    }
    gw_syncthreads();
    return 0;
}

GW_DEV int gw_coll_run(const struct gw_team *team, const struct gw_coll *coll, uint64_t deadline_ns)
{
    struct gw_comm_handle *h = team->comm;
    struct gw_steps_ s;
    uint32_t way = coll->way ? coll->way : h->way, straight;
    int err;

    if (h->size != sizeof(*h) || h->version != GW_COMM_VERSION) return -EINVAL;
    if (!team->blocks || team->blocks > h->blocks || team->block >= team->blocks) return -EINVAL;
    if (coll->kind > GW_COLL_ALLTOALLV || coll->root >= h->ranks || coll->op > GW_AVG) return -EINVAL;
    if (coll->kind != GW_COLL_BARRIER && !gw_coll_bytes_(coll->dtype)) return -EINVAL;
    err = gw_coll_agree_(gw_warp_idx() || !gw_coll_noted_(h) ? 0 : -ECONNABORTED);
    if (err) return err;
    gw_steps_init_(&s, team, coll, deadline_ns);
    if (h->ranks == 1) return gw_run_alone_(&s);
    if (!way) way = gw_coll_way_(coll->kind, coll->count * s.each, h->ranks);
    straight = (uint32_t)gw_coll_straight_(h, coll, s.each);
    s.b.tag =
        gw_coll_tag_(coll, way, straight) & ~1u; /* the lowest bit tells an operation's two halves apart */
    return gw_run_(&s, way, straight);
}

/* The last block to come opens the gate for the others; so the number of blocks may change between calls. */
GW_DEV int gw_coll_sync(const struct gw_team *team, uint64_t deadline_ns)
{
    uint64_t *meet = team->comm->meet, gate;
    uint32_t round = 0;
    int err = 0;

    gw_syncthreads(); /* what the block's threads wrote is before thread 0's arrival */
    if (gw_thread_idx() == 0) {
        gate = gw_ld_relaxed_u64_gpu(&meet[1]);
        /* acq_rel: the last one has what all wrote, and passes it on by the gate. */
        if (gw_add_acq_rel_u64_gpu(&meet[0], 1) + 1 == team->blocks) {
            gw_st_relaxed_u64_gpu(&meet[0], 0);
            gw_add_release_u64_gpu(&meet[1], 1);
        }
        while (!err && gw_ld_acquire_u64_gpu(&meet[1]) == gate) {
            if (++round % 64 == 0 && gw_coll_noted_(team->comm)) err = -ECONNABORTED;
            if (round % 64 == 0 && gw_clock_ns() >= deadline_ns) err = -ETIMEDOUT;
            gw_pause(round);
        }
    }
    return (int)(int64_t)gw_group_first(GW_BLOCK, (uint64_t)(int64_t)err);
}

/* ---- short forms
 * ---------------------------------------------------------------------------------------- */

GW_DEV int gw_coll_synced_(const struct gw_team *team, const struct gw_coll *coll, uint64_t deadline_ns)
{
    int err = gw_coll_sync(team, deadline_ns);

    if (!err) err = gw_coll_run(team, coll, deadline_ns);
    return err ? err : gw_coll_sync(team, deadline_ns);
}

GW_DEV struct gw_coll gw_coll_of_(uint32_t kind, const void *send, void *recv, uint64_t count, uint32_t type)
{
    struct gw_coll c;

    memset(&c, 0, sizeof(c));
    c.kind = kind;
    c.dtype = type & 0xff;
    c.op = type >> 8;
    c.send = send;
    c.recv = recv;
    c.count = count;
    return c;
}

GW_DEV int gw_coll_allreduce(const struct gw_team *team, const void *send, void *recv, uint64_t count,
                             uint32_t type, uint64_t deadline_ns)
{
    struct gw_coll c = gw_coll_of_(GW_COLL_ALLREDUCE, send, recv, count, type);

    return gw_coll_synced_(team, &c, deadline_ns);
}

GW_DEV int gw_coll_reduce_scatter(const struct gw_team *team, const void *send, void *recv, uint64_t count,
                                  uint32_t type, uint64_t deadline_ns)
{
    struct gw_coll c = gw_coll_of_(GW_COLL_REDUCE_SCATTER, send, recv, count, type);

    return gw_coll_synced_(team, &c, deadline_ns);
}

GW_DEV int gw_coll_allgather(const struct gw_team *team, const void *send, void *recv, uint64_t count,
                             uint32_t type, uint64_t deadline_ns)
{
    struct gw_coll c = gw_coll_of_(GW_COLL_ALLGATHER, send, recv, count, type);

    return gw_coll_synced_(team, &c, deadline_ns);
}

GW_DEV int gw_coll_alltoall(const struct gw_team *team, const void *send, void *recv, uint64_t count,
                            uint32_t type, uint64_t deadline_ns)
{
    struct gw_coll c = gw_coll_of_(GW_COLL_ALLTOALL, send, recv, count, type);

    return gw_coll_synced_(team, &c, deadline_ns);
}

GW_DEV int gw_coll_broadcast(const struct gw_team *team, void *buffer, uint64_t count, uint32_t dtype,
                             uint32_t root, uint64_t deadline_ns)
{
    struct gw_coll c = gw_coll_of_(GW_COLL_BROADCAST, buffer, buffer, count, dtype);

    c.root = root;
    return gw_coll_synced_(team, &c, deadline_ns);
}

GW_DEV int gw_coll_barrier(const struct gw_team *team, uint64_t deadline_ns)
{
    struct gw_coll c = gw_coll_of_(GW_COLL_BARRIER, NULL, NULL, 0, 0);

    return gw_coll_synced_(team, &c, deadline_ns);
}

#endif
