/* SPDX-License-Identifier: Apache-2.0 */
/* The few calls of the CUDA driver that the verbs need, found at run time. */
#include "src/verbs/cuda.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "src/verbs/impl.h"

/* As cuda.h of the driver numbers them. */
enum {
    CONTEXT = 1, /* of a pointer */
    MEMORY_TYPE = 2,
    IS_MANAGED = 8,
    DEVICE_ORDINAL = 9,
    MEMORY_OF_GPU = 2,      /* a type */
    DMA_BUF_FD = 1,         /* a handle */
    MAJOR = 75,             /* of a device: of its compute capability */
    HOST_ATOMICS = 86,      /* HOST_NATIVE_ATOMIC_SUPPORTED */
    HOST_PAGE_TABLES = 100, /* PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES */
    WRITES_ORDERING = 118,  /* GPU_DIRECT_RDMA_WRITES_ORDERING */
    ORDERED_FROM = 9,       /* a major number */
};

typedef unsigned long long cu_ptr;

static struct {
    int (*pointer)(void *data, int attribute, cu_ptr address);
    int (*handle)(void *handle, cu_ptr address, size_t size, int type, unsigned long long flags);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*device)(int *device, int ordinal);
    int (*attribute)(int *value, int attribute, int device);
} cu;

static const struct {
    const char *name;
    void *at;
} symbols[] = {
    {"cuPointerGetAttribute", &cu.pointer},
    {"cuMemGetHandleForAddressRange", &cu.handle},
    {"cuCtxPushCurrent_v2", &cu.push},
    {"cuCtxPopCurrent_v2", &cu.pop},
    {"cuDevicePrimaryCtxRetain", &cu.retain},
    {"cuDevicePrimaryCtxRelease_v2", &cu.release},
    {"cuDeviceGet", &cu.device},
    {"cuDeviceGetAttribute", &cu.attribute},
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void verbs_cuda_load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    for (size_t i = 0; lib && i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *sym = dlsym(lib, symbols[i].name);

        memcpy(symbols[i].at, &sym, sizeof(sym));
    }
}

/* ---- about an address ---------------------------------------------------------------------------------- */

/* A program whose kernels run on CPU threads may have GPU memory of its own, PyTorch's say. Then it has
 * loaded the driver, and that is not done here for those that have not. */
static bool has_gpus(const struct gw_device *dev)
{
    if (gw_exec_kind(dev->exec) == GW_EXEC_GPU) return true;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (lib) dlclose(lib);
    return lib != NULL;
}

/* CUDA's word about an address; false: it is none of its own. */
static bool verbs_cuda_ask(const void *addr, int attribute, void *value)
{
    pthread_once(&once, verbs_cuda_load);
    return cu.pointer && !cu.pointer(value, attribute, (cu_ptr)(uintptr_t)addr);
}

bool gw_cuda_in_gpu(const struct gw_device *dev, const void *addr)
{
    unsigned type = 0;

    return has_gpus(dev) && verbs_cuda_ask(addr, MEMORY_TYPE, &type) && type == MEMORY_OF_GPU;
}

bool gw_cuda_managed(const struct gw_device *dev, const void *addr)
{
    unsigned managed = 0;

    return has_gpus(dev) && verbs_cuda_ask(addr, IS_MANAGED, &managed) && managed;
}

int gw_cuda_gpu_of(const void *addr)
{
    int gpu = -1;

    return verbs_cuda_ask(addr, DEVICE_ORDINAL, &gpu) ? gpu : -1;
}

/* ---- calls that want a context ------------------------------------------------------------------------- */

/* Enters the context that has the memory. Memory that was mapped by cuMemMap, or comes from a pool, has none.
 * For that it enters its GPU's primary one, which *held keeps. */
static int verbs_cuda_enter(const void *addr, int *held)
{
    void *context = NULL;
    int gpu = gw_cuda_gpu_of(addr), err = 0;

    *held = -1;
    if (!verbs_cuda_ask(addr, CONTEXT, &context)) context = NULL;
    if (!context && gpu >= 0 && cu.retain) {
        err = cu.retain(&context, gpu);
        if (!err) *held = gpu;
    }
    if (!err && cu.push) err = cu.push(context);
    if (err && *held >= 0 && cu.release) cu.release(*held);
    return err;
}

static void verbs_cuda_leave(int held)
{
    void *context;

    if (cu.pop) cu.pop(&context);
    if (held >= 0 && cu.release) cu.release(held);
}

int gw_cuda_export(const void *from, size_t bytes, int *fd)
{
    int held, err;

    pthread_once(&once, verbs_cuda_load);
    if (!cu.handle) return GW_CUDA_NO_EXPORT;
    err = verbs_cuda_enter(from, &held);
    if (err) return err;
    err = cu.handle(fd, (cu_ptr)(uintptr_t)from, bytes, DMA_BUF_FD, 0);
    verbs_cuda_leave(held);
    return err;
}

/* ---- about a GPU --------------------------------------------------------------------------------------- */

static int verbs_cuda_attribute(int device, int which)
{
    int value = 0;

    return cu.attribute(&value, which, device) ? 0 : value;
}

/*
 * CUDA's word is about writes to the GPU. Our completions go to the host's memory. NCCL flushes for every GPU
 * before Hopper, whatever CUDA says, and so do we. Some GPUs have a coherent link of their own to the
 * processor (Grace). A completion comes over that link, and data may still be on its way over PCIe. NCCL
 * flushes there, too.
 */
static const char *against(int device)
{
    if (verbs_cuda_attribute(device, WRITES_ORDERING) < GW_CUDA_OWNER)
        return "CUDA says so (GPU_DIRECT_RDMA_WRITES_ORDERING)";
    if (verbs_cuda_attribute(device, MAJOR) < ORDERED_FROM) return "its compute capability is below 9.0";
    if (verbs_cuda_attribute(device, HOST_ATOMICS) || verbs_cuda_attribute(device, HOST_PAGE_TABLES))
        return "completions reach it by its coherent link to the processor, and data may come by PCIe";
    return NULL;
}

enum gw_cuda_order gw_cuda_order(int gpu, const char **why)
{
    const char *reason = "it cannot be known";
    int device;

    pthread_once(&once, verbs_cuda_load);
    if (gpu >= 0 && cu.device && cu.attribute && !cu.device(&device, gpu)) reason = against(device);
    if (why) *why = reason ? reason : "";
    if (reason) return GW_CUDA_UNORDERED;
    return verbs_cuda_attribute(device, WRITES_ORDERING) >= GW_CUDA_ALL ? GW_CUDA_ALL : GW_CUDA_OWNER;
}
