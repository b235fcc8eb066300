/* SPDX-License-Identifier: Apache-2.0 */
/* Completion channels and queues, and the events of both kinds. */
#include <errno.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <gpuwire/detail/assert.h>

#include "softnic/base/bits.h"
#include "softnic/mem/usercopy.h"
#include "softnic/uverbs/object.h"
#include "softnic/uverbs/uverbs.h"

#define DBREC_BYTES 8

/* ---- events: called by the NIC, in any thread, with its lock held ---- */

void uv_on_cq_event(void *user, void *cq_user)
{
    struct uv_cq *cq = cq_user;
    struct ib_uverbs_comp_event_desc d = {.cq_handle = cq->user_handle};
    (void)user;

    if (!cq->channel) return;
    /* Relaxed: read only when the NIC no longer knows the queue, which its lock puts after this. */
    __atomic_add_fetch(&cq->comp_sent, 1, __ATOMIC_RELAXED);
    uv_stream_send(cq->channel, &d);
}

static void send_async(struct uv_stream *s, uint64_t element, enum ibv_event_type type, uint32_t *sent)
{
    struct ib_uverbs_async_event_desc d = {.element = element, .event_type = type};

    if (!s) return; /* the program never asked for the fd */
    __atomic_add_fetch(sent, 1, __ATOMIC_RELAXED);
    uv_stream_send(s, &d);
}

void uv_on_async_event(void *user, enum ibv_event_type type, void *object_user)
{
    const struct uv_object *o = object_user;
    (void)user;

    if (!o) return;
    if (o->type == UV_CQ) {
        struct uv_cq *cq = object_user;
        send_async(cq->async, cq->user_handle, type, &cq->async_sent);
    } else if (o->type == UV_QP) {
        struct uv_qp *qp = object_user;
        send_async(qp->async, qp->user_handle, type, &qp->async_sent);
    } else if (o->type == UV_SRQ) {
        struct uv_srq *srq = object_user;
        send_async(srq->async, srq->user_handle, type, &srq->async_sent);
    }
}

/* ---- completion channels ---- */

int uv_create_comp_channel(const struct uv_cmd *c)
{
    struct uv_stream *s;
    int fd, err = uv_stream_new(sizeof(struct ib_uverbs_comp_event_desc), c->file, &fd, &s);

    if (err) return err;
    err = uv_fd_add_stream(fd, s);
    struct ib_uverbs_create_comp_channel_resp r = {.fd = (uint32_t)fd};
    if (!err) err = uv_reply(c, &r, sizeof(r), NULL, 0);
    if (err) {
        uv_close(fd);
        close(fd);
    }
    uv_stream_put(s);
    return err;
}

/* ---- completion queues ---- */

struct cq_request {
    uint64_t user_handle;
    uint32_t cqe, comp_vector, flags;
    int32_t channel;
};

static int check_buffer(uint64_t addr, uint64_t entries, uint32_t size)
{
    if (!sn_is_power_of_two(entries) || entries > SN_MAX_CQE || (size != 64 && size != 128) || addr % 64)
        return -EINVAL;
    return uv_range_ok(addr, entries * size, 1) ? -EFAULT : 0;
}

/* The queue as libmlx5 laid it out, checked as if it were anybody's. */
static int uv_cq_read_layout(const struct cq_request *rq, const struct mlx5_ib_create_cq *drv,
                             struct sn_cq_init *init)
{
    uint64_t entries = (uint64_t)rq->cqe + 1; /* libmlx5 asks for one less than it has room for */

    /* No compression. Padding asks for entries that are written in full, as all are. */
    if (drv->cqe_comp_en ||
        drv->flags & ~(MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX | MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD))
        return -EOPNOTSUPP;
    if (drv->flags & MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD && drv->cqe_size != 128) return -EOPNOTSUPP;
    int err = check_buffer(drv->buf_addr, entries, drv->cqe_size);
    if (err) return err;
    if (drv->db_addr % DBREC_BYTES) return -EINVAL;
    if (uv_range_ok(drv->db_addr, DBREC_BYTES, 1)) return -EFAULT;
    init->buf = (void *)(uintptr_t)drv->buf_addr;
    init->cqe_count = (uint32_t)entries;
    init->cqe_size = drv->cqe_size;
    init->dbrec = (void *)(uintptr_t)drv->db_addr;
    init->ignore_overrun = rq->flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
    return 0;
}

/* Where it is armed: libmlx5 arms all queues of a context on one page. */
static int choose_page(struct uv_file *f, const struct mlx5_ib_create_cq *drv, struct uv_cq *cq,
                       struct sn_cq_init *init)
{
    if (!(drv->flags & MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX)) {
        init->uar = f->uars.pages[0];
        return 0;
    }
    cq->uar = uv_uar_numbered(f, drv->uar_page_index);
    if (!cq->uar) return -EINVAL;
    cq->uar->obj.users++;
    init->uar = cq->uar->page;
    return 0;
}

static void uv_cq_let_go(struct uv_cq *cq)
{
    uv_stream_put(cq->channel);
    uv_stream_put(cq->async);
    GW_ASSERT(!cq->uar || cq->uar->obj.users > 0);
    if (cq->uar) cq->uar->obj.users--;
}

static int uv_cq_make(const struct uv_cmd *c, const struct cq_request *rq, struct uv_cq **out)
{
    struct uv_file *f = c->file;
    const struct mlx5_ib_create_cq *drv = c->uhw;
    struct sn_cq_init init = {0};

    if (c->uhw_len < offsetof(struct mlx5_ib_create_cq, cqe_comp_en)) return -EINVAL;
    if (rq->comp_vector) return -EINVAL;
    /* Every completion has a time stamp, asked for or not. */
    if (rq->flags & ~(uint32_t)(IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN | IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION))
        return -EOPNOTSUPP;
    int err = uv_cq_read_layout(rq, drv, &init);
    if (err) return err;
    struct uv_stream *channel = NULL;
    if (rq->channel >= 0 && !(channel = uv_stream_of_fd(f, rq->channel))) return -EINVAL;
    struct uv_cq *cq = uv_new(f, UV_CQ, sizeof(*cq));
    if (!cq) {
        uv_stream_put(channel);
        return -ENOMEM;
    }
    cq->user_handle = rq->user_handle;
    cq->cqe_size = init.cqe_size;
    cq->channel = channel;
    cq->async = uv_events(c);
    init.user = cq;
    err = uv_lock_pages(f, &cq->obj, drv->buf_addr, (uint64_t)init.cqe_count * init.cqe_size);
    if (!err) err = choose_page(f, drv, cq, &init);
    if (!err) err = sn_cq_create(f->nic, &init, &cq->cq);
    if (err) {
        uv_cq_let_go(cq);
        uv_free(f, &cq->obj);
        return err;
    }
    *out = cq;
    return 0;
}

void uv_cq_end(struct uv_file *f, struct uv_cq *cq)
{
    (void)f;
    sn_cq_destroy(cq->cq);
    uv_cq_let_go(cq);
}

static int answer_cq(const struct uv_cmd *c, struct uv_cq *cq, uint32_t cqe, bool extended)
{
    struct ib_uverbs_ex_create_cq_resp r = {.base = {.cq_handle = cq->obj.handle, .cqe = cqe}};
    struct mlx5_ib_create_cq_resp drv = {.cqn = sn_cq_number(cq->cq)};
    size_t len = extended ? sizeof(r) : sizeof(r.base);

    r.response_length = (uint32_t)(c->out_len < sizeof(r) ? c->out_len : sizeof(r));
    int err = uv_reply(c, &r, len, &drv, sizeof(drv));
    if (err)
        uv_destroy(c->file, &cq->obj);
    else
        uv_wrap_cq(cq->user_handle);
    return err;
}

int uv_create_cq(const struct uv_cmd *c)
{
    const struct ib_uverbs_create_cq *req = c->in;
    struct cq_request rq = {req->user_handle, req->cqe, req->comp_vector, 0, req->comp_channel};
    struct uv_cq *cq;
    int err = uv_cq_make(c, &rq, &cq);
    return err ? err : answer_cq(c, cq, req->cqe, false);
}

int uv_create_cq_ex(const struct uv_cmd *c)
{
    const struct ib_uverbs_ex_create_cq *req = c->in;
    struct cq_request rq = {req->user_handle, req->cqe, req->comp_vector, req->flags, req->comp_channel};
    struct uv_cq *cq;

    if (req->comp_mask || req->reserved) return -EINVAL;
    int err = uv_cq_make(c, &rq, &cq);
    return err ? err : answer_cq(c, cq, req->cqe, true);
}

int uv_resize_cq(const struct uv_cmd *c)
{
    const struct ib_uverbs_resize_cq *req = c->in;
    const struct mlx5_ib_resize_cq *drv = c->uhw;
    struct uv_cq *cq = uv_find(c->file, UV_CQ, req->cq_handle);
    struct ib_uverbs_resize_cq_resp r = {.cqe = req->cqe};
    uint64_t entries = (uint64_t)req->cqe + 1;

    if (!cq || c->uhw_len < offsetof(struct mlx5_ib_resize_cq, reserved0)) return -EINVAL;
    if (drv->cqe_size != cq->cqe_size) return -EINVAL;
    int err = check_buffer(drv->buf_addr, entries, drv->cqe_size);
    if (!err) err = uv_lock_pages(c->file, &cq->obj, drv->buf_addr, entries * drv->cqe_size);
    /* The answer before the deed: it cannot be taken back. */
    if (!err) err = uv_reply(c, &r, sizeof(r), NULL, 0);
    return err ? err : sn_cq_resize(cq->cq, (void *)(uintptr_t)drv->buf_addr, (uint32_t)entries);
}

/*
 * The library waits until the program has acknowledged as many events as this reports: those that it has
 * read. Unread ones are taken back; the queue must be gone from the NIC first, so that no more come.
 */
int uv_destroy_cq(const struct uv_cmd *c)
{
    const struct ib_uverbs_destroy_cq *req = c->in;
    struct uv_cq *cq = uv_find(c->file, UV_CQ, req->cq_handle);
    struct ib_uverbs_destroy_cq_resp r;

    if (!cq) return -EINVAL;
    if (cq->obj.users) return -EBUSY;
    sn_cq_destroy(cq->cq);
    r.comp_events_reported = cq->comp_sent;
    if (cq->channel) r.comp_events_reported -= uv_stream_drain(cq->channel, cq->user_handle);
    r.async_events_reported = cq->async_sent - uv_stream_drain(cq->async, cq->user_handle);
    uv_cq_let_go(cq);
    uv_free(c->file, &cq->obj);
    return uv_reply(c, &r, sizeof(r), NULL, 0);
}
