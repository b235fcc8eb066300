/* SPDX-License-Identifier: Apache-2.0 */
/* The policies that plan each request, on one worker or two. */
#include "src/fleet/plan/central.h"
#include "tests/fleet/plan_rig.h"
#include "tests/rnd.h"

static void test_queue_is_by_deadline(void **state)
{
    (void)state;
    struct fleet_link links[64];
    struct fleet_queue q = FLEET_QUEUE_EMPTY;
    struct rnd r = {7};
    for (uint32_t i = 0; i < 64; i++) {
        links[i].deadline_ns = rnd_below(&r, 10);
        fleet_queue_add(&q, links, i);
    }
    uint32_t before = FLEET_NONE;
    for (int i = 0; i < 64; i++) {
        uint32_t now = fleet_queue_take(&q, links);
        if (before != FLEET_NONE) {
            assert_true(links[before].deadline_ns <= links[now].deadline_ns);
            if (links[before].deadline_ns == links[now].deadline_ns) assert_true(before < now);
        }
        before = now;
    }
    assert_int_equal(q.n, 0);
}

/* One GPU, a model on it, and requests that come 1 ms apart with deadlines of 20 ms. */
static struct fleet_central *central(struct fleet_state *s, struct fleet_link *links, bool deferred)
{
    struct fleet_central_options o = {deferred ? &fleet_deferred : &fleet_clockwork, deferred ? 0 : 5 * MS,
                                      0};
    static void *more;
    free(more);
    more = aligned_alloc(64, (fleet_central_size(&s->limits, 64) + 63) / 64 * 64);
    assert_non_null(more);
    uint32_t place = fleet_place_add(s, 0, 0, 0);
    fleet_place_move(s, place, FLEET_GPU, 0);
    return fleet_central_init(more, s, links, 64, &o);
}

static void test_clockwork_begins_at_once(void **state)
{
    (void)state;
    struct fleet_link links[64];
    struct fleet_central *c = central(make(1, 1), links, false);
    links[0].deadline_ns = 20 * MS;
    fleet_central_request(c, 0, 0, 0);
    assert_int_equal(fleet_central_step(c, 0, actions, MAX_ACTIONS), 1);
    assert_int_equal(actions[0].kind, FLEET_INFER);
    assert_int_equal(actions[0].batch, 1);
    assert_int_equal(actions[0].earliest_ns, 0);
    assert_int_equal(actions[0].latest_ns, 19 * MS);
}

static void test_deferred_begins_late(void **state)
{
    (void)state;
    struct fleet_link links[64];
    struct fleet_central *c = central(make(1, 1), links, true);
    for (uint32_t i = 0; i < 10; i++) {
        links[i].deadline_ns = 20 * MS + i * MS;
        fleet_central_request(c, i, 0, i * MS);
        assert_int_equal(fleet_central_step(c, i * MS, actions, MAX_ACTIONS), 0);
    }
    /* Ten take 2.8 ms and eleven 3: it begins 3 ms before the first deadline. */
    assert_int_equal(fleet_central_step(c, 17 * MS - 1, actions, MAX_ACTIONS), 0);
    assert_int_equal(fleet_central_step(c, 17 * MS, actions, MAX_ACTIONS), 1);
    assert_int_equal(actions[0].batch, 10);
    assert_int_equal(actions[0].latest_ns, 20 * MS - 2800000);
}

static void test_central_refuses_the_late(void **state)
{
    (void)state;
    for (int deferred = 0; deferred < 2; deferred++) {
        struct fleet_link links[64];
        struct fleet_central *c = central(make(1, 1), links, deferred);
        links[0].deadline_ns = MS / 2;
        fleet_central_request(c, 0, 0, 0);
        assert_int_equal(fleet_central_step(c, 0, actions, MAX_ACTIONS), 1);
        assert_int_equal(actions[0].kind, FLEET_REFUSE);
        assert_int_equal(actions[0].batch, 1);
    }
}

/* ---- the rules that both share ------------------------------------------------------------------------- */

static void request(struct fleet_central *c, struct fleet_link *links, uint32_t number, uint32_t model,
                    int64_t deadline)
{
    links[number].deadline_ns = deadline;
    fleet_central_request(c, number, model, 0);
}

static void test_the_most_urgent_batch_is_first(void **state)
{
    (void)state;
    for (uint32_t urgent = 0; urgent < 2; urgent++) {
        struct fleet_link links[64];
        struct fleet_state *s = make(1, 2);
        struct fleet_central *c = central(s, links, false);
        fleet_place_move(s, fleet_place_add(s, 0, 1, 0), FLEET_GPU, 0);
        request(c, links, 0, 0, urgent ? 20 * MS : 10 * MS);
        request(c, links, 1, 1, urgent ? 10 * MS : 20 * MS);
        assert_int_equal(fleet_central_step(c, 0, actions, MAX_ACTIONS), 2);
        assert_int_equal(actions[0].model, urgent);
        assert_int_equal(actions[1].earliest_ns, MS); /* when the first has ended */
    }
}

static void test_many_late_requests_need_several_refusals(void **state)
{
    (void)state;
    struct fleet_link links[64];
    struct fleet_central *c = central(make(1, 1), links, false);
    for (uint32_t i = 0; i < 40; i++) request(c, links, i, 0, MS / 2);
    assert_int_equal(fleet_central_step(c, 0, actions, MAX_ACTIONS), 3);
    for (uint32_t i = 0, next = 0; i < 3; i++) {
        assert_int_equal(actions[i].kind, FLEET_REFUSE);
        assert_int_equal(actions[i].batch, i < 2 ? FLEET_MAX_BATCH : 40 - 2 * FLEET_MAX_BATCH);
        for (uint32_t k = 0; k < actions[i].batch; k++) assert_int_equal(actions[i].request[k], next++);
    }
}

/* A worker that has more to do is not free when one of its batches ends early. */
static void test_a_worker_is_free_after_its_last_batch(void **state)
{
    (void)state;
    struct fleet_link links[64];
    struct fleet_state *s = make(1, 2);
    struct fleet_central *c = central(s, links, false);
    fleet_place_move(s, fleet_place_add(s, 0, 1, 0), FLEET_GPU, 0);
    request(c, links, 0, 0, 20 * MS);
    request(c, links, 1, 1, 20 * MS);
    assert_int_equal(fleet_central_step(c, 0, actions, MAX_ACTIONS), 2);
    fleet_central_ended(c, 0, actions[0].place, MS / 2);
    request(c, links, 2, 0, 20 * MS);
    assert_int_equal(fleet_central_step(c, MS / 2, actions, MAX_ACTIONS), 1);
    assert_int_equal(actions[0].earliest_ns, 2 * MS);
}

/* The way to the worker takes a millisecond. */
static void test_no_batch_begins_before_it_is_there(void **state)
{
    (void)state;
    struct fleet_link links[64];
    struct fleet_central *c = central(make(1, 1), links, false);
    c->o.hop_ns = MS;
    request(c, links, 0, 0, 20 * MS);
    assert_int_equal(fleet_central_step(c, 0, actions, MAX_ACTIONS), 1);
    assert_int_equal(actions[0].earliest_ns, MS);
    request(c, links, 1, 0, 3 * MS / 2); /* 2 ms from now it would end */
    assert_int_equal(fleet_central_step(c, 0, actions, MAX_ACTIONS), 1);
    assert_int_equal(actions[0].kind, FLEET_REFUSE);
}

static void test_give_up(void **state)
{
    (void)state;
    struct fleet_link links[64];
    struct fleet_state *s = make(1, 1);
    struct fleet_queue q = FLEET_QUEUE_EMPTY;
    const struct fleet_model *m = &s->models[0];
    assert_false(fleet_queue_give_up(&q, links, m, 0, 16));
    for (uint32_t i = 0; i < 8; i++) {
        links[i].deadline_ns = i ? 4 * MS : 6 * MS / 5; /* the head allows two, the others six */
        fleet_queue_add(&q, links, i);
        /* Only where more wait than the best batch has. */
        assert_int_equal(fleet_queue_give_up(&q, links, m, 0, 16), q.n > 6);
    }
    assert_false(fleet_queue_give_up(&q, links, m, 0, 2));      /* two are the most */
    assert_true(fleet_queue_give_up(&q, links, m, MS / 2, 16)); /* the head is too late */
}

/* ---- their own ----------------------------------------------------------------------------------------- */

static void test_clockwork_has_four_sizes(void **state)
{
    (void)state;
    struct fleet_link links[64];
    struct fleet_central *c = central(make(1, 1), links, false);
    for (uint32_t i = 0; i < 7; i++) request(c, links, i, 0, 20 * MS);
    assert_int_equal(fleet_central_step(c, 0, actions, MAX_ACTIONS), 3);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(actions[i].batch, 4 >> i);
}

static void test_clockwork_evicts_the_oldest_that_is_idle(void **state)
{
    (void)state;
    for (int asked = 0; asked < 2; asked++) {
        struct fleet_link links[64];
        struct fleet_state *s = make(1, 3);
        s->workers[0].gpu_pages = 20; /* two models */
        struct fleet_central *c = central(s, links, false);
        fleet_place_move(s, fleet_place_add(s, 0, 1, 0), FLEET_GPU, 0);
        s->places[fleet_place_find(s, 0, 0)].used_ns = 5 * MS;
        s->places[fleet_place_find(s, 0, 1)].used_ns = MS;
        if (asked) request(c, links, 0, 1, 20 * MS); /* the older one has a request */
        for (uint32_t i = 1; i < 20; i++) request(c, links, i, 2, 20 * MS);
        uint32_t n = fleet_clockwork_round(c, 6 * MS, actions, MAX_ACTIONS);
        assert_int_equal(kinds(n, FLEET_EVICT), 1);
        assert_int_equal(actions[0].model, asked ? 0 : 1);
        assert_int_equal(kinds(n, FLEET_LOAD), 1);
    }
}

static void test_a_full_batch_is_not_deferred(void **state)
{
    (void)state;
    struct fleet_link links[64];
    struct fleet_central *c = central(make(1, 1), links, true);
    for (uint32_t i = 0; i < 15; i++) request(c, links, i, 0, 1000 * MS);
    assert_int_equal(fleet_central_step(c, 0, actions, MAX_ACTIONS), 0);
    request(c, links, 15, 0, 1000 * MS);
    assert_int_equal(fleet_central_step(c, 0, actions, MAX_ACTIONS), 1);
    assert_int_equal(actions[0].batch, 16);
}

/* Once the head is given up, the rest is no batch that must begin: it waits for more. */
static void test_what_is_left_is_deferred_again(void **state)
{
    (void)state;
    struct fleet_link links[64];
    struct fleet_central *c = central(make(1, 1), links, true);
    for (uint32_t i = 0; i < 8; i++) request(c, links, i, 0, i ? 4 * MS : 6 * MS / 5);
    assert_int_equal(fleet_central_step(c, 0, actions, MAX_ACTIONS), 1);
    assert_int_equal(actions[0].kind, FLEET_REFUSE);
    assert_int_equal(actions[0].batch, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue_is_by_deadline),
        cmocka_unit_test(test_clockwork_begins_at_once),
        cmocka_unit_test(test_deferred_begins_late),
        cmocka_unit_test(test_central_refuses_the_late),
        cmocka_unit_test(test_the_most_urgent_batch_is_first),
        cmocka_unit_test(test_many_late_requests_need_several_refusals),
        cmocka_unit_test(test_a_worker_is_free_after_its_last_batch),
        cmocka_unit_test(test_no_batch_begins_before_it_is_there),
        cmocka_unit_test(test_give_up),
        cmocka_unit_test(test_clockwork_has_four_sizes),
        cmocka_unit_test(test_clockwork_evicts_the_oldest_that_is_idle),
        cmocka_unit_test(test_a_full_batch_is_not_deferred),
        cmocka_unit_test(test_what_is_left_is_deferred_again),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(memory);
    return failed;
}
