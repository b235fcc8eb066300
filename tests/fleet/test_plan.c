/* SPDX-License-Identifier: Apache-2.0 */
/* The planner on small states made by hand, then its rules on random ones. */
#include "tests/fleet/plan_rig.h"
#include "tests/rnd.h"

static void test_batches(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 1);
    const struct fleet_model *m = &s->models[0];
    assert_int_equal(fleet_exec(m, 1), MS);
    assert_int_equal(fleet_exec(m, 6), 2 * MS); /* between 4 and 8 */
    assert_int_equal(fleet_exec(m, 16), 4 * MS);
    assert_int_equal(fleet_batch_within(m, MS - 1), 0);
    assert_int_equal(fleet_batch_within(m, 2 * MS), 6);
    assert_int_equal(fleet_batch_for(m, 4 * MS), 6);
    assert_int_equal(fleet_batch_for(m, 100 * MS), 16);
    assert_int_equal(fleet_batch_for(m, MS), 1);
}

static void test_hot_model_gets_replicas(void **state)
{
    (void)state;
    struct fleet_state *s = make(4, 2);
    rate(s, 0, 9000); /* 4,000 a second is what a GPU does in batches of 16 */
    rate(s, 1, 10);
    settle(s, MS);
    assert_int_equal(count(s, 0, true), 3);
    assert_int_equal(count(s, 1, true), 1);
}

static void test_load_before_the_peak(void **state)
{
    (void)state;
    struct fleet_state *s = make(4, 1);
    rate(s, 0, 2900); /* one GPU is enough, just so */
    s->models[0].load_ns = 900 * MS;
    int64_t now = settle(s, MS);
    assert_int_equal(count(s, 0, true), 1);
    s->demand[0].rate[2] = 2000; /* but it was less before: it rises */
    plan(s, now);
    assert_int_equal(count(s, 0, true), 2);
}

static void test_cold_model_stays_while_there_is_room(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 12);
    int64_t now = MS;
    for (uint32_t i = 0; i < 10; i++) { /* fills the GPU, one after the other */
        rate(s, i, 50);
        now = settle(s, now);
        rate(s, i, 0);
        s->places[fleet_place_find(s, 0, i)].used_ns = now;
    }
    now = settle(s, now + 1000 * MS);
    for (uint32_t i = 0; i < 10; i++) assert_int_equal(count(s, i, true), 1); /* each can be asked at once */
    now += 1000 * MS;
    rate(s, 10, 50);
    settle(s, now);
    assert_int_equal(count(s, 10, false), 0); /* no client waits for it */
    s->demand[10].class[0].waiting = 1;
    settle(s, now + 1000 * MS);
    assert_int_equal(count(s, 10, true), 1);
    assert_int_equal(count(s, 0, false), 0); /* the one used longest ago made room */
    for (uint32_t i = 1; i < 10; i++) assert_int_equal(count(s, i, false), 1);
}

static void test_no_lease_before_the_load_ends(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 1);
    s->demand[0].class[0].waiting = 3; /* clients ask, though nothing was counted yet */
    uint32_t n = plan(s, MS);
    assert_int_equal(kinds(n, FLEET_LOAD), 1);
    assert_int_equal(kinds(n, FLEET_GRANT), 0);
    fleet_loaded(s, actions[0].place, true, 11 * MS);
    n = plan(s, 12 * MS);
    assert_int_equal(kinds(n, FLEET_GRANT), 1);
    assert_int_equal(actions[0].earliest_ns, 12 * MS);
    assert_true(actions[0].slots > 0 && actions[0].rate > 0 && actions[0].max_batch >= 1);
}

static void test_failed_load_goes_elsewhere(void **state)
{
    (void)state;
    struct fleet_state *s = make(2, 1);
    rate(s, 0, 10);
    uint32_t n = plan(s, MS);
    assert_int_equal(kinds(n, FLEET_LOAD), 2); /* the second one is for what the first refuses */
    uint32_t first = actions[0].worker;
    fleet_loaded(s, actions[0].place, false, 2 * MS);
    n = plan(s, 3 * MS);
    for (uint32_t i = 0; i < n; i++)
        assert_false(actions[i].kind == FLEET_LOAD && actions[i].worker == first);
    plan(s, 1000 * MS); /* after a while it is tried again */
    assert_int_equal(s->places[fleet_place_find(s, first, 0)].where, FLEET_LOADING);
}

static void test_loads_of_a_round_share_the_memory(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 2);
    s->workers[0].gpu_pages = 19; /* room for one model of ten pages */
    rate(s, 0, 10);
    rate(s, 1, 20);
    s->demand[0].class[0].waiting = s->demand[1].class[0].waiting = 1;
    uint32_t n = plan(s, MS);
    assert_int_equal(kinds(n, FLEET_LOAD), 1);
    fleet_state_check(s);
    assert_int_equal(s->workers[0].gpu_used, 10);
}

static void test_lease_is_renewed_and_expires(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 1);
    rate(s, 0, 100);
    int64_t now = settle(s, MS);
    assert_int_equal(plan(s, now + 1000 * MS), 0);
    uint32_t n = plan(s, now + 6000 * MS);
    assert_int_equal(kinds(n, FLEET_RESIZE), 1);
    assert_int_equal(actions[0].latest_ns, now + 16000 * MS);
    n = plan(s, now + 60000 * MS); /* the controller was away */
    assert_int_equal(kinds(n, FLEET_GRANT), 1);
}

static void test_tight_lease_bounds_batches(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 2);
    rate(s, 0, 500);
    rate(s, 1, 500);
    s->demand[0].class[0].deadline_ns = 3 * MS;
    settle(s, MS);
    /* A batch of the other one may take 2 ms, so that 3 ms hold for a request that comes when it begins. */
    assert_int_equal(s->places[fleet_place_find(s, 0, 1)].max_batch, 6);
}

static void test_drain_moves_first(void **state)
{
    (void)state;
    struct fleet_state *s = make(2, 3);
    for (uint32_t i = 0; i < 3; i++) rate(s, i, 100);
    int64_t now = settle(s, MS);
    s->workers[0].health = FLEET_DRAINING;
    for (int round = 0; round < 50 && s->workers[0].first != FLEET_NONE; round++, now += 20 * MS) {
        uint32_t n = plan(s, now);
        for (uint32_t i = 0; i < n; i++) {
            assert_false(actions[i].kind == FLEET_LOAD && actions[i].worker == 0);
            /* What leaves has a lease elsewhere. */
            if (actions[i].kind == FLEET_REVOKE) assert_true(count(s, actions[i].model, true) >= 1);
        }
        obey(s, n, now);
    }
    assert_int_equal(s->workers[0].first, FLEET_NONE);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(count(s, i, true), 1);
}

static void test_late_worker_gets_nothing(void **state)
{
    (void)state;
    struct fleet_state *s = make(2, 1);
    s->workers[0].late = 0.5f; /* its telemetry is wrong */
    rate(s, 0, 3500);
    settle(s, MS);
    assert_int_equal(fleet_place_find(s, 0, 0), FLEET_NONE);
    assert_int_equal(count(s, 0, true), 1);
}

static void test_sheds_the_tightest(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 1);
    rate(s, 0, 8000); /* twice what there is */
    s->demand[0].class[0] = (struct fleet_class){.deadline_ns = 10 * MS, .rate = 3000};
    s->demand[0].class[1] = (struct fleet_class){.deadline_ns = 100 * MS, .rate = 5000};
    settle(s, MS);
    assert_int_equal(s->demand[0].admitted[0], 0);
    assert_in_range(s->demand[0].admitted[1], 150, 240);
    rate(s, 0, 100);
    s->demand[0].class[1].rate = 0;
    settle(s, 1000 * MS);
    assert_int_equal(s->demand[0].admitted[0], FLEET_ALL);
    assert_int_equal(s->demand[0].admitted[1], FLEET_ALL);
}

static void test_leases_for_what_others_refuse(void **state)
{
    (void)state;
    struct fleet_state *s = make(5, 2);
    rate(s, 0, 100);
    rate(s, 1, 100);
    s->demand[1].class[0].deadline_ns = 5 * MS / 2; /* no batches: it gains nothing by staying together */
    int64_t now = settle(s, MS);
    assert_int_equal(count(s, 0, true), 1);
    assert_int_equal(count_spill(s, 0), 1);
    assert_int_equal(count(s, 1, true), 1);
    assert_int_equal(count_spill(s, 1), 3);
    rate(s, 0, 30000); /* more than five GPUs can do */
    settle(s, now);
    assert_int_equal(count_spill(s, 1), 0);
}

static void test_same_state_same_plan(void **state)
{
    (void)state;
    static struct fleet_action first[MAX_ACTIONS];
    uint32_t n = 0;
    for (int turn = 0; turn < 2; turn++) {
        struct fleet_state *s = make(8, 40);
        for (uint32_t i = 0; i < 40; i++) rate(s, i, (float)(i * i));
        uint32_t k = plan(s, MS);
        if (turn) assert_int_equal(k, n);
        if (turn) assert_memory_equal(first, actions, n * sizeof actions[0]);
        n = k;
        memcpy(first, actions, n * sizeof actions[0]);
    }
}

/* Random demand, failures, deaths and drains; fleet_state_check() asserts memory, slots and shares after
 * each round. */
static void test_random_states(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct rnd r = {seed * UINT64_C(0x9e3779b97f4a7c15)};
        uint32_t workers = 1 + rnd_below(&r, 8), models = 1 + rnd_below(&r, 60);
        struct fleet_state *s = make(workers, models);
        struct fleet_tuning t;
        fleet_tuning_default(&t);
        for (int64_t now = MS; now < 4000 * MS; now += 20 * MS) {
            uint32_t max = rnd_below(&r, 8) ? MAX_ACTIONS : rnd_below(&r, 5), w = rnd_below(&r, workers);
            rate(s, rnd_below(&r, models), (float)rnd_below(&r, 3000) * (rnd_below(&r, 2) ? 1.0f : 0.01f));
            if (!rnd_below(&r, 20)) s->workers[w].health = FLEET_DRAINING;
            if (!rnd_below(&r, 20)) fleet_worker_gone(s, w);
            if (!rnd_below(&r, 4)) s->workers[w].health = FLEET_ACTIVE;
            uint32_t n = fleet_plan(s, &t, now, actions, max);
            assert_true(n <= max);
            fleet_state_check(s);
            for (uint32_t i = 0; i < n; i++) {
                const struct fleet_action *a = &actions[i];
                if (a->kind == FLEET_EVICT) fleet_place_move(s, a->place, FLEET_HOST, now);
                if (a->kind == FLEET_DROP) fleet_place_remove(s, a->place);
                if (a->kind == FLEET_LOAD) fleet_loaded(s, a->place, rnd_below(&r, 5), now);
            }
            fleet_state_check(s);
        }
    }
}

/* A model comes only to a worker that has its file. A copy of the state decides as the state does. */
static void test_files(void **state)
{
    (void)state;
    static uint64_t files[8], none[8], memory_of_copy[1 << 16] __attribute__((aligned(64)));
    struct fleet_state *s = make(4, 65);
    assert_true(fleet_state_files_size(&s->limits) <= sizeof files);
    assert_true(fleet_state_size(&s->limits) <= sizeof memory_of_copy);
    assert_true(fleet_state_has_file(s, 3, 64));
    s->files = files;
    rate(s, 64, 10);
    assert_int_equal(plan(s, MS), 0);
    fleet_state_set_file(s, 2, 64, true);
    assert_true(fleet_state_has_file(s, 2, 64) && !fleet_state_has_file(s, 2, 63));
    struct fleet_state *copy = fleet_state_init(memory_of_copy, &s->limits);
    fleet_state_copy(copy, s);
    struct fleet_tuning t;
    fleet_tuning_default(&t);
    assert_int_equal(fleet_plan(copy, &t, 2 * MS, actions, MAX_ACTIONS), 1);
    fleet_state_check(copy);
    assert_int_equal(plan(s, 2 * MS), 1);
    assert_true(actions[0].kind == FLEET_LOAD && actions[0].worker == 2 && actions[0].model == 64);
    fleet_state_set_file(s, 2, 64, false);
    assert_memory_equal(files, none, sizeof files);
    s->files = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_hot_model_gets_replicas),
        cmocka_unit_test(test_load_before_the_peak),
        cmocka_unit_test(test_cold_model_stays_while_there_is_room),
        cmocka_unit_test(test_no_lease_before_the_load_ends),
        cmocka_unit_test(test_failed_load_goes_elsewhere),
        cmocka_unit_test(test_loads_of_a_round_share_the_memory),
        cmocka_unit_test(test_lease_is_renewed_and_expires),
        cmocka_unit_test(test_tight_lease_bounds_batches),
        cmocka_unit_test(test_drain_moves_first),
        cmocka_unit_test(test_late_worker_gets_nothing),
        cmocka_unit_test(test_sheds_the_tightest),
        cmocka_unit_test(test_leases_for_what_others_refuse),
        cmocka_unit_test(test_same_state_same_plan),
        cmocka_unit_test(test_random_states),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(memory);
    return failed;
}
