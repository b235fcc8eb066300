/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advice about memory that was registered on demand: the pages are brought in now, so that no request waits
 * for them. The call does it all, whether or not the program asked to wait for it.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include "softnic/mem/guard.h"
#include "softnic/mem/usercopy.h"
#include "softnic/uverbs/attrs.h"
#include "softnic/uverbs/object.h"

#define PAGE     4096u
#define MAX_SGES 1024u /* of an attribute's 64 KiB there are four times as many at most */

/* Linux 5.14 has them; the C library's headers may be older. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

static const struct uv_mr *with_key(const struct uv_file *f, uint32_t key)
{
    for (uint32_t i = 0; i < f->object_room; i++) {
        const struct uv_object *o = f->objects[i];
        const struct uv_mr *mr = (const struct uv_mr *)o;

        if (o && o->type == UV_MR && sn_mr_key(mr->mr) == key) return mr;
    }
    return NULL;
}

/* The errors are those of the kernel's driver. */
static int uv_advise_check(const struct uv_mr *mr, const struct uv_pd *pd, const struct ib_uverbs_sge *sge,
                           bool write)
{
    if (!mr || !(mr->user.access & IB_UVERBS_ACCESS_ON_DEMAND)) return -ENOENT;
    if (mr->pd != pd || (write && !(mr->user.access & IB_UVERBS_ACCESS_LOCAL_WRITE))) return -EPERM;
    const uint64_t iova = mr->user.access & IB_UVERBS_ACCESS_ZERO_BASED ? 0 : mr->user.iova;
    if (sge->addr < iova || sge->addr - iova > mr->user.length ||
        sge->length > mr->user.length - (sge->addr - iova))
        return -EFAULT;
    return 0;
}

/* Where the kernel knows no such advice, reading does it; a page to be written to is then copied later. */
static int uv_advise_touch(uint64_t from, uint64_t end)
{
    char byte;

    for (; from < end; from += PAGE)
        if (sn_guard_copy(&byte, (const void *)(uintptr_t)from, 1)) return -EFAULT;
    return 0;
}

static int bring_in(uint64_t from, uint64_t length, bool write)
{
    const uint64_t first = from & ~(uint64_t)(PAGE - 1), end = from + length;

    if (!length) return 0;
    if (!madvise((void *)(uintptr_t)first, end - first, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
        return 0;
    return errno == EINVAL ? uv_advise_touch(first, end) : -EFAULT;
}

static int prefetch(struct uv_file *f, const struct uv_pd *pd, const struct ib_uverbs_sge *sge,
                    uint64_t advice)
{
    const bool write = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    const struct uv_mr *mr = with_key(f, sge->lkey);
    int err = uv_advise_check(mr, pd, sge, write);

    if (err || advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return err; /* what is in is in */
    const uint64_t iova = mr->user.access & IB_UVERBS_ACCESS_ZERO_BASED ? 0 : mr->user.iova;
    return bring_in(mr->user.start + (sge->addr - iova), sge->length, write);
}

int uv_advise_mr(struct uv_file *f, const struct uv_request *r)
{
    const struct ib_uverbs_attr *list = uv_attr(r, UVERBS_ATTR_ADVISE_MR_SGE_LIST);
    uint64_t advice = 0;
    uint32_t handle, flags = 0;
    int err = uv_attr_object(r, UVERBS_ATTR_ADVISE_MR_PD_HANDLE, &handle);

    if (!err) err = uv_attr_in(r, UVERBS_ATTR_ADVISE_MR_ADVICE, &advice, sizeof(advice));
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_ADVISE_MR_FLAGS, &flags, sizeof(flags));
    if (err) return err;
    const struct uv_pd *pd = uv_find(f, UV_PD, handle);
    if (!pd || !list || flags & ~(uint32_t)IB_UVERBS_ADVISE_MR_FLAG_FLUSH) return -EINVAL;
    if (advice > IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return -EOPNOTSUPP;
    const uint32_t n = list->len / sizeof(struct ib_uverbs_sge);
    if (!n || n > MAX_SGES || list->len % sizeof(struct ib_uverbs_sge)) return -EINVAL;
    for (uint32_t i = 0; i < n && !err; i++) {
        struct ib_uverbs_sge sge;

        err = uv_copy_in(&sge, list->data + i * sizeof(sge), sizeof(sge));
        if (!err) err = prefetch(f, pd, &sge, advice);
    }
    return err;
}
