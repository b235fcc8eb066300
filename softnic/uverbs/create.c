/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues, queue pairs and shared receive queues that are asked for by attributes. An imported
 * device asks in no other way: only there can it say to which of the file's event fds the object's events go.
 * Each is put into the older form and made as that is.
 */
#include <errno.h>
#include <string.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include "softnic/uverbs/attrs.h"
#include "softnic/uverbs/object.h"

/* An attribute that may be missing: then the value stays as it is. */
static int optional(const struct uv_request *r, uint16_t id, void *to, size_t size)
{
    return uv_attr(r, id) ? uv_attr_in(r, id, to, size) : 0;
}

static int optional_object(const struct uv_request *r, uint16_t id, uint32_t *handle)
{
    return uv_attr(r, id) ? uv_attr_object(r, id, handle) : 0;
}

/* The older form's command, with the driver's part of the request and the fd for the events. */
struct command {
    struct uv_cmd c;
    uint64_t uhw[UV_IN_ROOM / 8];
};

static int uv_create_begin(struct uv_file *f, const struct uv_request *r, uint16_t event_fd,
                           struct command *cmd)
{
    const struct ib_uverbs_attr *in = uv_attr(r, UVERBS_ATTR_UHW_IN), *out = uv_attr(r, UVERBS_ATTR_UHW_OUT);
    uint32_t fd;

    memset(cmd, 0, sizeof(*cmd));
    cmd->c.file = f;
    cmd->c.uhw = cmd->uhw;
    cmd->c.uhw_len = in ? in->len : 0;
    cmd->c.uhw_out = out ? out->data : 0;
    cmd->c.uhw_out_len = out ? out->len : 0;
    int err = optional(r, UVERBS_ATTR_UHW_IN, cmd->uhw, sizeof(cmd->uhw));
    if (err || !uv_attr(r, event_fd)) return err;
    err = uv_attr_object(r, event_fd, &fd);
    if (err) return err;
    cmd->c.events = uv_stream_of_fd(f, (int)fd);
    return cmd->c.events ? 0 : -EINVAL;
}

static int uv_create_run(const struct uv_request *r, struct command *cmd,
                         int (*handle)(const struct uv_cmd *), void *answer, size_t size)
{
    cmd->c.out = (uintptr_t)answer;
    cmd->c.out_len = size;
    int err = handle(&cmd->c);
    if (!err) err = uv_attr_filled(r, UVERBS_ATTR_UHW_OUT);
    return err;
}

/* The last answer is the handle. An object is not kept if its maker is not told of it. */
static int uv_create_finish(struct command *cmd, const struct uv_request *r, enum uv_type type, uint16_t id,
                            uint32_t handle, int err)
{
    struct uv_object *o = uv_find(cmd->c.file, type, handle);

    if (!err) err = uv_attr_handle(r, id, handle);
    if (err && o) uv_destroy(cmd->c.file, o);
    uv_stream_put(cmd->c.events);
    return err;
}

int uv_attr_create_cq(struct uv_file *f, const struct uv_request *r)
{
    struct ib_uverbs_ex_create_cq q = {.comp_channel = -1};
    struct ib_uverbs_ex_create_cq_resp a = {.base.cq_handle = UINT32_MAX};
    struct command cmd;
    uint32_t channel = UINT32_MAX;
    int err = uv_create_begin(f, r, UVERBS_ATTR_CREATE_CQ_EVENT_FD, &cmd);

    if (!err) err = uv_attr_in(r, UVERBS_ATTR_CREATE_CQ_CQE, &q.cqe, sizeof(q.cqe));
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_CREATE_CQ_USER_HANDLE, &q.user_handle, sizeof(q.user_handle));
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, &q.comp_vector, sizeof(q.comp_vector));
    if (!err) err = optional(r, UVERBS_ATTR_CREATE_CQ_FLAGS, &q.flags, sizeof(q.flags));
    if (!err) err = optional_object(r, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, &channel);
    q.comp_channel = (int32_t)channel;
    cmd.c.in = &q;
    cmd.c.in_len = sizeof(q);
    if (!err) err = uv_create_run(r, &cmd, uv_create_cq_ex, &a, sizeof(a));
    if (!err) err = uv_attr_out(r, UVERBS_ATTR_CREATE_CQ_RESP_CQE, &a.base.cqe, sizeof(a.base.cqe));
    return uv_create_finish(&cmd, r, UV_CQ, UVERBS_ATTR_CREATE_CQ_HANDLE, a.base.cq_handle, err);
}

static int read_qp_parts(const struct uv_request *r, struct ib_uverbs_ex_create_qp *q)
{
    int err = optional_object(r, UVERBS_ATTR_CREATE_QP_PD_HANDLE, &q->pd_handle);

    if (!err) err = optional_object(r, UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, &q->pd_handle);
    if (!err) err = optional_object(r, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, &q->send_cq_handle);
    if (!err) err = optional_object(r, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, &q->recv_cq_handle);
    if (!err) err = optional_object(r, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, &q->srq_handle);
    q->is_srq = uv_attr(r, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE) != NULL;
    return !err && uv_attr(r, UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE) ? -EOPNOTSUPP : err;
}

static int read_qp(const struct uv_request *r, struct ib_uverbs_ex_create_qp *q)
{
    struct ib_uverbs_qp_cap cap = {0};
    uint64_t type = 0;
    uint32_t flags = 0;
    int err = read_qp_parts(r, q);

    if (!err) err = uv_attr_in(r, UVERBS_ATTR_CREATE_QP_USER_HANDLE, &q->user_handle, sizeof(q->user_handle));
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_CREATE_QP_CAP, &cap, sizeof(cap));
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_CREATE_QP_TYPE, &type, sizeof(type));
    if (!err) err = optional(r, UVERBS_ATTR_CREATE_QP_FLAGS, &flags, sizeof(flags));
    if (!err) err = optional(r, UVERBS_ATTR_CREATE_QP_SOURCE_QPN, &q->source_qpn, sizeof(q->source_qpn));
    if (err) return err;
    q->max_send_wr = cap.max_send_wr;
    q->max_recv_wr = cap.max_recv_wr;
    q->max_send_sge = cap.max_send_sge;
    q->max_recv_sge = cap.max_recv_sge;
    q->max_inline_data = cap.max_inline_data;
    q->qp_type = type > UINT8_MAX ? UINT8_MAX : (uint8_t)type;
    q->sq_sig_all = !!(flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL);
    q->create_flags = flags & ~(uint32_t)IB_UVERBS_QP_CREATE_SQ_SIG_ALL;
    return 0;
}

int uv_attr_create_qp(struct uv_file *f, const struct uv_request *r)
{
    struct ib_uverbs_ex_create_qp q = {0};
    struct ib_uverbs_ex_create_qp_resp a = {.base.qp_handle = UINT32_MAX};
    struct command cmd;
    int err = uv_create_begin(f, r, UVERBS_ATTR_CREATE_QP_EVENT_FD, &cmd);

    if (!err) err = read_qp(r, &q);
    cmd.c.in = &q;
    cmd.c.in_len = sizeof(q);
    if (!err) err = uv_create_run(r, &cmd, uv_create_qp_ex, &a, sizeof(a));
    const struct ib_uverbs_qp_cap cap = {a.base.max_send_wr, a.base.max_recv_wr, a.base.max_send_sge,
                                         a.base.max_recv_sge, a.base.max_inline_data};
    if (!err) err = uv_attr_out(r, UVERBS_ATTR_CREATE_QP_RESP_CAP, &cap, sizeof(cap));
    if (!err) err = uv_attr_out(r, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &a.base.qpn, sizeof(a.base.qpn));
    return uv_create_finish(&cmd, r, UV_QP, UVERBS_ATTR_CREATE_QP_HANDLE, a.base.qp_handle, err);
}

static int read_srq(const struct uv_request *r, struct ib_uverbs_create_xsrq *q)
{
    uint64_t type = 0;
    int err = uv_attr_object(r, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, &q->pd_handle);

    if (!err) err = optional_object(r, UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, &q->xrcd_handle);
    if (!err) err = optional_object(r, UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, &q->cq_handle);
    if (!err)
        err = uv_attr_in(r, UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, &q->user_handle, sizeof(q->user_handle));
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_CREATE_SRQ_MAX_WR, &q->max_wr, sizeof(q->max_wr));
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_CREATE_SRQ_MAX_SGE, &q->max_sge, sizeof(q->max_sge));
    if (!err) err = uv_attr_in(r, UVERBS_ATTR_CREATE_SRQ_TYPE, &type, sizeof(type));
    q->srq_type = type > UINT32_MAX ? UINT32_MAX : (uint32_t)type;
    return err;
}

int uv_attr_create_srq(struct uv_file *f, const struct uv_request *r)
{
    struct ib_uverbs_create_xsrq q = {0};
    struct ib_uverbs_create_srq_resp a = {.srq_handle = UINT32_MAX};
    struct command cmd;
    int err = uv_create_begin(f, r, UVERBS_ATTR_CREATE_SRQ_EVENT_FD, &cmd);

    if (!err) err = read_srq(r, &q);
    cmd.c.in = &q;
    cmd.c.in_len = sizeof(q);
    if (!err) err = uv_create_run(r, &cmd, uv_create_xsrq, &a, sizeof(a));
    if (!err) err = uv_attr_out(r, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &a.max_wr, sizeof(a.max_wr));
    if (!err) err = uv_attr_out(r, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &a.max_sge, sizeof(a.max_sge));
    if (!err) err = uv_attr_out(r, UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &a.srqn, sizeof(a.srqn));
    return uv_create_finish(&cmd, r, UV_SRQ, UVERBS_ATTR_CREATE_SRQ_HANDLE, a.srq_handle, err);
}
