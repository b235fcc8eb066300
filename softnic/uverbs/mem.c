/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains, address handles. */
#include <errno.h>
#include <string.h>

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "softnic/uverbs/attrs.h"
#include "softnic/uverbs/object.h"

/* ---- protection domains ---- */

static uint32_t uv_mem_number(const struct uv_pd *pd)
{
    return pd->obj.handle & 0xffffff;
}

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
    struct mlx5_ib_alloc_pd_resp drv = {.pdn = uv_mem_number(pd)};
    err = uv_reply(c, &core, sizeof(core), &drv, sizeof(drv));
    if (err) uv_destroy(c->file, &pd->obj);
    return err;
}

int uv_query_pd(struct uv_file *f, const struct uv_request *r)
{
    uint32_t handle, pdn;
    int err = uv_attr_object(r, MLX5_IB_ATTR_QUERY_PD_HANDLE, &handle);
    if (err) return err;
    const struct uv_pd *pd = uv_find(f, UV_PD, handle);
    if (!pd) return -EINVAL;
    pdn = uv_mem_number(pd);
    return uv_attr_out(r, MLX5_IB_ATTR_QUERY_PD_RESP_PDN, &pdn, sizeof(pdn));
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

/* ---- address handles ---- */

static bool uv_mem_is_multicast(const uint8_t gid[16])
{
    static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
    return gid[0] == 0xff || (!memcmp(gid, ipv4, sizeof(ipv4)) && gid[12] >> 4 == 0xe);
}

/*
 * The library libmlx5 wants the peer's Ethernet address of the kernel. Packets here carry no Ethernet header
 * of our making, so it gets one that says whose it would be.
 */
int uv_create_ah(const struct uv_cmd *c)
{
    const struct ib_uverbs_create_ah *req = c->in;
    struct uv_pd *pd = uv_find(c->file, UV_PD, req->pd_handle);

    if (uv_mem_is_multicast(req->attr.grh.dgid)) return -EOPNOTSUPP;
    if (!pd || req->attr.port_num != 1 || !req->attr.is_global) return -EINVAL;
    if (!sn_gid_there(c->file->nic, req->attr.grh.sgid_index)) return -EINVAL;
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
