/* SPDX-License-Identifier: Apache-2.0 */
/* Included by sock_kernels.c for the CPU and by sock_kernels.cu for the GPU. */
#include <stdbool.h>

#include "src/cli/perf/sock_kernels.h"

#define SLICE_NS 200000000u

GW_FN uint8_t sock_kernel_pattern(uint64_t at)
{
    return (uint8_t)(at * 131 + (at >> 8) * 7 + (at >> 16));
}

GW_DEV void sock_kernel_fill(uint8_t *bytes, uint64_t at, uint64_t n)
{
    uint64_t i;

    gw_syncthreads(); /* what was there has been read */
    for (i = gw_thread_idx(); i < n; i += gw_block_dim()) bytes[i] = sock_kernel_pattern(at + i);
    gw_syncthreads();
}

/* How many bytes are not as they must be; every thread gets the sum. */
GW_DEV uint64_t count_wrong(const uint8_t *bytes, uint64_t at, uint64_t n)
{
    GW_SHARED(uint64_t, sum);
    uint64_t i, mine = 0;

    if (gw_thread_idx() == 0) *sum = 0;
    gw_syncthreads();
    for (i = gw_thread_idx(); i < n; i += gw_block_dim()) mine += bytes[i] != sock_kernel_pattern(at + i);
    for (i = 0; i < gw_block_dim(); i++) { /* one after another: the block's own memory has no atomics here */
        if (gw_thread_idx() == i) *sum += mine;
        gw_syncthreads();
    }
    mine = *sum;
    gw_syncthreads();
    return mine;
}

/* A block's connection: how long it waits for its peer, in slices, between which it sees whether it is to
 * stop. */
struct conn {
    struct gw_net *net;
    int s;
    uint64_t patience_ns;
    const uint32_t *stop;
};

GW_DEV bool sock_kernel_stopping(const uint32_t *stop)
{
    return gw_group_first(GW_BLOCK, gw_thread_idx() == 0 ? gw_ld_relaxed_u32(stop) : 0) != 0;
}

GW_DEV uint64_t sock_kernel_slice(void)
{
    return gw_clock_ns() + SLICE_NS;
}

/* A slice has passed. 0: another one; or why not. The block's threads agree. */
GW_DEV int64_t sock_kernel_another(const struct conn *c, uint64_t since)
{
    int64_t err = gw_ld_relaxed_u32(c->stop)                ? -ECANCELED
                  : gw_clock_ns() - since >= c->patience_ns ? -ETIMEDOUT
                                                            : 0;

    return (int64_t)gw_group_first(GW_BLOCK, (uint64_t)err);
}

/* All n bytes: 0, or an error; a stream that ends earlier is one. */
GW_DEV int64_t sock_kernel_get(const struct conn *c, void *to, uint64_t n)
{
    uint64_t done = 0, since = gw_clock_ns();
    int64_t got, err = 0;

    while (done < n && !err) {
        got = gw_sock_recv(c->net, c->s, (uint8_t *)to + done, n - done, MSG_WAITALL, sock_kernel_slice());
        if (got > 0)
            done += (uint64_t)got, since = gw_clock_ns();
        else
            err = got == 0 ? -ECONNABORTED : got != -ETIMEDOUT ? got : sock_kernel_another(c, since);
    }
    gw_syncthreads();
    return err;
}

GW_DEV int64_t sock_kernel_put(const struct conn *c, const void *from, uint64_t n)
{
    uint64_t done = 0, since = gw_clock_ns();
    int64_t sent, err = 0;

    while (done < n && !err) {
        sent = gw_sock_send(c->net, c->s, (const uint8_t *)from + done, n - done, MSG_NOSIGNAL,
                            sock_kernel_slice());
        if (sent > 0)
            done += (uint64_t)sent, since = gw_clock_ns();
        else
            err = sent != -ETIMEDOUT ? sent : sock_kernel_another(c, since);
    }
    gw_syncthreads();
    return err;
}

GW_DEV int64_t sock_kernel_join(const struct conn *c, const struct sockaddr *addr, socklen_t len)
{
    GW_SHARED(struct pollfd, f);
    uint64_t since = gw_clock_ns();
    int64_t err;

    if (gw_thread_idx() == 0) f->fd = c->s, f->events = 0;
    do {
        err = gw_sock_connect(c->net, c->s, addr, len, sock_kernel_slice());
        if (err != -ETIMEDOUT || gw_sock_poll(c->net, f, 1, 0))
            return err; /* that was the connection's own end */
        err = sock_kernel_another(c, since);
    } while (!err);
    return err;
}

/* ---- the side that waits ------------------------------------------------------------------------------- */

GW_KERNEL(sock_listen_kernel, struct sock_listen_args, a)
{
    int s = gw_sock_open(a->net, a->addr.ss_family, SOCK_STREAM, 0, gw_clock_ns() + SLICE_NS), err = s;

    if (s >= 0)
        err = gw_sock_bind(a->net, s, (const struct sockaddr *)&a->addr, a->len, gw_clock_ns() + SLICE_NS);
    if (err >= 0) err = gw_sock_listen(a->net, s, a->backlog, gw_clock_ns() + SLICE_NS);
    if (err >= 0) err = gw_sock_name(a->net, s, a->name, a->name_len);
    if (gw_thread_idx() == 0) *a->result = err < 0 ? err : s;
}

/* Receives count messages, and says what came. */
GW_DEV int64_t sink(const struct conn *c, const struct sock_head *h, uint8_t *bytes)
{
    GW_SHARED(struct sock_ack, ack);
    uint64_t got = 0, all = h->size * h->count, wrong = 0, since = gw_clock_ns(), n;
    int64_t part, err;

    for (; got < all; got += (uint64_t)part) {
        n = all - got < SOCK_SPAN ? all - got : SOCK_SPAN;
        part = gw_sock_recv(c->net, c->s, bytes, n, 0, sock_kernel_slice());
        if (part > 0) since = gw_clock_ns();
        err = part > 0             ? 0
              : part == 0          ? -ECONNABORTED
              : part != -ETIMEDOUT ? part
                                   : sock_kernel_another(c, since);
        if (err) return err;
        if (part < 0) part = 0;
        if (h->verify) wrong += count_wrong(bytes, got, (uint64_t)part);
    }
    if (gw_thread_idx() == 0) {
        ack->bytes = got;
        ack->wrong = wrong;
    }
    gw_syncthreads();
    return sock_kernel_put(c, ack, sizeof(*ack));
}

GW_DEV int64_t reflect(const struct conn *c, const struct sock_head *h, uint8_t *bytes)
{
    int64_t err = h->size > SOCK_SPAN ? -EMSGSIZE : 0;
    uint64_t i;

    for (i = 0; i < h->count && !err; i++) {
        err = sock_kernel_get(c, bytes, h->size);
        if (!err) err = sock_kernel_put(c, bytes, h->size);
    }
    return err;
}

/* One client's connection. What it says is looked at; a client that is none of ours is hung up on. */
GW_DEV void sock_kernel_serve(const struct sock_serve_args *a, int s, uint8_t *bytes)
{
    GW_SHARED(struct sock_head, shared);
    struct conn c = {a->net, s, a->patience_ns, a->stop};
    struct sock_head h;

    if (sock_kernel_get(&c, shared, sizeof(*shared))) return;
    h = *shared;
    gw_syncthreads();
    if (h.magic != SOCK_MAGIC || h.size > 1u << 30 || h.count > 1u << 31) return;
    if (h.mode == SOCK_CONNECT || h.mode == SOCK_BYE) h.count = 0;
    if (h.mode == SOCK_LAT)
        (void)reflect(&c, &h, bytes);
    else
        (void)sink(&c, &h, bytes);
    /* The client closes first, so that the connection's last state is its. */
    (void)sock_kernel_get(&c, bytes, 1);
    if (h.mode == SOCK_BYE) gw_st_relaxed_u32(a->stop, 1);
}

GW_KERNEL(sock_serve_kernel, struct sock_serve_args, a)
{
    uint8_t *bytes = a->bytes + (uint64_t)SOCK_SPAN * gw_block_idx();
    int s;

    while (!sock_kernel_stopping(a->stop)) {
        s = gw_sock_accept(a->net, a->listener, NULL, NULL, gw_clock_ns() + SLICE_NS);
        if (s == -ETIMEDOUT) continue;
        if (s < 0) break;
        sock_kernel_serve(a, s, bytes);
        (void)gw_sock_close(a->net, s, gw_clock_ns() + a->patience_ns);
    }
}

/* ---- the side that measures ---------------------------------------------------------------------------- */

GW_DEV int64_t sock_kernel_ping_pong(const struct sock_ask_args *a, const struct conn *c, uint8_t *bytes,
                                     struct sock_out *o)
{
    uint64_t i, before, size = a->head.size;
    int64_t err = 0;

    for (i = 0; i < a->head.count && !err; i++) {
        if (i % 64 == 63 && sock_kernel_stopping(a->stop)) return -ECANCELED;
        if (a->head.verify) sock_kernel_fill(bytes, i, size);
        before = gw_clock_ns();
        err = sock_kernel_put(c, bytes, size);
        if (!err) err = sock_kernel_get(c, bytes, size);
        if (err) break;
        if (gw_thread_idx() == 0 && gw_block_idx() == 0)
            a->ns[i % a->samples] = (uint32_t)(gw_clock_ns() - before);
        o->ops++;
        if (!a->head.verify) continue;
        o->checked += size;
        o->wrong += count_wrong(bytes, i, size);
    }
    return err;
}

GW_DEV int64_t take_ack(const struct sock_ask_args *a, const struct conn *c, struct sock_out *o,
                        uint64_t sent)
{
    GW_SHARED(struct sock_ack, ack);
    int64_t err = sock_kernel_get(c, ack, sizeof(*ack));

    if (!err && ack->bytes != sent) err = -EBADMSG;
    if (!err && a->head.verify) {
        o->checked += ack->bytes;
        o->wrong += ack->wrong;
    }
    gw_syncthreads();
    return err;
}

GW_DEV int64_t sock_kernel_stream(const struct sock_ask_args *a, const struct conn *c, uint8_t *bytes,
                                  struct sock_out *o)
{
    uint64_t i, size = a->head.size;
    int64_t err = 0;

    for (i = 0; i < a->head.count && !err; i++) {
        if (i % 64 == 63 && sock_kernel_stopping(a->stop)) return -ECANCELED;
        if (a->head.verify) sock_kernel_fill(bytes, i * size, size);
        err = sock_kernel_put(c, bytes, size);
        o->ops += !err;
    }
    return err ? err : take_ack(a, c, o, a->head.count * size);
}

/* One connection, from its beginning to its end. */
GW_DEV int64_t sock_kernel_ask(const struct sock_ask_args *a, uint8_t *bytes, struct sock_out *o)
{
    GW_SHARED(struct sock_head, head);
    int s = gw_sock_open(a->net, a->addr.ss_family, SOCK_STREAM, 0, gw_clock_ns() + a->patience_ns);
    struct conn c = {a->net, s, a->patience_ns, a->stop};
    int64_t err = s, closed;

    if (s < 0) return err;
    if (gw_thread_idx() == 0) *head = a->head;
    gw_syncthreads();
    err = sock_kernel_join(&c, (const struct sockaddr *)&a->addr, a->len);
    if (!err) err = sock_kernel_put(&c, head, sizeof(*head));
    if (!err && a->head.mode < SOCK_CONNECT) o->start = gw_clock_ns();
    if (!err)
        err = a->head.mode == SOCK_LAT  ? sock_kernel_ping_pong(a, &c, bytes, o)
              : a->head.mode == SOCK_BW ? sock_kernel_stream(a, &c, bytes, o)
                                        : take_ack(a, &c, o, 0);
    if (a->head.mode < SOCK_CONNECT) o->stop = gw_clock_ns();
    closed =
        gw_sock_close(a->net, s, err == -ECANCELED ? sock_kernel_slice() : gw_clock_ns() + a->patience_ns);
    if (!err && a->head.mode >= SOCK_CONNECT) o->ops++;
    return err ? err : closed;
}

GW_KERNEL(sock_ask_kernel, struct sock_ask_args, a)
{
    uint8_t *bytes = a->bytes + a->span * gw_block_idx();
    struct sock_out o = {0, 0, 0, 0, 0, 0};
    uint64_t i;

    o.start = gw_clock_ns();
    for (i = 0; i < a->times && !o.err; i++) {
        if (i % 16 == 15 && sock_kernel_stopping(a->stop))
            o.err = -ECANCELED;
        else
            o.err = sock_kernel_ask(a, bytes, &o);
    }
    if (a->head.mode >= SOCK_CONNECT) o.stop = gw_clock_ns();
    if (gw_thread_idx() == 0) a->out[gw_block_idx()] = o;
}
