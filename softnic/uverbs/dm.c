/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory. A ConnectX has some on its chip. Here it is memory of the process that the library maps a
 * second time, as it maps the chip's. The chip can make an atomic of each load and store at a special
 * address. Ordinary memory cannot.
 */
#include <errno.h>
#include <sys/mman.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include "softnic/uverbs/attrs.h"
#include "softnic/uverbs/object.h"

#define PAGE          4096u
#define LOG_PAGE      12u
#define INDEX_NUMBERS 65536u /* the number that an mmap offset can name */

static uint64_t uv_dm_whole_pages(uint64_t length)
{
    return (length + PAGE - 1) / PAGE * PAGE;
}

/* ---- allocating ---- */

static int uv_dm_read_request(const struct uv_request *r, uint64_t *length)
{
    uint32_t log_align = 0;
    uint64_t type = MLX5_IB_UAPI_DM_TYPE_MEMIC;
    int err = uv_attr_in(r, UVERBS_ATTR_ALLOC_DM_LENGTH, length, sizeof(*length));

    if (!err) err = uv_attr_in(r, UVERBS_ATTR_ALLOC_DM_ALIGNMENT, &log_align, sizeof(log_align));
    if (err) return err;
    if (uv_attr(r, MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE))
        err = uv_attr_in(r, MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE, &type, sizeof(type));
    if (err) return err;
    if (type != MLX5_IB_UAPI_DM_TYPE_MEMIC) return -EOPNOTSUPP; /* the others are for steering packets */
    return !*length || *length > UV_DM_BYTES || log_align > LOG_PAGE ? -EINVAL : 0;
}

/* All of it is in the first page and those after it. */
static int answer_place(const struct uv_request *r, const struct uv_dm *dm, uint16_t offset_attr,
                        uint16_t page_attr)
{
    const uint64_t offset = 0;
    const uint16_t page = (uint16_t)uv_index_of(&dm->obj);
    int err = uv_attr_out(r, offset_attr, &offset, sizeof(offset));

    return err ? err : uv_attr_out(r, page_attr, &page, sizeof(page));
}

static int uv_dm_make(struct uv_file *f, uint64_t length, struct uv_dm **out)
{
    const uint64_t bytes = uv_dm_whole_pages(length);

    if (bytes > UV_DM_BYTES - f->dm_bytes) return -ENOMEM;
    struct uv_dm *dm = uv_new(f, UV_DM, sizeof(*dm));
    if (!dm) return -ENOMEM;
    dm->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (dm->memory == MAP_FAILED || uv_index_of(&dm->obj) >= INDEX_NUMBERS) {
        if (dm->memory != MAP_FAILED) munmap(dm->memory, bytes);
        uv_free(f, &dm->obj);
        return -ENOMEM;
    }
    dm->length = length;
    f->dm_bytes += bytes;
    *out = dm;
    return 0;
}

int uv_alloc_dm(struct uv_file *f, const struct uv_request *r)
{
    uint64_t length = 0;
    struct uv_dm *dm;
    int err = uv_dm_read_request(r, &length);

    if (!err) err = uv_dm_make(f, length, &dm);
    if (err) return err;
    err = answer_place(r, dm, MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX);
    if (!err) err = uv_attr_handle(r, UVERBS_ATTR_ALLOC_DM_HANDLE, dm->obj.handle);
    if (err) uv_destroy(f, &dm->obj);
    return err;
}

void uv_dm_end(struct uv_file *f, struct uv_dm *dm)
{
    munmap(dm->memory, uv_dm_whole_pages(dm->length));
    f->dm_bytes -= uv_dm_whole_pages(dm->length);
}

static struct uv_dm *uv_dm_find(struct uv_file *f, const struct uv_request *r, uint16_t attr)
{
    uint32_t handle;

    return uv_attr_object(r, attr, &handle) ? NULL : uv_find(f, UV_DM, handle);
}

int uv_free_dm(struct uv_file *f, const struct uv_request *r)
{
    struct uv_dm *dm = uv_dm_find(f, r, UVERBS_ATTR_FREE_DM_HANDLE);
    return dm ? uv_destroy(f, &dm->obj) : -EINVAL;
}

/* ---- mapping ---- */

int uv_dm_map(struct uv_file *f, uint64_t index, size_t length, void *hint, int flags, void **at)
{
    const struct uv_dm *dm = uv_find_at(f, UV_DM, index);

    if (!dm || length != uv_dm_whole_pages(dm->length)) return -EINVAL;
    return uv_map_again(dm->memory, length, hint, flags, at);
}

int uv_query_dm(struct uv_file *f, const struct uv_request *r)
{
    const struct uv_dm *dm = uv_dm_find(f, r, MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE);

    if (!dm) return -EINVAL;
    int err =
        answer_place(r, dm, MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX);
    return err ? err : uv_attr_out(r, MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, &dm->length, sizeof(dm->length));
}

/* ---- registering ---- */

static int uv_dm_read_region(const struct uv_request *r, const struct uv_dm *dm, struct sn_mr_init *init,
                             uint32_t *access)
{
    uint64_t offset = 0, length = 0;
    int err = uv_attr_in(r, UVERBS_ATTR_REG_DM_MR_OFFSET, &offset, sizeof(offset));

    if (!err) err = uv_attr_in(r, UVERBS_ATTR_REG_DM_MR_LENGTH, &length, sizeof(length));
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, access, sizeof(*access));
    if (!err) err = uv_mr_check(*access);
    if (err) return err;
    /* Only the library knows its address, so its bytes are named by where they are in it. */
    if (!(*access & IB_UVERBS_ACCESS_ZERO_BASED)) return -EINVAL;
    if (*access & (IB_UVERBS_ACCESS_ON_DEMAND | IB_UVERBS_ACCESS_HUGETLB | IB_UVERBS_ACCESS_MW_BIND))
        return -EINVAL;
    if (offset > dm->length || length > dm->length - offset) return -EINVAL;
    *init = (struct sn_mr_init){
        .addr = (uintptr_t)dm->memory + offset, .length = length, .access = uv_mr_kept(*access)};
    return 0;
}

int uv_reg_dm_mr(struct uv_file *f, const struct uv_request *r)
{
    struct uv_dm *dm = uv_dm_find(f, r, UVERBS_ATTR_REG_DM_MR_DM_HANDLE);
    uint32_t handle, access = 0;
    struct sn_mr_init init;
    struct uv_mr *mr;
    int err = uv_attr_object(r, UVERBS_ATTR_REG_DM_MR_PD_HANDLE, &handle);

    if (err || !dm) return -EINVAL;
    struct uv_pd *pd = uv_find(f, UV_PD, handle);
    if (!pd) return -EINVAL;
    err = uv_dm_read_region(r, dm, &init, &access);
    if (!err) err = uv_mr_make(f, pd, &init, &mr);
    if (err) return err;
    mr->dm = dm;
    dm->obj.users++;
    mr->user = (struct uv_mr_user){.length = init.length, .access = access};
    const uint32_t key = sn_mr_key(mr->mr);
    err = uv_attr_out(r, UVERBS_ATTR_REG_DM_MR_RESP_LKEY, &key, sizeof(key));
    if (!err) err = uv_attr_out(r, UVERBS_ATTR_REG_DM_MR_RESP_RKEY, &key, sizeof(key));
    if (!err) err = uv_attr_handle(r, UVERBS_ATTR_REG_DM_MR_HANDLE, mr->obj.handle);
    if (err) uv_destroy(f, &mr->obj);
    return err;
}
