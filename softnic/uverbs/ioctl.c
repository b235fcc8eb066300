/* SPDX-License-Identifier: Apache-2.0 */
/* The ioctl's buffer: a header and attributes, one of them, mostly, an old write() command wrapped up. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <gpuwire/detail/held.h>

#include "softnic/mem/usercopy.h"
#include "softnic/uverbs/attrs.h"
#include "softnic/uverbs/object.h"
#include "softnic/uverbs/uverbs.h"

#define METHOD_REG_MR 5 /* UVERBS_METHOD_REG_MR, which the headers of rdma-core 44 do not have */

#define EX(cmd) (IB_USER_VERBS_CMD_FLAG_EXTENDED | (cmd))

/*
 * A legacy command. The kernel expects at least the sizes of its structs (-ENOSPC). The extended ones may be
 * cut short or be longer, so theirs are the sizes of the first version.
 */
struct legacy {
    uint32_t command;
    size_t in, out;
    int (*handle)(const struct uv_cmd *c);
};

#define CMD(name, in_type, out_size, handler)                                                                \
    {                                                                                                        \
        IB_USER_VERBS_CMD_##name, sizeof(struct ib_uverbs_##in_type), (out_size), handler                    \
    }
#define RESP(type) sizeof(struct ib_uverbs_##type##_resp)

static const struct legacy legacy[] = {
    CMD(GET_CONTEXT, get_context, RESP(get_context), uv_get_context),
    CMD(QUERY_DEVICE, query_device, RESP(query_device), uv_query_device),
    CMD(QUERY_PORT, query_port, RESP(query_port), uv_query_port),
    CMD(ALLOC_PD, alloc_pd, RESP(alloc_pd), uv_alloc_pd),
    CMD(DEALLOC_PD, dealloc_pd, 0, uv_dealloc_pd),
    CMD(CREATE_AH, create_ah, RESP(create_ah), uv_create_ah),
    CMD(DESTROY_AH, destroy_ah, 0, uv_destroy_ah),
    CMD(REG_MR, reg_mr, RESP(reg_mr), uv_reg_mr),
    CMD(REREG_MR, rereg_mr, RESP(rereg_mr), uv_rereg_mr),
    CMD(DEREG_MR, dereg_mr, 0, uv_dereg_mr),
    CMD(CREATE_COMP_CHANNEL, create_comp_channel, RESP(create_comp_channel), uv_create_comp_channel),
    CMD(CREATE_CQ, create_cq, RESP(create_cq), uv_create_cq),
    CMD(RESIZE_CQ, resize_cq, RESP(resize_cq), uv_resize_cq),
    CMD(DESTROY_CQ, destroy_cq, RESP(destroy_cq), uv_destroy_cq),
    CMD(CREATE_QP, create_qp, RESP(create_qp), uv_create_qp),
    CMD(QUERY_QP, query_qp, RESP(query_qp), uv_query_qp),
    CMD(MODIFY_QP, modify_qp, 0, uv_modify_qp),
    CMD(DESTROY_QP, destroy_qp, RESP(destroy_qp), uv_destroy_qp),
    CMD(CREATE_SRQ, create_srq, RESP(create_srq), uv_create_srq),
    CMD(CREATE_XSRQ, create_xsrq, RESP(create_srq), uv_create_xsrq),
    CMD(ALLOC_MW, alloc_mw, RESP(alloc_mw), uv_alloc_mw),
    CMD(DEALLOC_MW, dealloc_mw, 0, uv_dealloc_mw),
    CMD(OPEN_XRCD, open_xrcd, RESP(open_xrcd), uv_open_xrcd),
    CMD(CLOSE_XRCD, close_xrcd, 0, uv_close_xrcd),
    CMD(MODIFY_SRQ, modify_srq, 0, uv_modify_srq),
    CMD(QUERY_SRQ, query_srq, RESP(query_srq), uv_query_srq),
    CMD(DESTROY_SRQ, destroy_srq, RESP(destroy_srq), uv_destroy_srq),
    {EX(IB_USER_VERBS_EX_CMD_QUERY_DEVICE), sizeof(struct ib_uverbs_ex_query_device),
     offsetof(struct ib_uverbs_ex_query_device_resp, odp_caps), uv_query_device_ex},
    {EX(IB_USER_VERBS_EX_CMD_CREATE_CQ), offsetof(struct ib_uverbs_ex_create_cq, flags),
     sizeof(struct ib_uverbs_create_cq_resp), uv_create_cq_ex},
    {EX(IB_USER_VERBS_EX_CMD_CREATE_QP), offsetof(struct ib_uverbs_ex_create_qp, comp_mask),
     sizeof(struct ib_uverbs_create_qp_resp), uv_create_qp_ex},
    {EX(IB_USER_VERBS_EX_CMD_MODIFY_QP), sizeof(struct ib_uverbs_modify_qp), 0, uv_modify_qp_ex},
};

const struct ib_uverbs_attr *uv_attr(const struct uv_request *r, uint16_t id)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (r->attrs[i].attr_id == id) return &r->attrs[i];
    return NULL;
}

/* Inputs of up to eight bytes travel in the attribute itself. */
static int uv_ioctl_input(const struct ib_uverbs_attr *a, void *to, size_t room)
{
    size_t n = a->len < room ? a->len : room;
    if (a->len > sizeof(a->data)) return uv_copy_in(to, a->data, n);
    memcpy(to, &a->data, n);
    return 0;
}

int uv_attr_in(const struct uv_request *r, uint16_t id, void *to, size_t room)
{
    const struct ib_uverbs_attr *a = uv_attr(r, id);
    return a ? uv_ioctl_input(a, to, room) : -EINVAL;
}

int uv_attr_object(const struct uv_request *r, uint16_t id, uint32_t *handle)
{
    const struct ib_uverbs_attr *a = uv_attr(r, id);

    if (!a || a->data > UINT32_MAX) return -EINVAL;
    *handle = (uint32_t)a->data;
    return 0;
}

/* Where the caller keeps a field of an attribute. */
static uint64_t uv_ioctl_field(const struct uv_request *r, const struct ib_uverbs_attr *a, size_t offset)
{
    return r->where + (uint64_t)(a - r->attrs) * sizeof(*a) + offset;
}

/* The kernel tells its caller which outputs it filled. */
static int mark_output(const struct uv_request *r, const struct ib_uverbs_attr *a)
{
    uint16_t flags = a->flags | UVERBS_ATTR_F_VALID_OUTPUT;
    return uv_copy_out(uv_ioctl_field(r, a, offsetof(struct ib_uverbs_attr, flags)), &flags, sizeof(flags));
}

int uv_attr_out(const struct uv_request *r, uint16_t id, const void *from, size_t len)
{
    const struct ib_uverbs_attr *a = uv_attr(r, id);

    if (!a) return 0;
    int err = uv_copy_out(a->data, from, len < a->len ? len : a->len);
    return err ? err : mark_output(r, a);
}

int uv_attr_filled(const struct uv_request *r, uint16_t id)
{
    const struct ib_uverbs_attr *a = uv_attr(r, id);
    return a ? mark_output(r, a) : 0;
}

int uv_attr_handle(const struct uv_request *r, uint16_t id, int64_t handle)
{
    const struct ib_uverbs_attr *a = uv_attr(r, id);
    return a ? uv_copy_out(uv_ioctl_field(r, a, offsetof(struct ib_uverbs_attr, data)), &handle,
                           sizeof(handle))
             : -EINVAL;
}

int uv_reply(const struct uv_cmd *c, const void *core, size_t core_len, const void *drv, size_t drv_len)
{
    int err = uv_copy_out(c->out, core, core_len < c->out_len ? core_len : c->out_len);
    return err || !drv_len
               ? err
               : uv_copy_out(c->uhw_out, drv, drv_len < c->uhw_out_len ? drv_len : c->uhw_out_len);
}

struct uv_stream *uv_events(const struct uv_cmd *c)
{
    return uv_stream_get(c->events ? c->events : c->file->async);
}

static const struct legacy *find_legacy(uint64_t command)
{
    for (size_t i = 0; i < sizeof(legacy) / sizeof(legacy[0]); i++)
        if (legacy[i].command == command) return &legacy[i];
    return NULL;
}

static int invoke_write(struct uv_file *f, const struct uv_request *r)
{
    const struct ib_uverbs_attr *cmd = uv_attr(r, UVERBS_ATTR_WRITE_CMD),
                                *in = uv_attr(r, UVERBS_ATTR_CORE_IN),
                                *out = uv_attr(r, UVERBS_ATTR_CORE_OUT),
                                *uin = uv_attr(r, UVERBS_ATTR_UHW_IN),
                                *uout = uv_attr(r, UVERBS_ATTR_UHW_OUT);
    uint64_t in_buf[UV_IN_ROOM / 8] = {0}, uhw_buf[UV_IN_ROOM / 8] = {0};
    uint64_t command = 0;

    if (!cmd || uv_ioctl_input(cmd, &command, sizeof(command))) return -EINVAL;
    const struct legacy *l = find_legacy(command);
    if (!l) return -EOPNOTSUPP;
    if ((in ? in->len : 0) < l->in || (out ? out->len : 0) < l->out) return -ENOSPC;
    /* One context per open device, and nothing without it. */
    if (!f->child && (l->handle == uv_get_context) == (f->nic != NULL)) return -EINVAL;

    struct uv_cmd c = {.file = f, .in = in_buf, .uhw = uhw_buf};
    if (in && uv_ioctl_input(in, in_buf, sizeof(in_buf))) return -EFAULT;
    if (uin && uv_ioctl_input(uin, uhw_buf, sizeof(uhw_buf))) return -EFAULT;
    c.in_len = in ? in->len : 0;
    c.uhw_len = uin ? uin->len : 0;
    c.out = out ? out->data : 0;
    c.out_len = out ? out->len : 0;
    c.uhw_out = uout ? uout->data : 0;
    c.uhw_out_len = uout ? uout->len : 0;
    int err = l->handle(&c);
    if (!err && out) err = mark_output(r, out);
    if (!err && uout) err = mark_output(r, uout);
    return err;
}

/* As in the kernel, events go to the first one: an imported device gets one that stays silent. */
static int alloc_async_fd(struct uv_file *f, const struct uv_request *r)
{
    struct uv_stream *s;
    int fd, err = uv_stream_new(sizeof(struct ib_uverbs_async_event_desc), f, &fd, &s);
    if (err) return err;
    err = uv_fd_add_stream(fd, s);
    if (!err) err = uv_attr_handle(r, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, fd);
    if (err) {
        uv_close(fd);
        close(fd);
    } else if (!f->async) {
        f->async = uv_stream_get(s);
    }
    uv_stream_put(s);
    return err;
}

/*
 * Methods that have an older form, which libibverbs tries when it is told that this one is not known. The
 * others do not exist here: that is what their callers are to be told.
 */
static bool has_older_form(uint32_t object, uint32_t method)
{
    if (object == UVERBS_OBJECT_MR) return method == UVERBS_METHOD_MR_DESTROY || method == METHOD_REG_MR;
    return object < UVERBS_OBJECT_FLOW_ACTION && object != UVERBS_OBJECT_COMP_CHANNEL;
}

static const struct native {
    uint16_t object, method;
    int (*handle)(struct uv_file *f, const struct uv_request *r);
} natives[] = {
    {UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, alloc_async_fd},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, uv_attr_get_context},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, uv_query_context},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, uv_query_gid_table},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, uv_query_gid_entry},
    {UVERBS_OBJECT_DEVICE, MLX5_IB_METHOD_QUERY_PORT, uv_query_vport},
    {UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY, uv_query_pd},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, uv_reg_dmabuf_mr},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, uv_query_mr},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, uv_advise_mr},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, uv_reg_dm_mr},
    {UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, uv_attr_create_cq},
    {UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, uv_attr_create_qp},
    {UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, uv_attr_create_srq},
    {UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, uv_alloc_dm},
    {UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, uv_free_dm},
    {UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_QUERY, uv_query_dm},
    {MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, uv_alloc_uar},
    {MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, uv_free_uar},
};

static const struct native *find_native(uint32_t object, uint32_t method)
{
    for (size_t i = 0; i < sizeof(natives) / sizeof(natives[0]); i++)
        if (natives[i].object == object && natives[i].method == method) return &natives[i];
    return NULL;
}

/* In a forked child: what the device is like, and memory that is no NIC's. */
static bool good_without_nic(const struct uv_request *r)
{
    static const uint32_t commands[] = {IB_USER_VERBS_CMD_QUERY_DEVICE, IB_USER_VERBS_CMD_QUERY_PORT,
                                        EX(IB_USER_VERBS_EX_CMD_QUERY_DEVICE)};
    uint64_t command = 0;

    if (r->object == UVERBS_OBJECT_DM) return true;
    if (r->object != UVERBS_OBJECT_DEVICE) return false;
    if (r->method == UVERBS_METHOD_QUERY_GID_TABLE || r->method == UVERBS_METHOD_QUERY_GID_ENTRY) return true;
    if (r->method != UVERBS_METHOD_INVOKE_WRITE) return false;
    if (uv_attr_in(r, UVERBS_ATTR_WRITE_CMD, &command, sizeof(command))) return false;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (commands[i] == command) return true;
    return false;
}

/* One context per open device, and nothing without it. */
static int call_native(struct uv_file *f, const struct uv_request *r, const struct native *native)
{
    bool makes = native->handle == uv_attr_get_context;

    return !f->child && makes == (f->nic != NULL) ? -EINVAL : native->handle(f, r);
}

static int uv_ioctl_dispatch(struct uv_file *f, const struct uv_request *r)
{
    const struct native *native = find_native(r->object, r->method);

    if (f->child && !good_without_nic(r)) return uv_refuse_child();
    if (native) return call_native(f, r, native);
    if (r->object == UVERBS_OBJECT_DEVICE && r->method == UVERBS_METHOD_INVOKE_WRITE)
        return invoke_write(f, r);
    return has_older_form(r->object, r->method) ? -EPROTONOSUPPORT : -EOPNOTSUPP;
}

int uv_decode(struct uv_file *f, uint64_t arg)
{
    struct ib_uverbs_ioctl_hdr hdr;
    struct uv_request r;

    GW_ASSERT_HELD(&f->lock);
    if (uv_copy_in(&hdr, arg, sizeof(hdr))) return -EFAULT;
    if (hdr.num_attrs > UV_MAX_ATTRS || hdr.reserved1 || hdr.reserved2) return -EINVAL;
    if (hdr.length != sizeof(hdr) + hdr.num_attrs * sizeof(r.attrs[0])) return -EINVAL;
    r.object = hdr.object_id;
    r.method = hdr.method_id;
    r.count = hdr.num_attrs;
    r.where = arg + sizeof(hdr);
    if (uv_copy_in(r.attrs, r.where, r.count * sizeof(r.attrs[0]))) return -EFAULT;
    return uv_ioctl_dispatch(f, &r);
}
