/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies without a wait: the copy kernel's commands have numbers, and it tells how far it is in memory that
 * the host reads. So a thread that waits for a copy has but to look, without the lock and without the driver.
 */
#include "softnic/cuda/device.h"

/* Is an engine at one of the region's buffers? Only its event, or waiting, tells when it has ended. */
static bool by_engines(const struct sn_cuda_device *dev, const struct sn_cuda_region *region)
{
    for (int i = 0; i < SN_CUDA_WRITERS; i++) {
        const struct sn_cuda_writer *w = &dev->writers[i];

        if (w->state != SN_STAGE_FREE && w->region == region && !w->number) return true;
    }
    return false;
}

bool sn_cuda_start(struct sn_cuda_region *region, uint64_t *mark)
{
    struct sn_cuda_device *dev = region->dev;
    bool ok;

    if (!dev->copier.ring || sn_cuda_enter(region, region->addr, 0)) return false;
    sn_cuda_submit_all(dev, region);
    ok = !region->error && !by_engines(dev, region);
    *mark = region->last;
    sn_cuda_leave(dev);
    return ok;
}

bool sn_cuda_ended(const struct sn_cuda_region *region, uint64_t mark)
{
    return sn_copier_ended(&region->dev->copier, mark);
}

int sn_cuda_await(struct sn_cuda_region *region, uint64_t mark)
{
    struct sn_cuda_device *dev = region->dev;
    int err;

    if (sn_copier_done(&dev->copier, mark)) return 0;
    err = sn_cuda_enter(region, region->addr, 0);
    if (err) return err;
    err = sn_copier_wait(dev, mark);
    sn_cuda_leave(dev);
    return err;
}
