/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h: what kernels ask of the host: to launch other kernels, what time it is, and to print.
 *
 * On the host:
 *
 *     attr.kernels = kernels;
 *     attr.count = 2;
 *     gw_host_open(exec, &attr, &server);
 *     … h = gw_host_handle(server) goes to the kernel …
 *
 * In the kernel:
 *
 *     err = gw_host_launch(h, 1, grid, block, &args, deadline);
 *     gw_printf(h, "%u of %u done\n", i, n);
 *     now = gw_time(h);
 *
 * How it works. Questions and lines of text lie in host memory that kernels see. A thread of the host, named
 * gw-host, takes them from there. For CPU threads it sleeps until they wake it. Kernels on a GPU cannot wake
 * a thread. For them it looks 20 µs after it has had something to do, and ever more rarely, down to once in a
 * millisecond.
 *
 * The forms are group.h's: every thread of the group must pass the same arguments. Deadlines are absolute, on
 * the executor's clock: gw_clock_ns() + what it may take; 0: do not wait.
 *
 * Memory order. The launched kernel sees what the group of a launch has written before. The group that has
 * waited for the kernel sees what the kernel has written.
 */
#ifndef GPUWIRE_HOST_H
#define GPUWIRE_HOST_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <gpuwire/exec.h>
#include <gpuwire/group.h>
#include <gpuwire/detail/exec/turn.h>

#define GW_HOST_VERSION 1
#define GW_HOST_KERNELS 256 /* in a table, at most */

struct gw_host; /* as kernels see it; opaque */

/* ---- the host's side ---------------------------------------------------------------------------------- */

#ifdef __cplusplus
extern "C" {
#endif

struct gw_host_server;

/* All zero, or a NULL pointer: a clock and printing to the standard output. */
struct gw_host_attr {
    /* that may be launched: a kernel calls them by their place here */
    const struct gw_kernel *const *kernels;
    uint32_t count;
    uint32_t at_once; /* launches that run at the same time, 1 … 16 (4) */
    /* that wait to be printed, 16 … 65536, rounded up to a power of two (1024); 512 bytes each */
    uint32_t lines;
    uint32_t reserved;
    /* Where lines go: called by the server's thread, with text that is not ended by a 0. NULL: the standard
     * output. A call that takes long delays launches, and lines may be lost during it. */
    void (*print)(void *ctx, const char *text, size_t size);
    void *ctx;
};

/*
 * Starts the server of an executor's kernels. Each of the at_once launches has an executor of its own, of the
 * same kind: on a GPU a stream. It allocates: before a loop starts. Any thread. -EINVAL, -ENOMEM, -EIO
 * (CUDA), -ETIMEDOUT: the GPU has not told its time within a second, since it is busy; -EAGAIN: no thread.
 */
GW_API int gw_host_open(struct gw_exec *exec, const struct gw_host_attr *attr, struct gw_host_server **out);

/* Prints what is left and ends the server; only when no kernel that runs on the executor uses it. Launches
 * that are under way are waited for, for a second: -EBUSY when they go on, and nothing is done. NULL is
 * allowed. Any thread. */
GW_API int gw_host_close(struct gw_host_server *server);

/* As the executor addresses it: pass it to kernels. Any thread. */
GW_API struct gw_host *gw_host_handle(const struct gw_host_server *server);

/* Waits until every line that was there when it was called is printed. Any thread. -ETIMEDOUT: a kernel has
 * not finished writing one, or printing takes too long; -EIO (CUDA). */
GW_API int gw_host_flush(struct gw_host_server *server, uint64_t deadline_ns);

struct gw_host_counts {
    uint64_t launches, failed; /* ended; of those, with an error */
    uint64_t printed, lost;    /* lines; lost: as far as it has been told */
};

/* Tells what the server has done so far. Any thread. */
GW_API void gw_host_query(struct gw_host_server *server, struct gw_host_counts *counts);

#ifdef __cplusplus
}
#endif

/* ---- kernels: launches -------------------------------------------------------------------------------- */

/* The place of the kernel of that name (its first 59 bytes) in the table; any thread. -ENOENT: there is none.
 */
GW_SLOW_FN int gw_host_find(const struct gw_host *h, const char *name);

/*
 * Launches a kernel of the table, and waits for its end. It gets `grid` blocks of `block` threads, and a copy
 * of *arg, which is as large as that kernel's argument. A block, a warp or a thread calls it; a block's or
 * warp's threads copy *arg together. The other launches of the server run at the same time where there is
 * room, and so does the asking kernel. A launch whose blocks find no room on the GPU, because resident
 * kernels fill it, begins when there is some. 0, or
 *
 *   `-EINVAL`                no such kernel, or sizes that make no sense.
 *   `-ENOSYS`                the kernel has no GPU version.
 *   `-EIO`                   it failed.
 *   `-ENOMEM`, `-EAGAIN`     of the host.
 *   `-ETIMEDOUT`             it goes on, and its end is not reported.
 *   `-EAGAIN`, `-ETIMEDOUT`  the deadline had passed before it was asked for (-EAGAIN: it was 0).
 *
 * A kernel that waits for another waits until the deadline if at_once others do the same.
 */
GW_DEV int gw_host_launch(struct gw_host *h, uint32_t kernel, uint32_t grid, uint32_t block, const void *arg,
                          uint64_t deadline_ns);
GW_DEV int gw_host_launch_warp(struct gw_host *h, uint32_t kernel, uint32_t grid, uint32_t block,
                               const void *arg, uint64_t deadline_ns);
GW_DEV int gw_host_launch_thread(struct gw_host *h, uint32_t kernel, uint32_t grid, uint32_t block,
                                 const void *arg, uint64_t deadline_ns);

/*
 * Asks for a launch and does not wait for it. A block, a warp or a thread calls it, as gw_host_launch. The
 * deadline is for a free slot, of which there are 32. *ticket, a variable of each thread's own, is for
 * gw_host_wait, which must follow. With ticket NULL the launch's result is not reported (gw_host_query counts
 * those that failed). 0; -EINVAL; -EAGAIN, -ETIMEDOUT: no slot was free. (Seven arguments: a launch's six and
 * the ticket.)
 */
GW_DEV int gw_host_start(struct gw_host *h, uint32_t kernel, uint32_t grid, uint32_t block, const void *arg,
                         uint64_t *ticket, uint64_t deadline_ns);
GW_DEV int gw_host_start_warp(struct gw_host *h, uint32_t kernel, uint32_t grid, uint32_t block,
                              const void *arg, uint64_t *ticket, uint64_t deadline_ns);
GW_DEV int gw_host_start_thread(struct gw_host *h, uint32_t kernel, uint32_t grid, uint32_t block,
                                const void *arg, uint64_t *ticket, uint64_t deadline_ns);

/* Waits for what was started, once: the ticket is worthless after any result but -EAGAIN and -ETIMEDOUT. A
 * block, a warp or a thread calls it, not necessarily the group that started. Results as gw_host_launch's.
 * -EINVAL: no such ticket. */
GW_DEV int gw_host_wait(struct gw_host *h, uint64_t ticket, uint64_t deadline_ns);
GW_DEV int gw_host_wait_warp(struct gw_host *h, uint64_t ticket, uint64_t deadline_ns);
GW_DEV int gw_host_wait_thread(struct gw_host *h, uint64_t ticket, uint64_t deadline_ns);

/* ---- kernels: time ------------------------------------------------------------------------------------ */

/*
 * Nanoseconds since the epoch (1970, UTC); any thread. CPU: CLOCK_REALTIME. On a GPU this is %globaltimer
 * plus its distance from the host's clock, as the server has found it. The distance is exact to a few µs. The
 * server measures it again every 10 s, and only then is a step of the host's clock seen. One load from host
 * memory, about 1 µs. To measure with, take gw_clock_ns: this clock may go backwards.
 */
GW_FN uint64_t gw_time(const struct gw_host *h);

/* ---- kernels: printing -------------------------------------------------------------------------------- */

/*
 * int gw_printf(struct gw_host *h, const char *format, …), a macro: printf for any thread, with up to 8
 * values. It never waits: it writes format and values to the server's ring, and the server makes text of
 * them. Each call's text is printed in one piece; those of one thread in order.
 *
 * Conversions are C's with flags, width and precision, but for * and n; length modifiers are not needed,
 * since each value brings its type along. Text (%s) is copied: format and texts have 400 bytes together, what
 * is longer is cut, and the line ends with "…". The format must be a constant for compilers to check it.
 *
 * 0; -ENOSPC: the ring is full and the line is lost. It is counted, and the next line that is printed, or the
 * end, is preceded by how many were.
 */
#define gw_printf(h, ...)                                                                                    \
    ((void)sizeof(printf(__VA_ARGS__)),                                                                      \
     gw_print_end_(GW_PRINT_PICK_(__VA_ARGS__, GW_PRINT_8_, GW_PRINT_7_, GW_PRINT_6_, GW_PRINT_5_,           \
                                  GW_PRINT_4_, GW_PRINT_3_, GW_PRINT_2_, GW_PRINT_1_,                        \
                                  GW_PRINT_0_, )(h, __VA_ARGS__)))

/* Prints a text as it is; otherwise as gw_printf. Any thread. 0, -ENOSPC. */
GW_SLOW_FN int gw_puts(struct gw_host *h, const char *text);

#include <gpuwire/detail/host/launch.h>
#include <gpuwire/detail/host/print.h>

#endif
