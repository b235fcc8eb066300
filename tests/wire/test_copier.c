/* SPDX-License-Identifier: Apache-2.0 */
/* The copy kernel's host side, with a thread for the kernel: bytes, order, and kernels that never begin, are
 * slow, leave work or die. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softnic/cuda/device.h"
#include "tests/wire/fake_checks.h"

static struct sn_cuda_region whole;
static uint64_t base;
static uint8_t source[FAKE_GPU_SIZE], model[FAKE_GPU_SIZE];

static void begin(enum fake_kernel how)
{
    fake_cuda_reset();
    fake_kernel = how;
    base = (uintptr_t)fake_gpu;
    for (size_t i = 0; i < sizeof(source); i++) source[i] = (uint8_t)(i * 7 + (i >> 8) + 1);
    memset(model, 0, sizeof(model));
    assert_int_equal(sn_cuda_region_init(fake_cuda_api(), base, FAKE_GPU_SIZE, &whole, NULL), 1);
}

static int teardown(void **state)
{
    (void)state;
    sn_copier_allow(true);
    sn_cuda_region_fini(&whole);
    fake_cuda_reset();
    assert_driver_well_used();
    return 0;
}

/* On a machine that is not quiet a thread is often slow; each operation is to try the kernel again. */
static void forgive(void)
{
    if (whole.dev) whole.dev->copier.not_before = 0;
}

static void put(uint32_t at, uint32_t from, uint32_t len)
{
    forgive();
    assert_int_equal(sn_cuda_write(&whole, base + at, source + from, len), 0);
    memcpy(model + at, source + from, len);
}

static void move(uint32_t at, uint32_t from, uint32_t len)
{
    forgive();
    assert_int_equal(sn_cuda_move(&whole, base + at, &whole, base + from, len), 0);
    memmove(model + at, model + from, len);
}

static void get(uint32_t at, uint32_t len)
{
    uint8_t *got = malloc(len + 1);

    forgive();
    assert_int_equal(sn_cuda_read(&whole, base + at, got, len, len, 0), 0);
    assert_memory_equal(got, model + at, len);
    free(got);
}

static void flush(void)
{
    assert_int_equal(sn_cuda_flush(&whole), 0);
}

/* Until the kernel takes commands, which is when the machine likes. */
static void wait_kernel(void)
{
    bool ready = false;

    while (!ready) {
        forgive();
        assert_int_equal(sn_cuda_enter(&whole, base, 0), 0);
        ready = sn_cuda_kernel_ready(whole.dev);
        sn_cuda_leave(whole.dev);
        if (!ready) sched_yield();
    }
}

static void a_few_copies_are_worth_no_kernel(void **state)
{
    (void)state;
    begin(FAKE_KERNEL_RUNS);
    for (int i = 0; i < 3; i++) get(0, 8);
    assert_int_equal(stats_of(&whole).launches, 0);
    wait_kernel();
    assert_true(stats_of(&whole).launches >= 1);
    get(0, 8);
    assert_true(stats_of(&whole).kernel_copies >= 1);
}

static void every_alignment(void **state)
{
    static const uint32_t lengths[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 39, 40, 41, 100, 4096, 4100, 33000};

    (void)state;
    begin(FAKE_KERNEL_RUNS);
    for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
        for (uint32_t d = 0; d < 17; d++) {
            for (uint32_t s = 0; s<17; s += lengths[l]> 100 ? 4 : 1) {
                wait_kernel();
                put(1024 + d, d + s, lengths[l]);
                move((1 << 20) + s, 1024 + d, lengths[l]);
                get((1 << 20) + s, lengths[l]);
            }
        }
        flush();
        assert_memory_equal(fake_gpu, model, FAKE_GPU_SIZE);
    }
    assert_true(stats_of(&whole).kernel_copies > 1000);
}

static void random_rounds(int rounds)
{
    unsigned seed = 20261;

    printf("seed %u\n", seed);
    srandom(seed);
    for (int op = 0; op < rounds; op++) {
        uint32_t len = (uint32_t)random() % (random() % 50 ? 6000 : 300 << 10),
                 at = (uint32_t)random() % ((1 << 20) - len), to = (uint32_t)random() % ((1 << 20) - len);

        switch (random() % 10) {
        case 0: flush(); break;
        case 1:
        case 2: get(at, len); break;
        case 3:
        case 4: move((2 << 20) + to % 4096, at, len); break;
        case 5: move(at, 2 << 20, len); break;
        default: put(at, (uint32_t)op, len);
        }
    }
    flush();
    assert_memory_equal(fake_gpu, model, FAKE_GPU_SIZE);
}

static void random_operations(void **state)
{
    (void)state;
    begin(FAKE_KERNEL_RUNS);
    wait_kernel();
    random_rounds(5000);
    assert_true(stats_of(&whole).kernel_copies > 0);
}

static void what_a_kernel_leaves_behind_is_done(void **state)
{
    (void)state;
    begin(FAKE_KERNEL_SHORT);
    for (uint32_t i = 0; i < 20; i++) {
        wait_kernel();
        for (uint32_t n = 0; n < 10; n++) move(100 * n, 5000 + i, 70);
        flush();
    }
    assert_true(stats_of(&whole).launches >= 20);
    random_rounds(3000);
}

static void one_that_never_begins_is_not_waited_for(void **state)
{
    (void)state;
    begin(FAKE_KERNEL_WAITS);
    random_rounds(500);
    assert_int_equal(stats_of(&whole).launches, 1);
    assert_int_equal(stats_of(&whole).kernel_copies, 0);
}

static void one_that_is_slow_is_let_go(void **state)
{
    uint64_t copies, until;

    (void)state;
    begin(FAKE_KERNEL_SLOW);
    /* A thread that gets no processor in that time does not see how slow the kernel was, or finds it gone. */
    for (int i = 0; i < 1000 && !stats_of(&whole).slow; i++) {
        wait_kernel();
        get(0, 8);
    }
    copies = stats_of(&whole).kernel_copies;
    assert_true(stats_of(&whole).slow >= 1);
    until = whole.dev->copier.not_before;
    assert_true(until != 0);
    for (int i = 0; i < 20 && sn_now_ns() < until; i++) {
        uint8_t b[8];

        assert_int_equal(sn_cuda_read(&whole, base, b, 8, 8, 0), 0);
        if (sn_now_ns() < until) assert_int_equal(stats_of(&whole).kernel_copies, copies);
    }
}

static void it_can_be_switched_off(void **state)
{
    (void)state;
    begin(FAKE_KERNEL_RUNS);
    sn_copier_allow(false);
    random_rounds(200);
    assert_int_equal(stats_of(&whole).launches, 0);
}

static void where_no_kernel_can_be_loaded_engines_do_it_all(void **state)
{
    struct sn_cuda_view v;
    unsigned i = 0;

    (void)state;
    begin(FAKE_KERNEL_REFUSED);
    random_rounds(200);
    assert_int_equal(stats_of(&whole).launches, 0);
    while (sn_cuda_device(i) != whole.dev) i++;
    assert_true(sn_cuda_introspect(i, &v));
    assert_non_null(strstr(v.copies, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND (221): install"));
    assert_int_equal(v.stats.copies_in, stats_of(&whole).copies_in);
    while (sn_cuda_device(i)) i++;
    assert_false(sn_cuda_introspect(i, &v));
}

/* And is tried again when some time has gone by: what kept it from running may have gone, too. */
static void a_launch_that_is_refused_is_told_of(void **state)
{
    struct sn_cuda_view v;
    unsigned i = 0;

    (void)state;
    begin(FAKE_KERNEL_NO_LAUNCH);
    random_rounds(50);
    assert_true(stats_of(&whole).refused >= 1);
    assert_int_equal(stats_of(&whole).launches, 0);
    while (sn_cuda_device(i) != whole.dev) i++;
    assert_true(sn_cuda_introspect(i, &v));
    assert_non_null(strstr(v.copies, "cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"));
    fake_kernel = FAKE_KERNEL_RUNS;
    wait_kernel();
    assert_true(stats_of(&whole).launches >= 1);
    forgive();
    assert_true(sn_cuda_introspect(i, &v));
    assert_non_null(strstr(v.copies, "a kernel where"));
    sn_copier_allow(false);
    assert_true(sn_cuda_introspect(i, &v));
    assert_non_null(strstr(v.copies, "gpucopy=engine"));
}

/* ---- order --------------------------------------------------------------------------------------------- */

/* The place of the copy to `at` among those logged since `from`. */
static unsigned when(uint32_t at, unsigned from)
{
    for (unsigned i = from; i != fake_logged; i++)
        if (fake_log[i % FAKE_LOG] == base + at) return i;
    fail();
    return 0;
}

/* A header, what it announces, and after the header a flag, which continues it and must not join it. */
static void data_come_before_the_flag(void)
{
    unsigned from = fake_logged;

    put(1000, 0, 64);
    sn_cuda_order(&whole);
    put(50000, 100, 2000);
    sn_cuda_order(&whole);
    put(1064, 7, 8);
    flush();
    assert_true(when(1000, from) < when(50000, from));
    assert_true(when(50000, from) < when(1064, from));
    assert_memory_equal(fake_gpu, model, FAKE_GPU_SIZE);
}

static void writes_keep_their_order(void **state)
{
    (void)state;
    begin(FAKE_KERNEL_REFUSED);
    data_come_before_the_flag();
    sn_cuda_region_fini(&whole);
    begin(FAKE_KERNEL_RUNS);
    wait_kernel();
    for (int i = 0; i < 200; i++) {
        wait_kernel();
        data_come_before_the_flag();
    }
}

static void moves_keep_their_order(void **state)
{
    (void)state;
    begin(FAKE_KERNEL_SHORT);
    for (int i = 0; i < 200; i++) {
        unsigned from = fake_logged;

        move(1000, 1 << 20, 300000);
        move(8, 2 << 20, 4);
        flush();
        assert_true(when(1000, from) < when(8, from));
    }
}

/* ---- without waiting ----------------------------------------------------------------------------------- */

/* Between two kernels engines may have it. */
static uint64_t started(void)
{
    uint64_t mark;

    if (sn_cuda_start(&whole, &mark)) return mark;
    flush();
    return whole.last;
}

static void ends_are_seen(enum fake_kernel how)
{
    uint64_t marks[20];

    begin(how);
    for (int round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < 20; i++) {
            wait_kernel();
            move(100 * i, (1 << 20) + 3000 * i + 7 * (uint32_t)round, 2000);
            marks[i] = started();
        }
        for (uint32_t i = 0; i < 20; i++) {
            while (!sn_cuda_ended(&whole, marks[i])) sched_yield();
            assert_int_equal(sn_cuda_await(&whole, marks[i]), 0);
            /* All before it too; the next ones write from 100 bytes further on. */
            assert_memory_equal(fake_gpu + 100 * i, model + 100 * i, 100);
        }
        flush();
        assert_memory_equal(fake_gpu, model, FAKE_GPU_SIZE);
    }
}

static void an_end_is_seen_without_waiting(void **state)
{
    (void)state;
    ends_are_seen(FAKE_KERNEL_RUNS);
}

/* A look says to wait, and the wait makes engines do it. */
static void also_of_what_a_kernel_leaves_behind(void **state)
{
    (void)state;
    ends_are_seen(FAKE_KERNEL_SHORT);
}

static void what_engines_copy_cannot_be_looked_at(void **state)
{
    uint64_t mark;

    (void)state;
    begin(FAKE_KERNEL_WAITS);
    move(0, 1 << 20, 2000);
    assert_false(sn_cuda_start(&whole, &mark));
    flush();
    assert_memory_equal(fake_gpu, model, FAKE_GPU_SIZE);
    fake_cuda_reset();
    sn_cuda_region_fini(&whole);
    begin(FAKE_KERNEL_REFUSED);
    assert_false(sn_cuda_start(&whole, &mark));
}

/* An earlier one has ended while a later one is under way; the kernel dies in that. */
static void a_kernel_that_dies_is_an_error_to_who_waits(void **state)
{
    uint64_t mark;
    int err = 0;

    (void)state;
    begin(FAKE_KERNEL_RUNS);
    wait_kernel();
    __atomic_store_n(&fake_dead, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 1000 && !err; i++) {
        forgive();
        err = sn_cuda_move(&whole, base, &whole, base + 100, 50);
        if (!err && sn_cuda_start(&whole, &mark)) err = sn_cuda_await(&whole, mark);
    }
    assert_int_equal(err, -EIO);
    assert_false(sn_cuda_start(&whole, &mark));
}

static void nothing_is_under_way_once_a_region_is_gone(void **state)
{
    struct sn_cuda_region r;

    (void)state;
    begin(FAKE_KERNEL_SLOW);
    wait_kernel();
    assert_int_equal(sn_cuda_region_init(fake_cuda_api(), base + 4096, 65536, &r, NULL), 1);
    for (int i = 0; i < 8; i++) {
        forgive();
        assert_int_equal(sn_cuda_write(&r, base + 4096 + (uint64_t)i * 100, source, 50), 0);
        sn_cuda_order(&r);
    }
    sn_cuda_region_fini(&r);
    for (int i = 0; i < 8; i++) assert_memory_equal(fake_gpu + 4096 + i * 100, source, 50);
}

/* ---- a GPU that is lost -------------------------------------------------------------------------------- */

static void a_dead_kernel_is_an_error_and_no_hang(void **state)
{
    uint8_t b[16];
    int err = 0;

    (void)state;
    begin(FAKE_KERNEL_RUNS);
    wait_kernel();
    __atomic_store_n(&fake_dead, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 1000 && !err; i++)
        err = sn_cuda_move(&whole, base, &whole, base + 100, 50) | sn_cuda_flush(&whole);
    assert_int_equal(err, -EIO);
    assert_int_equal(sn_cuda_write(&whole, base, source, 100), -EIO);
    assert_int_equal(sn_cuda_read(&whole, base, b, 16, 16, 0), -EIO);
    assert_int_equal(sn_cuda_flush(&whole), -EIO);
}

int main(void)
{
#define T(f) cmocka_unit_test_teardown(f, teardown)
    const struct CMUnitTest tests[] = {
        T(a_few_copies_are_worth_no_kernel),
        T(every_alignment),
        T(random_operations),
        T(what_a_kernel_leaves_behind_is_done),
        T(one_that_never_begins_is_not_waited_for),
        T(one_that_is_slow_is_let_go),
        T(it_can_be_switched_off),
        T(where_no_kernel_can_be_loaded_engines_do_it_all),
        T(a_launch_that_is_refused_is_told_of),
        T(writes_keep_their_order),
        T(moves_keep_their_order),
        T(an_end_is_seen_without_waiting),
        T(also_of_what_a_kernel_leaves_behind),
        T(what_engines_copy_cannot_be_looked_at),
        T(a_kernel_that_dies_is_an_error_to_who_waits),
        T(nothing_is_under_way_once_a_region_is_gone),
        T(a_dead_kernel_is_an_error_and_no_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
