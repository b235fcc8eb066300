/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU executor without a GPU, linked before the library's own. The code that makes devices, regions and
 * queues for a GPU runs with it, and kernels run on a CPU thread. Its memory is the fake CUDA driver's
 * (tests/wire/fake_cuda_driver.c, as libcuda.so.1). FAKE_GPU_IO=refused: the driver does not map registers;
 * lost: it does, and what kernels write there goes nowhere. FAKE_GPU_IS=none|old-driver|hidden|old|broken:
 * what CUDA says instead of starting.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/exec/gpu_why.h"
#include "src/exec/impl.h"

static struct gw_exec *cpu;                                    /* where kernels run */
static uint64_t nowhere[8192] __attribute__((aligned(65536))); /* a page, however large they are */

typedef int (*alloc_fn)(unsigned long long *p, size_t size);
typedef void (*touch_fn)(int may);
typedef int (*free_fn)(unsigned long long p);
typedef int (*in_fn)(unsigned long long to, const void *from, size_t n);
typedef int (*out_fn)(void *to, unsigned long long from, size_t n);

static void *driver(const char *name)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW), *f = lib ? dlsym(lib, name) : NULL;

    if (!f) abort(); /* the test has not set LD_LIBRARY_PATH */
    return f;
}

static int destroy(struct gw_exec *exec)
{
    free(exec);
    return cpu->ops->destroy(cpu);
}

static int mem_alloc(struct gw_exec *exec, struct gw_mem *mem)
{
    unsigned long long p = 0;

    (void)exec;
    if (mem->kind == GW_MEM_HOST) {
        mem->host = mem->dev = aligned_alloc(gw_page(), mem->size);
        return mem->host ? memset(mem->host, 0, mem->size), 0 : -ENOMEM;
    }
    if (((alloc_fn)driver("cuMemAlloc_v2"))(&p, mem->size))
        return gw_error(-ENOMEM, "the fake GPU has no more");
    mem->dev = (void *)(uintptr_t)p;
    return 0;
}

static void mem_free(struct gw_mem *mem)
{
    if (mem->kind == GW_MEM_HOST)
        free(mem->host);
    else
        ((free_fn)driver("cuMemFree_v2"))((uintptr_t)mem->dev);
}

static int mem_register(struct gw_exec *exec, struct gw_mem *mem, uint32_t flags)
{
    const char *io = getenv("FAKE_GPU_IO");

    if (flags & GW_MEM_IO && io && !strcmp(io, "refused")) return gw_gpu_why_io(exec->device);
    mem->dev = mem->host;
    if (flags & GW_MEM_IO && io && !strcmp(io, "lost")) mem->dev = nowhere;
    return 0;
}

static void mem_unregister(struct gw_mem *mem)
{
    (void)mem;
}

static int copy_in(struct gw_exec *exec, void *dev, const void *host, size_t size)
{
    (void)exec;
    return ((in_fn)driver("cuMemcpyHtoD_v2"))((uintptr_t)dev, host, size) ? -EIO : 0;
}

static int copy_out(struct gw_exec *exec, void *host, const void *dev, size_t size)
{
    (void)exec;
    return ((out_fn)driver("cuMemcpyDtoH_v2"))(host, (uintptr_t)dev, size) ? -EIO : 0;
}

static int launch(struct gw_exec *exec, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
                  const void *arg)
{
    (void)exec;
    ((touch_fn)driver("fake_cuda_kernels"))(1);
    return cpu->ops->launch(cpu, kernel, grid, block, arg);
}

static int sync_all(struct gw_exec *exec, uint64_t deadline_ns)
{
    int err = cpu->ops->sync(cpu, deadline_ns);

    (void)exec;
    if (err != -ETIMEDOUT) ((touch_fn)driver("fake_cuda_kernels"))(0);
    return err;
}

static const struct gw_exec_ops ops = {destroy, mem_alloc, mem_free, mem_register, mem_unregister,
                                       copy_in, copy_out,  launch,   sync_all};

int gw_gpu_available(char *why, size_t size)
{
    const char *is = getenv("FAKE_GPU_IS");
    char unused[200];

    if (!is) return 1;
    if (!why) why = unused, size = sizeof(unused);
    if (!strcmp(is, "old"))
        gw_gpu_why_old(0, 6, 1, why, size);
    else if (!strcmp(is, "old-driver"))
        gw_gpu_why_none(GW_CUDA_OLD_DRIVER, "", 11040, 12080, why, size);
    else if (!strcmp(is, "hidden"))
        gw_gpu_why_none(GW_CUDA_NO_DEVICE, "", 12080, 12080, why, size);
    else if (!strcmp(is, "broken"))
        gw_gpu_why_none(999, "unknown error", 12080, 12080, why, size);
    else
        gw_gpu_why_none(GW_CUDA_NO_DEVICE, "", 0, 12080, why, size);
    return 0;
}

int gw_gpu_exec_create(const struct gw_exec_opts *opts, struct gw_exec **exec)
{
    struct gw_exec *e;
    char why[200];

    int err;

    if (!gw_gpu_available(why, sizeof(why))) return gw_error(-ENODEV, "no GPU: %s", why);
    e = calloc(1, sizeof(*e));
    if (!e) return gw_error(-ENOMEM, "no memory for an executor");
    *e = (struct gw_exec){
        .ops = &ops, .kind = GW_EXEC_GPU, .lanes = 1024, .blocks = 1, .name = "gpu 0, made of host memory"};
    err = gw_cpu_exec_create(opts, &cpu);
    *exec = e;
    return err;
}
