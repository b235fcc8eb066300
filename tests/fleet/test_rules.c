/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's rules one by one: each test is about a line that decides, on a state where it alone does. */
#include "tests/fleet/plan_rig.h"

/* As plan(), without leases for what others refuse. */
static uint32_t plan_without_spills(struct fleet_state *s, int64_t now)
{
    struct fleet_tuning t;
    fleet_tuning_default(&t);
    t.spills = t.tight_spills = 0;
    return fleet_plan(s, &t, now, actions, MAX_ACTIONS);
}

/* A model on a worker's GPU, not used for a long time. */
static uint32_t put(struct fleet_state *s, uint32_t worker, uint32_t model)
{
    uint32_t place = fleet_place_add(s, worker, model, 0);
    fleet_place_move(s, place, FLEET_GPU, 0);
    return place;
}

static const struct fleet_action *first_of(uint32_t n, enum fleet_kind kind, uint32_t model)
{
    for (uint32_t i = 0; i < n; i++)
        if (actions[i].kind == kind && actions[i].model == model) return &actions[i];
    fail_msg("no such action");
    return NULL;
}

/* ---- how much is needed -------------------------------------------------------------------------------- */

static void test_chance_is_no_rise(void **state)
{
    (void)state;
    struct fleet_state *s = make(4, 1);
    rate(s, 0, 2900); /* one GPU is just enough */
    int64_t now = settle(s, MS);
    s->demand[0].rate[0] = 3050; /* chance explains 150 more, for a tenth of a second */
    plan(s, now);
    assert_int_equal(count(s, 0, true), 1);
    s->demand[0].rate[0] = 4000; /* and this is not */
    settle(s, now + 20 * MS);
    assert_int_equal(count(s, 0, true), 2);
}

static void test_a_rise_is_followed_for_a_second(void **state)
{
    (void)state;
    struct fleet_state *s = make(4, 1);
    rate(s, 0, 2000);
    s->demand[0].rate[2] = 1500;
    s->models[0].load_ns = 5000 * MS; /* 500 a second more each second, and five seconds: that is not known */
    settle(s, MS);
    assert_int_equal(count(s, 0, true), 1);
}

static void test_rare_deadlines_do_not_decide(void **state)
{
    (void)state;
    struct fleet_state *s = make(5, 1);
    rate(s, 0, 1000);
    s->demand[0].class[0] = (struct fleet_class){.deadline_ns = 5 * MS / 2, .rate = 5};
    s->demand[0].class[1] = (struct fleet_class){.deadline_ns = 20 * MS, .rate = 995};
    int64_t now = settle(s, MS);
    assert_int_equal(count_spill(s, 0), 1);
    s->demand[0].class[0].waiting = 1; /* but for a client that waits */
    settle(s, now);
    assert_int_equal(count_spill(s, 0), 3); /* which makes batches of two: the model is tight */
}

static void test_min_replicas(void **state)
{
    (void)state;
    struct fleet_state *s = make(5, 1);
    s->models[0].min_replicas = 3;
    settle(s, MS);
    assert_int_equal(count(s, 0, true), 3);
}

static void test_small_batches_shed_nothing(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 10);
    for (uint32_t i = 0; i < 10; i++)
        rate(s, i, 190); /* more than a GPU in batches of two, half of it in large ones */
    settle(s, MS);
    for (uint32_t i = 0; i < 10; i++) assert_int_equal(s->demand[i].admitted[0], FLEET_ALL);
}

static void test_batches_are_as_large_as_time_allows(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 1);
    struct fleet_model *m = &s->models[0];
    static const int64_t odd[FLEET_SIZES] = {7, 10, 17, 29, 31};
    memcpy(m->exec_ns, odd, sizeof odd);
    for (int64_t limit = 0; limit < 40; limit++) {
        uint32_t n = 0;
        while (n < FLEET_MAX_BATCH && fleet_exec(m, n + 1) <= limit) n++;
        assert_int_equal(fleet_batch_within(m, limit), n);
    }
}

/* ---- where models go ----------------------------------------------------------------------------------- */

static void test_what_loads_counts_as_load(void **state)
{
    (void)state;
    struct fleet_state *s = make(2, 3);
    put(s, 1, 2);
    rate(s, 2, 800); /* 0.2 of the second worker */
    rate(s, 0, 2500);
    uint32_t n = plan_without_spills(s, MS);
    assert_int_equal(first_of(n, FLEET_LOAD, 0)->worker, 0);
    s->demand[1].class[0].waiting = 1; /* in the next round: the other one still loads */
    n = plan_without_spills(s, 21 * MS);
    assert_int_equal(first_of(n, FLEET_LOAD, 1)->worker, 1);
}

static void test_loads_of_clients_that_wait_are_spread(void **state)
{
    (void)state;
    struct fleet_state *s = make(2, 2);
    s->demand[0].class[0].waiting = s->demand[1].class[0].waiting = 1;
    uint32_t n = plan_without_spills(s, MS);
    assert_int_not_equal(first_of(n, FLEET_LOAD, 0)->worker, first_of(n, FLEET_LOAD, 1)->worker);
}

/* A copy in host memory is worth more than a worker that has less to do. */
static void test_disks_are_slow(void **state)
{
    (void)state;
    struct fleet_state *s = make(2, 2);
    s->models[0].disk_ns = 1000 * MS;
    fleet_place_add(s, 1, 0, 0); /* in its host memory */
    put(s, 1, 1);
    rate(s, 1, 1200); /* 0.3 of that worker */
    plan_without_spills(s, MS);
    s->demand[0].class[0].waiting = 1;
    uint32_t n = plan_without_spills(s, 21 * MS);
    assert_int_equal(first_of(n, FLEET_LOAD, 0)->worker, 1);
}

/* One batch of the slow model takes longer than the quick one's clients wait. */
static void test_tight_models_avoid_slow_ones(void **state)
{
    (void)state;
    struct fleet_state *s = make(2, 3);
    for (int k = 0; k < FLEET_SIZES; k++) s->models[0].exec_ns[k] = (10 + 3 * ((1 << k) - 1)) * MS;
    s->demand[0].class[0].deadline_ns = 200 * MS;
    put(s, 0, 0);
    put(s, 1, 2);
    rate(s, 0, 1);
    rate(s, 2, 1200); /* so the other worker has more to do */
    plan_without_spills(s, MS);
    s->demand[1].class[0].deadline_ns = 8 * MS;
    s->demand[1].class[0].waiting = 1;
    uint32_t n = plan_without_spills(s, 21 * MS);
    assert_int_equal(first_of(n, FLEET_LOAD, 1)->worker, 1);
}

static void test_what_was_just_used_stays(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 11);
    for (uint32_t i = 0; i < 10; i++) s->places[put(s, 0, i)].used_ns = 1000 * MS;
    plan(s, 1000 * MS);
    s->demand[10].class[0].waiting = 1;
    uint32_t n = plan(s, 1010 * MS);
    assert_int_equal(kinds(n, FLEET_EVICT) + kinds(n, FLEET_LOAD), 0);
    n = plan(s, 1100 * MS);
    assert_int_equal(kinds(n, FLEET_EVICT), 1);
}

/* ---- leases -------------------------------------------------------------------------------------------- */

static void test_the_busiest_loses_its_lease(void **state)
{
    (void)state;
    for (uint32_t busy = 0; busy < 2; busy++) {
        struct fleet_state *s = make(2, 2);
        put(s, 0, 0);
        put(s, 1, 0);
        put(s, busy, 1);
        rate(s, 0, 4500);
        rate(s, 1, 800);
        int64_t now = settle(s, MS);
        assert_int_equal(count(s, 0, true), 2);
        rate(s, 0, 1000);
        plan(s, now);
        assert_true(s->places[fleet_place_find(s, busy, 0)].spill);
        assert_false(s->places[fleet_place_find(s, !busy, 0)].spill);
    }
}

static void test_a_lease_is_kept_while_demand_wavers(void **state)
{
    (void)state;
    struct fleet_state *s = make(2, 1);
    rate(s, 0, 4500);
    int64_t now = settle(s, MS);
    assert_int_equal(count(s, 0, true), 2);
    rate(s, 0, 2900); /* one would be just enough */
    now = settle(s, now);
    assert_int_equal(count(s, 0, true), 2);
    rate(s, 0, 2000);
    settle(s, now);
    assert_int_equal(count(s, 0, true), 1);
}

static void test_a_worker_has_only_so_many_leases(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 2);
    s->workers[0].slots = 8;
    put(s, 0, 0);
    put(s, 0, 1);
    rate(s, 0, 10);
    rate(s, 1, 10);
    uint32_t n = plan(s, MS);
    assert_int_equal(kinds(n, FLEET_GRANT), 1);
}

static void test_slots_are_shared(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 1);
    s->workers[0].slots = 64;
    s->demand[0].class[0].deadline_ns = 1000 * MS; /* thousands of requests could be under way */
    put(s, 0, 0);
    rate(s, 0, 3900);
    plan(s, MS);
    assert_in_range(s->places[0].slots, 1, 64);
}

/* A tight model comes to a worker: the others' batches become smaller at once, though their shares hardly
 * change. */
static void test_batches_shrink_for_a_tight_model(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 2);
    rate(s, 0, 2000);
    int64_t now = settle(s, MS);
    assert_int_equal(s->places[fleet_place_find(s, 0, 0)].max_batch, 16);
    rate(s, 1, 0.5f);
    s->demand[1].class[0].deadline_ns = 3 * MS;
    settle(s, now);
    assert_int_equal(s->places[fleet_place_find(s, 0, 0)].max_batch, 6);
}

static void test_a_lease_that_was_not_told_is_none(void **state)
{
    (void)state;
    struct fleet_tuning t;
    fleet_tuning_default(&t);
    struct fleet_state *s = make(1, 1);
    uint32_t place = put(s, 0, 0);
    rate(s, 0, 10);
    assert_int_equal(fleet_plan(s, &t, MS, actions, 0), 0);
    assert_int_equal(s->places[place].slots, 0);
    uint32_t n = plan(s, 21 * MS);
    assert_int_equal(kinds(n, FLEET_GRANT), 1);
}

/* What is revoked is free in the same round. */
static void test_a_revoked_lease_makes_room_at_once(void **state)
{
    (void)state;
    struct fleet_state *s = make(2, 2);
    s->workers[0].slots = 8; /* one lease */
    s->workers[1].slots = 8;
    put(s, 0, 0);
    put(s, 1, 0);
    rate(s, 0, 10);
    plan(s, MS); /* one lease, and one for what that refuses */
    assert_int_equal(count(s, 0, true) + count_spill(s, 0), 2);
    uint32_t worker = s->places[fleet_place_find(s, 0, 0)].spill ? 0 : 1;
    put(s, worker, 1);
    rate(s, 0, 5000); /* more than both can do: the second lease becomes a first one */
    uint32_t n = plan(s, 21 * MS);
    assert_int_equal(kinds(n, FLEET_GRANT), 0);
    fleet_state_check(s);
}

/* A model has two places, and the lease is on a worker that has too much to do. */
static void test_leases_leave_busy_workers(void **state)
{
    (void)state;
    struct fleet_state *s = make(2, 2);
    put(s, 0, 0);
    put(s, 0, 1);
    rate(s, 0, 2000);
    rate(s, 1, 100);
    plan_without_spills(s, MS);
    put(s, 1, 0);
    rate(s, 1, 1800);
    plan_without_spills(s, 21 * MS);
    const struct fleet_place *other = &s->places[fleet_place_find(s, 1, 0)];
    assert_true(other->slots && !other->spill);
}

static void test_a_draining_worker_serves_until_others_do(void **state)
{
    (void)state;
    struct fleet_state *s = make(2, 1);
    put(s, 0, 0);
    rate(s, 0, 100);
    plan_without_spills(s, MS);
    s->workers[0].health = FLEET_DRAINING;
    uint32_t n = plan_without_spills(s, 21 * MS);
    assert_int_equal(first_of(n, FLEET_LOAD, 0)->worker, 1);
    assert_int_equal(kinds(n, FLEET_REVOKE), 0);
    fleet_loaded(s, fleet_place_find(s, 1, 0), true, 31 * MS);
    n = plan_without_spills(s, 41 * MS);
    assert_int_equal(first_of(n, FLEET_REVOKE, 0)->worker, 0);
}

/* ---- shedding ------------------------------------------------------------------------------------------ */

static void test_a_little_too_much_is_not_shed(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 1);
    rate(s, 0, 4200); /* 1.05 GPUs: the device refuses these */
    settle(s, MS);
    assert_int_equal(s->demand[0].admitted[0], FLEET_ALL);
}

static void test_small_changes_are_no_message(void **state)
{
    (void)state;
    struct fleet_state *s = make(1, 1);
    rate(s, 0, 8000);
    int64_t now = settle(s, MS);
    assert_in_range(s->demand[0].admitted[0], 100, 200);
    rate(s, 0, 8200);
    uint32_t n = plan(s, now);
    assert_int_equal(kinds(n, FLEET_SHED), 0);
    rate(s, 0, 12000);
    n = plan(s, now + 20 * MS);
    assert_int_equal(kinds(n, FLEET_SHED), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chance_is_no_rise),
        cmocka_unit_test(test_a_rise_is_followed_for_a_second),
        cmocka_unit_test(test_rare_deadlines_do_not_decide),
        cmocka_unit_test(test_min_replicas),
        cmocka_unit_test(test_small_batches_shed_nothing),
        cmocka_unit_test(test_batches_are_as_large_as_time_allows),
        cmocka_unit_test(test_what_loads_counts_as_load),
        cmocka_unit_test(test_loads_of_clients_that_wait_are_spread),
        cmocka_unit_test(test_disks_are_slow),
        cmocka_unit_test(test_tight_models_avoid_slow_ones),
        cmocka_unit_test(test_what_was_just_used_stays),
        cmocka_unit_test(test_the_busiest_loses_its_lease),
        cmocka_unit_test(test_a_lease_is_kept_while_demand_wavers),
        cmocka_unit_test(test_a_worker_has_only_so_many_leases),
        cmocka_unit_test(test_slots_are_shared),
        cmocka_unit_test(test_batches_shrink_for_a_tight_model),
        cmocka_unit_test(test_a_lease_that_was_not_told_is_none),
        cmocka_unit_test(test_a_revoked_lease_makes_room_at_once),
        cmocka_unit_test(test_leases_leave_busy_workers),
        cmocka_unit_test(test_a_draining_worker_serves_until_others_do),
        cmocka_unit_test(test_a_little_too_much_is_not_shed),
        cmocka_unit_test(test_small_changes_are_no_message),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(memory);
    return failed;
}
