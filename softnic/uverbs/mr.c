/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions: of addresses, of GPU memory, and of what an fd of a dma-buf stands for. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include <gpuwire/detail/assert.h>

#include "softnic/mem/usercopy.h"
#include "softnic/uverbs/attrs.h"
#include "softnic/uverbs/object.h"

#define PAGE 4096u

enum {
    ACCESS_KEPT = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
                  IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC | IB_UVERBS_ACCESS_MW_BIND |
                  IB_UVERBS_ACCESS_RELAXED_ORDERING,
    ACCESS_KNOWN = ACCESS_KEPT | IB_UVERBS_ACCESS_ZERO_BASED | IB_UVERBS_ACCESS_ON_DEMAND |
                   IB_UVERBS_ACCESS_HUGETLB | IB_UVERBS_ACCESS_OPTIONAL_RANGE,
};

/* ---- what is asked for ---- */

uint32_t uv_mr_kept(uint32_t access)
{
    return access & ACCESS_KEPT;
}

int uv_mr_check(uint32_t access)
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

/* All addresses of the process, whatever is there. */
static bool is_implicit(const struct uv_mr_user *u)
{
    return u->access & IB_UVERBS_ACCESS_ON_DEMAND && !u->start && u->length == UINT64_MAX;
}

/*
 * Fills in how the NIC reaches addresses of this process. As when the kernel pins them: -EFAULT when some are
 * not mapped, or not writable by the program that wants local writes. On demand they may come and go. The NIC
 * accesses all memory under a guard, so a page that is missing when it is needed is the request's error.
 */
static int uv_mr_aim(struct sn_mr_init *init, const struct uv_mr_user *u)
{
    int err = uv_mr_check(u->access);

    *init = (struct sn_mr_init){
        .addr = u->start, .length = u->length, .iova = u->iova, .access = uv_mr_kept(u->access)};
    if (!err) err = check_range(u->start, u->length, u->iova);
    if (err) return err;
    if (is_implicit(u)) return 0;
    if (u->access & IB_UVERBS_ACCESS_ZERO_BASED) init->iova = 0;
    err = uv_dma_target(u->start, u->length, &init->dma, &init->dma_ctx);
    if (err < 0) return err;
    init->unordered = uv_dma_unordered(init->dma_ctx);
    if (u->access & IB_UVERBS_ACCESS_ON_DEMAND) return 0;
    bool writes = u->access & IB_UVERBS_ACCESS_LOCAL_WRITE;
    return !err && uv_range_ok(u->start, u->length, writes) ? -EFAULT : 0;
}

/* ---- registering ---- */

int uv_mr_make(struct uv_file *f, struct uv_pd *pd, const struct sn_mr_init *init, struct uv_mr **out)
{
    struct uv_mr *mr = uv_new(f, UV_MR, sizeof(*mr));
    int err = mr ? sn_mr_create(pd->pd, init, &mr->mr) : -ENOMEM;

    if (err) {
        uv_dma_end(init->dma_ctx);
        if (mr) uv_free(f, &mr->obj);
        return err;
    }
    mr->gpu = init->dma_ctx;
    mr->pd = pd;
    pd->obj.users++;
    *out = mr;
    return 0;
}

/* Of host memory that stays where it is, the kernel locks the pages. */
static int uv_mr_lock(const struct uv_file *f, struct uv_mr *mr, const struct uv_mr_user *u, const void *gpu)
{
    bool stays = !gpu && !(u->access & IB_UVERBS_ACCESS_ON_DEMAND);

    return uv_lock_pages(f, &mr->obj, u->start, stays ? u->length : 0);
}

int uv_reg_mr(const struct uv_cmd *c)
{
    const struct ib_uverbs_reg_mr *req = c->in;
    struct uv_pd *pd = uv_find(c->file, UV_PD, req->pd_handle);
    struct sn_mr_init init;
    struct uv_mr *mr;

    if (!pd) return -EINVAL;
    const struct uv_mr_user asked = {req->start, req->length, req->hca_va, req->access_flags};
    int err = uv_mr_aim(&init, &asked);
    if (!err) err = uv_mr_make(c->file, pd, &init, &mr);
    if (err) return err;
    mr->user = asked;
    struct ib_uverbs_reg_mr_resp r = {
        .mr_handle = mr->obj.handle, .lkey = sn_mr_key(mr->mr), .rkey = sn_mr_key(mr->mr)};
    err = uv_mr_lock(c->file, mr, &asked, mr->gpu);
    if (!err) err = uv_reply(c, &r, sizeof(r), NULL, 0);
    if (err) uv_destroy(c->file, &mr->obj);
    return err;
}

void uv_mr_end(struct uv_file *f, struct uv_mr *mr)
{
    (void)f;
    sn_mr_destroy(mr->mr);
    uv_dma_end(mr->gpu);
    if (mr->map) munmap(mr->map, mr->map_length);
    if (mr->dm) mr->dm->obj.users--;
    GW_ASSERT(mr->pd->obj.users > 0);
    mr->pd->obj.users--;
}

int uv_dereg_mr(const struct uv_cmd *c)
{
    const struct ib_uverbs_dereg_mr *req = c->in;
    struct uv_mr *mr = uv_find(c->file, UV_MR, req->mr_handle);
    return mr ? uv_destroy(c->file, &mr->obj) : -EINVAL;
}

int uv_query_mr(struct uv_file *f, const struct uv_request *r)
{
    uint32_t handle;
    int err = uv_attr_object(r, UVERBS_ATTR_QUERY_MR_HANDLE, &handle);
    if (err) return err;
    const struct uv_mr *mr = uv_find(f, UV_MR, handle);
    if (!mr) return -EINVAL;
    uint32_t key = sn_mr_key(mr->mr);
    err = uv_attr_out(r, UVERBS_ATTR_QUERY_MR_RESP_LKEY, &key, sizeof(key));
    if (!err) err = uv_attr_out(r, UVERBS_ATTR_QUERY_MR_RESP_RKEY, &key, sizeof(key));
    if (!err) err = uv_attr_out(r, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &mr->user.length, sizeof(uint64_t));
    return err ? err : uv_attr_out(r, UVERBS_ATTR_QUERY_MR_RESP_IOVA, &mr->user.iova, sizeof(uint64_t));
}

/* ---- registering again ---- */

/*
 * Anything that can fail comes before the change, so that a region that could not be changed is as it was.
 * (ibv_rereg_mr's manual page lets a program count on less: nothing but ibv_dereg_mr.) The key stays.
 */
static int uv_mr_change(const struct uv_cmd *c, struct uv_mr *mr, struct uv_pd *pd,
                        const struct uv_mr_user *asked)
{
    struct ib_uverbs_rereg_mr_resp r = {.lkey = sn_mr_key(mr->mr), .rkey = sn_mr_key(mr->mr)};
    struct sn_mr_init init;
    int err = uv_mr_aim(&init, asked);

    if (err) return err;
    err = uv_mr_lock(c->file, mr, asked, init.dma_ctx);
    if (!err) err = uv_reply(c, &r, sizeof(r), NULL, 0);
    if (!err) err = sn_mr_change(mr->mr, pd->pd, &init);
    if (err) {
        (void)uv_mr_lock(c->file, mr, &mr->user, mr->gpu);
        uv_dma_end(init.dma_ctx);
        return err;
    }
    uv_dma_end(mr->gpu);
    mr->gpu = init.dma_ctx;
    mr->user = *asked;
    GW_ASSERT(mr->pd->obj.users > 0);
    mr->pd->obj.users--;
    mr->pd = pd;
    pd->obj.users++;
    return 0;
}

int uv_rereg_mr(const struct uv_cmd *c)
{
    const struct ib_uverbs_rereg_mr *req = c->in;
    const uint32_t flags = req->flags, known = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
                                               IBV_REREG_MR_CHANGE_ACCESS;
    struct uv_mr *mr = uv_find(c->file, UV_MR, req->mr_handle);

    if (!mr || !flags || (flags & ~known)) return -EINVAL;
    if (mr->dm) return -EINVAL; /* as in the kernel: neither is changed */
    if (mr->of_fd) return -EOPNOTSUPP;
    if (mr->obj.users) return -EBUSY;
    struct uv_pd *pd = flags & IBV_REREG_MR_CHANGE_PD ? uv_find(c->file, UV_PD, req->pd_handle) : mr->pd;
    struct uv_mr_user asked = mr->user;
    if (flags & IBV_REREG_MR_CHANGE_ACCESS) asked.access = req->access_flags;
    if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
        asked.start = req->start;
        asked.length = req->length;
        asked.iova = req->hca_va;
    }
    return pd && asked.length ? uv_mr_change(c, mr, pd, &asked) : -EINVAL;
}

/* ---- a dma-buf ---- */

/* How long what the fd stands for is; negative: it cannot be told, or it is no memory. */
static int64_t uv_mr_length_of(int fd)
{
    struct stat st;

    if (fstat(fd, &st)) return -errno;
    if (S_ISREG(st.st_mode)) return st.st_size; /* a memfd */
    off_t end = lseek(fd, 0, SEEK_END);         /* a dma-buf: no position there that it could change */
    return end < 0 ? -EINVAL : end;
}

/*
 * The NIC reaches the memory as the program would: by mapping it. -EOPNOTSUPP: the driver whose memory it is
 * does not allow that.
 */
static int map_fd(int fd, uint64_t offset, uint64_t length, uint32_t access, void **map, size_t *map_length)
{
    enum {
        KERNEL_ENOTSUPP = 524
    }; /* the kernel's own, which libc does not know: what NVIDIA's driver says */
    int prot = PROT_READ | (access & IB_UVERBS_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0);
    uint64_t first = offset & ~(uint64_t)(PAGE - 1), end;
    int64_t there = uv_mr_length_of(fd);

    *map = NULL;
    if (there < 0) return (int)there;
    if (!length || __builtin_add_overflow(offset, length, &end) || end > (uint64_t)there) return -EINVAL;
    *map_length = end - first;
    void *at = mmap(NULL, *map_length, prot, MAP_SHARED, fd, (off_t)first);
    if (at != MAP_FAILED) {
        *map = at;
        return 0;
    }
    if (errno == ENODEV || errno == ENOTSUP || errno == KERNEL_ENOTSUPP) return -EOPNOTSUPP;
    fprintf(stderr, "gpuwire: ibv_reg_dmabuf_mr: fd %d cannot be mapped: %s\n", fd, strerror(errno));
    return -errno;
}

struct dmabuf_request {
    uint64_t offset, length, iova;
    uint32_t access, pd;
    int32_t fd;
};

static int uv_mr_read_request(const struct uv_request *r, struct dmabuf_request *q)
{
    memset(q, 0, sizeof(*q));
    int err = uv_attr_object(r, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, &q->pd);
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, &q->offset, sizeof(q->offset));
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, &q->length, sizeof(q->length));
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_REG_DMABUF_MR_IOVA, &q->iova, sizeof(q->iova));
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_REG_DMABUF_MR_FD, &q->fd, sizeof(q->fd));
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, &q->access, sizeof(q->access));
    if (err) return err;
    if (q->access & IB_UVERBS_ACCESS_ZERO_BASED) return -EOPNOTSUPP; /* iova = 0 says the same */
    if (q->access & IB_UVERBS_ACCESS_ON_DEMAND) return -EOPNOTSUPP;  /* it is mapped once and for all */
    err = uv_mr_check(q->access);
    if (err) return err;
    return (q->offset ^ q->iova) & (PAGE - 1) || q->iova + q->length < q->iova ? -EINVAL : 0;
}

static int uv_mr_answer(const struct uv_request *r, const struct uv_mr *mr)
{
    uint32_t key = sn_mr_key(mr->mr);
    int err = uv_attr_handle(r, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, mr->obj.handle);

    if (!err) err = uv_attr_out(r, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &key, sizeof(key));
    return err ? err : uv_attr_out(r, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &key, sizeof(key));
}

/*
 * A dma-buf that cannot be mapped is a GPU's memory. The GPU finds it by its address. Programs give
 * that as the iova, since they want the same number in their requests. softnic does not compare it with what
 * the fd stands for.
 */
static int aim_gpu(const struct dmabuf_request *q, struct sn_mr_init *init)
{
    *init = (struct sn_mr_init){
        .addr = q->iova, .length = q->length, .iova = q->iova, .access = uv_mr_kept(q->access)};
    int found = uv_dma_target(q->iova, q->length, &init->dma, &init->dma_ctx);

    init->unordered = uv_dma_unordered(init->dma_ctx);
    if (!found)
        fprintf(
            stderr,
            "gpuwire: ibv_reg_dmabuf_mr: fd %d cannot be mapped, and iova 0x%llx is no address of a GPU's "
            "memory: give that address as the iova, or use ibv_reg_mr\n",
            q->fd, (unsigned long long)q->iova);
    return found < 0 ? found : found ? 0 : -EOPNOTSUPP;
}

static int aim_fd(const struct dmabuf_request *q, struct sn_mr_init *init, void **map, size_t *map_length)
{
    int err = map_fd(q->fd, q->offset, q->length, q->access, map, map_length);

    if (err == -EOPNOTSUPP) return aim_gpu(q, init);
    *init = (struct sn_mr_init){.addr = (uintptr_t)*map + q->offset % PAGE,
                                .length = q->length,
                                .iova = q->iova,
                                .access = uv_mr_kept(q->access)};
    return err;
}

int uv_reg_dmabuf_mr(struct uv_file *f, const struct uv_request *r)
{
    struct dmabuf_request q;
    struct sn_mr_init init;
    struct uv_mr *mr;
    size_t map_length = 0;
    void *map;
    int err = uv_mr_read_request(r, &q);

    if (err) return err;
    struct uv_pd *pd = uv_find(f, UV_PD, q.pd);
    if (!pd) return -EINVAL;
    err = aim_fd(&q, &init, &map, &map_length);
    if (err) return err;
    err = uv_mr_make(f, pd, &init, &mr);
    if (err) {
        if (map) munmap(map, map_length);
        return err;
    }
    mr->map = map;
    mr->map_length = map_length;
    mr->of_fd = true;
    mr->user = (struct uv_mr_user){.length = q.length, .iova = q.iova, .access = q.access};
    err = uv_mr_answer(r, mr);
    if (err) uv_destroy(f, &mr->obj);
    return err;
}
