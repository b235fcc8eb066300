/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU executor: finding the device, launching, waiting. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/exec/gpu.h"
#include "src/exec/gpu_why.h"

/* ---- errors -------------------------------------------------------------------------------------------- */

static int gpu_errno_of(cudaError_t error)
{
    switch (error) {
    case cudaSuccess: return 0;
    case cudaErrorMemoryAllocation: return -ENOMEM;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration: return -EINVAL;
    case cudaErrorNotPermitted: return -EPERM;
    case cudaErrorNotSupported: return -ENOTSUP;
    case cudaErrorHostMemoryAlreadyRegistered: return -EEXIST;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorDevicesUnavailable: return -ENODEV;
    default: return -EIO;
    }
}

int gw_gpu_error(cudaError_t error, const char *format, ...)
{
    char what[320];
    va_list args;

    if (error == cudaSuccess) return 0;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    cudaGetLastError();
    return gw_error(gpu_errno_of(error), "%s: CUDA error %d, %s", what, (int)error,
                    cudaGetErrorString(error));
}

int gw_gpu_use(struct gw_exec *exec)
{
    return gw_gpu_error(cudaSetDevice((int)exec->device), "cannot use GPU %u", exec->device);
}

/* ---- is there one -------------------------------------------------------------------------------------- */

/* A kernel that is loaded lazily waits for the device to be idle, which it never is while a resident loop
 * runs. CUDA looks at this when it starts. */
static void load_eagerly(void)
{
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

static_assert((int)GW_CUDA_OLD_DRIVER == (int)cudaErrorInsufficientDriver &&
                  (int)GW_CUDA_NO_DEVICE == (int)cudaErrorNoDevice &&
                  (int)GW_CUDA_NOT_PERMITTED == (int)cudaErrorNotPermitted,
              "gpu_why.h numbers errors as CUDA does");

static void driver_reason(cudaError_t error, char *why, size_t size)
{
    int driver = 0, runtime = 0;

    cudaGetLastError();
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    gw_gpu_why_none((int)error, cudaGetErrorString(error), driver, runtime, why, size);
}

static int device_usable(int device, char *why, size_t size)
{
    int major = 0, minor = 0;

    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (major * 10 + minor >= 75) return 1;
    gw_gpu_why_old(device, major, minor, why, size);
    return 0;
}

static int gpu_usable(uint32_t device, char *why, size_t size)
{
    cudaError_t error;
    int n = 0;

    load_eagerly();
    error = cudaGetDeviceCount(&n);
    if (error != cudaSuccess || !n) {
        driver_reason(error != cudaSuccess ? error : cudaErrorNoDevice, why, size);
        return 0;
    }
    if (device >= (uint32_t)n) {
        snprintf(why, size, "there is no GPU %u: they are 0 to %d", device, n - 1);
        return 0;
    }
    return device_usable((int)device, why, size);
}

int gw_gpu_available(char *why, size_t size)
{
    char unused[160];

    return why ? gpu_usable(0, why, size) : gpu_usable(0, unused, sizeof(unused));
}

/* ---- launches ------------------------------------------------------------------------------------------ */

static struct gw_gpu_exec *gpu_exec_of(struct gw_exec *exec)
{
    return (struct gw_gpu_exec *)exec;
}

static int gpu_launch(struct gw_exec *exec, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
                      const void *arg)
{
    struct gw_gpu_exec *e = gpu_exec_of(exec);
    int err;

    if (!kernel->gpu) return gw_error(-ENOSYS, "kernel %s has no GPU version", kernel->name);
    err = gw_gpu_use(exec);
    if (err) return err;
    return gw_gpu_error((cudaError_t)kernel->gpu(grid, block, arg, e->launches),
                        "cannot launch kernel %s with %u blocks of %u threads on GPU %u", kernel->name, grid,
                        block, exec->device);
}

static void gpu_nap(uint64_t ns)
{
    struct timespec ts = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

    nanosleep(&ts, NULL);
}

/* CUDA's own waits have no deadline. The first 50 µs are spent looking, then it naps a sixteenth of the time
 * waited so far, 1 ms at most. */
static int gpu_sync(struct gw_exec *exec, uint64_t deadline_ns)
{
    struct gw_gpu_exec *e = gpu_exec_of(exec);
    uint64_t start = gw_clock_ns(), now;
    cudaError_t error;
    int err = gw_gpu_use(exec);

    if (err) return err;
    while ((error = cudaStreamQuery(e->launches)) == cudaErrorNotReady) {
        now = gw_clock_ns();
        if (now >= deadline_ns)
            return gw_error(-ETIMEDOUT, "kernels still run on GPU %u at the deadline", exec->device);
        if (now - start > 50000) gpu_nap((now - start) / 16 < 1000000 ? (now - start) / 16 : 1000000);
    }
    return gw_gpu_error(error, "a kernel failed on GPU %u", exec->device);
}

/* ---- the executor -------------------------------------------------------------------------------------- */

static int gpu_destroy(struct gw_exec *exec)
{
    struct gw_gpu_exec *e = gpu_exec_of(exec);

    gw_gpu_use(exec);
    if (cudaStreamQuery(e->launches) == cudaErrorNotReady)
        return gw_error(-EBUSY, "executor %s: a kernel still runs", exec->name);
    cudaStreamDestroy(e->launches);
    cudaStreamDestroy(e->copies);
    cudaGetLastError();
    free(e);
    return 0;
}

static const struct gw_exec_ops gpu_ops = {
    gpu_destroy,
    gw_gpu_mem_alloc,
    gw_gpu_mem_free,
    gw_gpu_mem_register,
    gw_gpu_mem_unregister,
    gw_gpu_copy_in,
    gw_gpu_copy_out,
    gpu_launch,
    gpu_sync,
};

static int gpu_open_streams(struct gw_gpu_exec *e)
{
    int err = gw_gpu_use(&e->base);

    if (!err)
        err = gw_gpu_error(cudaStreamCreateWithFlags(&e->launches, cudaStreamNonBlocking),
                           "cannot make a stream on GPU %u", e->base.device);
    if (!err)
        err = gw_gpu_error(cudaStreamCreateWithFlags(&e->copies, cudaStreamNonBlocking),
                           "cannot make a stream on GPU %u", e->base.device);
    if (err && e->launches) cudaStreamDestroy(e->launches);
    return err;
}

int gw_gpu_exec_create(const struct gw_exec_opts *opts, struct gw_exec **exec)
{
    struct gw_gpu_exec *e;
    struct cudaDeviceProp prop;
    char why[192];
    int err;

    if (!gpu_usable(opts->device, why, sizeof(why))) return gw_error(-ENODEV, "no GPU: %s", why);
    e = (struct gw_gpu_exec *)calloc(1, sizeof(*e));
    if (!e) return gw_error(-ENOMEM, "no memory for an executor");
    e->base.ops = &gpu_ops;
    e->base.kind = GW_EXEC_GPU;
    e->base.lanes = 1024;
    e->base.device = opts->device;
    err = gw_gpu_error(cudaGetDeviceProperties(&prop, (int)opts->device), "GPU %u", opts->device);
    if (!err) err = gpu_open_streams(e);
    if (err) {
        free(e);
        return err;
    }
    e->base.blocks = (uint32_t)prop.multiProcessorCount;
    e->base.stream = e->launches;
    snprintf(e->base.name, sizeof(e->base.name), "gpu %u, %.96s", opts->device, prop.name);
    *exec = &e->base;
    return 0;
}
