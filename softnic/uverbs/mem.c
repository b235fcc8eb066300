/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains, memory regions, address handles. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "softnic/uverbs/object.h"
#include "softnic/uverbs/usercopy.h"

#define PAGE 4096u

/* ---- protection domains ---- */

int uv_alloc_pd(const struct uv_cmd *c)
{
    struct uv_pd *pd = uv_new(c->file, UV_PD, sizeof(*pd));

    if (!pd) return -ENOMEM;
    int err = sn_pd_create(c->file->nic, &pd->pd);
    if (err) {
        uv_free(c->file, &pd->obj);
        return err;
    }
    struct ib_uverbs_alloc_pd_resp core = {.pd_handle = pd->obj.handle};
    struct mlx5_ib_alloc_pd_resp drv = {.pdn = pd->obj.handle & 0xffffff};
    err = uv_reply(c, &core, sizeof(core), &drv, sizeof(drv));
    if (err) uv_destroy(c->file, &pd->obj);
    return err;
}

void uv_pd_end(struct uv_file *f, struct uv_pd *pd)
{
    (void)f;
    sn_pd_destroy(pd->pd);
}

int uv_dealloc_pd(const struct uv_cmd *c)
{
    const struct ib_uverbs_dealloc_pd *req = c->in;
    struct uv_pd *pd = uv_find(c->file, UV_PD, req->pd_handle);
    return pd ? uv_destroy(c->file, &pd->obj) : -EINVAL;
}

/* ---- memory regions ---- */

enum {
    ACCESS_KNOWN = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
                   IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC | IB_UVERBS_ACCESS_HUGETLB |
                   IB_UVERBS_ACCESS_OPTIONAL_RANGE,
    ACCESS_KEPT = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
                  IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC,
};

/* No windows, no on-demand paging: what the NIC cannot do it does not pretend to. */
static int check_access(uint32_t access)
{
    if (access & ~(uint32_t)ACCESS_KNOWN) return -EOPNOTSUPP;
    bool remote_writer = access & (IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC);
    return remote_writer && !(access & IB_UVERBS_ACCESS_LOCAL_WRITE) ? -EINVAL : 0;
}

static int check_range(uint64_t start, uint64_t length, uint64_t iova)
{
    uint64_t end;
    if (__builtin_add_overflow(start, length, &end) || __builtin_add_overflow(iova, length, &end))
        return -EINVAL;
    return (start ^ iova) & (PAGE - 1) ? -EINVAL : 0;
}

static int make_region(struct uv_pd *pd, uint64_t start, uint64_t length, uint64_t iova, uint32_t access,
                       struct sn_mr **mr, void **gpu)
{
    struct sn_mr_init init = {.addr = start, .length = length, .iova = iova, .access = access & ACCESS_KEPT};
    int err = check_access(access);

    if (!err) err = check_range(start, length, iova);
    if (err) return err;
    err = uv_dma_target(start, length, &init.dma, &init.dma_ctx);
    if (err < 0) return err;
    if (!err && uv_range_ok(start, length, access & IB_UVERBS_ACCESS_LOCAL_WRITE)) return -EFAULT;
    err = sn_mr_create(pd->pd, &init, mr);
    if (err) uv_dma_end(init.dma_ctx);
    *gpu = init.dma_ctx;
    return err;
}

int uv_reg_mr(const struct uv_cmd *c)
{
    const struct ib_uverbs_reg_mr *req = c->in;
    struct uv_pd *pd = uv_find(c->file, UV_PD, req->pd_handle);
    struct uv_mr *mr = pd ? uv_new(c->file, UV_MR, sizeof(*mr)) : NULL;

    if (!mr) return pd ? -ENOMEM : -EINVAL;
    int err = make_region(pd, req->start, req->length, req->hca_va, req->access_flags, &mr->mr, &mr->gpu);
    if (err) {
        uv_free(c->file, &mr->obj);
        return err;
    }
    mr->pd = pd;
    pd->obj.users++;
    struct ib_uverbs_reg_mr_resp r = {
        .mr_handle = mr->obj.handle, .lkey = sn_mr_key(mr->mr), .rkey = sn_mr_key(mr->mr)};
    err = uv_reply(c, &r, sizeof(r), NULL, 0);
    if (err) uv_destroy(c->file, &mr->obj);
    return err;
}

void uv_mr_end(struct uv_file *f, struct uv_mr *mr)
{
    (void)f;
    sn_mr_destroy(mr->mr);
    uv_dma_end(mr->gpu);
    mr->pd->obj.users--;
}

int uv_dereg_mr(const struct uv_cmd *c)
{
    const struct ib_uverbs_dereg_mr *req = c->in;
    struct uv_mr *mr = uv_find(c->file, UV_MR, req->mr_handle);
    return mr ? uv_destroy(c->file, &mr->obj) : -EINVAL;
}

/* ---- address handles ---- */

/*
 * What libmlx5 wants of the kernel is the peer's Ethernet address. Packets here carry no Ethernet header of
 * our making, so it gets one that says whose it would be.
 */
int uv_create_ah(const struct uv_cmd *c)
{
    const struct ib_uverbs_create_ah *req = c->in;
    struct uv_pd *pd = uv_find(c->file, UV_PD, req->pd_handle);

    if (!pd || req->attr.port_num != 1 || !req->attr.is_global || req->attr.grh.sgid_index) return -EINVAL;
    struct uv_ah *ah = uv_new(c->file, UV_AH, sizeof(*ah));
    if (!ah) return -ENOMEM;
    ah->pd = pd;
    pd->obj.users++;
    struct ib_uverbs_create_ah_resp core = {.ah_handle = ah->obj.handle};
    struct mlx5_ib_create_ah_resp drv = {.response_length = sizeof(drv), .dmac = {0x02, 0x67}};
    memcpy(drv.dmac + 2, req->attr.grh.dgid + 12, 4);
    int err = uv_reply(c, &core, sizeof(core), &drv, sizeof(drv));
    if (err) uv_destroy(c->file, &ah->obj);
    return err;
}

int uv_destroy_ah(const struct uv_cmd *c)
{
    const struct ib_uverbs_destroy_ah *req = c->in;
    struct uv_ah *ah = uv_find(c->file, UV_AH, req->ah_handle);
    return ah ? uv_destroy(c->file, &ah->obj) : -EINVAL;
}
