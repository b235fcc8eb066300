/* SPDX-License-Identifier: Apache-2.0 */
/* How kernels' requests reach the NIC, and where their queues lie: what is asked for, and what is possible.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/verbs/impl.h"

static const char *const names[] = {"auto", "direct", "proxy-doorbell", "proxy-post"};
#define MODES (sizeof(names) / sizeof(names[0]))

const char *gw_mode_name(uint32_t mode)
{
    return mode < MODES ? names[mode] : "unknown";
}

const struct gw_queue_ops *gw_mode_queues(const struct gw_device *dev, uint32_t mode)
{
    return (mode ? mode : dev->info.post_mode) == GW_POST_PROXY_POST ? &gw_repost_queues : &gw_native_queues;
}

int gw_place(const struct gw_device *dev, uint32_t placement)
{
    if (placement == GW_QUEUES_AUTO || placement == GW_QUEUES_HOST) return 0;
    if (placement != GW_QUEUES_GPU) return gw_error(-EINVAL, "queues: there is no placement %u", placement);
    return gw_error(-EOPNOTSUPP,
                    "%s: its queues cannot lie in GPU memory: libibverbs makes them in host memory; use "
                    "GW_QUEUES_HOST",
                    dev->info.name);
}

static int from_environment(uint32_t *mode)
{
    const char *name = getenv("GPUWIRE_POST");

    *mode = GW_POST_AUTO;
    if (!name || !*name) return 0;
    for (*mode = 0; *mode < MODES; ++*mode)
        if (!strcmp(name, names[*mode])) return 0;
    return gw_error(-EINVAL, "GPUWIRE_POST=%s: it must be auto, direct, proxy-doorbell or proxy-post", name);
}

int gw_post_try(struct gw_device *dev, enum gw_post_mode mode)
{
    return gw_probe_post(dev, mode);
}

int gw_mode_choose(struct gw_device *dev)
{
    struct gw_device_info *i = &dev->info;
    uint32_t asked;
    int err = from_environment(&asked);

    if (err) return err;
    if (!dev->mlx5 && (asked == GW_POST_DIRECT || asked == GW_POST_PROXY_DOORBELL))
        return gw_error(-EOPNOTSUPP,
                        "%s is no ConnectX: kernels cannot write its queues; GPUWIRE_POST=proxy-post (or "
                        "unset) is what it can do",
                        i->name);
    dev->mode_forced = asked != GW_POST_AUTO;
    i->post_mode = asked ? asked : dev->mlx5 ? GW_POST_DIRECT : GW_POST_PROXY_POST;
    if (asked)
        snprintf(i->post_why, sizeof(i->post_why), "GPUWIRE_POST=%s", names[asked]);
    else if (!dev->mlx5)
        snprintf(i->post_why, sizeof(i->post_why), "%s is no ConnectX", i->name);
    err = gw_post_try(dev, i->post_mode);
    if (err != -EOPNOTSUPP || dev->mode_forced || !dev->mlx5) return err;
    snprintf(i->post_why, sizeof(i->post_why), "%s", gw_last_error());
    i->post_mode = GW_POST_PROXY_DOORBELL;
    return gw_post_try(dev, i->post_mode);
}
