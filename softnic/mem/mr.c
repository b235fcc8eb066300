/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions and what may be done with them. A key is an index into a table (upper 20 bits) and 12 random
 * bits, so that a key that outlived its region, or was guessed, is hardly ever another's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softnic/engine/engine.h"
#include "softnic/mem/guard.h"

enum { FIRST_ROOM = 64 };

static const uint32_t known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND |
                                     IBV_ACCESS_RELAXED_ORDERING;

static const uint32_t remote_access =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

static int check_init(const struct sn_mr_init *i)
{
    if (i->addr + i->length < i->addr || i->iova + i->length < i->iova) return -EINVAL;
    if (i->access & ~known_access) return -EINVAL;
    if ((i->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
        !(i->access & IBV_ACCESS_LOCAL_WRITE))
        return -EINVAL;
    return 0;
}

/* Index 0 is never given out, so no key is 0 or below 1 << SN_KEY_SHIFT. */
static int grow(struct sn_nic *nic)
{
    uint32_t room = nic->mr_room ? nic->mr_room * 2 : FIRST_ROOM;
    struct sn_mr **mrs;

    if (nic->mr_count >= SN_MAX_MR - 1 || room > SN_MAX_MR) return -ENOMEM;
    mrs = realloc(nic->mrs, room * sizeof(*mrs));
    if (!mrs) return -ENOMEM;
    memset(mrs + nic->mr_room, 0, (room - nic->mr_room) * sizeof(*mrs));
    nic->mrs = mrs;
    nic->mr_room = room;
    return 0;
}

static int take_index(struct sn_nic *nic, uint32_t *index)
{
    if (nic->mr_count + 1 >= nic->mr_room) {
        int err = grow(nic);

        if (err) return err;
    }
    do {
        if (++nic->mr_hint >= nic->mr_room) nic->mr_hint = 1;
    } while (nic->mrs[nic->mr_hint]);
    *index = nic->mr_hint;
    return 0;
}

int sn_mr_add(struct sn_pd *pd, struct sn_mr *mr)
{
    struct sn_nic *nic = pd->nic;
    uint32_t index;
    int err;

    mr->pd = pd;
    sn_list_init(&mr->windows);
    sn_nic_lock(nic);
    err = take_index(nic, &index);
    if (!err) {
        mr->key = index << SN_KEY_SHIFT | (uint32_t)(sn_random(nic) >> (64 - SN_KEY_SHIFT));
        nic->mrs[index] = mr;
        nic->mr_count++;
        nic->mr_bytes += mr->init.length;
        nic->objects++;
        pd->users++;
        if (!mr->window) sn_direct_tell_region(mr, false);
    }
    sn_nic_unlock(nic);
    return err;
}

int sn_mr_create(struct sn_pd *pd, const struct sn_mr_init *init, struct sn_mr **out)
{
    int err = check_init(init);
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
    int err = pd->nic == nic ? check_init(init) : -EINVAL;

    if (err) return err;
    sn_nic_lock(nic);
    sn_window_unbind_all(mr);
    sn_place_forget_mr(nic, mr); /* what was accepted goes to where it was accepted for */
    sn_direct_tell_region(mr, true);
    mr->pd->users--;
    mr->pd = pd;
    pd->users++;
    nic->mr_bytes += init->length - mr->init.length;
    mr->init = *init;
    mr->changed = true;
    if (!mr->init.dma) mr->init.dma = &sn_host_dma;
    sn_direct_tell_region(mr, false);
    sn_nic_unlock(nic);
    sn_direct_quiesce(nic); /* a peer may be in the middle of the old memory */
    return 0;
}

int sn_mr_destroy(struct sn_mr *mr)
{
    struct sn_nic *nic = mr->pd->nic;

    sn_nic_lock(nic);
    sn_window_unbind_all(mr);
    if (!mr->window) {
        sn_place_forget_mr(nic, mr);
        sn_direct_tell_region(mr, true);
    }
    sn_mr_note_gone(nic, mr);
    nic->mrs[mr->key >> SN_KEY_SHIFT] = NULL;
    nic->mr_count--;
    nic->mr_bytes -= mr->init.length;
    nic->objects--;
    mr->pd->users--;
    sn_nic_unlock(nic);
    sn_direct_quiesce(nic); /* a peer may be in the middle of it */
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

bool sn_mr_told(const struct sn_mr *mr)
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

    if (ahead > room) ahead = room;
    return mr->init.dma->read(mr->init.dma_ctx, mr->init.addr + at, dst, len, ahead, request);
}

int sn_mr_write(struct sn_mr *mr, uint64_t va, const void *src, uint32_t len)
{
    return mr->init.dma->write(mr->init.dma_ctx, mr->init.addr + (va - mr->init.iova), src, len);
}
