/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table beside a simple one: an array that has an entry for each key there is. Both get the same calls,
 * in random order, and must give the same answers. An argument is the number of operations.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/flow.h>

#include "src/flow/layout.h"

enum { KEYS = 20000, BURST = 100, STATES = 4, WORKERS = 50, FOREVER = 3 };

struct entry {
    bool there;
    uint64_t tick; /* of its last packet */
    uint32_t worker, state;
};

static struct {
    struct gw_flow_table *table;
    struct entry entry[KEYS];
    uint32_t keys, key_bytes, evictable;
    uint64_t now, random, evicted;
    const char *what;
} f;

static const uint64_t timeout[GW_FLOW_STATES] = {2000000000, 30000000000, 400000000000, 0};

#define require(ok) ((ok) ? (void)0 : fail(__LINE__, #ok))
static void fail(int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s: %s does not hold\n", __FILE__, line, f.what, what);
    exit(1);
}

static uint32_t random_below(uint32_t n)
{
    f.random ^= f.random << 13, f.random ^= f.random >> 7, f.random ^= f.random << 17;
    return (uint32_t)((f.random >> 32) * n >> 32);
}

static void make_key(uint32_t id, uint8_t *key)
{
    /* Keys that differ in few bits, as addresses do. */
    memset(key, 0x20, f.key_bytes);
    memcpy(key + f.key_bytes - 4, &id, 4);
}

static uint64_t tick(void)
{
    return f.now / gw_flow_tick_ns(f.table);
}

static bool lives(const struct entry *e)
{
    return e->there &&
           (e->state == FOREVER || tick() - e->tick <= timeout[e->state] / gw_flow_tick_ns(f.table));
}

static void check(const struct entry *e, const struct gw_flow *at)
{
    require(at->slot != GW_FLOW_NONE && at->worker == e->worker && at->state == e->state);
}

static void look_up(void)
{
    static uint8_t keys[BURST * GW_FLOW_KEY_MAX];
    uint32_t id[BURST], n = random_below(BURST) + 1, hits = 0;
    struct gw_flow found[BURST];
    for (uint32_t i = 0; i < n; i++) make_key(id[i] = random_below(f.keys), keys + i * f.key_bytes);
    if (random_below(2))
        for (uint32_t i = 0; i < n; i++) gw_flow_prefetch(f.table, keys + i * f.key_bytes);
    size_t got = gw_flow_lookup_bulk(f.table, keys, n, found);
    for (uint32_t i = 0; i < n; i++) {
        struct entry *e = &f.entry[id[i]];
        if (found[i].slot == GW_FLOW_NONE) {
            /* An evicted flow is one of those that may be; nothing else is ever lost. */
            require(!lives(e) || f.evictable >> e->state & 1);
            e->there = false;
            continue;
        }
        hits++;
        require(lives(e));
        check(e, &found[i]);
        e->tick = tick();
        if (!random_below(4)) {
            e->state = random_below(STATES);
            require(!gw_flow_set_state(f.table, found[i].slot, e->state));
            e->worker = random_below(WORKERS);
            require(!gw_flow_set_worker(f.table, found[i].slot, e->worker));
            for (uint32_t k = i + 1; k < n; k++) /* the same key again, in this burst */
                if (id[k] == id[i]) found[k].state = (uint8_t)e->state, found[k].worker = (uint16_t)e->worker;
        }
    }
    require(hits == got);
}

static void insert(void)
{
    uint8_t key[GW_FLOW_KEY_MAX];
    uint32_t id = random_below(f.keys), worker = random_below(WORKERS), state = random_below(STATES);
    struct entry *e = &f.entry[id];
    struct gw_flow at;
    make_key(id, key);
    int rc = gw_flow_insert(f.table, key, worker, state, &at);
    if (rc == -EEXIST) {
        require(lives(e));
        check(e, &at);
        return;
    }
    require(!lives(e) || f.evictable >> e->state & 1);
    e->there = false;
    require(rc == 0 || (f.keys == KEYS && (rc == -ENOSPC || (rc == 1 && f.evictable))));
    f.evicted += rc == 1;
    if (rc < 0) return;
    *e = (struct entry){true, tick(), worker, state};
    check(e, &at);
}

static void delete (void)
{
    uint8_t key[GW_FLOW_KEY_MAX];
    uint32_t id = random_below(f.keys);
    struct entry *e = &f.entry[id];
    make_key(id, key);
    int rc = gw_flow_delete(f.table, key);
    require(rc == 0 ? lives(e) : rc == -ENOENT && (!lives(e) || f.evictable >> e->state & 1));
    e->there = false;
}

static void pass_time(void)
{
    /* Mostly as bursts come; now and then the caller sleeps for hours. */
    f.now += random_below(1000) ? random_below(5000000) : (uint64_t)random_below(4000) * 1000000000;
    gw_flow_clock(f.table, f.now);
}

static uint64_t seen, of_worker[WORKERS];
static void visit(void *ctx, const void *key, const struct gw_flow *flow)
{
    uint32_t id;
    (void)ctx;
    memcpy(&id, (const uint8_t *)key + f.key_bytes - 4, 4);
    require(id < f.keys && lives(&f.entry[id]));
    check(&f.entry[id], flow);
    seen++;
    of_worker[flow->worker]++;
}

/* All flows at once, and the counts. */
static void scan(void)
{
    uint64_t cursor = 0, living = 0;
    gw_flow_expire(f.table, SIZE_MAX);
    require(gw_flow_is_sound(f.table));
    seen = 0;
    memset(of_worker, 0, sizeof(of_worker));
    while (gw_flow_scan(f.table, &cursor, 777, visit, NULL)) continue;
    for (uint32_t i = 0; i < f.keys; i++) living += lives(&f.entry[i]);
    require(seen == gw_flow_count(f.table));
    require(f.evictable ? seen <= living : seen == living);
    for (uint32_t w = 0; w < WORKERS; w++) require(of_worker[w] == gw_flow_worker_count(f.table, w));
}

static void run(const char *what, uint64_t operations, const struct gw_flow_attr *attr, uint32_t keys)
{
    memset(&f, 0, sizeof(f));
    f.what = what;
    f.random = 0x9e3779b97f4a7c15u;
    f.keys = keys;
    f.key_bytes = attr->key_bytes;
    f.evictable = attr->evictable;
    require(!gw_flow_create(attr, &f.table));
    for (uint64_t done = 0; done < operations;) {
        uint32_t what_now = random_below(64);
        if (what_now < 4) {
            look_up();
            done += BURST / 2;
        } else if (what_now < 40) {
            insert();
            done++;
        } else if (what_now < 50) {
            delete ();
            done++;
        } else if (what_now < 60) {
            pass_time();
        } else {
            gw_flow_expire(f.table, random_below(2) ? 0 : random_below(20));
        }
        if (done % 100000 < 2) scan();
    }
    scan();
    printf("%-28s %s: %" PRIu64 " operations, %" PRIu64 " flows at the end, %" PRIu64 " evicted\n", what,
           gw_flow_simd(f.table), operations, gw_flow_count(f.table), f.evicted);
    gw_flow_destroy(f.table);
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) / 5 : 400000;
    struct gw_flow_attr attr = {.flows = KEYS / 4, .key_bytes = 8};
    memcpy(attr.timeout_ns, timeout, sizeof(timeout));
    run("room for all keys", n, &attr, KEYS / 4);
    run("four times as many keys", n, &attr, KEYS);
    attr.evictable = 3;
    run("some may be evicted", n, &attr, KEYS);
    attr.key_bytes = 37;
    run("long keys", n, &attr, KEYS);
    attr.key_bytes = GW_FLOW_KEY_MAX;
    run("the longest keys", n, &attr, KEYS);
    return 0;
}
