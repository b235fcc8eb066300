/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU executor's memory: its own, pinned host memory, and what others have allocated. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/exec/gpu.h"
#include "src/exec/gpu_why.h"

/* ---- allocation ---------------------------------------------------------------------------------------- */

/* Whole pages, so that nothing else is pinned with them. */
static int alloc_pages(struct gw_mem *mem)
{
    if (posix_memalign(&mem->host, mem->size >= GW_HUGE_PAGE ? GW_HUGE_PAGE : gw_page(), mem->size))
        return gw_error(-ENOMEM, "no memory: %zu bytes were asked for", mem->size);
    memset(mem->host, 0, mem->size);
    return 0;
}

static int alloc_host(struct gw_mem *mem)
{
    cudaError_t error;
    int err = alloc_pages(mem);

    if (err) return err;
    error = cudaHostRegister(mem->host, mem->size, cudaHostRegisterMapped | cudaHostRegisterPortable);
    if (error == cudaSuccess) {
        error = cudaHostGetDevicePointer(&mem->dev, mem->host, 0);
        if (error != cudaSuccess) cudaHostUnregister(mem->host);
    }
    if (error != cudaSuccess) free(mem->host);
    return gw_gpu_error(error, "cannot pin %zu bytes of host memory for GPU %u (see ulimit -l)", mem->size,
                        mem->exec->device);
}

static int alloc_device(struct gw_mem *mem)
{
    struct gw_gpu_exec *e = (struct gw_gpu_exec *)mem->exec;
    cudaError_t error = cudaMalloc(&mem->dev, mem->size);

    if (error == cudaSuccess) {
        error = cudaMemsetAsync(mem->dev, 0, mem->size, e->copies);
        if (error == cudaSuccess) error = cudaStreamSynchronize(e->copies);
        if (error != cudaSuccess) cudaFree(mem->dev);
    }
    return gw_gpu_error(error, "cannot allocate %zu bytes on GPU %u", mem->size, mem->exec->device);
}

int gw_gpu_mem_alloc(struct gw_exec *exec, struct gw_mem *mem)
{
    int err = gw_gpu_use(exec);

    if (err) return err;
    return mem->kind == GW_MEM_HOST ? alloc_host(mem) : alloc_device(mem);
}

void gw_gpu_mem_free(struct gw_mem *mem)
{
    gw_gpu_use(mem->exec);
    if (mem->kind == GW_MEM_HOST) {
        cudaHostUnregister(mem->host);
        free(mem->host);
    } else {
        cudaFree(mem->dev);
    }
    cudaGetLastError();
}

/* ---- registration -------------------------------------------------------------------------------------- */

static void *page_of(const void *p)
{
    return (void *)((uintptr_t)p & ~(uintptr_t)(gw_page() - 1));
}

static int register_error(cudaError_t error, const struct gw_mem *mem, uint32_t flags)
{
    if (error == cudaErrorNotPermitted && (flags & GW_MEM_IO)) {
        cudaGetLastError();
        return gw_gpu_why_io(mem->exec->device);
    }
    return gw_gpu_error(error, "cannot map %zu bytes at %p into GPU %u", mem->size, mem->host,
                        mem->exec->device);
}

int gw_gpu_mem_register(struct gw_exec *exec, struct gw_mem *mem, uint32_t flags)
{
    const unsigned int plain = cudaHostRegisterMapped | cudaHostRegisterPortable;
    char *start = (char *)page_of(mem->host), *end = (char *)mem->host + mem->size;
    cudaError_t error = cudaErrorInvalidValue;
    size_t size = (size_t)(end - start + gw_page() - 1) & ~(size_t)(gw_page() - 1);
    void *dev;
    int err = gw_gpu_use(exec);

    if (err) return err;
    /* CUDA tells I/O memory from plain memory by itself: it takes neither for the other. */
    if (flags & GW_MEM_IO) {
        error = cudaHostRegister(start, size, plain | cudaHostRegisterIoMemory);
        if (error == cudaErrorInvalidValue) cudaGetLastError();
    }
    if (error == cudaErrorInvalidValue) error = cudaHostRegister(start, size, plain);
    if (error != cudaSuccess) return register_error(error, mem, flags);
    error = cudaHostGetDevicePointer(&dev, start, 0);
    if (error != cudaSuccess) {
        cudaHostUnregister(start);
        return register_error(error, mem, flags);
    }
    mem->dev = (char *)dev + ((char *)mem->host - start);
    return 0;
}

void gw_gpu_mem_unregister(struct gw_mem *mem)
{
    gw_gpu_use(mem->exec);
    cudaHostUnregister(page_of(mem->host));
    cudaGetLastError();
}

/* ---- copies -------------------------------------------------------------------------------------------- */

static int gpu_mem_copy(struct gw_exec *exec, void *to, const void *from, size_t size)
{
    struct gw_gpu_exec *e = (struct gw_gpu_exec *)exec;
    cudaError_t error;
    int err = gw_gpu_use(exec);

    if (err) return err;
    /* Unified addresses tell CUDA which side is which, mapped host memory as "dev" included. */
    error = cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, e->copies);
    if (error == cudaSuccess) error = cudaStreamSynchronize(e->copies);
    return gw_gpu_error(error, "cannot copy %zu bytes from %p to %p (GPU %u)", size, from, to, exec->device);
}

int gw_gpu_copy_in(struct gw_exec *exec, void *dev, const void *host, size_t size)
{
    return gpu_mem_copy(exec, dev, host, size);
}

int gw_gpu_copy_out(struct gw_exec *exec, void *host, const void *dev, size_t size)
{
    return gpu_mem_copy(exec, host, dev, size);
}
