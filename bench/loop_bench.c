/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The costs of a loop: an iteration with 1, 4 and 16 empty stages, and a request that a waiting loop answers.
 * And an idle loop's CPU time, and how fast it stops. usage: loop_bench [--exec cpu|gpu|auto]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/loop/loop_kernels.h"

#define MS 1000000u

static struct gw_exec *exec;
static struct gw_mem page_mem;
static struct loop_page *page;
static struct loop_args args;

static void must(int rc, const char *what)
{
    if (!rc) return;
    fprintf(stderr, "loop_bench: %s: %s\n", what, gw_last_error());
    exit(1);
}

static double cpu_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static struct gw_loop *new_loop(void)
{
    struct gw_loop *loop;

    must(gw_loop_create(exec, NULL, &loop), "gw_loop_create");
    memset(page, 0, sizeof(*page));
    args.ctl = gw_loop_ctl(loop);
    args.page = page_mem.dev;
    return loop;
}

static void add(struct gw_loop *loop, const struct gw_kernel *kernel, uint32_t grid, uint32_t block)
{
    struct gw_loop_stage stage = {.kernel = kernel, .grid = grid, .block = block, .arg = &args};

    must(gw_loop_add(loop, &stage), "gw_loop_add");
}

static void stop(struct gw_loop *loop, struct gw_loop_end *end)
{
    int rc;

    gw_loop_stop(loop);
    do rc = gw_loop_wait(loop, gw_deadline(10000u * (uint64_t)MS), end);
    while (rc == -EINTR);
    must(rc, "gw_loop_wait");
    must(gw_loop_destroy(loop), "gw_loop_destroy");
}

/* The owner sleeps during that: nothing but the loop runs. */
static double iteration_ns(uint32_t stages, uint32_t grid, uint32_t block)
{
    struct gw_loop *loop = new_loop();
    struct gw_loop_end end;
    uint64_t start, n, i;

    for (i = 0; i < stages; i++) add(loop, &loop_empty_kernel, grid, block);
    must(gw_loop_start(loop), "gw_loop_start");
    gw_loop_wait(loop, gw_deadline(20 * MS), NULL);
    n = gw_loop_iterations(loop);
    start = gw_clock_ns();
    gw_loop_wait(loop, gw_deadline(200 * MS), NULL);
    n = gw_loop_iterations(loop) - n;
    start = gw_clock_ns() - start;
    stop(loop, &end);
    return n ? (double)start / (double)n : 0;
}

static struct gw_loop *waiting_loop(void)
{
    struct gw_loop *loop = new_loop();

    add(loop, &loop_wait_kernel, 1, 32);
    add(loop, &loop_work_kernel, 1, 32);
    add(loop, &loop_answer_kernel, 1, 32);
    must(gw_loop_start(loop), "gw_loop_start");
    return loop;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void requests(void)
{
    static uint64_t took[10000];
    const uint64_t n = sizeof(took) / sizeof(took[0]);
    struct gw_loop *loop = waiting_loop();
    struct gw_loop_end end;
    uint64_t i, give_up = gw_deadline(20000u * (uint64_t)MS);
    uint32_t round;

    for (i = 1; i <= n; i++) {
        uint64_t start = gw_clock_ns();

        gw_st_release_u64(&page->request, i);
        for (round = 0; gw_ld_acquire_u64(&page->answer) != i; round++) {
            if (gw_clock_ns() > give_up) must(gw_error(-ETIMEDOUT, "no answer"), "requests");
            gw_pause(round);
        }
        took[i - 1] = gw_clock_ns() - start;
    }
    stop(loop, &end);
    qsort(took, n, sizeof(took[0]), compare);
    printf("bench: request through wait, work, answer: p50 %.2f us, p99 %.2f us, max %.2f us\n",
           took[n / 2] / 1e3, took[n * 99 / 100] / 1e3, took[n - 1] / 1e3);
}

static void idle(void)
{
    struct gw_loop *loop = waiting_loop();
    struct gw_loop_end end;
    double before = cpu_seconds();

    gw_loop_wait(loop, gw_deadline(2000u * (uint64_t)MS), NULL);
    printf("bench: idle for 2 s with the owner asleep: %.3f %% of a core\n",
           (cpu_seconds() - before) / 2 * 100);
    stop(loop, &end);
    printf("bench: gw_loop_stop to stopped: %.3f ms\n", (double)end.stop_ns / MS);
}

int main(int argc, char **argv)
{
    static const uint32_t stages[] = {1, 4, 16};
    const char *which = "auto";
    uint32_t i;

    if (argc == 3 && !strcmp(argv[1], "--exec")) {
        which = argv[2];
    } else if (argc != 1) {
        fprintf(stderr, "usage: loop_bench [--exec cpu|gpu|auto]\n");
        return 2;
    }
    must(gw_exec_create(which, NULL, &exec), "gw_exec_create");
    must(gw_mem_alloc(exec, GW_MEM_HOST, sizeof(*page), &page_mem), "gw_mem_alloc");
    page = page_mem.host;
    printf("bench: executor %s\n", gw_exec_name(exec));
    for (i = 0; i < 3; i++)
        printf("bench: iteration with %2u empty kernels: %.0f ns\n", stages[i],
               iteration_ns(stages[i], 1, 32));
    printf("bench: iteration with  4 empty kernels of 132 blocks: %.0f ns\n", iteration_ns(4, 132, 256));
    requests();
    if (gw_exec_kind(exec) == GW_EXEC_GPU) idle(); /* on the CPU this loop's wait is a kernel that polls */
    gw_mem_free(&page_mem);
    must(gw_exec_destroy(exec), "gw_exec_destroy");
    return 0;
}
