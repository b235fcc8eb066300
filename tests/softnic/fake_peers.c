/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/softnic/fake_peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "softnic/mem/guard.h"
#include "softnic/mem/pieces.h"

static void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "fake_peers: %s\n", what);
    abort();
}

static bool chance(struct fake_peers *f, uint32_t of_10000)
{
    return of_10000 && rnd_below(&f->rnd, 10000) < of_10000;
}

void fake_peers_up(struct fake_peers *f, uint64_t seed)
{
    memset(f, 0, sizeof(*f));
    f->rnd.state = seed;
    for (unsigned i = 0; i < FAKE_NODES; i++) f->node[i].all = f;
}

struct fake_peer *fake_peers_node(struct fake_peers *f, unsigned i)
{
    return &f->node[i];
}

bool fake_peers_inside(const struct fake_peers *f)
{
    for (unsigned i = 0; i < FAKE_NODES; i++)
        if (f->node[i].entered) return true;
    return false;
}

/* ---- what is told -------------------------------------------------------------------------------------- */

static void region(void *ctx, uint32_t key, const struct sn_peer_region *r)
{
    struct fake_peer *n = ctx;
    unsigned i = 0;

    while (i < FAKE_REGIONS && n->region[i].key != (r ? 0 : key)) i++;
    must(i < FAKE_REGIONS, "a region that was not announced goes, or there are too many");
    n->region[i].key = r ? key : 0;
    if (r) n->region[i].r = *r;
}

static void queue(void *ctx, uint32_t qpn, const struct sn_peer_queue *q)
{
    struct fake_peer *n = ctx;
    unsigned i = 0;

    while (i < FAKE_QUEUES && n->queue[i].qpn != qpn) i++;
    if (i == FAKE_QUEUES)
        for (i = 0; i < FAKE_QUEUES && n->queue[i].qpn;) i++;
    must(i < FAKE_QUEUES, "too many queue pairs");
    n->queue[i].qpn = q ? qpn : 0;
    if (q) n->queue[i].q = *q;
}

static void quiesce(void *ctx)
{
    struct fake_peer *n = ctx;

    must(!fake_peers_inside(n->all), "an access is under way while the lock is free");
    n->all->quiesced++;
}

/* ---- accesses ------------------------------------------------------------------------------------------ */

static const struct sn_peer_queue *find_queue(const struct fake_peer *n, uint32_t qpn)
{
    for (unsigned i = 0; i < FAKE_QUEUES; i++)
        if (n->queue[i].qpn == qpn) return &n->queue[i].q;
    return NULL;
}

static struct sn_peer *find(void *ctx, const uint8_t gid[16], uint32_t qpn)
{
    struct fake_peers *f = ((struct fake_peer *)ctx)->all;

    (void)gid;
    if (chance(f, f->absent)) return NULL;
    for (unsigned i = 0; i < FAKE_NODES; i++)
        if (find_queue(&f->node[i], qpn)) return (struct sn_peer *)&f->node[i];
    return NULL;
}

static bool in_memory(void *ctx, const uint8_t gid[16], uint32_t qpn)
{
    (void)gid;
    ((struct fake_peer *)ctx)->all->asked_qpn = qpn;
    return ((struct fake_peer *)ctx)->all->memory;
}

static bool room(void *ctx, const uint8_t gid[16], uint32_t qpn, uint64_t now)
{
    struct fake_peers *f = ((struct fake_peer *)ctx)->all;

    (void)gid;
    (void)now;
    if (f->counted && ctx == &f->node[0] && f->room_left-- == 0) {
        f->room_left = 0;
        return false;
    }
    return qpn != f->full_qpn && !chance(f, f->full);
}

static bool pulls(void *ctx, const uint8_t gid[16], uint32_t qpn)
{
    (void)gid;
    (void)qpn;
    return !((struct fake_peer *)ctx)->all->no_offers;
}

static bool lags(void *ctx, const struct sn_peer *peer)
{
    struct fake_peers *f = ((struct fake_peer *)ctx)->all;

    (void)peer;
    return chance(f, f->lags);
}

static bool enter(void *ctx, struct sn_peer *peer, uint64_t now)
{
    struct fake_peer *n = ctx;

    (void)now;
    must(!n->entered, "entered twice");
    if (chance(n->all, n->all->absent)) return false;
    n->entered = (struct fake_peer *)peer;
    n->grants = 0;
    n->late = false;
    return true;
}

static bool grant(void *ctx, struct sn_peer *peer, const struct sn_peer_access *a, uint64_t *addr,
                  struct sn_reach *by)
{
    struct fake_peer *n = ctx, *p = (struct fake_peer *)peer;
    struct fake_peers *f = n->all;
    const struct sn_peer_queue *q = find_queue(p, a->dst_qpn);

    must(n->entered == p, "granted outside");
    *addr = 0;
    *by = (struct sn_reach){NULL, NULL};
    if (!q || !sn_peer_queue_takes(q, a)) return false;
    if (f->no_writes && a->access == IBV_ACCESS_REMOTE_WRITE) return false;
    if (!a->length) return true;
    for (unsigned i = 0; i < FAKE_REGIONS; i++) {
        const struct sn_peer_region *r = &p->region[i].r;

        if (p->region[i].key != a->rkey || r->pd != q->pd || (r->access & a->access) != a->access) continue;
        if (a->va < r->iova || a->length > r->length || a->va - r->iova > r->length - a->length) continue;
        *addr = r->addr + (a->va - r->iova);
        if (r->gpu) *by = f->reach(r->gpu);
        must(n->grants < FAKE_GRANTS, "too many grants");
        n->grant[n->grants].addr = *addr;
        n->grant[n->grants++].length = a->length;
        return true;
    }
    return false;
}

/* Byte for byte: pieces that were joined are covered by several grants. */
static void check_granted(const struct fake_peer *f, const struct iovec *v)
{
    uint64_t at = (uintptr_t)v->iov_base, end = at + v->iov_len;

    while (at < end) {
        uint64_t next = at;

        for (unsigned i = 0; i < f->grants; i++)
            if (at >= f->grant[i].addr && at - f->grant[i].addr < f->grant[i].length)
                next = f->grant[i].addr + f->grant[i].length;
        must(next > at, "an access to what was not granted");
        at = next;
    }
}

static int64_t copy(void *ctx, struct sn_peer *peer, const struct sn_copy *c, struct sn_copying *under_way)
{
    const struct iovec *here = c->here, *there = c->there;
    unsigned n_here = c->n_here, n_there = c->n_there;
    struct fake_peers *f = ((struct fake_peer *)ctx)->all;
    uint64_t limit = chance(f, f->stops) ? rnd_below(&f->rnd, 3000) : UINT64_MAX, done = 0;
    size_t h = 0, t = 0;
    unsigned i = 0, k = 0;

    must(((struct fake_peer *)ctx)->entered == (struct fake_peer *)peer, "copied outside");
    if (under_way) under_way->to.dma = NULL;
    for (unsigned j = 0; j < n_there; j++) check_granted(ctx, &there[j]);
    f->copies++;
    if (chance(f, f->refused)) return -1;
    ((struct fake_peer *)ctx)->late |= under_way && f->under_way;
    if (c->by_here.dma || c->by_there.dma) return sn_pieces_copy(c, under_way);
    while (i < n_here && k < n_there && done < limit) {
        size_t n = here[i].iov_len - h, room = there[k].iov_len - t;
        char *a = (char *)here[i].iov_base + h, *b = (char *)there[k].iov_base + t;

        if (n > room) n = room;
        if (n > limit - done) n = limit - done;
        if (sn_guard_copy(c->write ? b : a, c->write ? a : b, n)) break;
        done += n;
        if ((h += n) == here[i].iov_len) i++, h = 0;
        if ((t += n) == there[k].iov_len) k++, t = 0;
    }
    must(done == limit || (i == n_here) == (k == n_there) || done == 0 || i < n_here,
         "lists of unequal length");
    f->bytes += done;
    return (int64_t)done;
}

static void leave(void *ctx, struct sn_peer *peer)
{
    struct fake_peer *n = ctx;

    must(n->entered == (struct fake_peer *)peer, "left without having entered");
    must(!n->late || !n->all->under_way(), "left while a copy is under way");
    n->entered = NULL;
}

static bool lends(void *ctx)
{
    return !((struct fake_peer *)ctx)->all->no_writes;
}

const struct sn_peer_ops fake_peer_ops = {region, queue, quiesce, find, in_memory, room, pulls,
                                          lags,   enter, grant,   copy, leave,     lends};
