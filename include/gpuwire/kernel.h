/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.h: the language kernels are written in: the common subset of C11 and CUDA C++, plus what is here.
 *
 *     // in a header that add_kernel.c and add_kernel.cu include; gw_kernels(target add_kernel) builds both
 *     struct add_args { const uint32_t *in; uint32_t *out; uint32_t n; };
 *
 *     GW_KERNEL(add_one, struct add_args, a)
 *     {
 *         uint32_t i;
 *         for (i = gw_global_idx(); i < a->n; i += gw_global_dim()) a->out[i] = a->in[i] + 1;
 *     }
 *
 *     // the program
 *     GW_KERNEL_DECLARE(add_one);
 *     gw_launch(exec, &add_one, 8, 128, &args);      // <gpuwire/exec.h>
 *
 * The kernel and its program may also share one .cu file. Such a kernel runs on a GPU alone: it has no CPU
 * side.
 *
 * On the GPU executor a kernel is a CUDA kernel. On the CPU executor a block is a team of threads. It has as
 * many as the launch asks for, but not more than the executor's `lanes`, which are 1 unless asked otherwise.
 * A warp is 32 of them, or fewer when there are fewer. A kernel must therefore take its sizes from
 * gw_block_dim() and gw_warp_size(), never from the numbers that it was launched with.
 *
 * The same functions may be called outside a kernel, on any CPU thread: it is then a block of one thread. But
 * for gw_syncthreads and gw_syncwarp they order no memory.
 *
 * C and CUDA C++ differ, so keep to what both have. Cast void pointers. Write designated initialisers in
 * order. Use no VLAs and no compound literals. A function that only kernels call is GW_DEV; one that host
 * code calls too is GW_FN.
 */
#ifndef GPUWIRE_KERNEL_H
#define GPUWIRE_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/fn.h>
#include <gpuwire/sync.h>

/* A kernel as the host sees it, on both executors. Its `gpu` is NULL when the program was built without nvcc,
 * and `cpu` is NULL when only a .cu file defines the kernel. */
struct gw_kernel {
    const char *name;
    size_t arg_size;
    void (*cpu)(const void *arg);
    int (*gpu)(uint32_t grid, uint32_t block, const void *arg, void *stream); /* returns a cudaError_t */
};

/* Arguments are copied at launch; CUDA passes at most this much. */
#define GW_KERNEL_ARG_MAX 4096

#ifdef __cplusplus
#define GW_KERNEL_DECLARE(name) extern "C" const struct gw_kernel name
#else
#define GW_KERNEL_DECLARE(name) extern const struct gw_kernel name
#endif

#ifdef __CUDACC__
/* ---- GPU ---------------------------------------------------------------------------------------------- */

#define GW_DEV static __device__ inline
/* As GW_DEV, kept out of line: for long code with many callers. */
#define GW_SLOW_DEV static __attribute__((unused)) __noinline__ __device__

/*
 * GW_KERNEL(name, type, arg) { body }: defines the kernel `name`, which takes one struct; in the body arg is
 * a `const type *`. The struct is copied at launch (on a GPU it lies in constant memory: reading it is
 * cheap). In what nvcc compiles, the kernel's struct gw_kernel is weak: a C file of the same kernel replaces
 * it.
 */
#define GW_KERNEL(name, type, arg)                                                                           \
    static __device__ void name##_body(const type *arg);                                                     \
    static __global__ void name##_global(const __grid_constant__ type args)                                  \
    {                                                                                                        \
        name##_body(&args);                                                                                  \
    }                                                                                                        \
    extern "C" __attribute__((visibility("hidden"))) int name##_gpu(uint32_t grid, uint32_t block,           \
                                                                    const void *p, void *stream)             \
    {                                                                                                        \
        static_assert(sizeof(type) <= GW_KERNEL_ARG_MAX, #type " is too large for a kernel's argument");     \
        type args;                                                                                           \
        memcpy(&args, p, sizeof(args));                                                                      \
        name##_global<<<grid, block, 0, (cudaStream_t)stream>>>(args);                                       \
        return (int)cudaGetLastError();                                                                      \
    }                                                                                                        \
    GW_KERNEL_DECLARE(name);                                                                                 \
    __attribute__((weak)) const struct gw_kernel name = {#name, sizeof(type), NULL, name##_gpu};             \
    static __device__ void name##_body(const type *arg)

/*
 * GW_SHARED(type, p): defines `type *p`, which points to one object shared by the threads of the block. Its
 * contents are undefined at first (the CPU executor fills it with 0xa5). 48 KiB in all. Only in a kernel or a
 * GW_DEV function.
 */
#define GW_SHARED(type, p)                                                                                   \
    __shared__ type p##_storage;                                                                             \
    type *const p = &p##_storage

/* The calling thread's place in its block. */
GW_DEV uint32_t gw_thread_idx(void)
{
    return threadIdx.x;
}
/* Threads in a block. */
GW_DEV uint32_t gw_block_dim(void)
{
    return blockDim.x;
}
/* The block's place in the grid. */
GW_DEV uint32_t gw_block_idx(void)
{
    return blockIdx.x;
}
/* Blocks in the grid. */
GW_DEV uint32_t gw_grid_dim(void)
{
    return gridDim.x;
}

/* Waits for all threads of the block that have not returned from the kernel; what they did before is visible
 * after. */
GW_DEV void gw_syncthreads(void)
{
    __syncthreads();
}

/* Waits for the threads of the warp named in mask, all of which must call it; what they did before is visible
 * after. */
GW_DEV void gw_syncwarp(uint32_t mask)
{
    __syncwarp(mask);
}

/* Bit i says that lane i's pred is not 0. As the warp functions that follow, every thread of the warp that
 * mask names calls it. It returns when all have called it, and orders no memory (gw_syncwarp does). */
GW_DEV uint32_t gw_ballot(uint32_t mask, int pred)
{
    return __ballot_sync(mask, pred);
}
/* 1 if any thread's pred is not 0, else 0; as gw_ballot. */
GW_DEV int gw_any(uint32_t mask, int pred)
{
    return __any_sync(mask, pred);
}
/* 1 if every thread's pred is not 0, else 0; as gw_ballot. */
GW_DEV int gw_all(uint32_t mask, int pred)
{
    return __all_sync(mask, pred);
}
/* Lane src's value, src being in mask; as gw_ballot. */
GW_DEV uint32_t gw_shfl_u32(uint32_t mask, uint32_t v, uint32_t src)
{
    return __shfl_sync(mask, v, (int)src);
}
/* As gw_shfl_u32. */
GW_DEV uint64_t gw_shfl_u64(uint32_t mask, uint64_t v, uint32_t src)
{
    return (uint64_t)__shfl_sync(mask, (unsigned long long)v, (int)src);
}

#else
/* ---- CPU ---------------------------------------------------------------------------------------------- */

#define GW_DEV      static inline
#define GW_SLOW_DEV static __attribute__((unused, noinline))

#ifdef GW_HAVE_CUDA
#define GW_KERNEL_GPU_(name) name##_gpu
#define GW_KERNEL_GPU_DECL_(name)                                                                            \
    extern __attribute__((visibility("hidden"))) int name##_gpu(uint32_t grid, uint32_t block,               \
                                                                const void *p, void *stream);
#else
#define GW_KERNEL_GPU_(name) NULL
#define GW_KERNEL_GPU_DECL_(name)
#endif

#define GW_KERNEL(name, type, arg)                                                                           \
    static_assert(sizeof(type) <= GW_KERNEL_ARG_MAX, #type " is too large for a kernel's argument");         \
    static void name##_body(const type *arg);                                                                \
    static void name##_cpu(const void *p)                                                                    \
    {                                                                                                        \
        name##_body((const type *)p);                                                                        \
    }                                                                                                        \
    GW_KERNEL_GPU_DECL_(name)                                                                                \
    GW_KERNEL_DECLARE(name);                                                                                 \
    const struct gw_kernel name = {#name, sizeof(type), name##_cpu, GW_KERNEL_GPU_(name)};                   \
    static void name##_body(const type *arg)

#define GW_SHARED(type, p)                                                                                   \
    static_assert(sizeof(type) <= 48 << 10, #type " is too large to be shared");                             \
    static const char p##_key = 0;                                                                           \
    type *const p = (type *)gw_cpu_shared(&p##_key, sizeof(type))

/* The calling thread's place. Outside a kernel: the only thread of the only block. The executor sets it for
 * its threads. The linker chooses how it is reached. A program that loads the library when it runs has no
 * room for the fastest way. That would need all of the library's variables of this kind, and CUDA's, in one
 * place. */
struct gw_cpu_block;
struct gw_cpu_thread {
    uint32_t thread_idx, block_dim, block_idx, grid_dim;
    struct gw_cpu_block *block; /* NULL outside a kernel */
};

#ifdef __cplusplus
extern "C" {
#endif
extern GW_API __thread struct gw_cpu_thread gw_cpu_self;

enum gw_cpu_warp_op { GW_CPU_SYNC, GW_CPU_BALLOT, GW_CPU_SHFL };
/* On CPU threads GW_SHARED, gw_syncthreads and the warp functions are made of these. Call those instead.
 * Sizes are bytes. */
GW_API void *gw_cpu_shared(const void *key, size_t size);
GW_API void gw_cpu_syncthreads(void);
GW_API uint64_t gw_cpu_warp(enum gw_cpu_warp_op op, uint32_t mask, uint64_t v, uint32_t src);
#ifdef __cplusplus
}
#endif

GW_DEV uint32_t gw_thread_idx(void)
{
    return gw_cpu_self.thread_idx;
}
GW_DEV uint32_t gw_block_dim(void)
{
    return gw_cpu_self.block_dim;
}
GW_DEV uint32_t gw_block_idx(void)
{
    return gw_cpu_self.block_idx;
}
GW_DEV uint32_t gw_grid_dim(void)
{
    return gw_cpu_self.grid_dim;
}

/* A block of one thread, the usual case on a CPU, pays nothing for these. */
GW_DEV void gw_syncthreads(void)
{
    if (gw_cpu_self.block_dim > 1) gw_cpu_syncthreads();
}

GW_DEV void gw_syncwarp(uint32_t mask)
{
    if (gw_cpu_self.block_dim > 1) gw_cpu_warp(GW_CPU_SYNC, mask, 0, 0);
}

GW_DEV uint32_t gw_ballot(uint32_t mask, int pred)
{
    if (gw_cpu_self.block_dim > 1) return (uint32_t)gw_cpu_warp(GW_CPU_BALLOT, mask, pred != 0, 0);
    return pred != 0;
}

GW_DEV int gw_any(uint32_t mask, int pred)
{
    return gw_ballot(mask, pred) != 0;
}
GW_DEV int gw_all(uint32_t mask, int pred)
{
    return gw_ballot(mask, !pred) == 0;
}

GW_DEV uint64_t gw_shfl_u64(uint32_t mask, uint64_t v, uint32_t src)
{
    if (gw_cpu_self.block_dim > 1) return gw_cpu_warp(GW_CPU_SHFL, mask, v, src);
    return v;
}

GW_DEV uint32_t gw_shfl_u32(uint32_t mask, uint32_t v, uint32_t src)
{
    return (uint32_t)gw_shfl_u64(mask, v, src);
}
#endif

/* ---- both --------------------------------------------------------------------------------------------- */

/* This thread's place in its warp. */
GW_DEV uint32_t gw_lane(void)
{
    return gw_thread_idx() & 31;
}
/* The warp's place in the block. */
GW_DEV uint32_t gw_warp_idx(void)
{
    return gw_thread_idx() >> 5;
}
/* How many threads the warp has: 32, but for the last warp of a block whose size is no multiple of 32. */
GW_DEV uint32_t gw_warp_size(void)
{
    uint32_t left = gw_block_dim() - (gw_thread_idx() & ~31u);

    return left < 32 ? left : 32;
}

/* Adds v to a word that the block's threads share (GW_SHARED), and returns what was there. Any thread.
 * Threads that add to one word at once all count. It orders no other memory. Before others read the sum,
 * gw_syncthreads must follow. */
GW_DEV uint32_t gw_shared_add_u32(uint32_t *p, uint32_t v)
{
#ifdef __CUDACC__
    return atomicAdd(p, v);
#else
    if (gw_cpu_self.block_dim > 1) return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
    *p += v;
    return *p - v;
#endif
}

/* All threads of this warp, as a mask. */
GW_DEV uint32_t gw_warp_mask(void)
{
    return 0xffffffffu >> (32 - gw_warp_size());
}

/* The same for functions in which every thread of the warp takes part. On a GPU a constant, which spares them
 * the question whether all threads have named the same ones: threads that do not exist need not be left out.
 */
GW_DEV uint32_t gw_warp_all(void)
{
#ifdef __CUDACC__
    return 0xffffffffu;
#else
    return gw_warp_mask();
#endif
}

/* This thread's place in the whole grid. */
GW_DEV uint32_t gw_global_idx(void)
{
    return gw_block_idx() * gw_block_dim() + gw_thread_idx();
}
/* How many threads the grid has. */
GW_DEV uint32_t gw_global_dim(void)
{
    return gw_grid_dim() * gw_block_dim();
}

#endif
