/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between two GPUs of a driver made of host memory, which reports an access that was not enabled. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softnic/cuda/device.h"
#include "softnic/mem/pieces.h"
#include "tests/wire/fake_checks.h"

enum { SIZE = 1 << 20 };

static uint8_t *memory[FAKE_GPUS], model[FAKE_GPUS][SIZE], got[SIZE];
static struct sn_cuda_region region[FAKE_GPUS];

static uint64_t base(int gpu)
{
    return (uintptr_t)memory[gpu];
}

static void begin(enum fake_kernel how, int peers)
{
    static uint8_t second[SIZE];

    fake_cuda_reset();
    fake_kernel = how;
    fake_peers = peers;
    memory[0] = fake_gpu;
    memory[1] = second;
    fake_cuda_add_memory(second, SIZE, 1, 0);
    for (int g = 0; g < FAKE_GPUS; g++) {
        for (int i = 0; i < SIZE; i++) memory[g][i] = model[g][i] = (uint8_t)(i * 7 + (i >> 8) + g);
        assert_int_equal(sn_cuda_region_init(fake_cuda_api(), base(g), SIZE, &region[g], NULL), 1);
    }
    assert_ptr_not_equal(region[0].dev, region[1].dev);
}

static int teardown(void **state)
{
    (void)state;
    for (int g = 0; g < FAKE_GPUS; g++) sn_cuda_region_fini(&region[g]);
    fake_cuda_remove_memory(memory[1]);
    assert_driver_well_used();
    fake_cuda_reset();
    return 0;
}

static void wait_kernel(int gpu)
{
    for (bool ready = false; !ready; sched_yield()) {
        assert_int_equal(sn_cuda_enter(&region[gpu], base(gpu), 0), 0);
        region[gpu].dev->copier.not_before = 0; /* on a machine that is not quiet a thread is often slow */
        ready = sn_cuda_kernel_ready(region[gpu].dev);
        sn_cuda_leave(region[gpu].dev);
    }
}

static int move(int to, uint32_t at, uint32_t from_at, uint32_t len)
{
    int err = sn_cuda_move(&region[to], base(to) + at, &region[!to], base(!to) + from_at, len);

    if (!err) memmove(model[to] + at, model[!to] + from_at, len);
    return err;
}

static void flush_all(void)
{
    for (int g = 0; g < FAKE_GPUS; g++) {
        assert_int_equal(sn_cuda_flush(&region[g]), 0);
        assert_memory_equal(memory[g], model[g], SIZE);
    }
}

static void an_engine_makes_one_copy_of_it(void **state)
{
    (void)state;
    begin(FAKE_KERNEL_REFUSED, 1);
    assert_int_equal(move(0, 3, 100, SIZE / 2), 0);
    assert_int_equal(move(1, 0, 7, 100), 0);
    flush_all();
    for (int g = 0; g < FAKE_GPUS; g++) {
        assert_int_equal(stats_of(&region[g]).peer_copies, 1);
        assert_int_equal(stats_of(&region[g]).copies_in + stats_of(&region[g]).copies_out +
                             stats_of(&region[g]).kernel_copies,
                         0);
    }
}

static void short_ones_are_the_kernels(void **state)
{
    uint64_t before;

    (void)state;
    begin(FAKE_KERNEL_RUNS, 1);
    wait_kernel(1);
    before = stats_of(&region[1]).kernel_bytes;
    assert_int_equal(move(1, 5, 1000, 777), 0);
    assert_int_equal(move(1, 5000, 1000, SN_CUDA_PEER_BY_KERNEL + 1), 0);
    assert_int_equal(move(1, 5001, 1000, SN_CUDA_BY_KERNEL + 1), 0);
    flush_all();
    assert_int_equal(stats_of(&region[1]).kernel_bytes - before, 777);
    assert_int_equal(stats_of(&region[1]).peer_bytes, 777 + SN_CUDA_PEER_BY_KERNEL + SN_CUDA_BY_KERNEL + 2);
}

static void apart_they_say_so(void **state)
{
    struct sn_cuda_view v;
    struct iovec here = {memory[0], 1}, there;
    unsigned i = 0;

    (void)state;
    begin(FAKE_KERNEL_RUNS, 0);
    assert_int_equal(move(0, 0, 0, 100), -EXDEV);
    /* The way through the host's memory. */
    here = (struct iovec){memory[0] + 100, 50000};
    there = (struct iovec){memory[1] + 7, 50000};
    struct sn_copy c = {.here = &here,
                        .there = &there,
                        .n_here = 1,
                        .n_there = 1,
                        .by_here = {&sn_cuda_dma, &region[0]},
                        .by_there = {&sn_cuda_dma, &region[1]}};
    assert_int_equal(sn_pieces_copy(&c, NULL), 50000);
    memcpy(model[0] + 100, model[1] + 7, 50000);
    flush_all();
    assert_int_equal(stats_of(&region[0]).peer_copies, 0);
    while (sn_cuda_device(i) != region[0].dev) i++;
    assert_true(sn_cuda_introspect(i, &v));
    assert_int_equal(v.gpu, 0);
}

/* What is mapped says itself who reaches it: a kernel of another GPU's would fault. */
static void memory_that_is_mapped_goes_through_the_host(void **state)
{
    (void)state;
    begin(FAKE_KERNEL_RUNS, 1);
    region[1].origin = SN_CUDA_MAPPED;
    assert_int_equal(move(0, 0, 0, 100), -EXDEV);
    assert_int_equal(move(1, 0, 0, 100), -EXDEV);
}

static void what_another_process_gave_is_for_engines(void **state)
{
    (void)state;
    begin(FAKE_KERNEL_RUNS, 1);
    /* The program did that itself, and registers it as its own. */
    sn_cuda_region_fini(&region[1]);
    fake_cuda_remove_memory(memory[1]);
    fake_cuda_add_memory(memory[1], SIZE, 1, 1);
    assert_int_equal(sn_cuda_region_init(fake_cuda_api(), base(1), SIZE, &region[1], NULL), 1);
    wait_kernel(0);
    uint64_t before = stats_of(&region[0]).kernel_copies;
    assert_int_equal(move(0, 9, 100, 64), 0);
    flush_all();
    assert_int_equal(stats_of(&region[0]).kernel_copies, before);
}

static void outside_is_outside(void **state)
{
    (void)state;
    begin(FAKE_KERNEL_REFUSED, 1);
    assert_int_equal(sn_cuda_move(&region[0], base(0), &region[1], base(1) + SIZE - 10, 11), -EFAULT);
    assert_int_equal(sn_cuda_move(&region[0], base(0) + SIZE - 10, &region[1], base(1), 11), -EFAULT);
    assert_int_equal(move(0, 0, 0, 0), 0);
    flush_all();
}

/* Writes by the host, reads, and copies in both directions, over each other: as if one after the other. */
static void random_rounds(int rounds)
{
    static uint8_t source[SIZE];

    for (int i = 0; i < SIZE; i++) source[i] = (uint8_t)(i * 13 + (i >> 9));
    srandom(20263);
    for (int op = 0; op < rounds; op++) {
        uint32_t len = (uint32_t)random() % (random() % 30 ? 6000 : 300 << 10),
                 at = (uint32_t)random() % (SIZE - len), from = (uint32_t)random() % (SIZE - len);
        int gpu = random() & 1;

        switch (random() % 8) {
        case 0: assert_int_equal(sn_cuda_flush(&region[gpu]), 0); break;
        case 1:
            assert_int_equal(sn_cuda_read(&region[gpu], base(gpu) + at, got, len, len, 0), 0);
            assert_memory_equal(got, model[gpu] + at, len);
            break;
        case 2:
        case 3:
        case 4:
            assert_int_equal(move(gpu, at, from, len), 0);
            /* As the NIC does: the source may be written again once that is there. */
            assert_int_equal(sn_cuda_flush(&region[gpu]), 0);
            break;
        default:
            assert_int_equal(sn_cuda_write(&region[gpu], base(gpu) + at, source + from, len), 0);
            memcpy(model[gpu] + at, source + from, len);
        }
    }
    flush_all();
}

static void random_operations(void **state)
{
    static const enum fake_kernel how[] = {FAKE_KERNEL_REFUSED, FAKE_KERNEL_RUNS, FAKE_KERNEL_SHORT,
                                           FAKE_KERNEL_WAITS};

    for (size_t i = 0; i < sizeof(how) / sizeof(how[0]); i++) {
        begin(how[i], 1);
        if (how[i] == FAKE_KERNEL_RUNS)
            for (int g = 0; g < FAKE_GPUS; g++) wait_kernel(g);
        random_rounds(1500);
        assert_true(stats_of(&region[0]).peer_copies > 100);
        teardown(state);
    }
    begin(FAKE_KERNEL_REFUSED, 1);
}

static void an_engine_that_refuses_is_an_error(void **state)
{
    (void)state;
    begin(FAKE_KERNEL_REFUSED, 1);
    fake_fail_copies = 1;
    assert_int_equal(move(0, 0, 0, 5000), -EIO);
    assert_int_equal(move(0, 0, 0, 5000), 0);
    flush_all();
}

int main(void)
{
#define T(f) cmocka_unit_test_teardown(f, teardown)
    const struct CMUnitTest tests[] = {
        T(an_engine_makes_one_copy_of_it),
        T(short_ones_are_the_kernels),
        T(apart_they_say_so),
        T(memory_that_is_mapped_goes_through_the_host),
        T(what_another_process_gave_is_for_engines),
        T(outside_is_outside),
        T(random_operations),
        T(an_engine_that_refuses_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
