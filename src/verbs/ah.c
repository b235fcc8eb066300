/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address handles. libmlx5's hold the vector that stands in a WQE, and kernels copy that. A posting proxy
 * needs the handle itself, and finds it by its number: the content of a kernel's queue must not lead it to
 * any other memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "src/verbs/proxy.h"

/* The proxy reads the table during its rounds. dev->lock keeps others from starting one. */
static void lock_table(struct gw_device *dev)
{
    GW_ASSERT_HELD(&dev->lock);
    if (dev->proxy) pthread_mutex_lock(&dev->proxy->lock);
}

static void unlock_table(struct gw_device *dev)
{
    if (dev->proxy) pthread_mutex_unlock(&dev->proxy->lock);
}

static int enlarge(struct gw_device *dev)
{
    uint32_t more = dev->ahs ? 2 * dev->ahs : 64;
    struct gw_own_ah **table = realloc(dev->ah, more * sizeof(struct gw_own_ah *));

    if (!table) return -ENOMEM;
    memset(table + dev->ahs, 0, (more - dev->ahs) * sizeof(struct gw_own_ah *));
    dev->ah = table;
    dev->ahs = more;
    return 0;
}

/* Gives it the lowest free number; 0 is none. */
static int ah_enter(struct gw_device *dev, struct gw_own_ah *a)
{
    uint32_t i;
    int err = 0;

    GW_ASSERT_HELD(&dev->lock);
    lock_table(dev);
    for (i = dev->ah_free; i < dev->ahs && dev->ah[i]; i++) continue;
    if (i == dev->ahs) err = enlarge(dev);
    if (!err) {
        dev->ah[i] = a;
        dev->ah_free = i + 1;
        a->open.handle.number = a->number = i + 1;
    }
    unlock_table(dev);
    return err;
}

struct ibv_ah *gw_ah_of(const struct gw_pd *pd, uint32_t number)
{
    const struct gw_device *dev = pd->dev;
    const struct gw_own_ah *a = number && number <= dev->ahs ? dev->ah[number - 1] : NULL;

    GW_ASSERT_HELD(&dev->proxy->lock);
    return a && a->pd == pd ? a->ah : NULL;
}

/* The vector, from libmlx5, or without one what tells people where it leads. */
static int ah_fill(struct gw_own_ah *a, const struct gw_endpoint *peer)
{
    struct gw_ah_handle *h = &a->open.handle;
    struct gw_mlx5_av av = {.dqpn_be = gw_be32(GW_MLX5_AV_EXTENDED)};
    struct mlx5dv_ah dv = {0};
    struct mlx5dv_obj obj = {.ah = {.in = a->ah, .out = &dv}};
    int err = 0;

    h->size = sizeof(*h);
    h->version = GW_VERBS_VERSION;
    if (a->pd->dev->mlx5) {
        err = mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH);
        if (!err) memcpy(h->av, dv.av, sizeof(h->av));
    } else {
        memcpy(av.rgid, peer->gid, sizeof(av.rgid));
        memcpy(h->av, &av, sizeof(h->av));
    }
    return err ? gw_error_errno(-err, "%s: address handle", a->pd->dev->info.name) : 0;
}

int gw_ah_create(struct gw_pd *pd, const struct gw_endpoint *peer, const struct gw_connect_opts *opts,
                 struct gw_ah **out)
{
    static const uint8_t nobody[16];
    const struct gw_connect_opts none = {0};
    struct ibv_ah_attr attr = gw_way_to(pd->dev, peer, opts ? opts : &none);
    struct gw_own_ah *a;
    int err;

    *out = NULL;
    attr.is_global = 1; /* the receiver learns from it who has sent the datagram (gw_grh_source) */
    if (!memcmp(peer->gid, nobody, sizeof(nobody)))
        return gw_error(-EINVAL, "address handle: the peer has no GID");
    a = gw_new(sizeof(*a));
    if (!a) return gw_error_errno(-ENOMEM, "address handle");
    a->pd = pd;
    a->ah = ibv_create_ah(pd->pd, &attr);
    err = a->ah ? ah_fill(a, peer)
                : gw_error_errno(-errno, "%s: cannot make an address handle", pd->dev->info.name);
    pthread_mutex_lock(&pd->dev->lock);
    if (!err) {
        err = ah_enter(pd->dev, a);
        if (err) gw_error_errno(err, "address handle");
    }
    if (!err) pd->objects++;
    pthread_mutex_unlock(&pd->dev->lock);
    if (err) {
        if (a->ah) ibv_destroy_ah(a->ah);
        free(a);
        return err;
    }
    *out = &a->open;
    return 0;
}

int gw_ah_destroy(struct gw_ah *ah)
{
    struct gw_own_ah *a = (struct gw_own_ah *)ah;
    struct gw_device *dev;
    uint32_t i;

    if (!ah) return 0;
    dev = a->pd->dev;
    i = a->number - 1;
    pthread_mutex_lock(&dev->lock);
    lock_table(dev);
    dev->ah[i] = NULL;
    if (i < dev->ah_free) dev->ah_free = i;
    unlock_table(dev);
    GW_ASSERT(a->pd->objects > 0);
    a->pd->objects--;
    pthread_mutex_unlock(&dev->lock);
    ibv_destroy_ah(a->ah);
    free(a);
    return 0;
}
