/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory of one process in another: by the driver's handles for it, or by its files. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "softnic/cuda/device.h"

static int ipc_refuse(char *why, int err, const char *text)
{
    snprintf(why, SN_CUDA_WHY, "%s", text);
    return err;
}

static bool has_ipc(const struct gw_cuda_driver *api)
{
    return api->ipc_get && api->ipc_open && api->ipc_close;
}

static bool knows_gpus(const struct gw_cuda_driver *api)
{
    return api && api->device_count && api->device_get && api->device_uuid && api->primary_ctx_state;
}

/* ---- giving -------------------------------------------------------------------------------------------- */

static bool find_allocation(const struct sn_cuda_region *region, struct sn_gpu_share *share, int *ordinal)
{
    int attributes[] = {GW_CU_ATTR_RANGE_START, GW_CU_ATTR_RANGE_SIZE, GW_CU_ATTR_DEVICE_ORDINAL};
    gw_cu_ptr start = 0;
    size_t size = 0;
    void *data[] = {&start, &size, ordinal};

    if (region->dev->api->pointer_get_attributes(3, attributes, data, region->addr)) return false;
    share->base = start;
    share->size = size;
    return region->addr >= start && region->len <= size && region->addr - start <= size - region->len;
}

/* Memory of cuMemAlloc. */
static bool share_by_handle(struct sn_cuda_region *region)
{
    const struct gw_cuda_driver *api = region->dev->api;
    gw_cu_device dev;
    int ordinal = -1;

    memset(&region->share, 0, sizeof(region->share));
    return has_ipc(api) && find_allocation(region, &region->share, &ordinal) &&
           !api->device_get(&dev, ordinal) && !api->device_uuid(region->share.gpu, dev) &&
           !api->ipc_get((gw_cu_ipc *)region->share.handle, region->share.base);
}

bool sn_cuda_share(struct sn_cuda_region *region)
{
    const struct gw_cuda_driver *api = region->dev->api;
    gw_cu_ctx popped;

    region->shared = false;
    if (!knows_gpus(api) || api->ctx_push(region->dev->ctx)) return false;
    region->shared = share_by_handle(region);
    if (!region->shared) region->exported = sn_cuda_export(region, &region->share);
    region->shared |= region->exported != NULL;
    api->ctx_pop(&popped);
    if (!region->shared) __atomic_fetch_add(&region->dev->unshared, 1, __ATOMIC_RELAXED);
    return region->shared;
}

/* ---- taking -------------------------------------------------------------------------------------------- */

/* A GPU's primary context, if the process uses it: none is made, since that takes hundreds of megabytes. */
static bool primary_in_use(const struct gw_cuda_driver *api, int gpu, bool *same, const uint8_t id[16],
                           gw_cu_ctx *ctx)
{
    uint8_t own[16];
    gw_cu_device dev;
    unsigned flags;
    int active = 0;

    if (api->device_get(&dev, gpu) || api->device_uuid(own, dev)) return false;
    *same = !memcmp(own, id, 16);
    if (api->primary_ctx_state(dev, &flags, &active) || !active) return false;
    /* Retained for good: a mapping may need it at any time. */
    return !api->primary_ctx_retain(ctx, dev);
}

/* Is anything of the GPU registered here? Then that is what the peer's memory is copied from, or to. */
static bool registered(int gpu)
{
    const struct sn_cuda_device *dev;

    for (unsigned i = 0; (dev = sn_cuda_device(i)); i++)
        if (dev->gpu == gpu && __atomic_load_n(&dev->regions, __ATOMIC_RELAXED)) return true;
    return false;
}

static int no_gpu(char *why)
{
    return ipc_refuse(
        why, -ENODEV,
        "this process uses neither the peer's GPU nor one that reaches it (CUDA_VISIBLE_DEVICES, "
        "`nvidia-smi topo -p2p r`)");
}

/* Its place here. */
static int ipc_open_memory(const struct gw_cuda_driver *api, int gpu, const struct sn_gpu_share *share,
                           const struct sn_cuda_files *files, uint64_t *at)
{
    gw_cu_ptr opened = 0;
    gw_cu_ipc handle;

    if (share->way == SN_GPU_BY_FILES) return sn_cuda_import(api, gpu, share, files, at);
    memcpy(&handle, share->handle, sizeof(handle));
    if (api->ipc_open(&opened, handle, GW_CU_IPC_LAZY_PEER_ACCESS)) return -1;
    *at = opened;
    return 0;
}

static void close_memory(const struct gw_cuda_driver *api, bool imported, uint64_t at, uint64_t size)
{
    if (imported)
        sn_cuda_unimport(api, at, size);
    else
        api->ipc_close(at);
}

/* In the context of a GPU, which is current. */
static int ipc_open_in(const struct gw_cuda_driver *api, gw_cu_ctx ctx, int gpu,
                       const struct sn_gpu_share *share, const struct sn_cuda_files *files,
                       struct sn_cuda_region *region, char *why)
{
    struct sn_gpu_share own;
    uint64_t at;
    int err, ordinal;

    if (ipc_open_memory(api, gpu, share, files, &at))
        return region->elsewhere
                   ? no_gpu(why)
                   : ipc_refuse(why, -EIO,
                                region->imported ? "cuMemImportFromShareableHandle, or mapping it, failed"
                                                 : "cuIpcOpenMemHandle failed");
    region->addr = at;
    region->len = share->size;
    err = sn_cuda_region_in(api, ctx, gpu, region, why);
    if (!err && !find_allocation(region, &own, &ordinal)) {
        /* The memory after it may be anybody's. */
        sn_cuda_region_fini(region);
        err = ipc_refuse(why, -EIO, "the peer's memory is shorter than it says");
    }
    if (err)
        close_memory(api, region->imported, at, share->size);
    else
        __atomic_fetch_add(&region->dev->opened, 1, __ATOMIC_RELAXED);
    region->origin = region->imported ? SN_CUDA_MAPPED : SN_CUDA_OPENED;
    return err;
}

int sn_cuda_open(const struct gw_cuda_driver *api, const struct sn_gpu_share *share,
                 const struct sn_cuda_files *files, struct sn_cuda_region *region, char *why)
{
    gw_cu_ctx ctx, popped;
    int n = 0, err = -ENODEV;

    memset(region, 0, sizeof(*region));
    region->imported = share->way == SN_GPU_BY_FILES;
    if (!knows_gpus(api) || !(region->imported ? api->mem_import != NULL : has_ipc(api)))
        return ipc_refuse(why, -ENOSYS, "this process has loaded no CUDA driver that shares memory");
    if (api->device_count(&n)) n = 0;
    no_gpu(why);
    /* Among those of which something is registered, and then among the others: the GPU that it is of, then
     * one that gets to it. */
    for (int i = 0; i < 4 * n && err; i++) {
        bool same;

        if (registered(i % n) != (i < 2 * n)) continue;
        if (!primary_in_use(api, i % n, &same, share->gpu, &ctx) || same != (i / n % 2 == 0)) continue;
        if (api->ctx_push(ctx)) return ipc_refuse(why, -EIO, "cuCtxPushCurrent failed");
        region->elsewhere = !same;
        err = ipc_open_in(api, ctx, i % n, share, files, region, why);
        api->ctx_pop(&popped);
    }
    return err;
}

void sn_cuda_close(struct sn_cuda_region *region)
{
    struct sn_cuda_device *dev = region->dev;
    uint64_t at = region->addr, size = region->len;
    gw_cu_ctx popped;

    if (!dev) return;
    sn_cuda_region_fini(region);
    __atomic_fetch_sub(&dev->opened, 1, __ATOMIC_RELAXED);
    if (dev->api->ctx_push(dev->ctx)) return;
    close_memory(dev->api, region->imported, at, size);
    dev->api->ctx_pop(&popped);
}

bool sn_cuda_may_close(const struct sn_cuda_region *region)
{
    const struct sn_cuda_device *dev = region->dev;

    return !dev || __atomic_load_n(&dev->regions, __ATOMIC_RELAXED) <=
                       __atomic_load_n(&dev->opened, __ATOMIC_RELAXED);
}
