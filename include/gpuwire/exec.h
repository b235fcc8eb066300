/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.h: where kernels run: a GPU, or threads of the CPU. Kernels are written as kernel.h says.
 *
 * Host functions, callable from any thread. They return 0 or a negative errno and then leave a reason in
 * gw_last_error(). Sizes are bytes, times nanoseconds on CLOCK_MONOTONIC.
 */
#ifndef GPUWIRE_EXEC_H
#define GPUWIRE_EXEC_H

#include <stddef.h>
#include <stdint.h>

#include <gpuwire/error.h>
#include <gpuwire/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gw_exec;

enum gw_exec_kind { GW_EXEC_CPU = 1, GW_EXEC_GPU = 2 };

/* How an executor is set up. All zero, or a NULL pointer, means the defaults. */
struct gw_exec_opts {
    uint32_t lanes;  /* CPU: threads in a block at most, 1 to 1024; 0: 1 */
    uint32_t blocks; /* CPU: blocks of a launch that run at once at most; 0: one per processor, 4 at least */
    uint32_t device; /* GPU: which one, by its CUDA ordinal */
    /* CPU: 1 + the processor that all its threads are bound to; 0: not bound. Where `lanes` are four or more
     * for each processor, 0 still binds the lanes of a block to one processor, each block to its own in turn.
     * Only the first lane of the first block stays free: it is the thread that runs the launches. */
    uint32_t cpu_pin;
};

/*
 * Makes an executor. which: "cpu", "gpu", or "auto" (or NULL): the GPU when there is a usable one, else the
 * CPU. Errors: -EINVAL (unknown name or option), -ENODEV (no usable GPU; the text says what is missing),
 * -ENOMEM.
 */
GW_API int gw_exec_create(const char *which, const struct gw_exec_opts *opts, struct gw_exec **exec);

/* Frees an executor. All its launches must have ended, its loops been destroyed and its memory freed: -EBUSY
 * otherwise, and nothing is done. NULL is allowed. */
GW_API int gw_exec_destroy(struct gw_exec *exec);

/* What it runs kernels on. */
GW_API enum gw_exec_kind gw_exec_kind(const struct gw_exec *exec);

/* For people: "cpu, 4 lanes", "gpu 0, NVIDIA H200". Lives as long as the executor. */
GW_API const char *gw_exec_name(const struct gw_exec *exec);

/* GPU: its CUDA ordinal. CPU: 0. */
GW_API uint32_t gw_exec_device(const struct gw_exec *exec);

/* CPU: threads a block has at most. GPU: 1024. */
GW_API uint32_t gw_exec_lanes(const struct gw_exec *exec);

/* How many blocks of any kernel with up to block threads run at the same time: kernels whose blocks wait for
 * each other must not have more. CPU: opts.blocks. GPU: its multiprocessors (one block on each always fits).
 */
GW_API uint32_t gw_exec_resident_blocks(const struct gw_exec *exec);

/* 1 when this program can use a GPU here. Otherwise 0 and, in why (may be NULL), one line that says what is
 * missing: built without nvcc, no driver, no device, a driver that is too old. */
GW_API int gw_exec_gpu_available(char *why, size_t size);

/* ---- memory ------------------------------------------------------------------------------------------- */

enum gw_mem_kind {
    GW_MEM_HOST = 1,  /* host memory, pinned, visible to the executor */
    GW_MEM_DEVICE = 2 /* the GPU's own memory; on the CPU executor host memory */
};

/* A piece of memory. host: where the CPU sees it, NULL for GPU memory. dev: where the executor's kernels see
 * it. */
struct gw_mem {
    void *host;
    void *dev;
    size_t size;
    enum gw_mem_kind kind;
    struct gw_exec *exec;
};

/* Allocates size bytes (rounded up to pages, aligned to a page at least; 2 MiB when that large), zeroed. Not
 * to be called while a kernel of a loop waits: CUDA may wait for it. Errors: -ENOMEM, -EINVAL. */
GW_API int gw_mem_alloc(struct gw_exec *exec, enum gw_mem_kind kind, size_t size, struct gw_mem *mem);

/* Frees what gw_mem_alloc gave and clears *mem. A cleared struct is allowed. On a GPU it waits for all
 * kernels that run: never call it while a loop does. */
GW_API void gw_mem_free(struct gw_mem *mem);

/* The range is a device's registers (I/O memory); plain memory is recognised and taken as such. */
#define GW_MEM_IO 1u

/*
 * Makes host memory that exists already visible to the executor's kernels, at mem->dev. start and size need
 * not be aligned to pages. On the CPU executor dev is start. flags: 0 or GW_MEM_IO. Errors: -EPERM (the
 * driver may not map this device's registers into a GPU: the text says which setting), -EINVAL, -EEXIST
 * (registered already), -ENOMEM.
 */
GW_API int gw_mem_register(struct gw_exec *exec, void *start, size_t size, uint32_t flags,
                           struct gw_mem *mem);

/* Undoes gw_mem_register and clears *mem. A cleared struct is allowed. */
GW_API void gw_mem_unregister(struct gw_mem *mem);

/* Copies between host memory and memory of the executor (addresses as its kernels see them) and waits for the
 * copy. For set-up and tests. It does not wait for kernels, and works while a loop runs. During the copy a
 * kernel may store a word of 4 or 8 bytes (gw_st_relaxed_u32, _u64): it is copied whole if everything is
 * aligned to it. Returns 0, -EIO, or -EINVAL if CUDA does not know the addresses. */
GW_API int gw_copy_in(struct gw_exec *exec, void *dev, const void *host, size_t size);
GW_API int gw_copy_out(struct gw_exec *exec, void *host, const void *dev, size_t size);

/* ---- launches ----------------------------------------------------------------------------------------- */

/*
 * Starts a kernel with grid blocks of block threads (1 to 1024) and a copy of *arg, and returns at once.
 * Launches of an executor run one after another, in order. Errors: -EINVAL (sizes), -ENOSYS (the kernel has
 * no version for this executor), -ENOSPC (too many are waiting; CPU: 64), -EIO (CUDA; the text has its
 * reason).
 */
GW_API int gw_launch(struct gw_exec *exec, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
                     const void *arg);

/* Waits until everything launched has ended. Errors: -ETIMEDOUT (at deadline_ns, see gw_deadline; the kernels
 * go on), -EIO (a kernel failed: an access out of bounds, say). */
GW_API int gw_exec_sync(struct gw_exec *exec, uint64_t deadline_ns);

/* GPU: the cudaStream_t that launches go to. CPU: NULL. */
GW_API void *gw_exec_stream(struct gw_exec *exec);

/* ---- time and waiting, on the host -------------------------------------------------------------------- */

#define GW_NEVER UINT64_MAX

/* A deadline: the CLOCK_MONOTONIC time, in nanoseconds, that lies from_now_ns ahead. Saturates at GW_NEVER.
 */
GW_API uint64_t gw_deadline(uint64_t from_now_ns);

/*
 * Sleeps until one of up to 62 file descriptors is readable (or in error or at its end). Negative ones are
 * skipped. Returns a bit mask of those that are, 0 at the deadline (in the past: just looks), or -EINTR after
 * a signal, -EINVAL, -EBADF. Bit i of the mask stands for fds[i].
 */
GW_API int64_t gw_wait_fds(const int *fds, uint32_t n, uint64_t deadline_ns);

#ifdef __cplusplus
}
#endif
#endif
