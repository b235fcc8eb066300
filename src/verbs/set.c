/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of queue pairs, which kernels address by the rank of the peer. */
#include <errno.h>
#include <stdlib.h>

#include <gpuwire/detail/assert.h>

#include "src/verbs/impl.h"

#define MAX_QUEUE_PAIRS (1u << 20)

struct gw_qp_set {
    struct gw_device *dev;
    struct gw_piece piece;
};

static int verbs_set_check(const struct gw_device *dev, struct gw_qp *const *qp, uint32_t ranks,
                           uint32_t each)
{
    if (!ranks || !each || (uint64_t)ranks * each > MAX_QUEUE_PAIRS)
        return gw_error(-EINVAL,
                        "set of queue pairs: %u ranks and %u for each; at most %u in all, and one at least",
                        ranks, each, MAX_QUEUE_PAIRS);
    for (uint32_t i = 0; i < ranks * each; i++)
        if (qp[i] && qp[i]->dev != dev)
            return gw_error(-EINVAL, "set of queue pairs: number %u is of another device", i);
    return 0;
}

int gw_qp_set_create(struct gw_device *dev, struct gw_qp *const *qp, uint32_t ranks, uint32_t each,
                     struct gw_qp_set **out)
{
    int err = verbs_set_check(dev, qp, ranks, each);
    size_t size = sizeof(struct gw_qp_set_handle) + (size_t)ranks * each * sizeof(struct gw_qp_handle *);
    struct gw_qp_set_handle *h;
    struct gw_qp_set *set;

    *out = NULL;
    if (err) return err;
    set = calloc(1, sizeof(*set));
    h = calloc(1, size);
    if (!set || !h) err = gw_error_errno(-ENOMEM, "set of queue pairs");
    if (!err) {
        h->size = (uint32_t)size;
        h->version = GW_VERBS_VERSION;
        h->ranks = ranks;
        h->each = each;
        for (uint32_t i = 0; i < ranks * each; i++) h->qp[i] = qp[i] ? gw_qp_handle(qp[i]) : NULL;
        set->dev = dev;
        pthread_mutex_lock(&dev->lock);
        err = gw_arena_alloc(&dev->handles, size, 64, &set->piece);
        if (!err) err = gw_copy_in(dev->exec, set->piece.dev, h, size);
        if (err && set->piece.dev) gw_arena_free(&dev->handles, set->piece.dev);
        dev->objects += !err;
        pthread_mutex_unlock(&dev->lock);
    }
    free(h);
    if (err)
        free(set);
    else
        *out = set;
    return err;
}

int gw_qp_set_destroy(struct gw_qp_set *set)
{
    if (!set) return 0;
    pthread_mutex_lock(&set->dev->lock);
    gw_arena_free(&set->dev->handles, set->piece.dev);
    GW_ASSERT(set->dev->objects > 0);
    set->dev->objects--;
    pthread_mutex_unlock(&set->dev->lock);
    free(set);
    return 0;
}

const struct gw_qp_set_handle *gw_qp_set_handle(const struct gw_qp_set *set)
{
    return set->piece.dev;
}
