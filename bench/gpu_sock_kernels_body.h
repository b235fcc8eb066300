/* SPDX-License-Identifier: Apache-2.0 */
/* Included by gpu_sock_kernels.c for the CPU and by gpu_sock_kernels.cu for the GPU. */
#include <gpuwire/kernel.h>
#include <gpuwire/verbs_device.h>

#include "bench/gpu_sock_kernels.h"

GW_DEV uint64_t late(const struct side_args *a)
{
    return gw_clock_ns() + a->patience_ns;
}

GW_DEV int64_t get(const struct side_args *a, int s, void *to, uint64_t n)
{
    int64_t got = gw_sock_recv(a->net, s, to, n, MSG_WAITALL, late(a));

    return got < 0 ? got : (uint64_t)got == n ? 0 : -ECONNABORTED;
}

GW_DEV int64_t put(const struct side_args *a, int s, const void *from, uint64_t n)
{
    int64_t sent = gw_sock_send(a->net, s, from, n, MSG_NOSIGNAL, late(a));

    return sent < 0 ? sent : (uint64_t)sent == n ? 0 : -ETIMEDOUT;
}

GW_DEV int64_t pass(const struct side_args *a, int sends, int s, void *bytes, uint64_t n)
{
    return sends ? put(a, s, bytes, n) : get(a, s, bytes, n);
}

GW_DEV void leave(const struct side_args *a, int64_t err)
{
    if (gw_thread_idx() == 0) a->err[gw_block_idx()] = err;
}

/* ---- meeting: one block -------------------------------------------------------------------------------- */

GW_KERNEL(listen_kernel, struct side_args, a)
{
    int s = gw_sock_open(a->net, AF_INET, SOCK_STREAM, 0, late(a)), err = s;

    if (s >= 0) err = gw_sock_bind(a->net, s, (const struct sockaddr *)&a->own, a->len, late(a));
    if (err >= 0) err = gw_sock_listen(a->net, s, 64, late(a));
    if (err >= 0) err = gw_sock_name(a->net, s, a->name, a->name_len);
    if (gw_thread_idx() == 0) *a->listener = s;
    leave(a, err < 0 ? err : 0);
}

GW_KERNEL(accept_kernel, struct side_args, a)
{
    GW_SHARED(struct hello, hello);
    int64_t err = 0;
    uint32_t i;
    int s;

    for (i = 0; i < a->conns && !err; i++) {
        err = s = gw_sock_accept(a->net, *a->listener, NULL, NULL, late(a));
        if (s >= 0) err = get(a, s, hello, sizeof(*hello));
        gw_syncthreads();
        if (!err && hello->number >= a->conns) err = -EPROTO;
        if (!err && gw_thread_idx() == 0) a->sock[hello->number] = s;
        gw_syncthreads();
    }
    leave(a, err);
}

GW_KERNEL(dial_kernel, struct side_args, a)
{
    GW_SHARED(struct hello, hello);
    int64_t err = 0;
    uint32_t i;
    int s;

    for (i = 0; i < a->conns && !err; i++) {
        err = s = gw_sock_open(a->net, AF_INET, SOCK_STREAM, 0, late(a));
        if (s >= 0) err = gw_sock_bind(a->net, s, (const struct sockaddr *)&a->own, a->len, late(a));
        if (!err) err = gw_sock_connect(a->net, s, (const struct sockaddr *)&a->addr, a->len, late(a));
        if (gw_thread_idx() == 0) hello->number = i;
        gw_syncthreads();
        if (!err) err = put(a, s, hello, sizeof(*hello));
        if (!err && gw_thread_idx() == 0) a->sock[i] = s;
        gw_syncthreads();
    }
    leave(a, err);
}

/* ---- streams: each block its connections in turn ------------------------------------------------------- */

/* Both sides' the other way round; at the end one byte comes back: all of it has come. */
GW_DEV void stream(const struct side_args *a, int sends)
{
    uint8_t *bytes = a->bytes + a->size * gw_block_idx();
    int64_t err = 0;
    int only = a->conns <= gw_grid_dim() ? a->sock[gw_block_idx()] : -1;
    uint64_t i;
    uint32_t c;

    for (i = 0; i < a->count; i++)
        for (c = gw_block_idx(); c < a->conns && !err; c += gw_grid_dim())
            err = pass(a, sends, only >= 0 ? only : a->sock[c], bytes, a->size);
    for (c = gw_block_idx(); c < a->conns && !err; c += gw_grid_dim())
        err = pass(a, !sends, a->sock[c], bytes, 1);
    leave(a, err);
}

GW_KERNEL(send_kernel, struct side_args, a)
{
    stream(a, 1);
}

GW_KERNEL(sink_kernel, struct side_args, a)
{
    stream(a, 0);
}

/* ---- a stream whose bytes lie where the NIC puts and fetches them, on connection 0 --------------------- */

GW_DEV int64_t pass_in_place(const struct side_args *a, int sends, int s)
{
    uint64_t left = a->size;
    const void *there;
    void *room;
    int64_t n;
    int err;

    for (; left; left -= (uint64_t)n) {
        n = sends ? gw_sock_reserve(a->net, s, &room, late(a)) : gw_sock_borrow(a->net, s, &there, late(a));
        if (n <= 0) return n ? n : -ECONNABORTED;
        if ((uint64_t)n > left) n = (int64_t)left;
        err = sends ? gw_sock_commit(a->net, s, (uint64_t)n, late(a))
                    : gw_sock_give_back(a->net, s, (uint64_t)n);
        if (err) return err;
    }
    return 0;
}

GW_DEV void stream_in_place(const struct side_args *a, int sends)
{
    int64_t err = 0;
    int s = a->sock[0];
    uint64_t i;

    for (i = 0; i < a->count && !err; i++) err = pass_in_place(a, sends, s);
    if (!err) err = pass(a, !sends, s, a->bytes, 1);
    leave(a, err);
}

GW_KERNEL(send_in_place_kernel, struct side_args, a)
{
    stream_in_place(a, 1);
}

GW_KERNEL(sink_in_place_kernel, struct side_args, a)
{
    stream_in_place(a, 0);
}

/* ---- there and back, on connection 0 ------------------------------------------------------------------- */

GW_DEV void rally(const struct side_args *a, int begins)
{
    int64_t err = 0;
    int s = a->sock[0];
    uint64_t i;

    for (i = 0; i < a->count && !err; i++) {
        err = pass(a, begins, s, a->bytes, a->size);
        if (!err) err = pass(a, !begins, s, a->bytes, a->size);
    }
    leave(a, err);
}

GW_KERNEL(ask_kernel, struct side_args, a)
{
    rally(a, 1);
}

GW_KERNEL(echo_kernel, struct side_args, a)
{
    rally(a, 0);
}

/* ---- the same without a stream: one thread ------------------------------------------------------------- */

GW_KERNEL(raw_stream_kernel, struct raw_args, a)
{
    uint64_t i, deadline = gw_clock_ns() + a->limit_ns;
    struct gw_tx tx;
    int err = gw_tx_open(&tx, a->qp);

    for (i = 0; i < a->count && !err;) {
        err = gw_tx_post(&tx, gw_put_op(a->laddr, a->lkey, a->raddr, a->rkey, a->len), 0, NULL);
        i += !err;
        if (err == -EAGAIN && gw_clock_ns() < deadline) err = 0;
    }
    if (!err) err = gw_tx_flush(&tx, deadline);
    *a->err = err;
}

GW_DEV int await_ball(const struct raw_args *a, uint64_t i, uint64_t deadline)
{
    uint32_t round;

    for (round = 0; gw_ld_acquire_u64(a->in) != i; round++) {
        if (round % 64 == 63 && gw_clock_ns() > deadline) return -ETIMEDOUT;
        gw_pause(0);
    }
    return 0;
}

GW_DEV int throw_ball(const struct raw_args *a, struct gw_tx *tx, uint64_t i, uint64_t deadline)
{
    int err;

    gw_st_relaxed_u64(a->out, i); /* the post releases it */
    do {
        err = gw_tx_post(tx, gw_put_op(a->laddr, a->lkey, a->raddr, a->rkey, a->len), 0, NULL);
    } while (err == -EAGAIN && gw_clock_ns() < deadline);
    return err;
}

GW_DEV void raw_rally(const struct raw_args *a, int begins)
{
    uint64_t i, deadline = gw_clock_ns() + a->limit_ns;
    struct gw_tx tx;
    int err = gw_tx_open(&tx, a->qp);

    for (i = 1; i <= a->count && !err; i++) {
        err = begins ? throw_ball(a, &tx, i, deadline) : await_ball(a, i, deadline);
        if (!err) err = begins ? await_ball(a, i, deadline) : throw_ball(a, &tx, i, deadline);
    }
    if (!err) err = gw_tx_flush(&tx, deadline);
    *a->err = err;
}

GW_KERNEL(raw_ask_kernel, struct raw_args, a)
{
    raw_rally(a, 1);
}

GW_KERNEL(raw_echo_kernel, struct raw_args, a)
{
    raw_rally(a, 0);
}
