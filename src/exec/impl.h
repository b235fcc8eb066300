/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of exec/ and loop/. */
#ifndef GW_EXEC_IMPL_H
#define GW_EXEC_IMPL_H

#include <unistd.h>

#include <gpuwire/exec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The operations of an executor. Arguments have been checked by exec.c. */
struct gw_exec_ops {
    int (*destroy)(struct gw_exec *exec); /* -EBUSY while a launch runs */
    int (*mem_alloc)(struct gw_exec *exec, struct gw_mem *mem);
    void (*mem_free)(struct gw_mem *mem);
    int (*mem_register)(struct gw_exec *exec, struct gw_mem *mem, uint32_t flags);
    void (*mem_unregister)(struct gw_mem *mem);
    int (*copy_in)(struct gw_exec *exec, void *dev, const void *host, size_t size);
    int (*copy_out)(struct gw_exec *exec, void *host, const void *dev, size_t size);
    int (*launch)(struct gw_exec *exec, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
                  const void *arg);
    int (*sync)(struct gw_exec *exec, uint64_t deadline_ns);
};

/* The part that all executors begin with. */
struct gw_exec {
    const struct gw_exec_ops *ops;
    enum gw_exec_kind kind;
    uint32_t lanes, blocks, device, cpu_pin;
    uint32_t users; /* pieces of memory and loops that need this executor; atomic */
    void *stream;
    void (*ended)(void *arg); /* CPU: called after each launch, if it was set before the first; NULL: not */
    void *ended_arg;
    char name[128];
};

int gw_cpu_exec_create(const struct gw_exec_opts *opts, struct gw_exec **exec);

/* In gpu.cu, or in gpu_none.c when there is no nvcc. */
int gw_gpu_exec_create(const struct gw_exec_opts *opts, struct gw_exec **exec);
int gw_gpu_available(char *why, size_t size);

/* The host's: 4 KiB, or 64 KiB on some Arm hosts. Memory that shares a page cannot be registered with CUDA
 * twice. */
static inline size_t gw_page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

#define GW_HUGE_PAGE (2u << 20)
#define GW_MEM_MAX   ((size_t)1 << 40) /* one allocation */

#ifdef __cplusplus
}
#endif
#endif
