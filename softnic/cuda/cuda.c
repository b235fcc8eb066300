/* SPDX-License-Identifier: Apache-2.0 */
/* Finding GPU memory, and the devices (per GPU context) that regions share. */
#include "softnic/cuda/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/held.h>

/* One per GPU context that ever held a region. Kept forever: freeing pinned memory may wait for a resident
 * kernel. */
enum { MAX_DEVICES = 64, BUFFER = SN_CUDA_STAGE + SN_CUDA_SKEW };
static struct sn_cuda_device *devices[MAX_DEVICES];
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;

struct pointer_info {
    gw_cu_ctx ctx;
    unsigned type, managed, gives; /* gives: a handle of it can be had, so it is this process's own */
    int ordinal;
    gw_cu_ptr start;
    size_t size;
};

/* False when the driver does not answer (not initialised, for one): then it has given out no memory. */
static bool softnic_cuda_ask(const struct gw_cuda_driver *api, uint64_t addr, struct pointer_info *info)
{
    int attributes[] = {GW_CU_ATTR_CONTEXT,        GW_CU_ATTR_MEMORY_TYPE, GW_CU_ATTR_IS_MANAGED,
                        GW_CU_ATTR_DEVICE_ORDINAL, GW_CU_ATTR_RANGE_START, GW_CU_ATTR_RANGE_SIZE,
                        GW_CU_ATTR_IPC_CAPABLE};
    void *data[] = {&info->ctx,   &info->type, &info->managed, &info->ordinal,
                    &info->start, &info->size, &info->gives};

    memset(info, 0, sizeof(*info));
    return api->pointer_get_attributes(7, attributes, data, addr) == GW_CU_SUCCESS;
}

static int softnic_cuda_refuse(char *why, int err, const char *text)
{
    if (why) snprintf(why, SN_CUDA_WHY, "%s", text);
    return err;
}

static int driver_error(const struct gw_cuda_driver *api, char *why, const char *call, gw_cu_result result)
{
    const char *name = NULL;

    if (api->error_name(result, &name) != GW_CU_SUCCESS || !name) name = "unknown error";
    if (why) snprintf(why, SN_CUDA_WHY, "%s: %s (%d)", call, name, result);
    return result == GW_CU_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

/* Streams, events and staging. The context is current. On failure what was made stays with the context. */
static int make_parts(struct sn_cuda_device *dev, char *why)
{
    const struct gw_cuda_driver *api = dev->api;
    uint8_t *stage = NULL;
    gw_cu_result r;

    r = api->host_alloc((void **)&stage, (size_t)BUFFER * (SN_CUDA_WRITERS + SN_CUDA_READERS),
                        GW_CU_HOST_ALLOC_PORTABLE);
    if (r) return driver_error(api, why, "cuMemHostAlloc of 4 MiB for staging", r);
    for (int i = 0; i < SN_CUDA_WRITERS; i++, stage += BUFFER) dev->writers[i].buffer = stage;
    for (int i = 0; i < SN_CUDA_READERS; i++, stage += BUFFER) dev->readers[i].buffer = stage;

    /* Non-blocking streams: a copy in them never waits for the application's work in its default stream. */
    r = api->stream_create(&dev->in, GW_CU_STREAM_NON_BLOCKING);
    if (!r) r = api->stream_create(&dev->out, GW_CU_STREAM_NON_BLOCKING);
    if (r) return driver_error(api, why, "cuStreamCreate", r);
    r = api->event_create(&dev->read_done, GW_CU_EVENT_DISABLE_TIMING);
    for (int i = 0; !r && i < SN_CUDA_WRITERS; i++) {
        r = api->event_create(&dev->writers[i].done, GW_CU_EVENT_DISABLE_TIMING);
    }
    return r ? driver_error(api, why, "cuEventCreate", r) : 0;
}

static int make_device(const struct gw_cuda_driver *api, gw_cu_ctx ctx, unsigned long long id, int gpu,
                       struct sn_cuda_device **dev, char *why)
{
    struct sn_cuda_device *d = calloc(1, sizeof(*d));
    gw_cu_ctx popped;
    gw_cu_result r;
    int err;

    if (!d) return softnic_cuda_refuse(why, -ENOMEM, "out of memory");
    d->api = api;
    d->ctx = ctx;
    d->ctx_id = id;
    d->gpu = gpu;
    pthread_mutex_init(&d->lock, NULL);
    r = api->ctx_push(ctx);
    if (r) {
        err = driver_error(api, why, "cuCtxPushCurrent", r);
    } else {
        err = make_parts(d, why);
        if (!err) sn_copier_make(d);
        api->ctx_pop(&popped);
    }
    if (err) {
        pthread_mutex_destroy(&d->lock);
        free(d);
        return err;
    }
    *dev = d;
    return 0;
}

struct sn_cuda_device *sn_cuda_device(unsigned index)
{
    /* Acquire: it was made before it stood there. */
    return index < MAX_DEVICES ? __atomic_load_n(&devices[index], __ATOMIC_ACQUIRE) : NULL;
}

/* A GPU of which nothing is registered has nothing to be reached; and its context may be gone. */
static void meet_others(struct sn_cuda_device *dev)
{
    GW_ASSERT_HELD(&devices_lock);
    for (int i = 0; i < MAX_DEVICES && devices[i]; i++)
        if (devices[i] != dev && devices[i]->api == dev->api &&
            __atomic_load_n(&devices[i]->regions, __ATOMIC_RELAXED))
            sn_cuda_meet(dev, devices[i]);
}

/* The device of a context, with one region more; a context that was destroyed and whose address another one
 * has now is told by its id. */
static int get_device(const struct gw_cuda_driver *api, gw_cu_ctx ctx, int gpu, struct sn_cuda_device **dev,
                      char *why)
{
    struct sn_cuda_device *made;
    unsigned long long id = 0;
    int i, err = 0;

    if (!api->ctx_get_id || api->ctx_get_id(ctx, &id) != GW_CU_SUCCESS) id = 0;
    pthread_mutex_lock(&devices_lock);
    for (i = 0; i < MAX_DEVICES && devices[i]; i++) {
        if (devices[i]->api == api && devices[i]->ctx == ctx && devices[i]->ctx_id == id) break;
    }
    if (i == MAX_DEVICES) {
        err = softnic_cuda_refuse(why, -ENOMEM,
                                  "memory of more than 64 GPU contexts was registered in this process");
    } else {
        if (!devices[i] && !(err = make_device(api, ctx, id, gpu, &made, why))) {
            made->index = (unsigned)i;
            __atomic_store_n(&devices[i], made, __ATOMIC_RELEASE);
        }
        *dev = devices[i];
    }
    if (!err) {
        __atomic_fetch_add(&(*dev)->regions, 1, __ATOMIC_RELAXED);
        meet_others(*dev);
    }
    pthread_mutex_unlock(&devices_lock);
    return err;
}

int sn_cuda_region_in(const struct gw_cuda_driver *api, gw_cu_ctx ctx, int gpu, struct sn_cuda_region *region,
                      char *why)
{
    return get_device(api, ctx, gpu, &region->dev, why);
}

static bool disordered; /* set before there are regions */

void sn_cuda_disorder(void)
{
    disordered = true;
}

static int softnic_cuda_attribute(const struct gw_cuda_driver *api, int which, gw_cu_device dev,
                                  int otherwise)
{
    int value;

    return api->device_attribute(&value, which, dev) ? otherwise : value;
}

/*
 * GPUs before Hopper give no useful promise. Neither do those with a second way to the processor: a
 * completion may come by one, and data by the other. A driver that does not know the question is older than
 * the promise. But then no program has asked for it.
 */
static bool unordered(const struct gw_cuda_driver *api, int ordinal)
{
    gw_cu_device dev;

    if (disordered) return true;
    if (!api->device_attribute || !api->device_get || api->device_get(&dev, ordinal)) return false;
    return softnic_cuda_attribute(api, GW_CU_WRITES_ORDERING, dev, GW_CU_ORDERING_OWNER) <
               GW_CU_ORDERING_OWNER ||
           softnic_cuda_attribute(api, GW_CU_MAJOR, dev, GW_CU_ORDERED_FROM) < GW_CU_ORDERED_FROM ||
           softnic_cuda_attribute(api, GW_CU_HOST_ATOMICS, dev, 0) ||
           softnic_cuda_attribute(api, GW_CU_HOST_PAGE_TABLES, dev, 0);
}

int sn_cuda_region_init(const struct gw_cuda_driver *api, uint64_t addr, uint64_t len,
                        struct sn_cuda_region *region, char *why)
{
    struct pointer_info first, last;
    gw_cu_ctx ctx;

    if (!api || !len || !softnic_cuda_ask(api, addr, &first)) return 0;
    if (!softnic_cuda_ask(api, addr + len - 1, &last)) return 0;
    if (first.managed || last.managed) {
        return softnic_cuda_refuse(
            why, -EOPNOTSUPP,
            "managed memory (cudaMallocManaged) moves by itself and cannot be a NIC's target; "
            "use cudaMalloc or cudaHostAlloc");
    }
    if (first.type != GW_CU_MEMORY_DEVICE && last.type != GW_CU_MEMORY_DEVICE) return 0;
    if (first.type != last.type || first.ordinal != last.ordinal || first.ctx != last.ctx) {
        return softnic_cuda_refuse(
            why, -EFAULT,
            "only a part of the range is memory of one GPU; does it end outside its allocation?");
    }
    /* Memory mapped by cuMemMap or taken from a pool belongs to no context: the device's primary one reaches
     * it. */
    ctx = first.ctx;
    if (!ctx) {
        gw_cu_result r = api->primary_ctx_retain(&ctx, first.ordinal);
        if (r) return driver_error(api, why, "cuDevicePrimaryCtxRetain", r);
    }
    memset(region, 0, sizeof(*region));
    region->addr = addr;
    region->len = len;
    int err = sn_cuda_region_in(api, ctx, first.ordinal, region, why);
    region->unordered = unordered(api, first.ordinal);
    /* The program may have opened it itself, for some other purpose. */
    region->origin = !first.ctx ? SN_CUDA_MAPPED : first.gives ? SN_CUDA_ALLOCATED : SN_CUDA_OPENED;
    return err ? err : 1;
}

void sn_cuda_region_stats(const struct sn_cuda_region *region, struct sn_cuda_stats *stats)
{
    pthread_mutex_lock(&region->dev->lock);
    *stats = region->dev->stats;
    stats->slow = region->dev->copier.slow;
    stats->refused = region->dev->copier.refused;
    pthread_mutex_unlock(&region->dev->lock);
}

void sn_cuda_forked(void)
{
    pthread_mutex_init(&devices_lock, NULL);
    memset(devices, 0, sizeof(devices));
    sn_cuda_export_forked();
    gw_cuda_driver_forked();
}
