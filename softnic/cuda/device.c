/* SPDX-License-Identifier: Apache-2.0 */
/* Enters and leaves a GPU's context, and waits for its events. */
#include "softnic/cuda/device.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include <gpuwire/detail/held.h>

/* cuEventSynchronize would spin or sleep as the application's context flags say, and without a deadline. */
int sn_cuda_wait_event(struct sn_cuda_device *dev, gw_cu_event event)
{
    uint64_t deadline = 0;

    GW_ASSERT_HELD(&dev->lock);
    for (unsigned round = 0;; round++) {
        gw_cu_result r = dev->api->event_query(event);

        if (r == GW_CU_SUCCESS) return 0;
        if (r == GW_CU_NOT_READY) {
            if (round < 64) continue;
            sched_yield();
            if (!deadline) deadline = sn_now_ns() + SN_CUDA_DEADLINE_NS;
            if (sn_now_ns() < deadline) continue;
        }
        dev->broken = true;
        return -EIO;
    }
}

bool sn_cuda_inside(const struct sn_cuda_region *region, uint64_t addr, uint64_t len)
{
    return addr >= region->addr && len <= region->len && addr - region->addr <= region->len - len;
}

int sn_cuda_enter(struct sn_cuda_region *region, uint64_t addr, uint64_t len)
{
    struct sn_cuda_device *dev = region->dev;

    if (!sn_cuda_inside(region, addr, len)) return -EFAULT;
    pthread_mutex_lock(&dev->lock);
    if (!dev->broken && dev->api->ctx_push(dev->ctx) != GW_CU_SUCCESS) dev->broken = true;
    if (!dev->broken) return 0;
    pthread_mutex_unlock(&dev->lock);
    return -EIO;
}

void sn_cuda_leave(struct sn_cuda_device *dev)
{
    gw_cu_ctx ctx;

    GW_ASSERT_HELD(&dev->lock);
    dev->api->ctx_pop(&ctx);
    pthread_mutex_unlock(&dev->lock);
}
