/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel may rely on these, on either executor: indices, barriers, warp functions, shared memory, launches,
 * memory. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/exec/exec_kernels.h"
#include "tests/exec/with_exec.h"

GW_KERNEL_DECLARE(whoami_kernel);
GW_KERNEL_DECLARE(reverse_kernel);
GW_KERNEL_DECLARE(shared_kernel);
GW_KERNEL_DECLARE(shared_add_kernel);
GW_KERNEL_DECLARE(leave_kernel);
GW_KERNEL_DECLARE(warp_kernel);
GW_KERNEL_DECLARE(syncwarp_kernel);
GW_KERNEL_DECLARE(parts_kernel);
GW_KERNEL_DECLARE(wait_kernel);
GW_KERNEL_DECLARE(bell_kernel);
GW_KERNEL_DECLARE(mixed_kernel);

/* The shapes that every kernel runs in; blocks that are no multiple of a warp, and more of them than run at
 * once. */
static const uint32_t shape[][2] = {{1, 1}, {1, 32}, {3, 64}, {7, 45}, {20, 4}};
#define SHAPES (sizeof(shape) / sizeof(shape[0]))

static uint64_t soon(void)
{
    return gw_deadline(240000000000u);
}

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

/* Runs a kernel that takes out_args and gives back what it left in out: threads words, to be freed. */
static uint32_t *run(const struct gw_kernel *kernel, uint32_t grid, uint32_t block, uint32_t *threads)
{
    struct out_args args;
    struct gw_mem mem;
    uint32_t *out;

    *threads = grid * test_block_dim(exec, block);
    must(gw_mem_alloc(exec, GW_MEM_DEVICE, *threads * 4, &mem), "gw_mem_alloc");
    args.out = mem.dev;
    args.n = *threads;
    must(gw_launch(exec, kernel, grid, block, &args), "gw_launch");
    must(gw_exec_sync(exec, soon()), "gw_exec_sync");
    out = malloc(*threads * 4);
    must(gw_copy_out(exec, out, mem.dev, *threads * 4), "gw_copy_out");
    gw_mem_free(&mem);
    return out;
}

static void check_whoami(const struct whoami *w, uint32_t i, uint32_t grid, uint32_t dim)
{
    uint32_t t = i % dim, size = dim - (t & ~31u) < 32 ? dim - (t & ~31u) : 32;

    assert_int_equal(w->thread, t);
    assert_int_equal(w->block, i / dim);
    assert_int_equal(w->block_dim, dim);
    assert_int_equal(w->grid_dim, grid);
    assert_int_equal(w->lane, t % 32);
    assert_int_equal(w->warp, t / 32);
    assert_int_equal(w->warp_size, size);
    assert_int_equal(w->mask, size == 32 ? 0xffffffffu : (1u << size) - 1);
}

static void test_indices(void **state)
{
    uint32_t s, i;

    (void)state;
    for (s = 0; s < SHAPES; s++) {
        uint32_t dim = test_block_dim(exec, shape[s][1]), threads = shape[s][0] * dim;
        struct whoami_args args;
        struct gw_mem mem;

        must(gw_mem_alloc(exec, GW_MEM_HOST, threads * sizeof(struct whoami), &mem), "gw_mem_alloc");
        args.out = mem.dev;
        must(gw_launch(exec, &whoami_kernel, shape[s][0], shape[s][1], &args), "gw_launch");
        must(gw_exec_sync(exec, soon()), "gw_exec_sync");
        for (i = 0; i < threads; i++) check_whoami((struct whoami *)mem.host + i, i, shape[s][0], dim);
        gw_mem_free(&mem);
    }
}

static void test_barrier(void **state)
{
    uint32_t s, i, threads;

    (void)state;
    for (s = 0; s < SHAPES; s++) {
        uint32_t *out = run(&reverse_kernel, shape[s][0], shape[s][1], &threads);

        /* An even number of mirrorings, each of which added its number. */
        for (i = 0; i < threads; i++) assert_int_equal(out[i], i + TEST_ROUNDS * (TEST_ROUNDS - 1) / 2);
        free(out);
    }
}

static void test_shared(void **state)
{
    uint32_t s, i, threads;

    (void)state;
    for (s = 0; s < SHAPES; s++) {
        uint32_t *out = run(&shared_kernel, shape[s][0], shape[s][1], &threads);
        uint32_t dim = test_block_dim(exec, shape[s][1]);

        for (i = 0; i < threads; i++) assert_int_equal(out[i], 1000 * (i / dim) + dim + dim * (dim - 1));
        free(out);
    }
}

static void test_shared_add(void **state)
{
    uint32_t s, i, threads;

    (void)state;
    for (s = 0; s < SHAPES; s++) {
        uint32_t *out = run(&shared_add_kernel, shape[s][0], shape[s][1], &threads);

        for (i = 0; i < threads; i++) assert_int_equal(out[i], 1);
        free(out);
    }
}

static void test_leave(void **state)
{
    static const uint32_t dims[] = {1, 4, 32, 64};
    uint32_t s, threads, step, expect, t;

    (void)state;
    for (s = 0; s < 4; s++) {
        uint32_t *out = run(&leave_kernel, 3, dims[s], &threads), dim = test_block_dim(exec, dims[s]);

        for (expect = 0, step = 1; step < dim; step *= 2) expect += (dim + 2 * step - 1) / (2 * step);
        assert_int_equal(out[2 * dim], expect);
        for (t = 1; t < dim; t++) assert_int_equal(out[2 * dim + t], t & -t);
        free(out);
    }
}

static void all_zero(const struct gw_kernel *kernel)
{
    uint32_t s, i, threads;

    for (s = 0; s < SHAPES; s++) {
        uint32_t *out = run(kernel, shape[s][0], shape[s][1], &threads);

        for (i = 0; i < threads; i++) {
            if (out[i]) fail_msg("%s: thread %u of %u: check %u failed", kernel->name, i, threads, out[i]);
        }
        free(out);
    }
}

static void test_warp(void **state)
{
    (void)state;
    all_zero(&warp_kernel);
    all_zero(&syncwarp_kernel);
}

static void test_parts_of_a_warp(void **state)
{
    (void)state;
    all_zero(&parts_kernel);
}

static void test_deadline(void **state)
{
    struct flag_args args;
    struct gw_mem mem;
    uint64_t start;

    (void)state;
    must(gw_mem_alloc(exec, GW_MEM_HOST, 4096, &mem), "gw_mem_alloc");
    args.flag = mem.dev;
    args.out = (uint32_t *)mem.dev + 16;
    must(gw_launch(exec, &wait_kernel, 1, 32, &args), "gw_launch");
    start = gw_clock_ns();
    assert_int_equal(gw_exec_sync(exec, gw_deadline(30000000)), -ETIMEDOUT);
    assert_in_range(gw_clock_ns() - start, 29000000, 60000000000u);
    assert_int_equal(gw_exec_destroy(exec), -EBUSY);
    gw_st_release_u32(mem.host, 42);
    must(gw_exec_sync(exec, soon()), "gw_exec_sync");
    assert_int_equal(((uint32_t *)mem.host)[16], 42);
    gw_mem_free(&mem);
}

static void test_doorbell_and_clock(void **state)
{
    struct bell_args args;
    struct gw_mem mem;

    (void)state;
    must(gw_mem_alloc(exec, GW_MEM_HOST, 4096, &mem), "gw_mem_alloc");
    args.reg = mem.dev;
    args.clock = (uint64_t *)mem.dev + 8;
    must(gw_launch(exec, &bell_kernel, 1, 1, &args), "gw_launch");
    must(gw_exec_sync(exec, soon()), "gw_exec_sync");
    assert_true(((uint64_t *)mem.host)[0] == 0x0123456789abcdefu);
    assert_in_range(((uint64_t *)mem.host)[8], 2000000, 60000000000u);
    gw_mem_free(&mem);
}

static void test_launch_errors(void **state)
{
    struct out_args args = {NULL, 0};
    struct gw_exec *none;

    (void)state;
    assert_int_equal(gw_launch(exec, &warp_kernel, 0, 1, &args), -EINVAL);
    assert_int_equal(gw_launch(exec, &warp_kernel, 1, 0, &args), -EINVAL);
    assert_int_equal(gw_launch(exec, &warp_kernel, 1, 1025, &args), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "warp_kernel"));
    assert_int_equal(gw_exec_create("tpu", NULL, &none), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "tpu"));
    assert_null(none);
    assert_int_equal(gw_exec_create("cpu", &(struct gw_exec_opts){.lanes = 1025}, &none), -EINVAL);
}

/* Only the CPU executor can tell; a GPU would do something or other. */
static void test_misuse(void **state)
{
    struct out_args args;
    struct gw_mem mem;

    (void)state;
    if (gw_exec_kind(exec) != GW_EXEC_CPU || gw_exec_lanes(exec) < 2) skip();
    must(gw_mem_alloc(exec, GW_MEM_HOST, 4096, &mem), "gw_mem_alloc");
    args.out = mem.dev;
    must(gw_launch(exec, &mixed_kernel, 1, 4, &args), "gw_launch");
    assert_int_equal(gw_exec_sync(exec, soon()), -EIO);
    assert_non_null(strstr(gw_last_error(), "mixed_kernel"));
    must(gw_exec_sync(exec, soon()), "gw_exec_sync after the error was reported");
    gw_mem_free(&mem);
}

static void test_too_many_launches(void **state)
{
    struct flag_args args;
    struct gw_mem mem;
    int i, rc = 0;

    (void)state;
    if (gw_exec_kind(exec) != GW_EXEC_CPU) skip();
    must(gw_mem_alloc(exec, GW_MEM_HOST, 4096, &mem), "gw_mem_alloc");
    args.flag = mem.dev;
    args.out = (uint32_t *)mem.dev + 16;
    for (i = 0; i < 100 && !rc; i++) rc = gw_launch(exec, &wait_kernel, 1, 1, &args);
    assert_int_equal(rc, -ENOSPC);
    assert_in_range(i, 64, 66);
    gw_st_release_u32(mem.host, 1);
    must(gw_exec_sync(exec, soon()), "gw_exec_sync");
    gw_mem_free(&mem);
}

static void test_memory(void **state)
{
    static const enum gw_mem_kind kinds[] = {GW_MEM_HOST, GW_MEM_DEVICE};
    uint8_t in[5000], out[5000];
    struct gw_mem mem;
    uint32_t k, i;

    (void)state;
    for (k = 0; k < 2; k++) {
        must(gw_mem_alloc(exec, kinds[k], sizeof(in), &mem), "gw_mem_alloc");
        assert_int_equal(mem.size, 8192);
        assert_int_equal((uintptr_t)mem.dev % 4096, 0);
        assert_int_equal(gw_exec_destroy(exec), -EBUSY);
        memset(out, 1, sizeof(out));
        must(gw_copy_out(exec, out, mem.dev, sizeof(out)), "gw_copy_out");
        for (i = 0; i < sizeof(out); i++) assert_int_equal(out[i], 0);
        for (i = 0; i < sizeof(in); i++) in[i] = (uint8_t)(i * 7 + k);
        must(gw_copy_in(exec, mem.dev, in, sizeof(in)), "gw_copy_in");
        must(gw_copy_out(exec, out, mem.dev, sizeof(out)), "gw_copy_out");
        assert_memory_equal(in, out, sizeof(in));
        gw_mem_free(&mem);
        gw_mem_free(&mem);
    }
    assert_int_equal(gw_mem_alloc(exec, (enum gw_mem_kind)7, 10, &mem), -EINVAL);
    assert_int_equal(gw_mem_alloc(exec, GW_MEM_HOST, 0, &mem), -EINVAL);
    assert_int_equal(gw_mem_alloc(exec, GW_MEM_DEVICE, (size_t)1 << 60, &mem), -ENOMEM);
    gw_mem_free(&mem);
}

/* Memory that is not ours: plain pages, and plain pages that the caller believes to be I/O memory. */
static void test_register(void **state)
{
    uint32_t flags, threads = test_block_dim(exec, 32), i;

    (void)state;
    for (flags = 0; flags <= GW_MEM_IO; flags += GW_MEM_IO) {
        char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        struct out_args args = {NULL, 0};
        struct gw_mem mem;

        assert_true(p != MAP_FAILED);
        memset(p, 0xff, 8192);
        must(gw_mem_register(exec, p + 4000, 256, flags, &mem), "gw_mem_register");
        args.out = mem.dev;
        must(gw_launch(exec, &warp_kernel, 1, 32, &args), "gw_launch");
        must(gw_exec_sync(exec, soon()), "gw_exec_sync");
        for (i = 0; i < threads; i++) assert_int_equal(((uint32_t *)(p + 4000))[i], 0);
        assert_int_equal((uint8_t)p[3999], 0xff);
        gw_mem_unregister(&mem);
        gw_mem_unregister(&mem);
        munmap(p, 8192);
    }
    assert_int_equal(gw_mem_register(exec, NULL, 4096, 0, &(struct gw_mem){0}), -EINVAL);
    assert_int_equal(gw_mem_register(exec, &flags, 4, 64, &(struct gw_mem){0}), -EINVAL);
}

/* Device functions outside a kernel: the calling thread is a block of one. */
static void test_outside(void **state)
{
    (void)state;
    GW_SHARED(uint64_t, s);
    assert_int_equal(gw_block_dim(), 1);
    assert_int_equal(gw_global_idx(), 0);
    assert_true(*s == 0xa5a5a5a5a5a5a5a5u);
    *s = 7;
    gw_syncthreads();
    assert_int_equal(gw_ballot(0xffffffffu, 1), 1);
    assert_int_equal(gw_shfl_u32(gw_warp_mask(), 5, 0), 5);
    assert_int_equal(*s, 7);
}

static void test_wait_fds(void **state)
{
    int fds[2], both[2];
    uint64_t start = gw_clock_ns();

    (void)state;
    assert_int_equal(pipe(fds), 0);
    both[0] = -1;
    both[1] = fds[0];
    assert_int_equal(gw_wait_fds(both, 2, gw_deadline(20000000)), 0);
    assert_in_range(gw_clock_ns() - start, 20000000, 60000000000u);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(gw_wait_fds(both, 2, GW_NEVER), 2);
    assert_int_equal(gw_wait_fds(both, 2, 0), 2);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(gw_wait_fds(both, 2, 0), -EBADF);
    assert_int_equal(gw_wait_fds(both, 63, 0), -EINVAL);
    assert_true(gw_deadline(GW_NEVER) == GW_NEVER);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_indices),
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_shared_add),
        cmocka_unit_test(test_leave),
        cmocka_unit_test(test_warp),
        cmocka_unit_test(test_parts_of_a_warp),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_doorbell_and_clock),
        cmocka_unit_test(test_launch_errors),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_too_many_launches),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_register),
        cmocka_unit_test(test_outside),
        cmocka_unit_test(test_wait_fds),
    };

    test_options(argc, argv);
    return cmocka_run_group_tests(tests, open_exec, close_exec);
}
