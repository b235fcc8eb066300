/* SPDX-License-Identifier: Apache-2.0 */
/* Memory windows: made and ended here, bound by work requests. */
#include <errno.h>

#include <rdma/ib_user_verbs.h>

#include <gpuwire/detail/assert.h>

#include "softnic/uverbs/object.h"

int uv_alloc_mw(const struct uv_cmd *c)
{
    const struct ib_uverbs_alloc_mw *req = c->in;
    struct uv_pd *pd = uv_find(c->file, UV_PD, req->pd_handle);

    if (!pd || (req->mw_type != IBV_MW_TYPE_1 && req->mw_type != IBV_MW_TYPE_2)) return -EINVAL;
    struct uv_mw *mw = uv_new(c->file, UV_MW, sizeof(*mw));
    if (!mw) return -ENOMEM;
    int err = sn_mw_create(pd->pd, req->mw_type, &mw->mw);
    if (err) {
        uv_free(c->file, &mw->obj);
        return err;
    }
    mw->pd = pd;
    pd->obj.users++;
    struct ib_uverbs_alloc_mw_resp r = {.mw_handle = mw->obj.handle, .rkey = sn_mr_key(mw->mw)};
    err = uv_reply(c, &r, sizeof(r), NULL, 0);
    if (err) uv_destroy(c->file, &mw->obj);
    return err;
}

void uv_mw_end(struct uv_file *f, struct uv_mw *mw)
{
    (void)f;
    sn_mr_destroy(mw->mw);
    GW_ASSERT(mw->pd->obj.users > 0);
    mw->pd->obj.users--;
}

int uv_dealloc_mw(const struct uv_cmd *c)
{
    const struct ib_uverbs_dealloc_mw *req = c->in;
    struct uv_mw *mw = uv_find(c->file, UV_MW, req->mw_handle);
    return mw ? uv_destroy(c->file, &mw->obj) : -EINVAL;
}
