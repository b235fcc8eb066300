/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory windows (InfiniBand architecture volume 1, 10.6.7): keys that grant a part of a region for a while.
 * A bound window is a region by itself, with the same way to the memory, so whatever accesses regions need
 * not know of windows. It ends with its region, or when it is bound again or invalidated.
 */
#include <errno.h>
#include <stdlib.h>

#include <gpuwire/detail/held.h>

#include "softnic/region/region.h"

enum { TAG_BITS = 8, INDEX_SHIFT = 12 };

static const uint32_t writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

int sn_mw_create(struct sn_pd *pd, enum ibv_mw_type type, struct sn_mr **out)
{
    struct sn_mr *mw = calloc(1, sizeof(*mw));
    int err = mw ? 0 : -ENOMEM;

    if (!err) {
        mw->window = type;
        sn_list_init(&mw->of_qp);
        err = sn_mr_add(pd, mw);
    }
    if (err)
        free(mw);
    else
        *out = mw;
    return err;
}

/* Bytes that came through it are in memory before it goes. */
static void unbind(struct sn_mr *mw)
{
    GW_ASSERT_HELD(&mw->pd->nic->lock);
    if (!mw->base) return;
    sn_settle(mw->pd->nic);
    sn_place_forget_mr(mw->pd->nic, mw);
    sn_list_del(&mw->windows);
    sn_list_del(&mw->of_qp);
    mw->base = NULL;
    mw->init = (struct sn_mr_init){0};
}

void sn_window_unbind_all(struct sn_mr *mr)
{
    struct sn_link *it, *tmp;

    if (mr->window) {
        unbind(mr);
        return;
    }
    sn_list_each(it, tmp, &mr->windows) unbind(sn_entry(it, struct sn_mr, windows));
}

/* Otherwise it would belong to the peer of the queue pair that gets that number next, and could not be
 * invalidated. */
void sn_window_unbind_qp(struct sn_qp *qp)
{
    struct sn_link *it, *tmp;

    sn_list_each(it, tmp, &qp->windows) unbind(sn_entry(it, struct sn_mr, of_qp));
}

/* A work request names the window by a key that it had once: the lower byte does not count. */
static struct sn_mr *window_of(struct sn_qp *qp, uint32_t key)
{
    struct sn_nic *nic = qp->nic;
    uint32_t index = key >> INDEX_SHIFT;
    struct sn_mr *mw = index < nic->mr_room ? nic->mrs[index] : NULL;

    return mw && mw->window && mw->pd == qp->init.pd && mw->key >> TAG_BITS == key >> TAG_BITS ? mw : NULL;
}

static uint32_t access_of(uint8_t flags)
{
    return (flags & GW_MLX5_MKEY_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0) |
           (flags & GW_MLX5_MKEY_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) |
           (flags & GW_MLX5_MKEY_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

static const char *check_base(const struct sn_mr *base, const struct gw_mlx5_bind *b)
{
    if (!base || base->window) return "no region of its domain has that key and reaches so far";
    if (!(base->init.access & IBV_ACCESS_MW_BIND)) return "the region was not registered for windows";
    if ((access_of(b->access) & writes) && !(base->init.access & IBV_ACCESS_LOCAL_WRITE))
        return "the region is not writable, and the window would be";
    return b->start + b->length < b->start ? "its addresses wrap around" : NULL;
}

static void take_part(struct sn_mr *mw, struct sn_mr *base, const struct gw_mlx5_bind *b)
{
    GW_ASSERT_HELD(&base->pd->nic->lock);
    mw->init = base->init;
    mw->init.addr = base->init.addr + (b->addr - base->init.iova);
    mw->init.length = b->length;
    mw->init.iova = b->start;
    mw->init.access = access_of(b->access);
    mw->base = base;
    sn_list_add(&base->windows, &mw->windows);
}

const char *sn_window_bind(struct sn_qp *qp, const struct gw_mlx5_bind *b)
{
    struct sn_mr *mw = window_of(qp, b->mkey), *base = NULL;
    const char *wrong;

    if (!mw) return "no window of its domain has that key";
    if (b->type2 != (mw->window == IBV_MW_TYPE_2)) return "the window is of the other type";
    if (b->type2 && !b->length) return sn_window_invalidate(qp, qp->init.pd, b->mkey);
    if (b->type2 && mw->base) return "the window is bound already";
    if (b->length) {
        base = sn_mr_find(qp->nic, qp->init.pd, b->lkey, b->addr, b->length);
        wrong = check_base(base, b);
        if (wrong) return wrong;
    }
    unbind(mw);
    mw->key = (mw->key & ~0xffu) | b->tag;
    mw->qpn = qp->number;
    if (b->length) take_part(mw, base, b);
    if (b->type2) sn_list_add(&qp->windows, &mw->of_qp);
    return NULL;
}

/* Type 2 only, while it is bound, by the queue pair for whose peer it is. */
const char *sn_window_invalidate(struct sn_qp *qp, const struct sn_pd *pd, uint32_t rkey)
{
    struct sn_nic *nic = qp->nic;
    uint32_t index = rkey >> INDEX_SHIFT;
    struct sn_mr *mw = index < nic->mr_room ? nic->mrs[index] : NULL;

    if (!mw || mw->key != rkey || mw->pd != pd || mw->window != IBV_MW_TYPE_2)
        return "no window of type 2 of its domain has that key";
    if (!mw->base || mw->qpn != qp->number) return "the window is not bound to this queue pair";
    unbind(mw);
    return NULL;
}
