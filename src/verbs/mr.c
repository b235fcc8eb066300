/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions. Host memory is registered by its address. GPU memory goes as a dma-buf (any recent kernel
 * and driver) or by its address. The latter works where the kernel has peer memory (nvidia_peermem) or the
 * NIC copies by the GPU driver. The device says which way is tried first (gw_device_ops.ways).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "src/verbs/cuda.h"
#include "src/verbs/impl.h"

struct region {
    struct gw_mr mr; /* first: what the caller holds */
    struct ibv_mr *ib;
    struct gw_pd *pd;
    uint32_t access;
    int dmabuf;      /* kept for gw_mr_rekey, since exporting another one is a CUDA call; -1: none */
    uint64_t offset; /* of addr in it */
};

/* Its pages go to and fro between host and GPU, and the NIC would keep on writing where they have been. */
static int refuse_managed(const struct gw_device *dev, const char *addr, size_t length)
{
    if (!gw_cuda_managed(dev, addr) && !gw_cuda_managed(dev, addr + length - 1)) return 0;
    return gw_error(
        -EOPNOTSUPP,
        "%s: managed memory (cudaMallocManaged) moves between host and GPU and cannot be registered; "
        "use gw_mem_alloc, cudaMalloc or cudaHostAlloc",
        dev->info.name);
}

static uint32_t access_flags(const struct gw_device *dev, uint32_t access)
{
    uint32_t relaxed = dev->settings.relaxed ? GW_MR_RELAXED : access & GW_MR_RELAXED;

    if (access & GW_MR_STRICT_) relaxed = 0;
    access &= ~(GW_MR_STRICT_ | (uint32_t)GW_MR_RELAXED);
    if (!access) access = GW_MR_ALL & ~(uint32_t)(gw_has_atomics(dev) ? 0 : IBV_ACCESS_REMOTE_ATOMIC);
    return access | relaxed;
}

static struct ibv_mr *as_dmabuf(struct region *r, char *why, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = r->mr.addr, from = at & ~(page - 1);
    size_t span = (at + r->mr.length - from + page - 1) & ~(page - 1);
    struct ibv_mr *mr;
    int fd = -1, err;

    err = gw_cuda_export((void *)from, span, &fd);
    if (err == GW_CUDA_NO_EXPORT) {
        snprintf(why, size, "this GPU driver exports none: it takes 515 or newer");
        return NULL;
    }
    if (err) {
        snprintf(why, size, "CUDA error %d: it takes the open kernel modules of the GPU driver (nvidia-open)",
                 err);
        return NULL;
    }
    mr = ibv_reg_dmabuf_mr(r->pd->pd, at - from, r->mr.length, at, fd, (int)r->access);
    if (!mr) {
        snprintf(why, size, "%s",
                 errno == EOPNOTSUPP || errno == EPROTONOSUPPORT
                     ? "the NIC's kernel driver takes none: Linux 5.12 or newer"
                 : errno == ENOMEM ? GW_NO_BAR1
                                   : strerror(errno));
        close(fd);
        return NULL;
    }
    r->dmabuf = fd;
    r->offset = at - from;
    return mr;
}

static struct ibv_mr *by_address(const struct region *r)
{
    return ibv_reg_mr(r->pd->pd, (void *)(uintptr_t)r->mr.addr, r->mr.length, (int)r->access);
}

static struct ibv_mr *as_address(struct region *r, char *why, size_t size)
{
    struct ibv_mr *mr = by_address(r);

    if (!mr) r->pd->dev->ops->address_refused(errno, why, size);
    return mr;
}

/* One way to reach GPU memory. NULL, and why: it is none. */
static struct ibv_mr *by_way(struct region *r, enum gw_reach how, char *why, size_t size)
{
    r->mr.reach = how;
    return how == GW_REACH_DMABUF ? as_dmabuf(r, why, size) : as_address(r, why, size);
}

/* The ways in the device's order, but for those that have turned out to lead nowhere (gw_mr_probe). */
static int register_gpu(struct region *r)
{
    struct gw_device *dev = r->pd->dev;
    char why[GW_REACH_DMABUF + 1][GW_LOST_WHY];
    int err = gw_order_refuses(dev, (void *)(uintptr_t)r->mr.addr);

    for (int i = 0; !err && !r->ib && i < 2; i++) {
        enum gw_reach how = dev->ops->ways[i];

        snprintf(why[how], GW_LOST_WHY, "%s", dev->lost_why[how]);
        if (!why[how][0]) r->ib = by_way(r, how, why[how], GW_LOST_WHY);
    }
    if (err || r->ib) return err;
    return gw_error(-EOPNOTSUPP, "%s cannot reach GPU memory: dma-buf: %s; by address: %s", dev->info.name,
                    why[GW_REACH_DMABUF], why[GW_REACH_DIRECT]);
}

static int register_host(struct region *r)
{
    r->ib = by_address(r);
    r->mr.reach = GW_REACH_HOST;
    return r->ib ? 0
                 : gw_refused(r->pd->dev, -errno, "cannot register %zu bytes at %p", (size_t)r->mr.length,
                              (void *)(uintptr_t)r->mr.addr);
}

/* how: NONE for whatever works. */
static int register_any(struct region *r, enum gw_reach how)
{
    void *addr = (void *)(uintptr_t)r->mr.addr;
    char why[GW_LOST_WHY] = "";
    int err;

    GW_ASSERT_HELD(&r->pd->dev->lock);
    if (how == GW_REACH_NONE && gw_cuda_in_gpu(r->pd->dev, addr)) return register_gpu(r);
    if (how <= GW_REACH_HOST) return register_host(r);
    err = gw_order_refuses(r->pd->dev, addr);
    if (err) return err;
    r->ib = by_way(r, how, why, sizeof(why));
    return r->ib ? 0 : gw_error(-EOPNOTSUPP, "%s", why);
}

int gw_mr_register_by(struct gw_pd *pd, void *addr, size_t length, uint32_t access, enum gw_reach how,
                      struct gw_mr **out)
{
    struct region *r;
    int err;

    *out = NULL;
    if (!addr || !length || (uintptr_t)addr + length < (uintptr_t)addr)
        return gw_error(-EINVAL, "memory region: %zu bytes at %p", length, addr);
    r = calloc(1, sizeof(*r));
    if (!r) return gw_error_errno(-ENOMEM, "memory region");
    r->dmabuf = -1;
    r->access = access_flags(pd->dev, access);
    r->pd = pd;
    r->mr.addr = (uint64_t)(uintptr_t)addr;
    r->mr.length = length;
    pthread_mutex_lock(&pd->dev->lock);
    err = refuse_managed(pd->dev, addr, length);
    if (!err) err = register_any(r, how);
    if (!err) pd->objects++;
    pthread_mutex_unlock(&pd->dev->lock);
    if (err) {
        free(r);
        return err;
    }
    r->mr.lkey = r->ib->lkey;
    r->mr.rkey = r->ib->rkey;
    *out = &r->mr;
    return 0;
}

int gw_mr_register(struct gw_pd *pd, void *addr, size_t length, uint32_t access, struct gw_mr **out)
{
    return gw_mr_register_by(pd, addr, length, access, GW_REACH_NONE, out);
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
    return by_address(r);
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
    return err ? gw_error_errno(-err, "%s: cannot register a memory region again", dev->info.name) : 0;
}

/* ---- does it work -------------------------------------------------------------------------------------- */

int gw_reach_try(struct gw_device *dev, enum gw_reach how)
{
    if (how < GW_REACH_HOST || how > GW_REACH_DMABUF)
        return gw_error(-EINVAL, "no way %d to reach memory", (int)how);
    if (how != GW_REACH_HOST && gw_exec_kind(dev->exec) != GW_EXEC_GPU)
        return gw_error(-EOPNOTSUPP, "kernels run on CPU threads; use --exec gpu, or a GPU executor");
    return gw_probe_memory(dev, how);
}

void gw_mr_probe(struct gw_device *dev)
{
    dev->info.gpu_reach = GW_REACH_HOST;
    if (gw_exec_kind(dev->exec) != GW_EXEC_GPU) return;
    dev->info.gpu_reach = GW_REACH_NONE;
    for (int i = 0; i < 2 && dev->info.gpu_reach == GW_REACH_NONE; i++) {
        enum gw_reach how = dev->ops->ways[i];
        int err = gw_probe_memory(dev, how);

        if (!err) {
            dev->info.gpu_reach = how;
        } else if (err == -EOPNOTSUPP) {
            snprintf(dev->lost_why[how], GW_LOST_WHY, "%s", gw_last_error());
        } else { /* says nothing of the way */
            snprintf(dev->info.gpu_why, sizeof(dev->info.gpu_why), "%s", gw_last_error());
            return;
        }
    }
    if (dev->info.gpu_reach == GW_REACH_NONE)
        snprintf(dev->info.gpu_why, sizeof(dev->info.gpu_why),
                 "%s cannot reach GPU memory: dma-buf: %s; by address: %s", dev->info.name,
                 dev->lost_why[GW_REACH_DMABUF], dev->lost_why[GW_REACH_DIRECT]);
}
