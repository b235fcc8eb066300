/* SPDX-License-Identifier: Apache-2.0 */
/* Included by rio_kernels.c for the CPU and by rio_kernels.cu for the GPU. */
#include "tests/socket/meet.h"
#include "tests/socket/rio_kernels.h"

/* All n bytes in one direction of the stream. */
GW_DEV int64_t say(const struct rio_args *a, int s, int sending, uint32_t n)
{
    enum gw_group g = (enum gw_group)a->form;
    uint32_t done = 0;
    int64_t got;

    while (done < n) {
        got = sending ? SK_FORM(g, send, a->net, s, a->buffer + done, n - done, 0, limit(a->limit_ns))
                      : SK_FORM(g, recv, a->net, s, a->buffer + done, n - done, 0, limit(a->limit_ns));
        if (got < 0) return got;
        if (got == 0) return -ECONNABORTED;
        done += (uint32_t)got;
    }
    return 0;
}

GW_DEV int64_t write_all(const struct rio_args *a, int s)
{
    enum gw_group g = (enum gw_group)a->form;
    uint32_t done = 0;
    int64_t got;

    while (done < a->size) {
        got = SK_FORM(g, iowrite, a->net, s, a->buffer + done, a->size - done, done, 0, limit(a->limit_ns));
        if (got < 0) return got;
        done += (uint32_t)got;
    }
    return 0;
}

/* Our turn: byte i of this side's stream of payloads is i mod 256. */
GW_DEV int64_t write_turn(const struct rio_args *a, int s, uint8_t marker, uint64_t at)
{
    enum gw_group g = (enum gw_group)a->form;
    int64_t err = 0;
    uint32_t i, t;

    if (gw_group_rank(g) == 0) a->buffer[a->size - 1] = (uint8_t)(marker - 1);
    gw_group_sync(g);
    for (t = 1; t < a->count && !err; t++) err = write_all(a, s);
    for (i = gw_group_rank(g); i < a->size - 1; i += gw_group_size(g)) a->buffer[i] = (uint8_t)(at + i);
    if (gw_group_rank(g) == 0) a->buffer[a->size - 1] = marker;
    gw_group_sync(g);
    return err ? err : write_all(a, s);
}

/* The peer's turn: looks at the last byte of the window. */
GW_DEV int64_t await_turn(const struct rio_args *a, uint8_t marker, uint64_t at)
{
    enum gw_group g = (enum gw_group)a->form;
    uint64_t deadline = limit(a->limit_ns);
    uint32_t i, round = 0, wrong = 0;
    int64_t err = 0;

    if (gw_group_rank(g) == 0) {
        while (((const volatile uint8_t *)a->window)[a->size - 1] != marker && !err) {
            gw_pause(round++);
            if (gw_clock_ns() > deadline) err = -ETIMEDOUT;
        }
        gw_fence_acquire(); /* the mark before the bytes in front of it */
        for (i = 0; i < a->size - 1 && !err; i++) wrong += a->window[i] != (uint8_t)(at + i);
        if (wrong) err = -EILSEQ;
    }
    return (int64_t)gw_group_first(g, (uint64_t)err);
}

GW_DEV int64_t rio(const struct rio_args *a, int s)
{
    enum gw_group g = (enum gw_group)a->form;
    int64_t err;
    uint8_t marker = 0;
    uint64_t at = 0;
    uint32_t i;

    if (gw_group_rank(g) == 0) a->window[a->size - 1] = 255;
    gw_group_sync(g);
    err = SK_FORM(g, iomap, a->net, s, a->window_addr, a->rkey, a->size, 0, limit(a->limit_ns));
    if (!err) err = say(a, s, !a->server, 16);
    if (!err) err = say(a, s, (int)a->server, 16);
    for (i = 0; i < a->iterations && !err; i++, at += a->size - 1) {
        err = a->server ? await_turn(a, marker, at) : write_turn(a, s, marker, at);
        marker++;
        if (!err) err = a->server ? write_turn(a, s, marker, at) : await_turn(a, marker, at);
        marker++;
    }
    return err;
}

GW_KERNEL(rio_kernel, struct rio_args, a)
{
    enum gw_group g = (enum gw_group)a->form;
    int64_t err, end;
    int s = -1;

    if (g == GW_THREAD && gw_thread_idx()) return;
    if (g == GW_WARP && gw_warp_idx()) return;
    err = meet(a->net, g, &a->addr, (int)a->server, a->limit_ns, &s);
    if (!err) err = rio(a, s);
    if (!err) { /* the last turn may still be on its way to a client: it closes when it has it */
        end = SK_FORM(g, recv, a->net, s, a->buffer, 1, 0, limit(a->limit_ns));
        if (end) err = end < 0 ? end : -EILSEQ;
    }
    if (s >= 0) SK_FORM(g, close, a->net, s, limit(a->limit_ns));
    if (gw_thread_idx() == 0) *a->result = err;
}
