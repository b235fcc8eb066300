/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection table the usual way: an index, entries beside it, and a lock if cores share it. Tuned as far
 * as that goes: lookups in bursts, entries prefetched, locks taken once for a burst, four entries to a line.
 * A packet costs the timer wheel nothing: when a timer fires whose flow had a packet, the flow gets a new
 * one.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bench/flow/table.h"
#include "bench/measure.h"

enum { WHEEL = 4096, IDLE_GRAINS = 2048, SCANS = 4 /* of the whole table while a flow lives */ };

struct table {
    const struct flow_index *ops;
    void *index;
    struct flow_how how;
    struct flow_entry *entry;
    uint64_t entries;
    pthread_mutex_t mutex;
    pthread_spinlock_t spin;
    pthread_rwlock_t rw;
};

struct list {
    int32_t *at;
    uint32_t n, room;
};

struct part {
    struct table *t;
    struct list wheel[WHEEL]; /* of the flows that this thread opened */
    struct list gone;         /* FLOW_LOCK_FREE: deleted in the last tick, not yet reclaimed */
    uint32_t tick;            /* the wheel's slots up to it have been emptied */
    uint32_t next_worker, scanned;
    struct flow_cost cost;
};

/* ---- sharing ---- */

static void lock(struct table *t, bool write)
{
    switch (t->how.sharing) {
    case FLOW_MUTEX: pthread_mutex_lock(&t->mutex); break;
    case FLOW_SPINLOCK: pthread_spin_lock(&t->spin); break;
    case FLOW_RWLOCK: write ? pthread_rwlock_wrlock(&t->rw) : pthread_rwlock_rdlock(&t->rw); break;
    default: break;
    }
}

static void unlock(struct table *t)
{
    switch (t->how.sharing) {
    case FLOW_MUTEX: pthread_mutex_unlock(&t->mutex); break;
    case FLOW_SPINLOCK: pthread_spin_unlock(&t->spin); break;
    case FLOW_RWLOCK: pthread_rwlock_unlock(&t->rw); break;
    default: break;
    }
}

/* ---- life of a table ---- */

void *flow_peer_open(const struct flow_kind *kind, const struct flow_how *how)
{
    struct table *t = calloc(1, sizeof(*t));
    if (!t) return NULL;
    t->ops = kind->index;
    t->how = *how;
    /* Lazy deletion keeps a dead flow until another comes its way: it needs more room. */
    t->index =
        t->ops->open(how->deletion == FLOW_LAZY ? 3 * how->flows : how->flows + how->flows / 4, how->sharing);
    t->entries = t->index ? t->ops->positions(t->index) : 0;
    t->entry = t->entries ? flow_memory(t->entries * sizeof(*t->entry)) : NULL;
    pthread_mutex_init(&t->mutex, NULL);
    pthread_spin_init(&t->spin, PTHREAD_PROCESS_PRIVATE);
    pthread_rwlock_init(&t->rw, NULL);
    for (uint64_t i = 0; t->entry && i < t->entries; i++) t->entry[i].key = FLOW_DEAD;
    if (t->entry) return t;
    flow_peer_close(t);
    return NULL;
}

void flow_peer_close(void *table)
{
    struct table *t = table;
    if (t->index) t->ops->close(t->index);
    flow_memory_free(t->entry, t->entries * sizeof(*t->entry));
    free(t);
}

void *flow_peer_join(void *table)
{
    struct part *p = calloc(1, sizeof(*p));
    if (p) p->t = table;
    return p;
}

void flow_peer_leave(void *part)
{
    struct part *p = part;
    for (int i = 0; p && i < WHEEL; i++) free(p->wheel[i].at);
    if (p) free(p->gone.at);
    free(p);
}

/* ---- flows that end ---- */

static void push(struct list *l, int32_t at)
{
    if (l->n == l->room) {
        uint32_t room = l->room ? 2 * l->room : 64;
        int32_t *more = realloc(l->at, room * sizeof(*more));
        if (!more) abort();
        l->at = more;
        l->room = room;
    }
    l->at[l->n++] = at;
}

/* Deletes up to a burst of flows. Looking them up first fetches all their lines at once. */
static void end_flows(struct part *p, const int32_t *at, size_t n)
{
    struct table *t = p->t;
    uint64_t keys[FLOW_BURST];
    int32_t found[FLOW_BURST];
    for (size_t i = 0; i < n; i++) keys[i] = t->entry[at[i]].key;
    lock(t, true);
    t->ops->find(t->index, keys, n, found);
    for (size_t i = 0; i < n; i++) {
        t->ops->del(t->index, keys[i], at[i]);
        t->entry[at[i]].key = FLOW_DEAD;
        if (t->how.sharing == FLOW_LOCK_FREE && t->ops->reclaim) push(&p->gone, at[i]);
    }
    unlock(t);
}

/* Positions that were deleted before this tick: a tick is far longer than any lookup. */
static void reclaim(struct part *p)
{
    for (uint32_t i = 0; i < p->gone.n; i++) p->t->ops->reclaim(p->t->index, p->gone.at[i]);
    p->gone.n = 0;
}

static void set_timer(struct part *p, int32_t at, uint32_t when)
{
    push(&p->wheel[when % WHEEL], at);
}

static void empty_slot(struct part *p, uint32_t now)
{
    struct list *l = &p->wheel[p->tick % WHEEL];
    const struct flow_entry *entry = p->t->entry;
    int32_t over[FLOW_BURST];
    uint32_t n = 0, many = l->n;
    l->n = 0; /* new timers are never for this slot */
    for (uint32_t i = 0; i < many; i++) {
        if (i + 16 < many) __builtin_prefetch(&entry[l->at[i + 16]]);
        uint32_t seen = entry[l->at[i]].seen;
        if (now - seen <= IDLE_GRAINS)
            set_timer(p, l->at[i], seen + IDLE_GRAINS + 1);
        else
            over[n++] = l->at[i];
        if (n < FLOW_BURST) continue;
        end_flows(p, over, n);
        n = 0;
    }
    if (n) end_flows(p, over, n);
}

static void turn_wheel(struct part *p, uint32_t now)
{
    if (!p->tick) p->tick = now;
    if (p->tick != now) reclaim(p);
    for (; p->tick < now; p->tick++) empty_slot(p, now);
}

/* All entries at once, several times in a flow's life. */
static void scan(struct part *p, uint32_t now)
{
    struct table *t = p->t;
    int32_t over[FLOW_BURST];
    uint32_t n = 0;
    if (!p->scanned) p->scanned = now;
    if (now - p->scanned < IDLE_GRAINS / SCANS) return;
    p->scanned = now;
    for (uint64_t i = 0; i < t->entries; i++) {
        if (t->entry[i].key == FLOW_DEAD || now - t->entry[i].seen <= IDLE_GRAINS) continue;
        over[n++] = (int32_t)i;
        if (n < FLOW_BURST) continue;
        end_flows(p, over, n);
        n = 0;
    }
    if (n) end_flows(p, over, n);
}

/* ---- packets ---- */

static void find(struct part *p, const uint64_t *keys, size_t n, int32_t *at)
{
    lock(p->t, false);
    p->t->ops->find(p->t->index, keys, n, at);
    unlock(p->t);
}

size_t flow_peer_lookup(void *part, const uint64_t *keys, size_t n)
{
    int32_t at[FLOW_BURST];
    size_t hits = 0;
    find(part, keys, n, at);
    for (size_t i = 0; i < n; i++) hits += at[i] >= 0;
    return hits;
}

static void open_flow(struct part *p, uint64_t key, uint32_t now, int32_t *at)
{
    struct table *t = p->t;
    *at = t->how.deletion == FLOW_LAZY ? t->ops->add_lazily(t->index, key, t->entry, now - IDLE_GRAINS)
                                       : t->ops->add(t->index, key);
    if (*at < 0) return;
    struct flow_entry *e = &t->entry[*at];
    if (e->key == key) return; /* twice in this burst */
    *e = (struct flow_entry){key, now, p->next_worker++ % FLOW_WORKERS};
    p->cost.opened++;
    if (t->how.deletion == FLOW_WHEEL) set_timer(p, *at, now + IDLE_GRAINS + 1);
}

static void open_flows(struct part *p, const uint64_t *keys, size_t n, uint32_t now, int32_t *at)
{
    uint64_t start = bench_ticks();
    lock(p->t, true);
    for (size_t i = 0; i < n; i++)
        if (at[i] < 0) open_flow(p, keys[i], now, &at[i]);
    unlock(p->t);
    p->cost.ticks += bench_ticks() - start;
}

uint64_t flow_peer_step(void *part, const uint64_t *keys, size_t n, uint64_t now_ns)
{
    struct part *p = part;
    struct table *t = p->t;
    int32_t at[FLOW_BURST];
    uint32_t now = (uint32_t)(now_ns / FLOW_GRAIN_NS) + IDLE_GRAINS;
    uint64_t sum = 0;
    size_t there = 0;
    find(p, keys, n, at);
    for (size_t i = 0; i < n; i++)
        if (at[i] >= 0) {
            __builtin_prefetch(&t->entry[at[i]], 1);
            there++;
        }
    if (there < n) open_flows(p, keys, n, now, at);
    for (size_t i = 0; i < n; i++) {
        if (at[i] < 0) continue;
        struct flow_entry *e = &t->entry[at[i]];
        if (t->how.deletion == FLOW_LAZY && now - e->seen > IDLE_GRAINS) /* its time was over: a new one */
            e->worker = p->next_worker++ % FLOW_WORKERS;
        if (e->seen != now) e->seen = now;
        sum += e->worker;
    }
    if (t->how.deletion == FLOW_WHEEL) turn_wheel(p, now);
    if (t->how.deletion == FLOW_SCAN) scan(p, now);
    return sum;
}

struct flow_cost flow_peer_cost(const void *part)
{
    const struct part *p = part;
    return p->cost;
}

uint64_t flow_peer_count(const void *table)
{
    const struct table *t = table;
    return t->ops->count(t->index);
}

uint64_t flow_peer_bytes(const void *table)
{
    (void)table;
    return 0;
}
