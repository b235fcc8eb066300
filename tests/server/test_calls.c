/* SPDX-License-Identifier: Apache-2.0 */
/* Inferences asked for from inside the process (src/server/worker/call.h), of a worker that echoes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "src/server/worker/calls.h"
#include "src/server/worker/worker.h"

enum { OWN = 2, SLOTS = 4, ALL = OWN * SLOTS, SHARE = ALL - ALL / 4, FLOATS = 64 };
#define PATIENCE 60000000000u

static struct gw_exec *device_exec;
static struct gw_device *device;
static struct gw_worker *worker;
static struct gw_calls *calls;

static int begin(void **state)
{
    (void)state;
    static char path[512];
    struct gw_repository_entry entry = {.name = "echo", .version = 1, .path = path};
    struct gw_worker_opts opts = {
        .sessions = 1, .slots = SLOTS, .threads = 1, .memory = 1u << 30, .own_sessions = OWN};
    snprintf(path, sizeof(path), "%s/tests/server/models/echo/1/model.onnx", getenv("GPUWIRE_SOURCE"));
    assert_int_equal(gw_exec_create("cpu", NULL, &device_exec), 0);
    assert_int_equal(gw_device_open("softnic", device_exec, &device), 0);
    opts.exec = device_exec;
    opts.dev = opts.own_dev = device;
    assert_int_equal(gw_worker_create(&entry, &opts, &worker), 0);
    assert_int_equal(gw_worker_start(worker), 0);
    calls = gw_worker_calls(worker);
    return 0;
}

static int end(void **state)
{
    (void)state;
    uint64_t ns;
    gw_worker_stop_soon(worker);
    assert_int_equal(gw_worker_stop(worker, gw_deadline(PATIENCE), &ns), 0);
    assert_int_equal(gw_worker_destroy(worker), 0);
    assert_int_equal(gw_device_close(device), 0);
    gw_exec_destroy(device_exec);
    return 0;
}

static struct gw_call *take(const char *who)
{
    struct gw_call *call = NULL;
    assert_int_equal(gw_call_take(calls, who, gw_deadline(PATIENCE), &call), 0);
    return call;
}

static void fill(struct gw_call *call, float first)
{
    uint64_t bytes;
    float *in = gw_call_input(call, 0, 1, &bytes);
    assert_int_equal(bytes, FLOATS * sizeof(float));
    for (int i = 0; i < FLOATS; i++) in[i] = first + (float)i;
}

static void check(struct gw_call *call, float first)
{
    uint64_t bytes;
    assert_int_equal(call->error, 0);
    const float *out = gw_call_output(call, 0, &bytes);
    assert_int_equal(bytes, FLOATS * sizeof(float));
    for (int i = 0; i < FLOATS; i++) assert_true(out[i] == first + (float)i);
}

static void ask_once(float first)
{
    struct gw_call *call = take("user 1");
    fill(call, first);
    assert_int_equal(gw_call_submit(call, &(struct gw_call_ask){.rows = 1}), 0);
    assert_int_equal(gw_call_wait(call, gw_deadline(PATIENCE)), 0);
    check(call, first);
    gw_call_give(call);
}

static void answers_are_those_of_their_requests(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) ask_once((float)(100 * i));
    assert_int_equal(gw_calls_taken(calls), 0);
    struct gw_call *call = take("user 1");
    assert_int_equal(gw_call_submit(call, &(struct gw_call_ask){.rows = 2}), -EINVAL);
    assert_int_equal(gw_call_submit(call, &(struct gw_call_ask){.rows = 0}), -EINVAL);
    gw_call_give(call);
}

static sem_t ended;
static void on_end(void *ctx, struct gw_call *call)
{
    assert_ptr_equal(ctx, call);
    sem_post(&ended);
}

static void one_client_leaves_some_for_others(void **state)
{
    (void)state;
    struct gw_call *of[ALL], *more;
    sem_init(&ended, 0, 0);
    for (int i = 0; i < SHARE; i++) of[i] = take("user 1");
    assert_int_equal(gw_call_take(calls, "user 1", 0, &more), -EAGAIN);
    assert_int_equal(gw_call_take(calls, "user 1", gw_deadline(20000000), &more), -ETIMEDOUT);
    for (int i = SHARE; i < ALL; i++) of[i] = take("user 2");
    assert_int_equal(gw_call_take(calls, "user 3", 0, &more), -EAGAIN);
    for (int i = 0; i < ALL; i++) {
        struct gw_call_ask ask = {.rows = 1, .done = on_end, .ctx = of[i]};
        fill(of[i], (float)(1000 * i));
        assert_int_equal(gw_call_submit(of[i], &ask), 0);
    }
    for (int i = 0; i < ALL; i++) sem_wait(&ended);
    for (int i = 0; i < ALL; i++) {
        check(of[i], (float)(1000 * i));
        gw_call_give(of[i]);
    }
    sem_destroy(&ended);
    assert_int_equal(gw_calls_taken(calls), 0);
}

static void an_abandoned_call_is_free_when_it_has_ended(void **state)
{
    (void)state;
    uint64_t end = gw_deadline(PATIENCE);
    for (int i = 0; i < 50; i++) {
        struct gw_call *call = take("user 1");
        fill(call, 5);
        assert_int_equal(gw_call_submit(call, &(struct gw_call_ask){.rows = 1}), 0);
        gw_call_give(call);
    }
    while (gw_calls_taken(calls) && gw_deadline(0) < end) usleep(1000);
    assert_int_equal(gw_calls_taken(calls), 0);
}

/* The first one keeps the model busy for the length of a batch; those after it are taken back. */
static void a_call_that_is_taken_back_does_not_run(void **state)
{
    struct gw_serve_counters before, after;
    struct gw_serve_variant_counters v[GW_SERVE_VARIANTS];
    struct gw_call_ask ask = {.rows = 1, .flags = GW_SERVE_RECALL};
    uint32_t ran = 0, rounds = 0;
    (void)state;
    gw_session_pool_counters(gw_worker_sessions(worker), &before, v);
    while (ran == rounds * SHARE && rounds < 200) { /* until one was in time */
        struct gw_call *of[SHARE];
        for (int i = 0; i < SHARE; i++) fill(of[i] = take("user 1"), (float)i);
        for (int i = 0; i < SHARE; i++) assert_int_equal(gw_call_submit(of[i], &ask), 0);
        for (int i = SHARE - 1; i >= 0; i--) assert_int_equal(gw_call_cancel(of[i]), 0);
        for (int i = 0; i < SHARE; i++) {
            assert_int_equal(gw_call_wait(of[i], gw_deadline(PATIENCE)), 0);
            assert_true(!of[i]->error || of[i]->error == -ECANCELED);
            ran += !of[i]->error;
            gw_call_give(of[i]);
        }
        rounds++;
    }
    assert_true(ran < rounds * SHARE);
    gw_session_pool_counters(gw_worker_sessions(worker), &after, v);
    assert_int_equal(after.successes - before.successes, ran);
    for (int i = 0; i < 20; i++) ask_once((float)i); /* what was taken back is not the next one */
}

/* Their sessions end at the worker. Requests in that time are lost; then there are new sessions. */
static void broken_sessions_are_opened_again(void **state)
{
    (void)state;
    struct gw_session_pool *pool = gw_worker_sessions(worker);
    uint64_t end = gw_deadline(PATIENCE);
    struct gw_call *lost = take("user 1");
    for (uint32_t i = 0; i < OWN; i++) gw_session_close(pool, i);
    fill(lost, 1);
    int error = gw_call_submit(lost, &(struct gw_call_ask){.rows = 1});
    if (!error) {
        assert_int_equal(gw_call_wait(lost, end), 0);
        error = lost->error;
    }
    assert_int_equal(error, -EIO);
    gw_call_give(lost);
    for (int i = 0; i < 20; i++) {
        struct gw_call *call = NULL;
        do {
            gw_session_pool_tend(pool); /* as the server's housekeeper does */
            error = gw_call_take(calls, "user 1", gw_deadline(10000000), &call);
        } while (error && gw_deadline(0) < end);
        assert_int_equal(error, 0);
        fill(call, (float)i);
        assert_int_equal(gw_call_submit(call, &(struct gw_call_ask){.rows = 1}), 0);
        assert_int_equal(gw_call_wait(call, end), 0);
        if (call->error) assert_int_equal(call->error, -EIO); /* the other session */
        if (!call->error) check(call, (float)i);
        gw_call_give(call);
    }
    ask_once(77);
}

/* A caller that reaches the worker's slots sends the header alone. */
static void tensors_lie_in_the_workers_slot(void **state)
{
    uint8_t *in, *out;
    struct gw_call_ask ask = {.rows = 1, .flags = GW_SERVE_PLACED | GW_SERVE_STAY};
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct gw_call *call = take("user 1");
        assert_int_equal(gw_call_submit(call, &ask), -EIO); /* nothing has been placed */
        assert_int_equal(gw_call_enter_slot(call, &in, &out), 0);
        memset(out, 0xff, FLOATS * sizeof(float));
        for (int i = 0; i < FLOATS; i++) ((float *)in)[i] = (float)(round * 1000 + i);
        gw_call_leave_slot(call);
        fill(call, -1); /* what its own memory has does not count */
        assert_int_equal(gw_call_submit(call, &ask), 0);
        assert_int_equal(gw_call_wait(call, gw_deadline(PATIENCE)), 0);
        assert_int_equal(call->error, 0);
        assert_int_equal(call->reply->bytes, 0);
        assert_int_equal(gw_call_enter_slot(call, &in, &out), 0);
        for (int i = 0; i < FLOATS; i++) assert_true(((float *)out)[i] == (float)(round * 1000 + i));
        gw_call_leave_slot(call);
        gw_call_give(call);
    }
    struct gw_call *call = take("user 1");
    fill(call, 3);
    assert_int_equal(gw_call_submit(call, &(struct gw_call_ask){.rows = 1, .flags = 8}), 0);
    assert_int_equal(gw_call_wait(call, gw_deadline(PATIENCE)), 0);
    assert_int_equal(call->error, -EINVAL); /* the worker knows no such flag */
    gw_call_give(call);
    ask_once(8);
}

static int is_broken(const struct gw_lane *lane)
{
    pthread_mutex_lock(&calls->lock);
    int broken = lane->life == LANE_BROKEN;
    pthread_mutex_unlock(&calls->lock);
    return broken;
}

/* A session that breaks stays open while a caller is in its slots. The next session refuses to run on inputs
 * that were placed in the last one's. */
static void placed_inputs_go_with_their_session(void **state)
{
    uint8_t *in, *out;
    uint64_t end = gw_deadline(PATIENCE);
    struct gw_call *placed = take("user 1");
    struct gw_lane *lane = ((struct gw_slot *)placed)->lane;
    (void)state;
    assert_int_equal(gw_call_enter_slot(placed, &in, &out), 0);
    gw_calls_break_lane(calls, lane);
    usleep(100000);
    assert_true(is_broken(lane));
    assert_int_equal(gw_call_enter_slot(placed, &in, &out), -EIO); /* no other thread comes in */
    gw_call_leave_slot(placed);
    while (is_broken(lane) && gw_deadline(0) < end) usleep(1000);
    assert_false(is_broken(lane));
    do { /* as a caller that finds no call */
        gw_session_pool_tend(gw_worker_sessions(worker));
        lane->life = LANE_OPENING;
    } while (gw_calls_open_lane(calls, lane) && gw_deadline(0) < end);
    assert_int_equal(lane->life, LANE_OPEN);
    assert_int_equal(gw_call_submit(placed, &(struct gw_call_ask){.rows = 1, .flags = GW_SERVE_PLACED}),
                     -EIO);
    gw_call_give(placed);
    ask_once(9);
}

static void nothing_is_taken_after_the_end(void **state)
{
    (void)state;
    struct gw_call *call = take("user 1"), *more;
    gw_calls_close(calls, gw_deadline(1000000));
    assert_int_equal(gw_call_submit(call, &(struct gw_call_ask){.rows = 1}), -ESHUTDOWN);
    assert_int_equal(gw_call_take(calls, "user 1", gw_deadline(PATIENCE), &more), -ESHUTDOWN);
    gw_call_give(call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_their_requests),
        cmocka_unit_test(one_client_leaves_some_for_others),
        cmocka_unit_test(a_call_that_is_taken_back_does_not_run),
        cmocka_unit_test(an_abandoned_call_is_free_when_it_has_ended),
        cmocka_unit_test(tensors_lie_in_the_workers_slot),
        cmocka_unit_test(broken_sessions_are_opened_again),
        cmocka_unit_test(placed_inputs_go_with_their_session),
        cmocka_unit_test(nothing_is_taken_after_the_end),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
