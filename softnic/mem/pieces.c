/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between two lists of pieces of memory. */
#include "softnic/mem/pieces.h"

#include <errno.h>

#include "softnic/mem/guard.h"

enum { BUFFER = 16384 };

struct place {
    const struct iovec *list;
    unsigned n, at;
    size_t used; /* of piece at */
};

/* Bytes left of the piece; 0: the list has ended. */
static size_t pieces_left(struct place *p)
{
    while (p->at < p->n && p->used == p->list[p->at].iov_len) {
        p->at++;
        p->used = 0;
    }
    return p->at < p->n ? p->list[p->at].iov_len - p->used : 0;
}

static char *byte(const struct place *p)
{
    return (char *)p->list[p->at].iov_base + p->used;
}

/* Names a copy to DMA functions, as the engine's numbers, which are smaller, name requests. */
static uint64_t next_request(void)
{
    static uint64_t last = UINT64_C(1) << 63;

    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

struct end {
    struct place at;
    struct sn_reach by;
};

/* From the place that is next, or to it, whatever memory it is. */
static int fill_from(void *with, uint64_t offset, void *to, uint32_t n)
{
    const struct end *from = with;
    uint64_t src = (uintptr_t)byte(&from->at) + offset;

    if (from->by.dma) return from->by.dma->read(from->by.ctx, src, to, n, n, 0);
    return sn_guard_copy(to, (void *)(uintptr_t)src, n);
}

static int drain_to(void *with, uint64_t offset, const void *from, uint32_t n)
{
    const struct end *to = with;
    uint64_t dst = (uintptr_t)byte(&to->at) + offset;

    if (to->by.dma) return to->by.dma->write(to->by.ctx, dst, from, n);
    return sn_guard_copy((void *)(uintptr_t)dst, from, n);
}

/* The next n bytes, through a buffer where there is no shorter way. */
static int pieces_copy_part(struct end *to, struct end *from, size_t n, uint64_t request)
{
    uint64_t src = (uintptr_t)byte(&from->at), dst = (uintptr_t)byte(&to->at);
    uint8_t buffer[BUFFER];
    int err = -EXDEV;

    if (!from->by.dma && !to->by.dma) return sn_guard_copy((void *)(uintptr_t)dst, (void *)(uintptr_t)src, n);
    if (from->by.dma == to->by.dma && to->by.dma->move)
        err = to->by.dma->move(to->by.ctx, dst, from->by.ctx, src, (uint32_t)n);
    if (err != -EXDEV) return err;
    if (to->by.dma != from->by.dma && to->by.dma && to->by.dma->write_by)
        return to->by.dma->write_by(to->by.ctx, dst, (uint32_t)n, fill_from, from);
    if (to->by.dma != from->by.dma && from->by.dma && from->by.dma->read_by)
        return from->by.dma->read_by(from->by.ctx, src, (uint32_t)n, drain_to, to);
    for (size_t done = 0, m; done < n; done += m) {
        m = n - done < BUFFER ? n - done : BUFFER;
        err = from->by.dma
                  ? from->by.dma->read(from->by.ctx, src + done, buffer, (uint32_t)m, n - done, request)
                  : sn_guard_copy(buffer, (void *)(uintptr_t)(src + done), m);
        if (!err)
            err = to->by.dma ? to->by.dma->write(to->by.ctx, dst + done, buffer, (uint32_t)m)
                             : sn_guard_copy((void *)(uintptr_t)(dst + done), buffer, m);
        if (err) return err;
    }
    return 0;
}

int64_t sn_pieces_copy(const struct sn_copy *c, struct sn_copying *under_way)
{
    struct end here = {{c->here, c->n_here, 0, 0}, c->by_here},
               there = {{c->there, c->n_there, 0, 0}, c->by_there};
    struct end *from = c->write ? &here : &there, *to = c->write ? &there : &here;
    uint64_t request = from->by.dma ? next_request() : 0;
    struct sn_copying copying = {to->by, 0};
    int64_t done = 0;
    size_t n, room;
    int err = 0;

    if (under_way) under_way->to.dma = NULL;
    while (!err && (n = pieces_left(&from->at)) && (room = pieces_left(&to->at))) {
        if (n > room) n = room;
        /* The next piece may be another request's, which must not be seen before this one's. */
        if (done && !to->at.used && to->by.dma && to->by.dma->order) to->by.dma->order(to->by.ctx);
        err = pieces_copy_part(to, from, n, request);
        if (err) break;
        from->at.used += n;
        to->at.used += n;
        done += (int64_t)n;
    }
    if (!err && done && under_way && to->by.dma && to->by.dma->start &&
        to->by.dma->start(to->by.ctx, &copying.mark)) {
        *under_way = copying;
        return done;
    }
    if (to->by.dma && to->by.dma->flush && to->by.dma->flush(to->by.ctx)) return -EFAULT;
    return err && !done ? -EFAULT : done;
}
