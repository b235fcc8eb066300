/* SPDX-License-Identifier: Apache-2.0 */
/* The unkind network, on virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "softnic/wire/fault.h"

enum { FRAMES = 100000, LEN = 64 };
static const uint8_t peer[16] = {[15] = 9};

/* What arrived: numbers in order, and when. */
static struct {
    uint32_t n, seen[2 * FRAMES], damaged, full;
    uint64_t now, latest;
} got;

static bool arrive(void *ctx, const uint8_t to[16], const void *frame, uint32_t len)
{
    const uint8_t *p = frame;
    uint32_t number;

    (void)ctx;
    if (got.full) {
        got.full--;
        return false;
    }
    assert_memory_equal(to, peer, 16);
    assert_int_equal(len, LEN);
    memcpy(&number, p, 4);
    for (int i = 4; i < LEN; i++) {
        if (p[i] == (uint8_t)(number + (uint32_t)i)) continue;
        got.damaged++;
        return true;
    }
    if (number >= FRAMES) {
        got.damaged++;
        return true;
    }
    got.seen[got.n++] = number;
    return true;
}

static struct sn_fault *send_all(const struct sn_fault_params *params, uint64_t seed)
{
    struct sn_fault *f = sn_fault_new(params, seed, arrive, NULL);
    uint8_t frame[LEN];

    assert_non_null(f);
    memset(&got, 0, sizeof(got));
    for (uint32_t number = 0; number < FRAMES; number++) {
        memcpy(frame, &number, 4);
        for (int i = 4; i < LEN; i++) frame[i] = (uint8_t)(number + (uint32_t)i);
        assert_true(sn_fault_send(f, got.now += 1000, peer, frame, LEN));
    }
    while (sn_fault_next(f) != UINT64_MAX) {
        got.now = sn_fault_next(f);
        sn_fault_run(f, got.now);
    }
    return f;
}

static void about(uint64_t n, double p)
{
    double want = p * FRAMES;

    if ((double)n < want * 0.9 || (double)n > want * 1.1)
        fail_msg("%lu of %d, wanted about %g", (unsigned long)n, FRAMES, want);
}

static void a_kind_network_changes_nothing(void **state)
{
    struct sn_fault_params none = {0};
    struct sn_fault *f = send_all(&none, 1);

    (void)state;
    assert_false(sn_fault_any(&none));
    assert_int_equal(got.n, FRAMES);
    for (uint32_t i = 0; i < FRAMES; i++) assert_int_equal(got.seen[i], i);
    assert_int_equal(sn_fault_stats(f)->passed, FRAMES);
    sn_fault_free(f);
}

static void frames_are_lost_and_doubled_as_often_as_told(void **state)
{
    struct sn_fault_params params = {.loss = 0.1, .dup = 0.05};
    struct sn_fault *f = send_all(&params, 2);
    const struct sn_fault_stats *s = sn_fault_stats(f);

    (void)state;
    about(s->lost, 0.1);
    about(s->doubled, 0.05 * 0.9);
    assert_int_equal(got.n, FRAMES - s->lost + s->doubled);
    assert_int_equal(got.damaged, 0);
    sn_fault_free(f);
}

static void frames_are_overtaken_but_none_is_lost_of_it(void **state)
{
    struct sn_fault_params params = {.reorder = 0.2};
    struct sn_fault *f = send_all(&params, 3);
    static uint8_t seen[FRAMES];
    uint32_t back = 0;

    (void)state;
    memset(seen, 0, sizeof(seen));
    about(sn_fault_stats(f)->overtaken, 0.2);
    assert_int_equal(got.n, FRAMES);
    for (uint32_t i = 0; i < FRAMES; i++) {
        assert_int_equal(seen[got.seen[i]]++, 0);
        if (i && got.seen[i] < got.seen[i - 1]) back++;
    }
    assert_true(back > FRAMES / 20);
    sn_fault_free(f);
}

static void frames_are_damaged(void **state)
{
    struct sn_fault_params params = {.corrupt = 0.1};
    struct sn_fault *f = send_all(&params, 4);

    (void)state;
    about(sn_fault_stats(f)->damaged, 0.1);
    about(got.damaged, 0.1);
    sn_fault_free(f);
}

static void frames_are_late_and_in_order(void **state)
{
    struct sn_fault_params params = {.delay_ns = 50000};
    struct sn_fault *f = sn_fault_new(&params, 5, arrive, NULL);
    uint8_t frame[LEN] = {0};

    (void)state;
    memset(&got, 0, sizeof(got));
    for (uint32_t i = 0; i < 10; i++) {
        memcpy(frame, &i, 4);
        for (uint32_t j = 4; j < LEN; j++) frame[j] = (uint8_t)(i + j);
        assert_true(sn_fault_send(f, 1000, peer, frame, LEN));
    }
    assert_int_equal(sn_fault_next(f), 51000);
    sn_fault_run(f, 50999);
    assert_int_equal(got.n, 0);
    sn_fault_run(f, 51000);
    assert_int_equal(got.n, 10);
    for (uint32_t i = 0; i < 10; i++) assert_int_equal(got.seen[i], i);
    assert_true(sn_fault_next(f) == UINT64_MAX);
    sn_fault_free(f);
}

static void the_same_seed_gives_the_same(void **state)
{
    struct sn_fault_params params = {
        .loss = 0.01, .dup = 0.01, .reorder = 0.05, .corrupt = 0.01, .delay_ns = 3000};
    static uint32_t first[2 * FRAMES];
    struct sn_fault *f = send_all(&params, 6);
    uint32_t n = got.n;

    (void)state;
    memcpy(first, got.seen, sizeof(first));
    sn_fault_free(f);
    f = send_all(&params, 6);
    assert_int_equal(got.n, n);
    assert_memory_equal(first, got.seen, sizeof(first));
    sn_fault_free(f);
    f = send_all(&params, 7);
    assert_memory_not_equal(first, got.seen, sizeof(first));
    sn_fault_free(f);
}

static void a_full_sink_is_told(void **state)
{
    struct sn_fault_params none = {0}, late = {.delay_ns = 10};
    struct sn_fault *f = sn_fault_new(&none, 8, arrive, NULL);
    uint8_t frame[LEN] = {0};

    (void)state;
    memset(&got, 0, sizeof(got));
    got.full = 1;
    assert_false(sn_fault_send(f, 1, peer, frame, LEN));
    assert_true(sn_fault_send(f, 1, peer, frame, LEN));
    sn_fault_free(f);

    f = sn_fault_new(&late, 8, arrive, NULL);
    for (int i = 0; i < SN_FAULT_HELD + 5; i++) assert_true(sn_fault_send(f, 1, peer, frame, LEN));
    assert_int_equal(sn_fault_stats(f)->overflowed, 5);
    sn_fault_free(f); /* with frames under way */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kind_network_changes_nothing),
        cmocka_unit_test(frames_are_lost_and_doubled_as_often_as_told),
        cmocka_unit_test(frames_are_overtaken_but_none_is_lost_of_it),
        cmocka_unit_test(frames_are_damaged),
        cmocka_unit_test(frames_are_late_and_in_order),
        cmocka_unit_test(the_same_seed_gives_the_same),
        cmocka_unit_test(a_full_sink_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
