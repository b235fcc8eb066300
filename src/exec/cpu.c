/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU executor: launches queue up for one thread, which runs them in order. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <gpuwire/detail/held.h>

#include "src/exec/cpu.h"
#include "src/exec/impl.h"

#define QUEUE 64

struct launch {
    const struct gw_kernel *kernel;
    uint32_t grid, block;
    uint8_t arg[GW_KERNEL_ARG_MAX] __attribute__((aligned(64)));
};

struct cpu_exec {
    struct gw_exec base;
    struct gw_cpu_pool *pool;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    int started, quit;
    int error; /* the first that a launch gave, until gw_exec_sync reports it */
    char why[256];
    uint64_t put, done; /* launches, ever */
    struct launch queue[QUEUE];
};

static struct cpu_exec *cpu_exec_of(struct gw_exec *exec)
{
    return (struct cpu_exec *)exec;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static int cpu_mem_alloc(struct gw_exec *exec, struct gw_mem *mem)
{
    size_t align = mem->size >= GW_HUGE_PAGE ? GW_HUGE_PAGE : gw_page();

    (void)exec;
    if (posix_memalign(&mem->host, align, mem->size))
        return gw_error(-ENOMEM, "no memory: %zu bytes were asked for", mem->size);
    /* Buffers of thousands of connections lie in here: looking up where their pages are takes as long as
     * copying them. Advice alone: there may be none. */
    (void)madvise(mem->host, mem->size & ~(size_t)(GW_HUGE_PAGE - 1), MADV_HUGEPAGE);
    memset(mem->host, 0, mem->size);
    mem->dev = mem->host;
    return 0;
}

static void cpu_mem_free(struct gw_mem *mem)
{
    free(mem->host);
}

static int cpu_mem_register(struct gw_exec *exec, struct gw_mem *mem, uint32_t flags)
{
    (void)exec;
    (void)flags;
    mem->dev = mem->host;
    return 0;
}

static void cpu_mem_unregister(struct gw_mem *mem)
{
    (void)mem;
}

/* Kernels may run at that time, and count in there: aligned words are read and written whole, as a GPU's are.
 */
static int cpu_copy(struct gw_exec *exec, void *to, const void *from, size_t size)
{
    uintptr_t all = (uintptr_t)to | (uintptr_t)from | size;

    (void)exec;
    if (all % 8 == 0)
        for (size_t i = 0; i < size / 8; i++)
            gw_st_relaxed_u64((uint64_t *)to + i, gw_ld_relaxed_u64((const uint64_t *)from + i));
    else if (all % 4 == 0)
        for (size_t i = 0; i < size / 4; i++)
            gw_st_relaxed_u32((uint32_t *)to + i, gw_ld_relaxed_u32((const uint32_t *)from + i));
    else
        memcpy(to, from, size);
    return 0;
}

/* ---- launches ------------------------------------------------------------------------------------------ */

static void *exec_main(void *arg)
{
    struct cpu_exec *e = arg;

    pthread_mutex_lock(&e->lock);
    for (;;) {
        struct launch *l = &e->queue[e->done % QUEUE];
        int err;

        while (e->put == e->done && !e->quit) pthread_cond_wait(&e->changed, &e->lock);
        if (e->put == e->done) break;
        pthread_mutex_unlock(&e->lock);
        err = gw_cpu_run(e->pool, l->kernel, l->grid, l->block, l->arg);
        pthread_mutex_lock(&e->lock);
        if (err && !e->error) {
            e->error = err;
            snprintf(e->why, sizeof(e->why), "%s", gw_last_error());
        }
        GW_ASSERT(e->done < e->put && e->put - e->done <= QUEUE);
        e->done++;
        pthread_cond_broadcast(&e->changed);
        if (!e->base.ended) continue;
        pthread_mutex_unlock(&e->lock);
        e->base.ended(e->base.ended_arg);
        pthread_mutex_lock(&e->lock);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static int cpu_enqueue(struct cpu_exec *e, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
                       const void *arg)
{
    struct launch *l;
    int err;

    GW_ASSERT_HELD(&e->lock);
    if (e->put - e->done == QUEUE)
        return gw_error(-ENOSPC, "kernel %s: %d launches wait already; wait for them with gw_exec_sync",
                        kernel->name, QUEUE);
    if (!e->started) {
        err = gw_cpu_thread_start(&e->thread, "gw-exec", e->base.cpu_pin, exec_main, e);
        if (err) return err;
        e->started = 1;
    }
    l = &e->queue[e->put % QUEUE];
    l->kernel = kernel;
    l->grid = grid;
    l->block = block;
    memcpy(l->arg, arg, kernel->arg_size);
    e->put++;
    pthread_cond_broadcast(&e->changed);
    return 0;
}

static int cpu_launch(struct gw_exec *exec, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
                      const void *arg)
{
    struct cpu_exec *e = cpu_exec_of(exec);
    int err;

    pthread_mutex_lock(&e->lock);
    err = cpu_enqueue(e, kernel, grid, block, arg);
    pthread_mutex_unlock(&e->lock);
    return err;
}

static int cpu_sync(struct gw_exec *exec, uint64_t deadline_ns)
{
    struct cpu_exec *e = cpu_exec_of(exec);
    struct timespec until = {(time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u)};
    int err = 0;

    pthread_mutex_lock(&e->lock);
    while (e->put != e->done && err != ETIMEDOUT)
        err = deadline_ns == GW_NEVER ? pthread_cond_wait(&e->changed, &e->lock)
                                      : pthread_cond_timedwait(&e->changed, &e->lock, &until);
    if (e->put != e->done) {
        const char *name = e->queue[e->done % QUEUE].kernel->name;

        err = gw_error(-ETIMEDOUT, "kernel %s still runs at the deadline, %u launches wait for it", name,
                       (uint32_t)(e->put - e->done - 1));
    } else {
        err = e->error ? gw_error(e->error, "%s", e->why) : 0;
        e->error = 0;
    }
    pthread_mutex_unlock(&e->lock);
    return err;
}

/* ---- the executor -------------------------------------------------------------------------------------- */

static int cpu_destroy(struct gw_exec *exec)
{
    struct cpu_exec *e = cpu_exec_of(exec);

    pthread_mutex_lock(&e->lock);
    if (e->put != e->done) {
        pthread_mutex_unlock(&e->lock);
        return gw_error(-EBUSY, "executor %s: a kernel still runs", exec->name);
    }
    e->quit = 1;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    if (e->started) pthread_join(e->thread, NULL);
    gw_cpu_pool_destroy(e->pool);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    free(e);
    return 0;
}

static const struct gw_exec_ops cpu_ops = {
    .destroy = cpu_destroy,
    .mem_alloc = cpu_mem_alloc,
    .mem_free = cpu_mem_free,
    .mem_register = cpu_mem_register,
    .mem_unregister = cpu_mem_unregister,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .launch = cpu_launch,
    .sync = cpu_sync,
};

static uint32_t processors(void)
{
    cpu_set_t cpus;

    return sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : (uint32_t)CPU_COUNT(&cpus);
}

static void init_base(struct gw_exec *base, const struct gw_exec_opts *opts)
{
    uint32_t n = processors();

    base->ops = &cpu_ops;
    base->kind = GW_EXEC_CPU;
    base->lanes = opts->lanes ? opts->lanes : 1;
    base->blocks = opts->blocks ? opts->blocks : n < 4 ? 4 : n;
    base->cpu_pin = opts->cpu_pin;
    snprintf(base->name, sizeof(base->name), "cpu, %u lane%s", base->lanes, base->lanes == 1 ? "" : "s");
}

static void init_sync(struct cpu_exec *e)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* deadlines are on it */
    pthread_cond_init(&e->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&e->lock, NULL);
}

int gw_cpu_exec_create(const struct gw_exec_opts *opts, struct gw_exec **exec)
{
    struct cpu_exec *e = aligned_alloc(64, sizeof(*e));
    struct gw_cpu_pool_opts pool = {.thread_name = "gw-lane"};
    int err;

    if (!e) return gw_error(-ENOMEM, "no memory for an executor");
    memset(e, 0, sizeof(*e));
    init_base(&e->base, opts);
    if (e->base.cpu_pin > CPU_SETSIZE) {
        free(e);
        return gw_error(-EINVAL, "cannot bind to processor %u: there is none", opts->cpu_pin - 1);
    }
    pool.lanes = e->base.lanes;
    pool.blocks = e->base.blocks;
    pool.cpu_pin = e->base.cpu_pin;
    err = gw_cpu_pool_create(&pool, &e->pool);
    if (err) {
        free(e);
        return err;
    }
    init_sync(e);
    *exec = &e->base;
    return 0;
}
