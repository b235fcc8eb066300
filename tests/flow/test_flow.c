/* SPDX-License-Identifier: Apache-2.0 */
/* The table's promises, one by one. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <gpuwire/flow.h>

#include "src/flow/layout.h"

enum { HALF_OPEN, OPEN };
#define SECOND UINT64_C(1000000000)

static struct gw_flow_table *make(uint64_t flows, uint32_t key_bytes)
{
    struct gw_flow_table *t;
    struct gw_flow_attr attr = {.flows = flows,
                                .key_bytes = key_bytes,
                                .timeout_ns = {[HALF_OPEN] = 5 * SECOND, [OPEN] = 900 * SECOND},
                                .evictable = 1u << HALF_OPEN};
    assert_int_equal(gw_flow_create(&attr, &t), 0);
    gw_flow_clock(t, 1000 * SECOND);
    return t;
}

static int has(struct gw_flow_table *t, uint64_t key)
{
    struct gw_flow at;
    return (int)gw_flow_lookup_bulk(t, &key, 1, &at);
}

static void a_flow_comes_and_goes(void **state)
{
    struct gw_flow_table *t = make(100, 8);
    struct gw_flow at;
    uint64_t key = 7;
    (void)state;
    assert_false(has(t, key));
    assert_int_equal(gw_flow_insert(t, &key, 3, HALF_OPEN, &at), 0);
    assert_int_equal(gw_flow_insert(t, &key, 4, OPEN, &at), -EEXIST);
    assert_int_equal(at.worker, 3);
    assert_int_equal(gw_flow_worker_count(t, 3), 1);
    assert_int_equal(gw_flow_set_worker(t, at.slot, 9), 0);
    assert_int_equal(gw_flow_worker_count(t, 3), 0);
    assert_int_equal(gw_flow_worker_count(t, 9), 1);
    assert_int_equal(gw_flow_lookup_bulk(t, &key, 1, &at), 1);
    assert_int_equal(at.worker, 9);
    assert_int_equal(gw_flow_delete(t, &key), 0);
    assert_int_equal(gw_flow_delete(t, &key), -ENOENT);
    assert_int_equal(gw_flow_count(t), 0);
    gw_flow_destroy(t);
}

static void a_packet_keeps_a_flow(void **state)
{
    struct gw_flow_table *t = make(100, 8);
    uint64_t key = 7, now = 1000 * SECOND;
    (void)state;
    assert_int_equal(gw_flow_insert(t, &key, 3, HALF_OPEN, NULL), 0);
    for (int i = 0; i < 20; i++) {
        gw_flow_clock(t, now += 4 * SECOND);
        assert_true(has(t, key));
    }
    gw_flow_clock(t, now += 6 * SECOND);
    assert_false(has(t, key));
    assert_int_equal(gw_flow_count(t), 1); /* its slot is not free yet */
    assert_int_equal(gw_flow_expire(t, SIZE_MAX), 1);
    assert_int_equal(gw_flow_count(t), 0);
    gw_flow_destroy(t);
}

/* The clock jumps by times around the epoch's range, without a sweep: nothing comes back to life. */
static void no_flow_rises_again(void **state)
{
    (void)state;
    for (uint64_t jump = 900; jump < 4000; jump += 7) {
        struct gw_flow_table *t = make(100, 8);
        uint64_t key = jump;
        assert_int_equal(gw_flow_insert(t, &key, 3, OPEN, NULL), 0);
        gw_flow_clock(t, (1000 + jump + 1) * SECOND);
        assert_false(has(t, key));
        gw_flow_destroy(t);
    }
}

/* gw_flow_expire(t, 0), called after each burst, frees everything in time by itself. */
static void the_sweep_keeps_up(void **state)
{
    struct gw_flow_table *t = make(10000, 8);
    uint64_t now = 1000 * SECOND;
    (void)state;
    for (uint64_t key = 0; key < 10000; key++)
        assert_int_equal(gw_flow_insert(t, &key, 1, HALF_OPEN, NULL), 0);
    for (int i = 0; i < 11000; i++) {
        gw_flow_clock(t, now += SECOND / 1000);
        gw_flow_expire(t, 0);
    }
    assert_int_equal(gw_flow_count(t), 0);
    gw_flow_destroy(t);
}

/* A flood of half-open flows, ten times what the table holds: each established flow stays. */
static void a_flood_evicts_no_established_flow(void **state)
{
    struct gw_flow_table *t = make(100000, 8);
    uint64_t key;
    int evicted = 0;
    (void)state;
    for (key = 0; key < 60000; key++) assert_int_equal(gw_flow_insert(t, &key, 1, OPEN, NULL), 0);
    for (key = 1 << 20; key < (1 << 20) + 1000000; key++) {
        int rc = gw_flow_insert(t, &key, 2, HALF_OPEN, NULL);
        assert_true(rc >= 0 || rc == -ENOSPC);
        evicted += rc == 1;
    }
    assert_true(evicted > 500000);
    for (key = 0; key < 60000; key++) assert_true(has(t, key));
    assert_int_equal(gw_flow_worker_count(t, 1), 60000);
    gw_flow_destroy(t);
}

static void it_holds_what_was_asked_for(void **state)
{
    (void)state;
    for (uint32_t bytes = 8; bytes <= 40; bytes += 32) {
        struct gw_flow_table *t = make(300000, bytes);
        for (uint64_t i = 0; i < 300000; i++) {
            uint64_t key[5] = {i};
            assert_int_equal(gw_flow_insert(t, key, 1, OPEN, NULL), 0);
        }
        if (bytes == 8) assert_in_range(gw_flow_bytes(t) / 300000, 1, 27); /* whole 2 MiB pages */
        gw_flow_destroy(t);
    }
}

/* One call with many more keys than are under way at once, of a table as full as was asked for. Half of them
 * are strangers, and a tenth of the others lie in their second bucket. */
static void find_in_one_call(uint32_t bytes)
{
    enum { FLOWS = 10000, KEYS = 2 * FLOWS };
    static uint8_t keys[KEYS * GW_FLOW_KEY_MAX];
    static struct gw_flow found[KEYS];
    struct gw_flow_table *t = make(FLOWS, bytes);
    for (uint32_t i = 0; i < KEYS; i++) {
        uint8_t key[GW_FLOW_KEY_MAX] = {0};
        memcpy(key, &i, sizeof(i));
        key[bytes - 1] = 7;
        memcpy(keys + i * bytes, key, bytes);
        if (i % 2 == 0) assert_int_equal(gw_flow_insert(t, key, i % 1000, OPEN, NULL), 0);
    }
    assert_int_equal(gw_flow_lookup_bulk(t, keys, KEYS, found), FLOWS);
    for (uint32_t i = 0; i < KEYS; i++) {
        assert_int_equal(found[i].slot == GW_FLOW_NONE, i % 2);
        if (i % 2 == 0) assert_int_equal(found[i].worker, i % 1000);
    }
    assert_int_equal(gw_flow_lookup_bulk(t, keys, 0, found), 0);
    gw_flow_destroy(t);
}

/* The slow ways to compare keys give the same answers as the fast one. */
static void all_ways_to_compare_agree(void **state)
{
    static const char *const ways[] = {"scalar", "avx2", "avx512"};
    (void)state;
    for (int w = 0; w < 3; w++) {
        setenv("GPUWIRE_FLOW_SIMD", ways[w], 1);
        for (uint32_t bytes = 8; bytes <= GW_FLOW_KEY_MAX; bytes += 16) find_in_one_call(bytes);
    }
    unsetenv("GPUWIRE_FLOW_SIMD");
}

static void nonsense_is_refused(void **state)
{
    struct gw_flow_table *t;
    struct gw_flow_attr good = {.flows = 10, .key_bytes = 8, .timeout_ns = {SECOND}}, bad = good;
    uint64_t key = 1;
    (void)state;
    bad.flows = 0;
    assert_int_equal(gw_flow_create(&bad, &t), -EINVAL);
    bad = good, bad.key_bytes = 41;
    assert_int_equal(gw_flow_create(&bad, &t), -EINVAL);
    bad = good, bad.key_bytes = 7;
    assert_int_equal(gw_flow_create(&bad, &t), -EINVAL);
    bad = good, bad.timeout_ns[1] = 9000 * SECOND;
    assert_int_equal(gw_flow_create(&bad, &t), -EINVAL);
    bad = good, bad.flows = GW_FLOW_MAX + 1;
    assert_int_equal(gw_flow_create(&bad, &t), -EINVAL);
    assert_int_equal(gw_flow_create(&good, &t), 0);
    assert_int_equal(gw_flow_insert(t, &key, GW_FLOW_WORKERS, 0, NULL), -EINVAL);
    assert_int_equal(gw_flow_insert(t, &key, 0, GW_FLOW_STATES, NULL), -EINVAL);
    assert_int_equal(gw_flow_set_state(t, 0, 0), -EINVAL);
    assert_int_equal(gw_flow_set_worker(t, GW_FLOW_NONE, 0), -EINVAL);
    gw_flow_destroy(t);
    gw_flow_destroy(NULL);
}

/* What assertions and the model ask is found out where it does not hold. */
static void a_broken_table_is_found(void **state)
{
    uint8_t key[32] = {0};
    struct gw_flow at[2];
    struct gw_flow_table *t = make(100, sizeof(key));
    (void)state;
    for (int i = 0; i < 2; i++, key[0]++) assert_int_equal(gw_flow_insert(t, key, 3, OPEN, &at[i]), 0);
    assert_true(gw_flow_is_sound(t));
    t->flows++; /* a count that the buckets do not hold */
    assert_false(gw_flow_is_sound(t));
    t->flows--;
    t->of_worker[3]--, t->of_worker[4]++;
    assert_false(gw_flow_is_sound(t));
    t->of_worker[3]++, t->of_worker[4]--;
    struct bucket *b = &t->bucket[at[0].slot / WAYS];
    b->spilled++; /* a flow that no second bucket holds */
    assert_false(gw_flow_is_sound(t));
    b->spilled--;
    key[0] = 0;
    memcpy(long_key(t, at[1].slot), key, sizeof(key)); /* a key twice, or where it does not belong */
    assert_false(gw_flow_is_sound(t));
    key[0] = 1;
    memcpy(long_key(t, at[1].slot), key, sizeof(key));
    assert_true(gw_flow_is_sound(t));
    gw_flow_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flow_comes_and_goes),
        cmocka_unit_test(a_packet_keeps_a_flow),
        cmocka_unit_test(no_flow_rises_again),
        cmocka_unit_test(the_sweep_keeps_up),
        cmocka_unit_test(a_flood_evicts_no_established_flow),
        cmocka_unit_test(it_holds_what_was_asked_for),
        cmocka_unit_test(all_ways_to_compare_agree),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_broken_table_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
