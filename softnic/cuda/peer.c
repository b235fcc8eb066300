/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between GPUs that reach each other's memory. The GPU copied to makes them: what its kernel or its
 * engine has read is placed where its own writes are, in their order. */
#include <errno.h>

#include "softnic/cuda/device.h"

/* From now on kernels of one context may touch all that the other one has allocated, or will. */
static bool cuda_peer_let_in(struct sn_cuda_device *dev, const struct sn_cuda_device *other)
{
    const struct gw_cuda_driver *api = dev->api;
    gw_cu_device from, to;
    gw_cu_ctx popped;
    gw_cu_result r;
    int can = 0;

    if (!api->can_access_peer || !api->enable_peer || !api->copy_peer || dev->gpu == other->gpu) return false;
    if (api->device_get(&from, dev->gpu) || api->device_get(&to, other->gpu)) return false;
    if (api->can_access_peer(&can, from, to) || !can || api->ctx_push(dev->ctx)) return false;
    r = api->enable_peer(other->ctx, 0);
    api->ctx_pop(&popped);
    if (r == GW_CU_SUCCESS || r == GW_CU_PEER_ACCESS_ALREADY_ENABLED) return true;
    __atomic_store_n(&dev->peer_error, r, __ATOMIC_RELAXED);
    return false;
}

static void meet_one(struct sn_cuda_device *dev, const struct sn_cuda_device *other)
{
    uint64_t bit = UINT64_C(1) << other->index;

    if (dev->met & bit) return;
    dev->met |= bit;
    if (cuda_peer_let_in(dev, other)) __atomic_fetch_or(&dev->reaches, bit, __ATOMIC_RELAXED);
}

void sn_cuda_meet(struct sn_cuda_device *a, struct sn_cuda_device *b)
{
    meet_one(a, b);
    meet_one(b, a);
}

bool sn_cuda_reaches(const struct sn_cuda_region *to, const struct sn_cuda_region *from)
{
    if (from->dev == to->dev) return to->dev->api->copy_peer;
    if (to->elsewhere || from->elsewhere || from->origin == SN_CUDA_MAPPED || to->origin == SN_CUDA_MAPPED)
        return false;
    return __atomic_load_n(&to->dev->reaches, __ATOMIC_RELAXED) >> from->dev->index & 1;
}

int sn_cuda_settle(const struct sn_cuda_region *from, uint64_t src, uint32_t len)
{
    struct sn_cuda_region range = {.dev = from->dev, .addr = src, .len = len};
    int err = sn_cuda_enter(&range, src, len);

    if (err) return err;
    sn_cuda_submit_overlapping(from->dev, src, len);
    sn_cuda_finish_overlapping(from->dev, src, len);
    err = sn_cuda_engines(from->dev); /* the kernel's copies too */
    sn_cuda_leave(from->dev);
    return err;
}

int sn_cuda_copy_peer(struct sn_cuda_region *to, uint64_t addr, const struct sn_cuda_region *from,
                      uint64_t src, uint32_t len)
{
    struct sn_cuda_device *dev = to->dev;
    bool for_kernels = from->dev == dev || from->origin == SN_CUDA_ALLOCATED;
    /* Byte by byte the kernel is slow. */
    uint32_t most = (addr ^ src) & 3 ? SN_CUDA_BY_KERNEL : SN_CUDA_PEER_BY_KERNEL;
    gw_cu_ctx ctx = from->dev->ctx;
    struct sn_cuda_writer *w;

    dev->stats.peer_copies++;
    dev->stats.peer_bytes += len;
    if (for_kernels && len <= most && sn_cuda_kernel_ready(dev)) {
        int err = sn_copier_copy_peer(dev, addr, src, ctx, len);

        to->last = dev->copier.issued;
        return err;
    }
    w = sn_cuda_begin(to, addr, len);
    if (dev->broken || sn_cuda_engines(dev) || dev->api->copy_peer(addr, dev->ctx, src, ctx, len, dev->in)) {
        w->state = SN_STAGE_FREE;
        return -EIO;
    }
    return sn_cuda_started(dev, w);
}
