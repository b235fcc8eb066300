/* SPDX-License-Identifier: Apache-2.0 */
/* Flows that come, change and go. */
#include <errno.h>

#include "src/flow/layout.h"
#include "src/trace/trace.h"

#define NODES     128 /* buckets that making room looks at, at most */
#define IDLE_PART 128 /* of its time a flow must have been quiet for, to count as idle */

/* ---- counts ---- */

static void spill(struct gw_flow_table *t, uint64_t first, int by)
{
    uint8_t *n = &t->bucket[first].spilled;
    GW_ASSERT(by > 0 || *n);
    if (*n != SPILL_FULL) *n = (uint8_t)(*n + by);
}

void gw_flow_free_slot(struct gw_flow_table *t, uint64_t bucket, unsigned way)
{
    struct bucket *b = &t->bucket[bucket];
    const void *key = key_at(t, bucket, way);
    uint64_t first = first_bucket(t, flow_place_of(t, key).hash);
    GW_TRACE(flow, freed, key, b->value[way]);
    GW_ASSERT(b->used >> way & 1);
    GW_ASSERT(t->flows && t->of_worker[flow_worker_of(b->value[way])]);
    if (first != bucket) spill(t, first, -1);
    b->used &= (uint8_t) ~(1u << way);
    t->of_worker[flow_worker_of(b->value[way])]--;
    t->flows--;
}

/* ---- finding ---- */

/* The way of a bucket that holds the key, living or over; WAYS: none. */
static unsigned insert_find(const struct gw_flow_table *t, uint64_t bucket, const struct place *p,
                            const void *key)
{
    const struct bucket *b = &t->bucket[bucket];
    for (unsigned w = 0; w < WAYS; w++)
        if (b->used >> w & 1 && b->key[w] == p->tag &&
            (!t->long_keys || is_long_key(t, flow_slot_of(bucket, w), key)))
            return w;
    return WAYS;
}

/* In how many of its two buckets a key may be. The second one's line is far away. */
static int places(const struct gw_flow_table *t, const uint64_t two[2])
{
    return t->bucket[two[0]].spilled ? 2 : 1;
}

/* A free way; WAYS: none. Flows whose time is over make room. */
static unsigned free_way(struct gw_flow_table *t, uint64_t bucket)
{
    struct bucket *b = &t->bucket[bucket];
    for (unsigned w = 0; w < WAYS; w++) {
        if (b->used >> w & 1 && flow_is_over(t, b->value[w])) gw_flow_free_slot(t, bucket, w);
        if (!(b->used >> w & 1)) return w;
    }
    return WAYS;
}

/* ---- making room ---- */

/* A bucket that a flow could move to, out of way `way` of node `from`'s bucket. */
struct node {
    uint64_t bucket;
    int from;
    unsigned way;
};

static uint64_t other_bucket(const struct gw_flow_table *t, uint64_t bucket, unsigned way)
{
    uint64_t hash = flow_place_of(t, key_at(t, bucket, way)).hash, first = first_bucket(t, hash);
    return first != bucket ? first : second_bucket(t, hash);
}

static void insert_move(struct gw_flow_table *t, uint64_t from, unsigned way, uint64_t to, unsigned to_way)
{
    struct bucket *a = &t->bucket[from], *b = &t->bucket[to];
    uint64_t first = first_bucket(t, flow_place_of(t, key_at(t, from, way)).hash);
    GW_ASSERT(a->used >> way & 1 && !(b->used >> to_way & 1));
    GW_ASSERT(from != to && to == other_bucket(t, from, way));
    if (t->long_keys)
        memcpy(long_key(t, flow_slot_of(to, to_way)), long_key(t, flow_slot_of(from, way)), GW_FLOW_KEY_MAX);
    b->key[to_way] = a->key[way];
    b->value[to_way] = a->value[way];
    b->used |= (uint8_t)(1u << to_way);
    a->used &= (uint8_t) ~(1u << way);
    spill(t, first, first == from ? 1 : -1);
}

/* Moves flows along a path, the last one first, into the free way at its end. Returns the way of the path's
 * first bucket that has become free. */
static unsigned insert_shift(struct gw_flow_table *t, const struct node *node, int end, unsigned way)
{
    while (node[end].from >= 0) {
        const struct node *n = &node[end];
        insert_move(t, node[n->from].bucket, n->way, n->bucket, way);
        way = n->way;
        end = n->from;
    }
    return way;
}

/* How readily a flow makes room: 0 not at all; of the others the greatest goes first. */
static uint32_t readiness(const struct gw_flow_table *t, uint32_t value)
{
    uint32_t state = flow_state_of(value), age = flow_age_of(t, value);
    if (t->evictable >> state & 1) return EPOCH_MASK + 2 + age;
    bool idle = t->evictable >> (GW_FLOW_STATES + state) & 1 && age > t->life[state] / IDLE_PART;
    return idle ? 1 + age : 0;
}

static unsigned evict(struct gw_flow_table *t, const uint64_t two[2], uint64_t *bucket)
{
    unsigned way = WAYS;
    uint32_t best = 0;
    for (int i = 0; i < 2; i++)
        for (unsigned w = 0; w < WAYS; w++) {
            if (!(t->bucket[two[i]].used >> w & 1)) continue;
            uint32_t ready = readiness(t, t->bucket[two[i]].value[w]);
            if (ready <= best) continue;
            best = ready;
            *bucket = two[i];
            way = w;
        }
    if (way != WAYS) gw_flow_free_slot(t, *bucket, way);
    return way;
}

/* Looks for the shortest row of flows that can each move to its other bucket. With `evicting` the last of
 * them takes the place of one that may be evicted. Returns the free way in *bucket, which is one of the two;
 * WAYS: there is no such row near them. */
static unsigned insert_make_room(struct gw_flow_table *t, const uint64_t two[2], bool evicting,
                                 uint64_t *bucket)
{
    struct node node[NODES] = {{two[0], -1, 0}, {two[1], -1, 0}};
    for (int at = 0, count = 2; at < count; at++) {
        for (unsigned w = 0; w < WAYS && count < NODES; w++) {
            node[count] = (struct node){other_bucket(t, node[at].bucket, w), at, w};
            /* A row that came back to where it has been would move one flow twice. */
            bool again = false;
            for (int up = at; up >= 0; up = node[up].from) again |= node[up].bucket == node[count].bucket;
            if (again) continue;
            uint64_t last[2] = {node[count].bucket, node[count].bucket};
            unsigned way = evicting ? evict(t, last, last) : free_way(t, node[count].bucket);
            if (way == WAYS) {
                count++;
                continue;
            }
            int root = at;
            while (node[root].from >= 0) root = node[root].from;
            *bucket = node[root].bucket;
            return insert_shift(t, node, count, way);
        }
    }
    return WAYS;
}

/* ---- the calls ---- */

static void insert_fill(struct gw_flow_table *t, uint64_t bucket, unsigned way, const struct place *p,
                        const void *key, uint32_t value)
{
    struct bucket *b = &t->bucket[bucket];
    uint64_t first = first_bucket(t, p->hash);
    GW_ASSERT(!(b->used >> way & 1));
    GW_ASSERT(bucket == first || bucket == second_bucket(t, p->hash));
    b->key[way] = p->tag;
    b->value[way] = value;
    b->used |= (uint8_t)(1u << way);
    if (t->long_keys) {
        uint8_t *to = long_key(t, flow_slot_of(bucket, way));
        memset(to, 0, GW_FLOW_KEY_MAX);
        memcpy(to, key, t->key_bytes);
    }
    if (first != bucket) spill(t, first, 1);
    t->of_worker[flow_worker_of(value)]++;
    t->flows++;
}

static void insert_name(const struct gw_flow_table *t, uint64_t bucket, unsigned way, struct gw_flow *at)
{
    uint32_t value = t->bucket[bucket].value[way];
    if (at)
        *at = (struct gw_flow){flow_slot_of(bucket, way), (uint16_t)flow_worker_of(value),
                               (uint8_t)flow_state_of(value), 0};
}

int gw_flow_insert(struct gw_flow_table *t, const void *key, uint32_t worker, uint32_t state,
                   struct gw_flow *at)
{
    if (worker >= GW_FLOW_WORKERS || state >= GW_FLOW_STATES) return -EINVAL;
    struct place p = flow_place_of(t, key);
    const uint64_t two[2] = {first_bucket(t, p.hash), second_bucket(t, p.hash)};
    unsigned way = WAYS;
    for (int i = 0; i < places(t, two); i++) {
        unsigned w = insert_find(t, two[i], &p, key);
        if (w == WAYS) continue;
        if (flow_is_over(t, t->bucket[two[i]].value[w])) {
            gw_flow_free_slot(t, two[i], w);
            continue;
        }
        insert_name(t, two[i], w, at);
        return -EEXIST;
    }
    uint64_t bucket = two[0];
    bool evicted = false;
    if ((way = free_way(t, bucket)) == WAYS) way = free_way(t, bucket = two[1]);
    if (way == WAYS) way = insert_make_room(t, two, false, &bucket);
    if (way == WAYS) {
        way = evict(t, two, &bucket);
        if (way == WAYS) way = insert_make_room(t, two, true, &bucket);
        evicted = true;
    }
    if (way == WAYS) return -ENOSPC;
    insert_fill(t, bucket, way, &p, key, flow_value_of(worker, state, t->tick));
    insert_name(t, bucket, way, at);
    return evicted;
}

/* The value of a slot that holds a flow; NULL: it holds none. */
static uint32_t *value_at(struct gw_flow_table *t, uint32_t slot)
{
    uint64_t bucket = slot / WAYS;
    if (bucket >= t->buckets || !(t->bucket[bucket].used >> slot % WAYS & 1)) return NULL;
    return &t->bucket[bucket].value[slot % WAYS];
}

int gw_flow_set_state(struct gw_flow_table *t, uint32_t slot, uint32_t state)
{
    uint32_t *value = value_at(t, slot);
    if (!value || state >= GW_FLOW_STATES) return -EINVAL;
    *value = flow_value_of(flow_worker_of(*value), state, *value);
    return 0;
}

int gw_flow_set_worker(struct gw_flow_table *t, uint32_t slot, uint32_t worker)
{
    uint32_t *value = value_at(t, slot);
    if (!value || worker >= GW_FLOW_WORKERS) return -EINVAL;
    t->of_worker[flow_worker_of(*value)]--;
    t->of_worker[worker]++;
    *value = flow_value_of(worker, flow_state_of(*value), *value);
    return 0;
}

int gw_flow_delete(struct gw_flow_table *t, const void *key)
{
    struct place p = flow_place_of(t, key);
    const uint64_t two[2] = {first_bucket(t, p.hash), second_bucket(t, p.hash)};
    for (int i = 0; i < places(t, two); i++) {
        unsigned way = insert_find(t, two[i], &p, key);
        if (way == WAYS) continue;
        bool over = flow_is_over(t, t->bucket[two[i]].value[way]);
        gw_flow_free_slot(t, two[i], way);
        return over ? -ENOENT : 0;
    }
    return -ENOENT;
}
