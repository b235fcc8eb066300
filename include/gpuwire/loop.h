/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h: wait → process → send → again, with no CPU.
 *
 *     gw_loop_create(exec, &opts, &loop);
 *     args.ctl = gw_loop_ctl(loop); // kernels ask it whether to stop
 *     struct gw_loop_stage wait = {.kernel = &wait_kernel, .grid = 1, .block = 32, .arg = &args};
 *     struct gw_loop_stage model = {.name = "model", .enqueue = plan_enqueue, .run = plan_run, .ctx = plan};
 *     gw_loop_add(loop, &wait);
 *     gw_loop_add(loop, &model);
 *     gw_loop_start(loop);
 *     while ((rc = gw_loop_wait(loop, GW_NEVER, &end)) == -EINTR) gw_loop_stop(loop);
 *     gw_loop_destroy(loop);
 *
 * On a GPU the stages are captured into one CUDA graph whose last node launches the graph again; the host
 * launches it once. On the CPU executor a thread named gw-loop runs the stages in order. Either way the owner
 * sleeps in the kernel.
 *
 * A loop may have variants: further sequences of stages, one for each batch size, say. A stage of every
 * iteration picks one (gw_loop_pick), whose stages then run before the next iteration begins. On a GPU each
 * variant is a graph of its own, launched from the device.
 *
 * Times are nanoseconds; deadlines are on CLOCK_MONOTONIC, as gw_deadline makes them.
 *
 * A stage that waits must give up when gw_loop_stopping() says so. The stages after it must then do nothing,
 * or something harmless: a loop ends only after its last stage.
 */
#ifndef GPUWIRE_LOOP_H
#define GPUWIRE_LOOP_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/kernel.h>

#define GW_LOOP_CTL_VERSION  2
#define GW_LOOP_VARIANTS     16    /* that a loop may have unless it was made for more */
#define GW_LOOP_MAX_VARIANTS 65536 /* that it can be made for */

/* The side of the control block that host and executor share; host memory. The host writes stop, the executor
 * the rest. */
struct gw_loop_shared {
    uint32_t stop;  /* not 0: the loop is to end */
    uint32_t ended; /* not 0: the last iteration is over; error and iterations are final */
    int32_t error;  /* what gw_loop_fail was given first; 0: none */
    uint32_t reserved;
    uint64_t iterations; /* whole ones, so far */
} __attribute__((aligned(64)));

/* The control block, as kernels get it: in the executor's own memory. */
struct gw_loop_ctl {
    uint32_t size, version; /* sizeof(struct gw_loop_ctl), GW_LOOP_CTL_VERSION */
    struct gw_loop_shared *shared;
    uint32_t failed; /* not 0: a stage called gw_loop_fail */
    int32_t error;
    uint64_t iterations;
    uint64_t looked_ns; /* when the loop's end of an iteration last looked at shared->stop */
    int32_t wake_fd;    /* CPU executor: readable once the loop is to end; GPU: -1 */
    uint32_t picked;    /* the variant that runs next; 0: none */
    uint32_t ending;    /* not 0: the loop ends with this iteration, and runs no variant any more */
} __attribute__((aligned(64)));

/* Whether the loop is to end. Any thread of a stage. It is a load from host memory, about 1 µs on a GPU. So
 * a polling kernel asks every 64th round or so, and sees a stop within 0.1 ms. Relaxed: it orders
 * nothing. */
GW_FN int gw_loop_stopping(const struct gw_loop_ctl *ctl)
{
    return gw_ld_relaxed_u32(&ctl->shared->stop) != 0 || gw_ld_relaxed_u32_gpu(&ctl->failed) != 0;
}

/* Ends the loop after this iteration, with an error (a negative errno) that gw_loop_wait reports. The first
 * one is kept. Any thread of a stage. */
GW_FN void gw_loop_fail(struct gw_loop_ctl *ctl, int error)
{
    /* The thread that turns failed from 0 to 1 owns error; the end of the iteration, which reads it, comes
     * after all stages. */
    if (gw_cas_relaxed_u32_gpu(&ctl->failed, 0, 1) == 0) ctl->error = error;
}

/* Has the next variant run when this iteration's common stages are over: 1 to the number that the loop was
 * made for, a variant that is ready; another number ends the loop with -EINVAL. Without a pick the next
 * iteration begins. One thread of a common stage. The variant's stages see all that the common stages have
 * written. */
GW_FN void gw_loop_pick(struct gw_loop_ctl *ctl, uint32_t variant)
{
    ctl->picked = variant;
}

/* Not 0: this is the last iteration, and it runs no variant: the kernel that picks must ask first. Any thread
 * of a stage. It costs less than gw_loop_stopping, which says so earlier. Plain: only the end of an iteration
 * writes it. */
GW_FN int gw_loop_ending(const struct gw_loop_ctl *ctl)
{
    return ctl->ending != 0;
}

#ifdef __cplusplus
extern "C" {
#endif

struct gw_loop;

/* One step of an iteration, or of a variant: a kernel, or a pair of callbacks. */
struct gw_loop_stage {
    const char *name; /* for error texts and traces; NULL: the kernel's */

    const struct gw_kernel *kernel; /* NULL: the callbacks below */
    uint32_t grid, block;
    const void *arg; /* kernel->arg_size bytes, copied by gw_loop_add */

    /* GPU: puts work into a stream that is being captured (a cudaStream_t). That may be kernels, and copies
     * and fills of GPU or pinned memory; a GPU can launch no other kind of work. CPU: does the work. Both
     * return 0 or a negative errno. */
    int (*enqueue)(void *ctx, void *stream);
    int (*run)(void *ctx);
    void *ctx;

    uint32_t variant; /* 0: a common stage, of every iteration; n: of variant n alone */

    /* GPU: not 0: the kernel runs at the same time as this number of stages of its variant that follow it;
     * the next stage waits for all. The kernel learns from those stages, through memory, when to end. It must
     * end by itself, too, should the GPU not start them beside it. */
    uint32_t beside;
};

struct gw_loop_opts {
    const char *name;  /* for error texts; NULL: "loop" */
    uint32_t variants; /* the highest that there may be; 0: GW_LOOP_VARIANTS */
};

/* Makes a loop with no stages. opts may be NULL. Errors: -EINVAL (over GW_LOOP_MAX_VARIANTS variants),
 * -ENOMEM, -EMFILE, -EIO (CUDA). */
GW_API int gw_loop_create(struct gw_exec *exec, const struct gw_loop_opts *opts, struct gw_loop **loop);

/* The control block for the stages' arguments; valid until gw_loop_destroy. Kernels dereference it, the host
 * does not. */
GW_API struct gw_loop_ctl *gw_loop_ctl(struct gw_loop *loop);

/* Appends a stage to those of its variant; before gw_loop_start, or before gw_loop_extend makes the variant
 * ready. The stage's struct is copied. Errors: -EINVAL, -EBUSY (its variant is ready already), -ENOTSUP
 * (`beside` on a CPU executor, or not of a kernel), -ENOMEM. */
GW_API int gw_loop_add(struct gw_loop *loop, const struct gw_loop_stage *stage);

/*
 * Does all of gw_loop_start but the start itself. Optional; needed where several loops share a GPU, because
 * CUDA may wait for running kernels when it allocates or frees. Prepare them all, then start them, and
 * destroy the first when the last has ended. Errors: -EINVAL (no stage; two that run beside the same
 * stages), -ENOTSUP (a stage holds work that cannot be launched from a GPU). The text names that stage and
 * its node. Also -ENOMEM, -EIO, -EAGAIN (no thread), and what an enqueue callback returned.
 */
GW_API int gw_loop_prepare(struct gw_loop *loop);

/*
 * Makes a variant ready whose stages were added since gw_loop_prepare, also while the loop runs. On a GPU its
 * graph is made beside the running one, which does not stop for it. Kernels may pick the variant when they
 * have learned that this has returned 0. One thread at a time calls this and gw_loop_add. Errors: -EINVAL (it
 * has no stages, or the loop is not prepared), and those of gw_loop_prepare.
 */
GW_API int gw_loop_extend(struct gw_loop *loop, uint32_t variant);

/* Starts the loop and returns. Errors: -EBUSY (started already), and those of gw_loop_prepare. */
GW_API int gw_loop_start(struct gw_loop *loop);

/* Starts a loop again that gw_loop_stop has ended. It allocates nothing, so other loops may run at that time;
 * iterations count on. One thread; no gw_loop_stop at the same time. Errors: -EBUSY (it still runs), -EINVAL
 * (it never ran), -EAGAIN (no thread), -EIO. */
GW_API int gw_loop_restart(struct gw_loop *loop);

/* Asks the loop to end, and returns at once. Any thread, and signal handlers: it is async-signal-safe.
 * Repeating is harmless. */
GW_API void gw_loop_stop(struct gw_loop *loop);

/* Wakes a sleeping gw_loop_wait, which then returns -EINTR. Any thread, and signal handlers. */
GW_API void gw_loop_wake(struct gw_loop *loop);

/* How a loop ended. */
struct gw_loop_end {
    int error;           /* what a stage failed with, or 0: it was stopped */
    uint64_t iterations; /* whole ones */
    uint64_t stop_ns;    /* from gw_loop_stop to the end; 0 when it was not stopped */
};

/*
 * Sleeps until the loop has ended (stopped, or by its own error), without using the CPU. end may be NULL.
 * Returns 0 when it has ended, or
 *
 *   -ETIMEDOUT  at deadline_ns;
 *   -EINTR      after a signal or gw_loop_wake: call it again, or gw_loop_stop;
 *   -EINVAL     it was not started;
 *   -EIO        CUDA failed (a kernel made a wild access, say): the loop is over.
 */
GW_API int gw_loop_wait(struct gw_loop *loop, uint64_t deadline_ns, struct gw_loop_end *end);

/* Returns a file descriptor that is readable once the loop has ended, or shortly after gw_loop_stop: for an
 * owner that sleeps on several things; it then calls gw_loop_wait. Owned by the loop. */
GW_API int gw_loop_fd(const struct gw_loop *loop);

/* Iterations so far. Any thread; never blocks. */
GW_API uint64_t gw_loop_iterations(const struct gw_loop *loop);

/* Frees a loop that has ended or was never started. A running one is stopped and waited for, 1 s at most:
 * -EBUSY when it goes on, and nothing is freed. On a GPU, no other loop may be running. NULL is allowed. */
GW_API int gw_loop_destroy(struct gw_loop *loop);

#ifdef __cplusplus
}
#endif
#endif
