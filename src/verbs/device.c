/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and protection domains. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "src/verbs/impl.h"

#define CHUNK (4u << 20)

void *gw_new(size_t size)
{
    size_t whole = (size + GW_HANDLE_BYTES - 1) & ~(size_t)(GW_HANDLE_BYTES - 1);
    void *p = aligned_alloc(GW_HANDLE_BYTES, whole);

    return p ? memset(p, 0, whole) : NULL;
}

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 1024;
}

static int verbs_device_query(struct gw_device *dev)
{
    struct ibv_port_attr port;
    int err = ibv_query_device(dev->ctx, &dev->attr);

    snprintf(dev->info.name, sizeof(dev->info.name), "%s", ibv_get_device_name(dev->ctx->device));
    if (err) return gw_error_errno(-err, "%s: cannot query the device", dev->info.name);
    snprintf(dev->info.board, sizeof(dev->info.board), "firmware %s", dev->attr.fw_ver);
    dev->info.port = 1;
    err = ibv_query_port(dev->ctx, 1, &port);
    if (err) return gw_error_errno(-err, "%s: cannot query port 1", dev->info.name);
    if (port.state != IBV_PORT_ACTIVE)
        return gw_error(-ENETDOWN, "%s: port 1 is not active; check the cable and `ip link`", dev->info.name);
    dev->info.mtu = mtu_bytes(port.active_mtu);
    dev->info.lid = port.lid;
    dev->roce = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    if (dev->roce && dev->settings.sl > 7)
        return gw_error(-EINVAL, "GPUWIRE_SL=%d: on Ethernet there are 0 to 7 (%s)", dev->settings.sl,
                        dev->info.name);
    err = gw_gid_choose(dev, (uint32_t)port.gid_tbl_len);
    return err ? err : gw_pkey_choose(dev, port.pkey_tbl_len);
}

static int verbs_device_set_up(struct gw_device *dev)
{
    struct ibv_td_init_attr td = {0};
    int err = verbs_device_query(dev);

    if (!err) err = gw_many_threads(dev);
    if (err) return err;
    dev->pd = ibv_alloc_pd(dev->ctx);
    if (!dev->pd) return gw_error_errno(-errno, "%s: cannot make a protection domain", dev->info.name);
    /* A thread domain has a doorbell register of its own. Where there is none, libmlx5 shares out the static
     * ones. */
    if (dev->mlx5) dev->td = ibv_alloc_td(dev->ctx, &td);
    err = gw_parent_domain(dev, dev->pd, &dev->parent);
    return err ? err : dev->ops->open(dev);
}

static void tear_down(struct gw_device *dev)
{
    gw_flush_close(dev);
    gw_watch_stop(dev);
    gw_proxy_stop(dev);
    gw_uar_unmap_all(dev);
    if (dev->ops) dev->ops->close(dev);
    if (dev->parent) ibv_dealloc_pd(dev->parent);
    if (dev->td) ibv_dealloc_td(dev->td);
    if (dev->pd) ibv_dealloc_pd(dev->pd);
    if (dev->ctx) ibv_close_device(dev->ctx);
    gw_arena_fini(&dev->queues);
    gw_arena_fini(&dev->handles);
    free(dev->ah);
    if (dev->own_exec) gw_exec_destroy(dev->exec);
    pthread_mutex_destroy(&dev->lock);
    free(dev);
}

int gw_device_open(const char *name, struct gw_exec *exec, struct gw_device **out)
{
    struct gw_device *dev = calloc(1, sizeof(*dev));
    int err = 0;

    *out = NULL;
    if (!dev) return gw_error_errno(-ENOMEM, "network device");
    pthread_mutex_init(&dev->lock, NULL);
    dev->exec = exec;
    if (!exec) {
        err = gw_exec_create("cpu", NULL, &dev->exec);
        dev->own_exec = !err;
    }
    if (!err) err = gw_settings_read(&dev->settings);
    if (!err) err = gw_choose(name, dev);
    if (!err) {
        dev->info.soft = dev->ops->soft;
        dev->mlx5 = mlx5dv_is_supported(dev->ctx->device);
        gw_arena_init(&dev->queues, dev->exec, GW_MEM_HOST, CHUNK);
        gw_arena_init(&dev->handles, dev->exec, GW_MEM_DEVICE, CHUNK);
        err = verbs_device_set_up(dev);
    }
    if (!err) err = gw_watch_start(dev);
    if (!err) err = gw_mode_choose(dev);
    if (!err) gw_masked_tell(dev);
    if (!err) gw_mr_probe(dev);
    if (!err) gw_flush_open(dev);
    if (err) {
        tear_down(dev);
        return err;
    }
    *out = dev;
    return 0;
}

int gw_device_close(struct gw_device *dev)
{
    if (!dev) return 0;
    if (dev->objects)
        return gw_error(-EBUSY, "%s: %u objects made from it are still there", dev->info.name, dev->objects);
    tear_down(dev);
    return 0;
}

void gw_device_query(const struct gw_device *dev, struct gw_device_info *info)
{
    *info = dev->info;
}

struct ibv_context *gw_device_context(const struct gw_device *dev)
{
    return dev->ctx;
}

struct gw_exec *gw_device_exec(const struct gw_device *dev)
{
    return dev->exec;
}

void gw_device_progress(struct gw_device *dev)
{
    dev->ops->progress(dev);
}

static int make_sink(struct gw_pd *pd)
{
    struct gw_device *dev = pd->dev;
    int err;

    if (!gw_has_atomics(dev)) return 0;
    err = gw_arena_alloc(&dev->queues, sizeof(uint64_t), 64, &pd->sink);
    if (err) return gw_error_errno(err, "protection domain");
    pd->sink_mr = ibv_reg_mr(pd->pd, pd->sink.host, sizeof(uint64_t), IBV_ACCESS_LOCAL_WRITE);
    return pd->sink_mr
               ? 0
               : gw_refused(dev, -errno, "cannot register %zu bytes at %p", sizeof(uint64_t), pd->sink.host);
}

/* Frees what there is of it. */
static void free_pd(struct gw_pd *pd)
{
    GW_ASSERT_HELD(&pd->dev->lock);
    if (pd->sink_mr) ibv_dereg_mr(pd->sink_mr);
    gw_arena_free(&pd->dev->queues, pd->sink.host);
    if (pd->parent) ibv_dealloc_pd(pd->parent);
    if (pd->pd) ibv_dealloc_pd(pd->pd);
    free(pd);
}

int gw_pd_create(struct gw_device *dev, struct gw_pd **out)
{
    struct gw_pd *pd = calloc(1, sizeof(*pd));
    int err = -ENOMEM;

    *out = NULL;
    if (!pd) return gw_error_errno(-ENOMEM, "protection domain");
    pthread_mutex_lock(&dev->lock);
    pd->dev = dev;
    pd->pd = ibv_alloc_pd(dev->ctx);
    err = pd->pd ? gw_parent_domain(dev, pd->pd, &pd->parent)
                 : gw_error_errno(-errno, "%s: cannot make a protection domain", dev->info.name);
    if (!err) err = make_sink(pd);
    if (err)
        free_pd(pd);
    else
        dev->objects++;
    pthread_mutex_unlock(&dev->lock);
    if (!err) *out = pd;
    return err;
}

int gw_pd_destroy(struct gw_pd *pd)
{
    struct gw_device *dev;

    if (!pd) return 0;
    dev = pd->dev;
    pthread_mutex_lock(&dev->lock);
    if (pd->objects) {
        pthread_mutex_unlock(&dev->lock);
        return gw_error(-EBUSY,
                        "protection domain: %u queue pairs, regions and address handles are still in it",
                        pd->objects);
    }
    free_pd(pd);
    GW_ASSERT(dev->objects > 0);
    dev->objects--;
    pthread_mutex_unlock(&dev->lock);
    return 0;
}
