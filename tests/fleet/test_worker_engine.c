/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated engine by itself: order, batches, times and pages; and the files that profiles come from. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <gpuwire/error.h>

#include "src/fleet/plan/plan.h"
#include "src/fleet/worker/emulated.h"
#include "src/server/wire/wire.h"
#include "tests/fleet/worker_profile.h"

enum { CALLS = 256 };

static struct fleet_loop *loop;
static struct fleet_zoo *zoo;
static struct fleet_engine *engine;
static struct fleet_call call[CALLS];
static uint64_t order[CALLS]; /* ids in the order of their answers */
static uint32_t answered, moved;

static void call_done(struct fleet_call *c)
{
    order[answered++ % CALLS] = c->answer.id;
}

static void move_done(struct fleet_move *m)
{
    (void)m;
    moved++;
}

static struct fleet_move move(uint32_t kind, uint32_t model)
{
    return (struct fleet_move){.done = move_done, .kind = kind, .model = model, .latest_at = INT64_MAX};
}

static void lease(uint32_t number, uint32_t model, uint32_t slots, uint32_t max_batch)
{
    struct fleet_lease l = {
        .lease = number, .model = model, .key = 1 + number, .slots = slots, .max_batch = max_batch};
    assert_int_equal(engine->ops->lease(engine, &l, INT64_MAX), 0);
}

static void submit(uint32_t id, uint32_t number, uint32_t rows, uint64_t budget_ns, uint32_t priority)
{
    struct fleet_call *c = &call[id];
    *c = (struct fleet_call){.done = call_done,
                             .request = {.lease = number,
                                         .key = 1 + number,
                                         .id = id,
                                         .rows = rows,
                                         .budget_ns = budget_ns,
                                         .priority = priority,
                                         .bytes = 64 * rows},
                             .arrived_at = fleet_loop_now(loop)};
    engine->ops->submit(engine, c);
}

static void run_until(const uint32_t *what, uint32_t n)
{
    for (int64_t end = rig_now() + 10 * SECOND; *what < n;) {
        if (rig_now() > end) fail_msg("%u, not %u", *what, n);
        fleet_loop_run(loop, rig_now() + MS / 5);
    }
}

static int start(void **state)
{
    (void)state;
    assert_int_equal(fleet_loop_create(&loop), 0);
    assert_int_equal(fleet_zoo_create(4, &rig_profile, &zoo), 0);
    struct fleet_emulated_opts o = {
        .loop = loop, .zoo = zoo, .gpu_pages = 4, .host_pages = 8, .slots = 1024, .leases = 8};
    assert_int_equal(fleet_emulated_create(&o, &engine), 0);
    fleet_loop_run(loop, rig_now());
    answered = moved = 0;
    struct fleet_move m[] = {move(FLEET_LOAD, 0), move(FLEET_LOAD, 1)};
    engine->ops->move(engine, &m[0]);
    engine->ops->move(engine, &m[1]);
    run_until(&moved, 2);
    assert_int_equal(m[1].result.outcome, FLEET_DONE);
    assert_true(m[1].result.began_at >= m[0].result.ended_at); /* one copy at a time */
    return 0;
}

static int stop(void **state)
{
    (void)state;
    engine->ops->stop(engine);
    engine->ops->destroy(engine);
    fleet_zoo_destroy(zoo);
    fleet_loop_destroy(loop);
    return 0;
}

static void test_batches(void **state)
{
    (void)state;
    lease(0, 0, 200, 0);
    for (uint32_t i = 0; i < 40; i++) submit(i, 0, 1, 0, 0);
    run_until(&answered, 40);
    assert_int_equal(call[0].answer.batch, 1); /* it began at once */
    for (uint32_t i = 1; i < 33; i++) assert_int_equal(call[i].answer.batch, 16);
    for (uint32_t i = 33; i < 40; i++) assert_int_equal(call[i].answer.batch, 7);
    int64_t took = call[1].answer.done_at - call[1].answer.started_at;
    assert_true(took > 15 * MS / 10 && took < 25 * MS / 10);
    assert_int_equal(call[1].answer.started_at, call[0].answer.done_at); /* no pause between batches */
}

static void test_lease_limits_batches(void **state)
{
    (void)state;
    lease(0, 0, 200, 4);
    lease(1, 1, 200, 0);
    for (uint32_t i = 0; i < 9; i++) submit(i, 0, 1, 0, 0);
    for (uint32_t i = 9; i < 26; i++) submit(i, 1, 1, 0, 0);
    submit(30, 0, 5, 0, 0); /* larger than the lease's batches */
    assert_int_equal(call[30].answer.status, GW_SERVE_OVER_BUDGET);
    run_until(&answered, 27);
    for (uint32_t i = 1; i < 9; i++) assert_int_equal(call[i].answer.batch, 4);
    for (uint32_t i = 9; i < 25; i++) assert_int_equal(call[i].answer.batch, 16);
}

/* The deadline comes first, before it the priority; requests of one model go together. */
static void test_order(void **state)
{
    (void)state;
    lease(0, 0, 200, 1);
    submit(0, 0, 1, 0, 0);
    submit(1, 0, 1, 0, 0);
    submit(2, 0, 1, 900 * MS, 0);
    submit(3, 0, 1, 500 * MS, 0);
    submit(4, 0, 1, 700 * MS, 0);
    submit(5, 0, 1, 0, 1);
    run_until(&answered, 6);
    static const uint64_t due[] = {0, 5, 3, 4, 2, 1};
    assert_memory_equal(order, due, sizeof(due));
}

static void test_late(void **state)
{
    (void)state;
    lease(0, 0, 200, 1);
    for (uint32_t i = 0; i < 10; i++) submit(i, 0, 1, 0, 0);
    /* Behind the one that runs, before those without a deadline. */
    submit(10, 0, 1, 50 * MS, 0);
    assert_int_equal(answered, 0);
    submit(11, 0, 1, 15 * MS / 10, 0); /* what runs, and its own time, are more than that */
    assert_int_equal(answered, 1);
    assert_int_equal(call[11].answer.status, GW_SERVE_LATE);
    assert_true(call[11].answer.retry_ns > 0 && call[11].answer.retry_ns < 3 * MS);
    run_until(&answered, 12);
    assert_int_equal(call[10].answer.status, GW_SERVE_OK);
}

static void test_evict(void **state)
{
    (void)state;
    lease(0, 0, 200, 1);
    for (uint32_t i = 0; i < 3; i++) submit(i, 0, 1, 0, 0);
    struct fleet_move out = move(FLEET_DROP, 0), in = move(FLEET_LOAD, 2), twice = move(FLEET_EVICT, 0);
    engine->ops->move(engine, &out);
    engine->ops->move(engine, &in);
    engine->ops->move(engine, &twice);
    assert_int_equal(answered, 2); /* those that waited */
    assert_int_equal(call[1].answer.status, GW_SERVE_NOT_THERE);
    assert_int_equal(moved - 2, 1); /* the one that makes no sense now */
    assert_int_equal(twice.result.outcome, FLEET_BAD);
    run_until(&moved, 5);
    assert_int_equal(call[0].answer.status, GW_SERVE_OK); /* the one that ran */
    assert_int_equal(out.result.outcome, FLEET_DONE);
    assert_true(out.result.ended_at >= call[0].answer.done_at);
    assert_int_equal(in.result.outcome, FLEET_DONE);
    assert_true(in.result.began_at >= out.result.ended_at);
    struct fleet_telemetry t = {0};
    struct fleet_telemetry_model m[4];
    assert_int_equal(engine->ops->telemetry(engine, &t, m, 4), 1);
    assert_int_equal(m[0].requests, 3);
    assert_int_equal(m[0].refused, 2);
    assert_int_equal(t.gpu_used, 4);
    assert_int_equal(t.host_used, 6);
    assert_int_equal(engine->ops->telemetry(engine, &t, m, 4), 0); /* nothing new */
}

/* A lease's number comes back with another key. */
static void test_lease_replaced(void **state)
{
    (void)state;
    lease(0, 0, 200, 1);
    for (uint32_t i = 0; i < 3; i++) submit(i, 0, 1, 0, 0);
    struct fleet_lease l = {.lease = 0, .model = 0, .key = 99, .slots = 2};
    assert_int_equal(engine->ops->lease(engine, &l, INT64_MAX), 0);
    submit(3, 0, 1, 0, 0);
    assert_int_equal(call[3].answer.status, GW_SERVE_NO_LEASE);
    run_until(&answered, 4);
    assert_int_equal(call[0].answer.status, GW_SERVE_OK);
    assert_int_equal(call[1].answer.status, GW_SERVE_NO_LEASE);
    assert_int_equal(call[2].answer.status, GW_SERVE_NO_LEASE);
    assert_true(engine->ops->idle(engine));
}

static void test_recall(void **state)
{
    (void)state;
    lease(0, 0, 200, 1);
    for (uint32_t i = 0; i < 3; i++) submit(i, 0, 1, 0, 0);
    engine->ops->recall(engine, &call[1]);
    run_until(&answered, 3);
    assert_int_equal(call[1].answer.status, GW_SERVE_RECALLED);
    assert_int_equal(call[2].answer.status, GW_SERVE_OK);
}

static void test_stops_at_work(void **state)
{
    (void)state;
    lease(0, 0, 200, 1);
    for (uint32_t i = 0; i < 5; i++) submit(i, 0, 1, 0, 0);
    static struct fleet_move out, in;
    out = move(FLEET_EVICT, 0);
    in = move(FLEET_LOAD, 2);
    engine->ops->move(engine, &out);
    engine->ops->move(engine, &in);
    engine->ops->stop(engine);
    assert_int_equal(answered, 5);
    assert_int_equal(moved, 4);
    assert_int_equal(call[0].answer.status, GW_SERVE_CLOSING);
    assert_int_equal(in.result.outcome, FLEET_BROKEN);
}

static void test_profiles(void **state)
{
    (void)state;
    struct fleet_profile p;
    static const struct {
        const char *text;
        int err;
    } files[] = {
        {"# measured\nname cat\nexec_ns 1 2 3 4 5\nspread_ns 1\n\npages 3\n", 0},
        {"exec_ns 1 2 3 4\n", -EINVAL},
        {"exec_ns 5 4 3 2 1\nspread_ns 0\n", -EINVAL},
        {"exec_ns 0 2 3 4 5\nspread_ns 0\n", -EINVAL},
        {"pages -1\n", -EINVAL},
        {"pages 4 5\n", -EINVAL},
        {"pages\n", -EINVAL},
        {"sizes 4\n", -EINVAL},
        {"pages 99999999999999999999\n", -EINVAL},
        {"request_bytes 3\n", -EINVAL},
        {"name a-name-that-is-much-too-long-for-the-field\n", -EINVAL},
        {"spread_ns 99999999999\n", -EINVAL},
    };
    assert_int_equal(fleet_profile_read("resnet50-v100", &p), 0);
    assert_string_equal(p.name, "resnet50");
    assert_int_equal(fleet_profile_exec(&p, 1), 2730000);
    assert_int_equal(fleet_profile_exec(&p, 3), fleet_profile_exec(&p, 4));
    assert_int_equal(fleet_profile_read("/no/such/file", &p), -ENOENT);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[] = "/tmp/profileXXXXXX";
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, files[i].text, strlen(files[i].text)), strlen(files[i].text));
        close(fd);
        int err = fleet_profile_read(path, &p);
        unlink(path);
        if (err != files[i].err) fail_msg("%s: %d %s", files[i].text, err, gw_last_error());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_batches, start, stop),
        cmocka_unit_test_setup_teardown(test_lease_limits_batches, start, stop),
        cmocka_unit_test_setup_teardown(test_order, start, stop),
        cmocka_unit_test_setup_teardown(test_late, start, stop),
        cmocka_unit_test_setup_teardown(test_evict, start, stop),
        cmocka_unit_test_setup_teardown(test_lease_replaced, start, stop),
        cmocka_unit_test_setup_teardown(test_recall, start, stop),
        cmocka_unit_test_setup_teardown(test_stops_at_work, start, stop),
        cmocka_unit_test(test_profiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
