/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_cuda.h's driver as a library, libcuda.so.1, for programs that know nothing of it. The GPU's memory is
 * this process's. It lies in files that other processes of the test can map, by their IPC handles. As with
 * the real driver a process cannot open its own. FAKE_GPU names the GPU: processes with different ones see
 * different GPUs. FAKE_CUDA=word,… says what the GPU is like:
 *
 *     opaque       only its own copies can touch its memory; the NIC is not told what that memory is
 *     managed      all of its memory is managed
 *     no_dmabuf    it gives none
 *     unordered    it does not promise that a NIC's completions find their data
 *     ampere       its compute capability is 8.0
 *     coherent     it has a coherent link to the processor
 *     copy_kernel  it runs the software NIC's copy kernel
 *     no_launch    it loads that kernel, and launches none
 *     two          there are two GPUs
 *     peers        they reach each other
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/wire/fake_mapped.h"
#include "tests/wire/fake_memory.h"

#define EXPORT __attribute__((visibility("default")))

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, ALLOCATIONS = 32 };

struct handle {
    int pid, fd;
    size_t size;
    unsigned serial;
    uint8_t gpu[16];
};

static struct allocation {
    void *at;
    struct handle handle;
    int opened; /* another process's */
} allocations[ALLOCATIONS];
static unsigned serial;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int told(const char *word)
{
    const char *all = getenv("FAKE_CUDA");

    return all && strstr(all, word);
}

/* The allocation that it lies in. */
static struct allocation *around(gw_cu_ptr p)
{
    for (int i = 0; i < ALLOCATIONS; i++) {
        const struct allocation *a = &allocations[i];

        if (a->at && p - (uintptr_t)a->at < a->handle.size) return &allocations[i];
    }
    return NULL;
}

static struct allocation *find(gw_cu_ptr p)
{
    for (int i = 0; i < ALLOCATIONS; i++)
        if (allocations[i].at == (void *)(uintptr_t)p) return &allocations[i];
    return NULL;
}

static int map(int fd, size_t size, const uint8_t gpu[16], int opened, struct allocation **out)
{
    uint8_t own[16];
    int here = fake_cuda_current();
    struct allocation *a = find(0);
    int prot = told("opaque") ? PROT_NONE : PROT_READ | PROT_WRITE;
    void *at = a ? mmap(NULL, size, prot, MAP_SHARED, fd, 0) : MAP_FAILED;

    fake_uuid(here, own);
    if (at == MAP_FAILED || fake_cuda_add_memory(at, size, memcmp(own, gpu, 16) ? !here : here, opened))
        return OUT_OF_MEMORY;
    *a = (struct allocation){.at = at, .handle = {getpid(), fd, size, ++serial, {0}}, .opened = opened};
    memcpy(a->handle.gpu, gpu, 16);
    *out = a;
    return 0;
}

static int unmap(gw_cu_ptr p, int opened)
{
    struct allocation *a = p ? find(p) : NULL;

    if (!a || a->opened != opened) return INVALID_VALUE;
    fake_cuda_remove_memory(a->at);
    munmap(a->at, a->handle.size);
    if (!opened) close(a->handle.fd);
    memset(a, 0, sizeof(*a));
    return 0;
}

EXPORT int cuMemAlloc_v2(gw_cu_ptr *p, size_t size)
{
    struct allocation *a = NULL;
    int rc = OUT_OF_MEMORY, fd = memfd_create("fake GPU", MFD_CLOEXEC);
    uint8_t gpu[16];

    fake_uuid(fake_cuda_current(), gpu);
    pthread_mutex_lock(&lock);
    if (fd >= 0 && !ftruncate(fd, (off_t)size)) rc = map(fd, size, gpu, 0, &a);
    if (!rc) *p = (uintptr_t)a->at;
    pthread_mutex_unlock(&lock);
    return rc;
}

EXPORT int cuMemFree_v2(gw_cu_ptr p)
{
    pthread_mutex_lock(&lock);
    int rc = unmap(p, 0);
    pthread_mutex_unlock(&lock);
    return rc;
}

EXPORT int cuIpcGetMemHandle(gw_cu_ipc *out, gw_cu_ptr p)
{
    pthread_mutex_lock(&lock);
    struct allocation *a = p ? find(p) : NULL;
    if (a) {
        memset(out, 0, sizeof(*out));
        memcpy(out, &a->handle, sizeof(a->handle));
    }
    pthread_mutex_unlock(&lock);
    return a && !a->opened ? 0 : INVALID_VALUE;
}

EXPORT int cuIpcOpenMemHandle_v2(gw_cu_ptr *p, gw_cu_ipc handle, unsigned flags)
{
    struct allocation *a = NULL;
    struct handle h;
    uint8_t own[16];
    char path[64];
    int fd, rc = INVALID_VALUE;

    (void)flags;
    memcpy(&h, &handle, sizeof(h));
    if (h.pid == getpid()) return INVALID_CONTEXT;
    fake_uuid(fake_cuda_current(), own);
    if (memcmp(own, h.gpu, 16) && !told("peers")) return 217; /* peer access unsupported */
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", h.pid, h.fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    rc = map(fd, h.size, h.gpu, 1, &a);
    if (!rc) *p = (uintptr_t)a->at;
    pthread_mutex_unlock(&lock);
    close(fd);
    return rc;
}

EXPORT int cuIpcCloseMemHandle(gw_cu_ptr p)
{
    pthread_mutex_lock(&lock);
    int rc = unmap(p, 1);
    pthread_mutex_unlock(&lock);
    return rc;
}

EXPORT int cuInit(unsigned flags)
{
    (void)flags;
    fake_cuda_api();
    return 0;
}

EXPORT int cuDeviceGetCount(int *n)
{
    *n = told("two") ? 2 : 1;
    return 0;
}

EXPORT int cuDeviceGet(int *dev, int ordinal)
{
    int n;

    *dev = ordinal;
    cuDeviceGetCount(&n);
    return ordinal < 0 || ordinal >= n ? INVALID_DEVICE : 0;
}

/* FAKE_GPU_BUS: where it is; else nowhere. */
EXPORT int cuDeviceGetPCIBusId(char *bus, int size, int dev)
{
    const char *at = getenv("FAKE_GPU_BUS");

    if (dev || !at) return INVALID_DEVICE;
    snprintf(bus, (size_t)size, "%s", at);
    return 0;
}

EXPORT int cuDeviceGetUuid_v2(void *uuid, int dev)
{
    fake_uuid(dev, uuid);
    return 0;
}

/* Of what it may be asked: does a completion find its data in the GPU's memory? */
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int dev)
{
    (void)dev;
    switch (attribute) {
    case GW_CU_WRITES_ORDERING: *value = told("unordered") ? 0 : GW_CU_ORDERING_OWNER; return 0;
    case GW_CU_MAJOR: *value = told("ampere") ? 8 : GW_CU_ORDERED_FROM; return 0;
    case GW_CU_HOST_ATOMICS: *value = told("coherent"); return 0;
    case GW_CU_HOST_PAGE_TABLES: *value = 0; return 0;
    default: return INVALID_VALUE;
    }
}

EXPORT int cuDevicePrimaryCtxGetState(int dev, unsigned *flags, int *active)
{
    *flags = 0;
    *active = fake_cuda_retained(dev);
    return 0;
}

EXPORT int cuCtxSetCurrent(gw_cu_ctx ctx)
{
    fake_cuda_set_current(ctx);
    return 0;
}

EXPORT int cuMemcpyHtoD_v2(gw_cu_ptr to, const void *from, size_t n)
{
    const struct allocation *a = around(to);

    if (!a || a->opened) return memcpy((void *)(uintptr_t)to, from, n) ? 0 : 1;
    return pwrite(a->handle.fd, from, n, (off_t)(to - (uintptr_t)a->at)) == (ssize_t)n ? 0 : INVALID_VALUE;
}

EXPORT int cuMemcpyDtoH_v2(void *to, gw_cu_ptr from, size_t n)
{
    const struct allocation *a = around(from);

    if (!a || a->opened) return memcpy(to, (const void *)(uintptr_t)from, n) ? 0 : 1;
    return pread(a->handle.fd, to, n, (off_t)(from - (uintptr_t)a->at)) == (ssize_t)n ? 0 : INVALID_VALUE;
}

EXPORT int cuCtxGetCurrent(gw_cu_ctx *ctx)
{
    *ctx = NULL;
    return fake_ctx_depth ? fake_cuda_api()->primary_ctx_retain(ctx, fake_cuda_current()) : 0;
}

/* Kernels may touch what else is opaque: from now on, or no longer. */
EXPORT void fake_cuda_kernels(int may)
{
    int prot = may || !told("opaque") ? PROT_READ | PROT_WRITE : PROT_NONE;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < ALLOCATIONS; i++)
        if (allocations[i].at) (void)mprotect(allocations[i].at, allocations[i].handle.size, prot);
    pthread_mutex_unlock(&lock);
}

EXPORT int cuStreamSynchronize(gw_cu_stream stream)
{
    return stream ? INVALID_VALUE : 0; /* in the default one copies are made at once */
}

EXPORT int cuPointerGetAttribute(void *data, int attribute, gw_cu_ptr p)
{
    if (!around(p)) return INVALID_VALUE;
    if (attribute == GW_CU_ATTR_IS_MANAGED)
        *(unsigned *)data = told("managed") != 0;
    else if (attribute == GW_CU_ATTR_MEMORY_TYPE)
        *(unsigned *)data = GW_CU_MEMORY_DEVICE;
    else
        return fake_cuda_api()->pointer_get_attributes(1, &attribute, &data, p);
    return 0;
}

#ifndef FAKE_CUDA_514 /* drivers that do not know of it yet */
/* As the proprietary kernel modules: CUDA_ERROR_NOT_SUPPORTED. */
EXPORT int cuMemGetHandleForAddressRange(void *handle, gw_cu_ptr p, size_t size, int type,
                                         unsigned long long flags)
{
    const struct allocation *a = around(p);

    (void)size, (void)type, (void)flags;
    if (!fake_ctx_depth) return INVALID_CONTEXT; /* as the real one, whatever the thread has registered */
    if (told("no_dmabuf")) return 801;
    if (!a || (uintptr_t)a->at != p) return INVALID_VALUE;
    *(int *)handle = dup(a->handle.fd);
    return 0;
}
#endif

/* ---- what src/cuda/driver.c looks for, as fake_cuda.c has it ---- */

EXPORT int cuPointerGetAttributes(unsigned n, int *a, void **data, gw_cu_ptr p)
{
    if (told("opaque")) return INVALID_VALUE;
    return fake_cuda_api()->pointer_get_attributes(n, a, data, p);
}
EXPORT int cuDevicePrimaryCtxRetain(gw_cu_ctx *c, int dev)
{
    return fake_cuda_api()->primary_ctx_retain(c, dev);
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int dev)
{
    (void)dev; /* it stays: others have retained it */
    return 0;
}
EXPORT int cuCtxPushCurrent_v2(gw_cu_ctx c)
{
    return fake_cuda_api()->ctx_push(c);
}
EXPORT int cuCtxPopCurrent_v2(gw_cu_ctx *c)
{
    return fake_cuda_api()->ctx_pop(c);
}
EXPORT int cuMemHostAlloc(void **p, size_t n, unsigned flags)
{
    return fake_cuda_api()->host_alloc(p, n, flags);
}
EXPORT int cuMemFreeHost(void *p)
{
    return fake_cuda_api()->host_free(p);
}
EXPORT int cuStreamCreate(gw_cu_stream *s, unsigned flags)
{
    return fake_cuda_api()->stream_create(s, flags);
}
EXPORT int cuStreamDestroy_v2(gw_cu_stream s)
{
    return fake_cuda_api()->stream_destroy(s);
}
EXPORT int cuEventCreate(gw_cu_event *e, unsigned flags)
{
    return fake_cuda_api()->event_create(e, flags);
}
EXPORT int cuEventDestroy_v2(gw_cu_event e)
{
    return fake_cuda_api()->event_destroy(e);
}
EXPORT int cuEventRecord(gw_cu_event e, gw_cu_stream s)
{
    return fake_cuda_api()->event_record(e, s);
}
EXPORT int cuEventQuery(gw_cu_event e)
{
    return fake_cuda_api()->event_query(e);
}
EXPORT int cuMemcpyHtoDAsync_v2(gw_cu_ptr to, const void *from, size_t n, gw_cu_stream s)
{
    return fake_cuda_api()->copy_to_device(to, from, n, s);
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, gw_cu_ptr from, size_t n, gw_cu_stream s)
{
    return fake_cuda_api()->copy_to_host(to, from, n, s);
}
EXPORT int cuMemcpyAsync(gw_cu_ptr to, gw_cu_ptr from, size_t n, gw_cu_stream s)
{
    return fake_cuda_api()->copy(to, from, n, s);
}

/* Host memory of a program's becomes memory of the GPU, as its slots would be with a GPU; and how often
 * cuMemcpyAsync was called. */
EXPORT int fake_cuda_adopt(void *at, size_t size)
{
    return fake_cuda_add_memory(at, size, 0, 0);
}
EXPORT int fake_cuda_direct(void)
{
    return __atomic_load_n(&fake_direct, __ATOMIC_RELAXED);
}

/* Before there are threads, which read it. */
__attribute__((constructor)) static void set_peers(void)
{
    fake_peers = told("peers");
}
EXPORT int cuDeviceCanAccessPeer(int *can, int dev, int peer)
{
    return fake_cuda_api()->can_access_peer(can, dev, peer);
}
EXPORT int cuCtxEnablePeerAccess(gw_cu_ctx c, unsigned flags)
{
    return fake_cuda_api()->enable_peer(c, flags);
}
EXPORT int cuMemcpyPeerAsync(gw_cu_ptr to, gw_cu_ctx to_ctx, gw_cu_ptr from, gw_cu_ctx from_ctx, size_t n,
                             gw_cu_stream s)
{
    return fake_cuda_api()->copy_peer(to, to_ctx, from, from_ctx, n, s);
}
EXPORT int cuModuleLoadData(gw_cu_module *m, const void *text)
{
    if (told("copy_kernel")) fake_kernel = FAKE_KERNEL_RUNS;
    if (told("no_launch")) fake_kernel = FAKE_KERNEL_NO_LAUNCH;
    return fake_cuda_api()->module_load(m, text);
}
EXPORT int cuModuleGetFunction(gw_cu_function *f, gw_cu_module m, const char *name)
{
    return fake_cuda_api()->module_function(f, m, name);
}
EXPORT int cuLaunchKernel(gw_cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, gw_cu_stream s, void **args, void **extra)
{
    return fake_cuda_api()->launch(f, gx, gy, gz, bx, by, bz, shared, s, args, extra);
}
EXPORT int cuMemGetAllocationGranularity(size_t *size, const struct gw_cu_memory_prop *prop, int option)
{
    (void)prop, (void)option;
    *size = FAKE_GRAIN;
    return 0;
}
EXPORT int cuMemCreate(gw_cu_memory *m, size_t size, const struct gw_cu_memory_prop *p,
                       unsigned long long flags)
{
    return fake_mem_create(m, size, p, flags);
}
EXPORT int cuMemRetainAllocationHandle(gw_cu_memory *m, void *mapped_at)
{
    return fake_mem_retain(m, mapped_at);
}
EXPORT int cuMemRelease(gw_cu_memory m)
{
    return fake_mem_release(m);
}
EXPORT int cuMemGetAllocationPropertiesFromHandle(struct gw_cu_memory_prop *p, gw_cu_memory m)
{
    return fake_mem_properties(p, m);
}
EXPORT int cuMemExportToShareableHandle(void *handle, gw_cu_memory m, int type, unsigned long long flags)
{
    return fake_mem_export(handle, m, type, flags);
}
EXPORT int cuMemImportFromShareableHandle(gw_cu_memory *m, void *handle, int type)
{
    return fake_mem_import(m, handle, type);
}
EXPORT int cuMemAddressReserve(gw_cu_ptr *at, size_t size, size_t alignment, gw_cu_ptr wanted,
                               unsigned long long flags)
{
    return fake_mem_reserve(at, size, alignment, wanted, flags);
}
EXPORT int cuMemAddressFree(gw_cu_ptr at, size_t size)
{
    return fake_mem_unreserve(at, size);
}
EXPORT int cuMemMap(gw_cu_ptr at, size_t size, size_t offset, gw_cu_memory m, unsigned long long flags)
{
    return fake_mem_map(at, size, offset, m, flags);
}
EXPORT int cuMemUnmap(gw_cu_ptr at, size_t size)
{
    return fake_mem_unmap(at, size);
}
EXPORT int cuMemSetAccess(gw_cu_ptr at, size_t size, const struct gw_cu_access *access, size_t n)
{
    return fake_mem_access(at, size, access, n);
}
EXPORT int cuGetErrorName(gw_cu_result r, const char **name)
{
    return fake_cuda_api()->error_name(r, name);
}
