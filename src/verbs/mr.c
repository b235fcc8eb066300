/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions. Host memory is registered by its address. GPU memory goes as a dma-buf (any recent kernel
 * and driver) or by its address, which works where the kernel has peer memory (nvidia_peermem) or the NIC
 * copies by the GPU driver. The device says which way is tried first (gw_device_ops.ways).
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/verbs/impl.h"

struct region {
    struct gw_mr mr; /* first: what the caller holds */
    struct ibv_mr *ib;
    struct gw_pd *pd;
    uint32_t access;
    int dmabuf;      /* kept for gw_mr_rekey, since exporting another one is a CUDA call; -1: none */
    uint64_t offset; /* of addr in it */
};

/* The two calls of the CUDA driver that are needed here. libcuda is never linked: it comes with the GPU. */
#define CU_MEMORYTYPE_ATTRIBUTE 2
#define CU_IS_MANAGED_ATTRIBUTE 8
#define CU_MEMORYTYPE_DEVICE    2
#define CU_HANDLE_DMA_BUF_FD    1
typedef int (*cu_attribute_fn)(void *data, int attribute, unsigned long long address);
typedef int (*cu_handle_fn)(void *handle, unsigned long long address, size_t size, int type,
                            unsigned long long flags);

static struct {
    cu_attribute_fn attribute;
    cu_handle_fn handle;
} cu;
static pthread_once_t cu_once = PTHREAD_ONCE_INIT;

static void cu_load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!lib) return;
    cu.attribute = (cu_attribute_fn)dlsym(lib, "cuPointerGetAttribute");
    cu.handle = (cu_handle_fn)dlsym(lib, "cuMemGetHandleForAddressRange");
}

/* CUDA's word about an address; 0: none, it is none of its own. */
static unsigned int cu_ask(const void *addr, int attribute)
{
    unsigned int value = 0;

    pthread_once(&cu_once, cu_load);
    if (!cu.attribute || cu.attribute(&value, attribute, (unsigned long long)(uintptr_t)addr)) return 0;
    return value;
}

/* A program whose kernels run on CPU threads may have GPU memory of its own, PyTorch's say. Then it has loaded the
 * driver, and that is not done here for those that have not. */
static bool has_gpus(const struct gw_device *dev)
{
    if (gw_exec_kind(dev->exec) == GW_EXEC_GPU) return true;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (lib) dlclose(lib);
    return lib != NULL;
}

static bool in_gpu(const struct gw_device *dev, const void *addr)
{
    return has_gpus(dev) && cu_ask(addr, CU_MEMORYTYPE_ATTRIBUTE) == CU_MEMORYTYPE_DEVICE;
}

/* Its pages go to and fro between host and GPU, and the NIC would keep on writing where they have been. */
static int refuse_managed(const struct gw_device *dev, const char *addr, size_t length)
{
    if (!has_gpus(dev)) return 0;
    if (!cu_ask(addr, CU_IS_MANAGED_ATTRIBUTE) && !cu_ask(addr + length - 1, CU_IS_MANAGED_ATTRIBUTE))
        return 0;
    return gw_error(
        -EOPNOTSUPP,
        "%s: managed memory (cudaMallocManaged) moves between host and GPU and cannot be registered; "
        "use gw_mem_alloc, cudaMalloc or cudaHostAlloc",
        dev->info.name);
}

static uint32_t access_flags(const struct gw_device *dev, uint32_t access)
{
    if (access) return access;
    return dev->attr.atomic_cap == IBV_ATOMIC_NONE ? GW_MR_ALL & ~(uint32_t)IBV_ACCESS_REMOTE_ATOMIC
                                                   : GW_MR_ALL;
}

static struct ibv_mr *as_dmabuf(struct region *r, struct gw_pd *pd, void *addr, size_t length,
                                uint32_t access, char *why, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)addr, from = at & ~(page - 1);
    size_t span = (at + length - from + page - 1) & ~(page - 1);
    struct ibv_mr *mr;
    int fd = -1, err;

    if (!cu.handle) {
        snprintf(why, size, "this GPU driver exports none: it takes 515 or newer");
        return NULL;
    }
    err = cu.handle(&fd, from, span, CU_HANDLE_DMA_BUF_FD, 0);
    if (err) {
        snprintf(why, size, "CUDA error %d: it takes the open kernel modules of the GPU driver (nvidia-open)",
                 err);
        return NULL;
    }
    mr = ibv_reg_dmabuf_mr(pd->pd, at - from, length, at, fd, (int)access);
    if (!mr) {
        snprintf(why, size, "%s",
                 errno == EOPNOTSUPP || errno == EPROTONOSUPPORT
                     ? "the NIC's kernel driver takes none: Linux 5.12 or newer"
                     : strerror(errno));
        close(fd);
        return NULL;
    }
    r->dmabuf = fd;
    r->offset = at - from;
    return mr;
}

static struct ibv_mr *as_address(struct gw_pd *pd, void *addr, size_t length, uint32_t access, char *why,
                                 size_t size)
{
    struct ibv_mr *mr = ibv_reg_mr(pd->pd, addr, length, access);

    if (!mr) pd->dev->ops->address_refused(errno, why, size);
    return mr;
}

/* In posting mode proxy-post a CPU thread passes completions on. */
static int refuse_late_data(const struct gw_device *dev)
{
    if (!dev->ops->data_may_be_late || dev->info.post_mode != GW_POST_PROXY_POST) return 0;
    return gw_error(
        -EOPNOTSUPP,
        "%s: in posting mode proxy-post completions may overtake data in GPU memory: use mapped host memory",
        dev->info.name);
}

static int register_gpu(struct region *r, struct gw_pd *pd, void *addr, size_t length, uint32_t access)
{
    char dmabuf[240] = "not tried", address[240] = "not tried";
    int err = refuse_late_data(pd->dev);

    for (int i = 0; !err && !r->ib && i < 2; i++) {
        r->mr.reach = pd->dev->ops->ways[i];
        r->ib = r->mr.reach == GW_REACH_DMABUF
                    ? as_dmabuf(r, pd, addr, length, access, dmabuf, sizeof(dmabuf))
                    : as_address(pd, addr, length, access, address, sizeof(address));
    }
    if (err || r->ib) return err;
    return gw_error(-EOPNOTSUPP, "%s cannot reach GPU memory: dma-buf: %s; by address: %s",
                    pd->dev->info.name, dmabuf, address);
}

static int register_host(struct region *r, struct gw_pd *pd, void *addr, size_t length, uint32_t access)
{
    r->ib = ibv_reg_mr(pd->pd, addr, length, access);
    r->mr.reach = GW_REACH_HOST;
    return r->ib ? 0 : gw_refused(pd->dev, -errno, "cannot register %zu bytes at %p", length, addr);
}

int gw_mr_register(struct gw_pd *pd, void *addr, size_t length, uint32_t access, struct gw_mr **out)
{
    struct region *r;
    int err;

    *out = NULL;
    if (!addr || !length || (uintptr_t)addr + length < (uintptr_t)addr)
        return gw_error(-EINVAL, "memory region: %zu bytes at %p", length, addr);
    r = calloc(1, sizeof(*r));
    if (!r) return gw_error_errno(-ENOMEM, "memory region");
    access = access_flags(pd->dev, access);
    r->dmabuf = -1;
    r->access = access;
    pthread_mutex_lock(&pd->dev->lock);
    err = refuse_managed(pd->dev, addr, length);
    if (!err)
        err = in_gpu(pd->dev, addr) ? register_gpu(r, pd, addr, length, access)
                                    : register_host(r, pd, addr, length, access);
    if (!err) pd->objects++;
    pthread_mutex_unlock(&pd->dev->lock);
    if (err) {
        free(r);
        return err;
    }
    r->pd = pd;
    r->mr.addr = (uint64_t)(uintptr_t)addr;
    r->mr.length = length;
    r->mr.lkey = r->ib->lkey;
    r->mr.rkey = r->ib->rkey;
    *out = &r->mr;
    return 0;
}

int gw_mr_free(struct gw_mr *mr)
{
    struct region *r = (struct region *)mr;
    struct gw_pd *pd;
    int err;

    if (!mr) return 0;
    pd = r->pd;
    pthread_mutex_lock(&pd->dev->lock);
    err = ibv_dereg_mr(r->ib);
    if (!err) pd->objects--;
    pthread_mutex_unlock(&pd->dev->lock);
    if (err) return gw_error_errno(-err, "%s: cannot free a memory region", pd->dev->info.name);
    if (r->dmabuf >= 0) close(r->dmabuf);
    free(r);
    return 0;
}

/* Libibverbs alone, no call of CUDA's: the region's way to the memory is known. */
static struct ibv_mr *again(const struct region *r)
{
    if (r->dmabuf >= 0)
        return ibv_reg_dmabuf_mr(r->pd->pd, r->offset, r->mr.length, r->mr.addr, r->dmabuf, (int)r->access);
    return ibv_reg_mr(r->pd->pd, (void *)(uintptr_t)r->mr.addr, r->mr.length, (int)r->access);
}

int gw_mr_rekey(struct gw_mr *mr)
{
    struct region *r = (struct region *)mr;
    struct gw_device *dev = r->pd->dev;
    struct ibv_mr *fresh;
    int err = 0;

    pthread_mutex_lock(&dev->lock);
    /* The new one first: a driver gives the key of a region that has just gone to the next one. */
    fresh = again(r);
    if (!fresh) err = errno;
    if (fresh && (err = ibv_dereg_mr(r->ib))) ibv_dereg_mr(fresh);
    if (!err) {
        r->ib = fresh;
        r->mr.lkey = fresh->lkey;
        r->mr.rkey = fresh->rkey;
    }
    pthread_mutex_unlock(&dev->lock);
    return err ? gw_error_errno(-err, "%s: cannot register a memory region anew", dev->info.name) : 0;
}

/* One way to reach GPU memory, whatever register_gpu prefers. */
static int try_gpu(struct gw_device *dev, struct gw_pd *pd, const struct gw_mem *mem, enum gw_reach how,
                   struct region *r)
{
    char why[240] = "";
    int err = refuse_late_data(dev);

    if (err) return err;
    pthread_once(&cu_once, cu_load);
    r->ib = how == GW_REACH_DMABUF
                ? as_dmabuf(r, pd, mem->dev, mem->size, GW_MR_REMOTE_WRITE, why, sizeof(why))
                : as_address(pd, mem->dev, mem->size, GW_MR_REMOTE_WRITE, why, sizeof(why));
    return r->ib ? 0 : gw_error(-EOPNOTSUPP, "%s", why);
}

int gw_reach_try(struct gw_device *dev, enum gw_reach how)
{
    struct gw_pd pd = {.dev = dev, .pd = dev->pd};
    bool host = how == GW_REACH_HOST;
    struct region r = {.dmabuf = -1};
    struct gw_mem mem;
    int err;

    if (how < GW_REACH_HOST || how > GW_REACH_DMABUF)
        return gw_error(-EINVAL, "no way %d to reach memory", (int)how);
    if (!host && gw_exec_kind(dev->exec) != GW_EXEC_GPU)
        return gw_error(-EOPNOTSUPP, "kernels run on CPU threads; use --exec gpu, or a GPU executor");
    err = gw_mem_alloc(dev->exec, host ? GW_MEM_HOST : GW_MEM_DEVICE, 65536, &mem);
    if (err) return err;
    pthread_mutex_lock(&dev->lock);
    err = host ? register_host(&r, &pd, mem.host, mem.size, GW_MR_REMOTE_WRITE)
               : try_gpu(dev, &pd, &mem, how, &r);
    if (!err) ibv_dereg_mr(r.ib);
    if (r.dmabuf >= 0) close(r.dmabuf);
    pthread_mutex_unlock(&dev->lock);
    gw_mem_free(&mem);
    return err;
}

void gw_mr_probe(struct gw_device *dev)
{
    struct gw_pd pd = {.dev = dev, .pd = dev->pd};
    struct region r = {.dmabuf = -1};
    struct gw_mem mem;

    dev->info.gpu_reach = GW_REACH_HOST;
    if (gw_exec_kind(dev->exec) != GW_EXEC_GPU) return;
    dev->info.gpu_reach = GW_REACH_NONE;
    if (gw_mem_alloc(dev->exec, GW_MEM_DEVICE, 65536, &mem)) {
        snprintf(dev->info.gpu_why, sizeof(dev->info.gpu_why), "%s", gw_last_error());
        return;
    }
    pthread_once(&cu_once, cu_load);
    if (register_gpu(&r, &pd, mem.dev, mem.size, GW_MR_REMOTE_WRITE)) {
        snprintf(dev->info.gpu_why, sizeof(dev->info.gpu_why), "%s", gw_last_error());
    } else {
        dev->info.gpu_reach = r.mr.reach;
        ibv_dereg_mr(r.ib);
    }
    if (r.dmabuf >= 0) close(r.dmabuf);
    gw_mem_free(&mem);
}
