/* SPDX-License-Identifier: Apache-2.0 */
/*
 * move.h: the movers: blocks that carry chunks between ranks while mapping goes on. move.c compiles it for
 * CPU threads, move.cu for a GPU. They are a kernel of their own, which runs beside the mappers'.
 *
 * Each peer has a sender and a receiver. A mover block plays the parts whose number modulo the number of
 * movers is its own. A receiver never waits for memory: a chunk goes into the store, or the round fails. So
 * senders always get on, and mappers that wait for free chunks do, too.
 */
#include "mapreduce.h"

#include <gpuwire/channel.h>

enum mr_moved { MR_MOVED_NOTHING, MR_MOVED_ONE, MR_MOVED_ALL };

/* A channel failed, or its peer misbehaves. All threads. */
GW_DEV uint32_t mr_move_failed_(const struct mr_args_ *a, uint32_t wrong, uint32_t peer)
{
    if (gw_thread_idx() == 0) mr_wrong_(a, wrong, peer);
    return MR_MOVED_ALL;
}

/* The next chunk for a peer: its number + 1; 0: none now; UINT32_MAX: no more can come. */
GW_DEV uint32_t mr_give_next_(const struct mr_args_ *a, struct mr_queue *q, uint32_t peer, uint32_t mappers)
{
    uint32_t next = q->holding, all, *place;

    if (next) return next;
    /* acquire, and before the look at the queue: what mappers that have ended put there is seen */
    all = gw_ld_acquire_u32_gpu(&a->dev->mapped) == mappers;
    place = &a->ring[(uint64_t)peer * a->chunks + q->head % a->chunks];
    next = gw_ld_acquire_u32_gpu(place); /* the chunk was written before */
    if (!next) return all ? UINT32_MAX : 0;
    gw_st_relaxed_u32_gpu(place, 0);
    q->head++;
    return q->holding = next;
}

/* Sends a peer one chunk, or the end. All threads of a block. */
GW_DEV uint32_t mr_give_(const struct mr_args_ *a, uint32_t peer)
{
    struct mr_queue *q = &a->queue[peer];
    uint32_t next = 0;
    struct mr_chunk *c;
    void *slot;
    int err;

    if (gw_thread_idx() == 0) next = q->gave ? UINT32_MAX - 1 : mr_give_next_(a, q, peer, a->mappers);
    next = (uint32_t)gw_group_first(GW_BLOCK, next);
    if (next == UINT32_MAX - 1) return MR_MOVED_ALL;
    if (!next) return MR_MOVED_NOTHING;
    err = gw_channel_reserve(&a->channel[peer], &slot, 0);
    if (err == -EAGAIN) return MR_MOVED_NOTHING;
    if (err) return mr_move_failed_(a, MR_WRONG_LINK, peer);
    c = (struct mr_chunk *)slot;
    if (next != UINT32_MAX) {
        struct mr_chunk *from = mr_chunk_(a, next - 1);

        gw_copy_share(c, from, MR_CHUNK_HEAD + (uint64_t)from->bytes, gw_thread_idx(), gw_block_dim());
    } else if (gw_thread_idx() == 0) {
        c->bytes = 0;
        c->pairs = q->given;
        c->part = 0;
        c->kind = 1;
    }
    gw_syncthreads();
    err = gw_channel_commit(&a->channel[peer], gw_clock_ns() + 1000000000u);
    if (err) return mr_move_failed_(a, MR_WRONG_LINK, peer);
    if (gw_thread_idx() == 0) {
        if (next == UINT32_MAX) {
            q->gave = 1;
        } else {
            q->given++;
            q->holding = 0;
            mr_chunk_push_(a, next - 1);
            gw_add_release_u32_gpu(&a->dev->flight, 1); /* who may take a chunk finds it in the list */
        }
    }
    gw_syncthreads();
    return MR_MOVED_ONE;
}

/* May a peer's chunk be stored? */
GW_DEV bool mr_take_sound_(const struct mr_args_ *a, const struct mr_chunk *c)
{
    return c->kind == 0 && c->bytes && c->bytes <= MR_ROOM && c->bytes % 8 == 0 && c->part < a->parts &&
           a->owner[c->part] == 0 && c->pairs && c->pairs <= c->bytes / sizeof(struct mr_pair);
}

/* Copies a peer's chunk, whose head is *c, into the store. All threads of a block. false: the round has
 * failed. The head is a copy: the peer could still write into the message. */
GW_DEV bool mr_take_store_(const struct mr_args_ *a, const struct mr_chunk *c, const void *msg)
{
    uint32_t chunk = MR_NO_CHUNK;

    if (gw_thread_idx() == 0 && gw_ld_relaxed_u32_gpu(&a->dev->stored) < a->store_max)
        chunk = mr_chunk_pop_(a);
    chunk = (uint32_t)gw_group_first(GW_BLOCK, chunk);
    if (chunk == MR_NO_CHUNK) {
        if (gw_thread_idx() == 0) mr_wrong_(a, MR_WRONG_STORE, 0);
        return false;
    }
    gw_copy_share(mr_chunk_(a, chunk), msg, MR_CHUNK_HEAD + (uint64_t)c->bytes, gw_thread_idx(),
                  gw_block_dim());
    if (gw_thread_idx() == 0) mr_store_(a, chunk, c->part, c->bytes, c->pairs);
    gw_syncthreads();
    return true;
}

/* Receives one chunk of a peer, or its end. All threads of a block. */
GW_DEV uint32_t mr_take_(const struct mr_args_ *a, uint32_t peer)
{
    struct mr_queue *q = &a->queue[peer];
    uint32_t result = MR_MOVED_ONE;
    struct mr_chunk c;
    const void *msg;
    int err;

    if (gw_group_first(GW_BLOCK, q->took)) return MR_MOVED_ALL;
    err = gw_channel_borrow(&a->channel[peer], &msg, 0);
    if (err == -EAGAIN) return MR_MOVED_NOTHING;
    if (err) return mr_move_failed_(a, MR_WRONG_LINK, peer);
    c = *(const struct mr_chunk *)msg;
    if (c.kind == 1) {
        if (c.pairs != gw_group_first(GW_BLOCK, q->taken)) result = mr_move_failed_(a, MR_WRONG_PEER, peer);
        if (gw_thread_idx() == 0) q->took = 1;
    } else if (!mr_take_sound_(a, &c)) {
        result = mr_move_failed_(a, MR_WRONG_PEER, peer);
    } else if (!mr_take_store_(a, &c, msg)) {
        result = MR_MOVED_ALL;
    } else if (gw_thread_idx() == 0) {
        q->taken++;
    }
    gw_syncthreads();
    gw_channel_give_back(&a->channel[peer]);
    return result;
}

/* The kernel of a round: each block is a mover. */
GW_KERNEL(mr_move_kernel, struct mr_args_, a)
{
    uint32_t i, round = 0;

    for (;;) {
        bool moved = false, open = false;

        for (i = gw_block_idx(); i < 2 * a->peers; i += gw_grid_dim()) {
            uint32_t what = i & 1 ? mr_take_(a, i / 2) : mr_give_(a, i / 2);

            moved |= what == MR_MOVED_ONE;
            open |= what != MR_MOVED_ALL;
        }
        if (!open) return;
        if (!moved && gw_group_first(GW_BLOCK, mr_stopped_(a))) return;
        round = moved ? 0 : round + 1;
        if (!moved) mr_idle_(round);
    }
}
