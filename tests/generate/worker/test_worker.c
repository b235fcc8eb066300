/* SPDX-License-Identifier: Apache-2.0 */
/* A generator and its client in one process: streams come, go, are taken back and let go of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "tests/generate/worker/rig.h"

#define STREAMS 64

static void a_stream_has_the_networks_tokens(uint32_t lanes)
{
    struct rig r;
    struct told t;
    rig_begin(&r, lanes, (struct gen_worker_opts){0});
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(told_submit(&r, &t, i, 1 + 15 * i, 20, "user 1"), 0);
        assert_int_equal(told_wait(&r, &t), GEN_LENGTH);
        assert_int_equal(t.n, t.prompt + 20);
    }
    rig_calm(&r);
    rig_end(&r);
}

static void one_stream(void **state)
{
    (void)state;
    a_stream_has_the_networks_tokens(1);
}
static void one_stream_4(void **state)
{
    (void)state;
    a_stream_has_the_networks_tokens(4);
}
static void one_stream_32(void **state)
{
    (void)state;
    a_stream_has_the_networks_tokens(32);
}

static void refused_before_they_are_sent(void **state)
{
    (void)state;
    struct rig r;
    struct told t;
    rig_begin(&r, 1, (struct gen_worker_opts){0});
    assert_int_equal(told_submit(&r, &t, 1, 0, 5, ""), -EINVAL);
    assert_int_equal(told_submit(&r, &t, 1, 5, 0, ""), -EINVAL);
    assert_int_equal(told_submit(&r, &t, 1, 5, 1000000, ""), -EINVAL);
    assert_int_equal(told_submit(&r, &t, 1, RIG_CONTEXT - 5, 6, ""), -EINVAL);
    assert_int_equal(told_submit(&r, &t, 1, RIG_CONTEXT - 5, 5, ""), 0);
    assert_int_equal(told_wait(&r, &t), GEN_LENGTH);
    rig_end(&r);
}

/* Some are read to their end, some are cancelled, some are let go of while they run. */
static void come_and_go(uint32_t threads, int rounds)
{
    struct rig r;
    static struct told t[STREAMS];
    rig_begin(&r, threads, (struct gen_worker_opts){.lanes = 8, .cache_bytes = 40 * 128});
    rig_slow(&r, 100);
    for (int round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < STREAMS; i++)
            assert_int_equal(told_submit(&r, &t[i], i % 7, 1 + i % RIG_PROMPT, 1 + i, i % 2 ? "a" : "b"), 0);
        for (uint32_t i = 0; i < STREAMS; i += 3) r.source.ops->cancel(t[i].stream);
        for (uint32_t i = 1; i < STREAMS; i += 3) r.source.ops->release(t[i].stream);
        for (uint32_t i = 0; i < STREAMS; i++) {
            if (i % 3 == 1) continue;
            uint32_t status = told_wait(&r, &t[i]);
            assert_true(status == GEN_LENGTH || (i % 3 == 0 && status == GEN_CANCELLED));
        }
        rig_calm(&r);
    }
    rig_end(&r);
}

static void many_streams_come_and_go(void **state)
{
    (void)state;
    come_and_go(1, 6);
}
static void many_streams_4(void **state)
{
    (void)state;
    come_and_go(4, 2);
}
static void many_streams_32(void **state)
{
    (void)state;
    come_and_go(32, 1);
}

static void shares_of_slots(void **state)
{
    (void)state;
    struct rig r;
    static struct told t[8], more;
    rig_begin(&r, 1, (struct gen_worker_opts){.slots = 8, .own_sessions = 1});
    rig_slow(&r, 2000);
    for (uint32_t i = 0; i < 6; i++) assert_int_equal(told_submit(&r, &t[i], i, 4, 100, "user 1"), 0);
    struct gen_source_ask ask = {.request = {.prompt = 1, .max_tokens = 1, .top_p = 1, .repetition = 1},
                                 .prompt = more.token,
                                 .who = "user 1"};
    assert_int_equal(r.source.ops->submit(r.source.own, &ask, &more.stream), -EDQUOT);
    for (uint32_t i = 6; i < 8; i++) assert_int_equal(told_submit(&r, &t[i], i, 4, 100, "user 2"), 0);
    ask.who = "user 3";
    assert_int_equal(r.source.ops->submit(r.source.own, &ask, &more.stream), -EAGAIN);
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(told_wait(&r, &t[i]), GEN_LENGTH);
    rig_calm(&r);
    rig_end(&r);
}

static void steps_that_fail_end_their_requests(void **state)
{
    (void)state;
    struct rig r;
    struct told t;
    rig_begin(&r, 1, (struct gen_worker_opts){0});
    __atomic_store_n(&r.net.fail, 1, __ATOMIC_RELAXED);
    assert_int_equal(told_submit(&r, &t, 1, 5, 5, ""), 0);
    assert_int_equal(told_wait(&r, &t), GEN_FAILED);
    __atomic_store_n(&r.net.fail, 0, __ATOMIC_RELAXED);
    assert_int_equal(told_submit(&r, &t, 1, 5, 5, ""), 0);
    assert_int_equal(told_wait(&r, &t), GEN_LENGTH);
    rig_end(&r);
}

/* Requests go on where they were when the loop starts again. */
static void stopped_and_started_again(void **state)
{
    (void)state;
    struct rig r;
    static struct told t[16];
    rig_begin(&r, 1, (struct gen_worker_opts){.lanes = 4});
    rig_slow(&r, 200);
    for (uint32_t i = 0; i < 16; i++) assert_int_equal(told_submit(&r, &t[i], i, 9, 60, ""), 0);
    for (int k = 0; k < 4; k++) {
        usleep(5000);
        assert_int_equal(gen_worker_stop(r.worker, gw_deadline(PATIENCE)), 0);
        assert_int_equal(gen_worker_start(r.worker), 0);
    }
    for (uint32_t i = 0; i < 16; i++) assert_int_equal(told_wait(&r, &t[i]), GEN_LENGTH);
    rig_end(&r);
}

static void drained(void **state)
{
    (void)state;
    struct rig r;
    static struct told t[8];
    rig_begin(&r, 1, (struct gen_worker_opts){.lanes = 2});
    rig_slow(&r, 1000);
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(told_submit(&r, &t[i], i, 4, 100, ""), 0);
    while (!told_events(&t[0]) || !told_events(&t[1])) usleep(1000);
    gen_worker_close(r.worker, 1);
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(told_wait(&r, &t[i]), i < 2 ? GEN_LENGTH : GEN_CLOSING);
    assert_int_equal(told_submit(&r, &t[0], 1, 4, 100, ""), 0);
    assert_int_equal(told_wait(&r, &t[0]), GEN_CLOSING);
    rig_end(&r);
}

/* Cuts off every session of the own client. */
static void break_own_sessions(struct rig *r)
{
    struct gen_pool *pool = gen_worker_pool(r->worker);
    for (struct gen_grant g = {0}; g.index < 2; g.index++)
        for (g.life = 1; g.life < 100; g.life++) gen_pool_close(pool, &g);
}

/* Requests that have had a token end; those that have had none are sent once more in another session. */
static void sessions_that_break(void **state)
{
    (void)state;
    struct rig r;
    static struct told t[12];
    uint32_t failed = 0;
    rig_begin(&r, 1, (struct gen_worker_opts){.lanes = 2});
    rig_slow(&r, 5000);
    for (uint32_t i = 0; i < 12; i++) assert_int_equal(told_submit(&r, &t[i], i, 9, 100, ""), 0);
    while (!told_events(&t[0])) usleep(1000);
    break_own_sessions(&r);
    rig_slow(&r, 0);
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t status = told_wait(&r, &t[i]);
        assert_true(status == GEN_LENGTH || (status == GEN_FAILED && t[i].events > 1));
        failed += status == GEN_FAILED;
    }
    assert_in_range(failed, 1, 4);
    rig_calm(&r);
    rig_end(&r);
}

static uint64_t cpu_ns(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
}

static void sleeps_when_idle(void **state)
{
    (void)state;
    struct rig r;
    struct told t;
    rig_begin(&r, 1, (struct gen_worker_opts){0});
    assert_int_equal(told_submit(&r, &t, 1, 4, 100, ""), 0);
    assert_int_equal(told_wait(&r, &t), GEN_LENGTH);
    rig_calm(&r);
    uint64_t before = cpu_ns();
    sleep(1);
    assert_true(cpu_ns() - before < 200000000u);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stream),
        cmocka_unit_test(one_stream_4),
        cmocka_unit_test(one_stream_32),
        cmocka_unit_test(refused_before_they_are_sent),
        cmocka_unit_test(many_streams_come_and_go),
        cmocka_unit_test(many_streams_4),
        cmocka_unit_test(many_streams_32),
        cmocka_unit_test(shares_of_slots),
        cmocka_unit_test(steps_that_fail_end_their_requests),
        cmocka_unit_test(stopped_and_started_again),
        cmocka_unit_test(drained),
        cmocka_unit_test(sessions_that_break),
        cmocka_unit_test(sleeps_when_idle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
