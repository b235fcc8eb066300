/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions and what may be done with them. A key is an index into a table (upper 20 bits) and 12 more
 * bits. All are random: a key that outlived its region, or was guessed, is hardly ever another's. The index
 * has 16 random bits as long as there are not too many regions for that. Peers on the same host look up as
 * many (local/share.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/mem/guard.h"
#include "softnic/region/region.h"

enum { FIRST_ROOM = 1 << 16 };

static const uint32_t known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND |
                                     IBV_ACCESS_RELAXED_ORDERING;

static const uint32_t remote_access =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

static int mr_check_init(const struct sn_mr_init *i)
{
    if (i->addr + i->length < i->addr || i->iova + i->length < i->iova) return -EINVAL;
    if (i->access & ~known_access) return -EINVAL;
    if ((i->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
        !(i->access & IBV_ACCESS_LOCAL_WRITE))
        return -EINVAL;
    return 0;
}

/* Index 0 is never given out, so no key is 0 or below 1 << SN_KEY_SHIFT. */
static int mr_grow(struct sn_nic *nic)
{
    uint32_t room = nic->mr_room ? nic->mr_room * 2 : FIRST_ROOM;
    struct sn_mr **mrs;

    if (room > SN_MAX_MR) return -ENOMEM;
    mrs = calloc(room, sizeof(*mrs)); /* unused pages stay out of memory */
    if (!mrs) return -ENOMEM;
    if (nic->mrs) memcpy(mrs, nic->mrs, nic->mr_room * sizeof(*mrs));
    free(nic->mrs);
    nic->mrs = mrs;
    nic->mr_room = room;
    return 0;
}

/* The table grows before it is full: free indices stay quick to find, and too many to guess. */
static bool crowded(const struct sn_nic *nic)
{
    return nic->mr_room < SN_MAX_MR && nic->mr_count >= nic->mr_room / 8 * 7;
}

static int take_key(struct sn_nic *nic, uint32_t *key)
{
    uint32_t index, low;
    int err = crowded(nic) ? mr_grow(nic) : 0;

    GW_ASSERT_HELD(&nic->lock);
    if (!err && nic->mr_count + 1 >= nic->mr_room) err = -ENOMEM;
    if (!err) err = sn_secret_below(nic, nic->mr_room, &index);
    if (!err) err = sn_secret_below(nic, 1 << SN_KEY_SHIFT, &low);
    if (err) return err;
    while (!index || nic->mrs[index]) index = (index + 1) % nic->mr_room;
    *key = index << SN_KEY_SHIFT | low;
    return 0;
}

/* A region of all addresses is no amount of memory. */
static uint64_t counted(const struct sn_mr_init *init)
{
    return init->length == UINT64_MAX ? 0 : init->length;
}

int sn_mr_add(struct sn_pd *pd, struct sn_mr *mr)
{
    struct sn_nic *nic = pd->nic;
    int err;

    mr->pd = pd;
    sn_list_init(&mr->windows);
    sn_nic_lock(nic);
    err = take_key(nic, &mr->key);
    if (!err) {
        nic->mrs[mr->key >> SN_KEY_SHIFT] = mr;
        nic->mr_count++;
        nic->mr_bytes += counted(&mr->init);
        nic->objects++;
        pd->users++;
        if (!mr->window) sn_publish_region(mr, false);
    }
    sn_nic_unlock(nic);
    return err;
}

int sn_mr_create(struct sn_pd *pd, const struct sn_mr_init *init, struct sn_mr **out)
{
    int err = mr_check_init(init);
    struct sn_mr *mr;

    if (!err) err = sn_guard_install();
    if (err) return err;
    mr = calloc(1, sizeof(*mr));
    if (!mr) return -ENOMEM;
    mr->init = *init;
    if (!mr->init.dma) mr->init.dma = &sn_host_dma;
    err = sn_mr_add(pd, mr);
    if (err) {
        free(mr);
        return err;
    }
    *out = mr;
    return 0;
}

int sn_mr_change(struct sn_mr *mr, struct sn_pd *pd, const struct sn_mr_init *init)
{
    struct sn_nic *nic = mr->pd->nic;
    int err = pd->nic == nic ? mr_check_init(init) : -EINVAL;

    if (err) return err;
    sn_nic_lock(nic);
    sn_window_unbind_all(mr);
    sn_place_forget_mr(nic, mr); /* what was accepted goes to where it was accepted for */
    sn_publish_region(mr, true);
    GW_ASSERT(mr->pd->users > 0);
    mr->pd->users--;
    mr->pd = pd;
    pd->users++;
    nic->mr_bytes += counted(init) - counted(&mr->init);
    mr->init = *init;
    mr->changed = true;
    if (!mr->init.dma) mr->init.dma = &sn_host_dma;
    sn_publish_region(mr, false);
    sn_nic_unlock(nic);
    sn_publish_quiesce(nic); /* a peer may be in the middle of the old memory */
    return 0;
}

int sn_mr_destroy(struct sn_mr *mr)
{
    struct sn_nic *nic = mr->pd->nic;

    sn_nic_lock(nic);
    sn_window_unbind_all(mr);
    if (!mr->window) {
        sn_place_forget_mr(nic, mr);
        sn_publish_region(mr, true);
    }
    sn_mr_note_gone(nic, mr);
    GW_ASSERT(nic->mrs[mr->key >> SN_KEY_SHIFT] == mr && nic->mr_count > 0);
    GW_ASSERT(mr->pd->users > 0 && nic->objects > 0 && sn_list_empty(&mr->windows));
    nic->mrs[mr->key >> SN_KEY_SHIFT] = NULL;
    nic->mr_count--;
    nic->mr_bytes -= counted(&mr->init);
    nic->objects--;
    mr->pd->users--;
    sn_nic_unlock(nic);
    sn_publish_quiesce(nic); /* a peer may be in the middle of it */
    free(mr);
    return 0;
}

uint32_t sn_mr_key(const struct sn_mr *mr)
{
    return mr->key;
}

struct sn_mr *sn_mr_find(struct sn_nic *nic, const struct sn_pd *pd, uint32_t key, uint64_t va, uint64_t len)
{
    uint32_t index = key >> SN_KEY_SHIFT;
    struct sn_mr *mr = index < nic->mr_room ? nic->mrs[index] : NULL;

    GW_ASSERT_HELD(&nic->lock);
    if (!mr || mr->key != key || mr->pd != pd) return NULL;
    /* Written so that nothing can overflow. */
    if (va < mr->init.iova || len > mr->init.length || va - mr->init.iova > mr->init.length - len)
        return NULL;
    return mr;
}

struct sn_mr *sn_mr_check(struct sn_nic *nic, const struct sn_pd *pd, uint32_t key, uint64_t va, uint64_t len,
                          uint32_t access)
{
    struct sn_mr *mr = sn_mr_find(nic, pd, key, va, len);

    if (!mr || (mr->init.access & access) != access) return NULL;
    return mr->window && !(access & remote_access) ? NULL : mr;
}

struct sn_mr *sn_mr_remote(struct sn_qp *qp, const struct sn_pd *pd, uint32_t key, uint64_t va, uint64_t len,
                           uint32_t access)
{
    struct sn_mr *mr = sn_mr_check(qp->nic, pd, key, va, len, access);

    return mr && mr->window == IBV_MW_TYPE_2 && mr->qpn != qp->number ? NULL : mr;
}

bool sn_mr_copies(const struct sn_mr *mr)
{
    return mr->init.dma == &sn_host_dma || mr->init.dma->move;
}

const struct sn_gpu_share *sn_mr_share(const struct sn_mr *mr)
{
    return mr->init.dma->share ? mr->init.dma->share(mr->init.dma_ctx) : NULL;
}

bool sn_mr_published(const struct sn_mr *mr)
{
    return mr->init.dma == &sn_host_dma || sn_mr_share(mr);
}

struct sn_reach sn_mr_reach(const struct sn_mr *mr)
{
    if (!mr || mr->init.dma == &sn_host_dma) return (struct sn_reach){NULL, NULL};
    return (struct sn_reach){mr->init.dma, mr->init.dma_ctx};
}

int sn_mr_read(struct sn_mr *mr, uint64_t va, void *dst, uint32_t len, uint64_t ahead, uint64_t request)
{
    uint64_t at = va - mr->init.iova, room = mr->init.length - at;

    sn_place_read(mr);
    if (ahead > room) ahead = room;
    return mr->init.dma->read(mr->init.dma_ctx, mr->init.addr + at, dst, len, ahead, request);
}

int sn_mr_write(struct sn_mr *mr, uint64_t va, const void *src, uint32_t len)
{
    GW_ASSERT_HELD(&mr->pd->nic->lock);
    return mr->init.dma->write(mr->init.dma_ctx, mr->init.addr + (va - mr->init.iova), src, len);
}
