/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any sequence of requests on the device: ioctl buffers, legacy commands in them, mappings, closes. Pointers
 * in commands name one arena (so that the NIC, told to use memory, uses that), or nothing at all. Each input
 * gets a device of its own and closes it with whatever it made still there.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "softnic/uverbs/uverbs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA        (1u << 20)
#define MAX_REQUESTS 64

struct input {
    const uint8_t *p, *end;
};

static uint8_t *arena;
static int channels[MAX_REQUESTS + 1]; /* event fds to close at the end */
static unsigned channel_count;
static int memory_fd; /* four pages of it */

static uint64_t take(struct input *in, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes && in->p < in->end; i++) v |= (uint64_t)*in->p++ << 8 * i;
    return v;
}

/* An address: mostly inside the arena, else null, beside it or anything. */
static uint64_t pointer(struct input *in)
{
    uint64_t v = take(in, 4);
    switch (v >> 29) {
    case 0: return 0;
    case 1: return (uintptr_t)arena + ARENA - (v & 63);
    case 2: return take(in, 8) | (uint64_t)1 << 63;
    default: return (uintptr_t)arena + (v & (ARENA - 1) & ~(uint64_t)63);
    }
}

struct header { /* ib_uverbs_ioctl_hdr without the array at its end */
    uint16_t length, object_id, method_id, num_attrs;
    uint64_t reserved1;
    uint32_t driver_id, reserved2;
};
struct buffer {
    struct header hdr;
    struct ib_uverbs_attr attrs[16];
};

static void put(struct buffer *b, uint16_t id, uint16_t len, uint64_t value)
{
    b->attrs[b->hdr.num_attrs++] =
        (struct ib_uverbs_attr){.attr_id = id, .len = len, .flags = UVERBS_ATTR_F_MANDATORY, .data = value};
}

static void put_in(struct buffer *b, uint16_t id, const void *from, uint16_t len)
{
    uint64_t v = 0;
    if (len <= 8)
        memcpy(&v, from, len);
    else
        v = (uintptr_t)from;
    put(b, id, len, v);
}

static int submit(int fd, struct buffer *b)
{
    b->hdr.length = (uint16_t)(sizeof(b->hdr) + b->hdr.num_attrs * sizeof(b->attrs[0]));
    return uv_ioctl(fd, RDMA_VERBS_IOCTL, (uintptr_t)b);
}

/* ---- commands: right ones, with what went before them, and then some of their words replaced ---- */

struct made { /* the last of each that was made, or what the input says */
    uint32_t pd, mr, cq, qp, ah, srq, xrcd, mw, dm, uar;
    int channel;
};

struct draft {
    uint64_t core[32], uhw[16];
    uint32_t core_len, uhw_len;
};

static struct made made;

#define PUT(d, type, ...)                                                                                    \
    do {                                                                                                     \
        type v_ = {__VA_ARGS__};                                                                             \
        memcpy((d)->core, &v_, sizeof(v_));                                                                  \
        (d)->core_len = sizeof(v_);                                                                          \
    } while (0)
#define PUT_UHW(d, type, ...)                                                                                \
    do {                                                                                                     \
        type v_ = {__VA_ARGS__};                                                                             \
        memcpy((d)->uhw, &v_, sizeof(v_));                                                                   \
        (d)->uhw_len = sizeof(v_);                                                                           \
    } while (0)

static void draft_cq(struct draft *d, bool extended)
{
    if (extended)
        PUT(d, struct ib_uverbs_ex_create_cq, .user_handle = 7, .cqe = 15, .comp_channel = made.channel);
    else
        PUT(d, struct ib_uverbs_create_cq, .user_handle = 7, .cqe = 15, .comp_channel = made.channel);
    PUT_UHW(d, struct mlx5_ib_create_cq, .buf_addr = (uintptr_t)arena, .db_addr = (uintptr_t)arena + 65536,
            .cqe_size = 64);
}

static void draft_srq(struct draft *d)
{
    PUT(d, struct ib_uverbs_create_srq, .user_handle = 9, .pd_handle = made.pd, .max_wr = 15, .max_sge = 1);
    PUT_UHW(d, struct mlx5_ib_create_srq, .buf_addr = (uintptr_t)arena + 65536 + 1024,
            .db_addr = (uintptr_t)arena + 65608);
}

static void draft_xsrq(struct draft *d)
{
    PUT(d, struct ib_uverbs_create_xsrq, .user_handle = 9, .srq_type = IBV_SRQT_XRC, .pd_handle = made.pd,
        .max_wr = 15, .max_sge = 1, .xrcd_handle = made.xrcd, .cq_handle = made.cq);
    PUT_UHW(d, struct mlx5_ib_create_srq, .buf_addr = (uintptr_t)arena + 65536 + 1024,
            .db_addr = (uintptr_t)arena + 65608, .uidx = 5);
}

/* One side of an XRC connection. */
static void draft_xrc_qp(struct draft *d, bool target)
{
    PUT(d, struct ib_uverbs_create_qp, .pd_handle = target ? made.xrcd : made.pd, .send_cq_handle = made.cq,
        .max_send_wr = target ? 0 : 8, .qp_type = target ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND);
    PUT_UHW(d, struct mlx5_ib_create_qp, .buf_addr = (uintptr_t)arena + 131072,
            .db_addr = (uintptr_t)arena + 65600, .sq_wqe_count = target ? 0 : 8);
}

static void draft_qp_of_srq(struct draft *d)
{
    PUT(d, struct ib_uverbs_create_qp, .pd_handle = made.pd, .send_cq_handle = made.cq,
        .recv_cq_handle = made.cq, .srq_handle = made.srq, .is_srq = 1, .max_send_wr = 8,
        .qp_type = IBV_QPT_RC);
    PUT_UHW(d, struct mlx5_ib_create_qp, .buf_addr = (uintptr_t)arena + 131072,
            .db_addr = (uintptr_t)arena + 65600, .sq_wqe_count = 8);
}

static void draft_qp(struct draft *d, bool extended)
{
    if (extended)
        PUT(d, struct ib_uverbs_ex_create_qp, .pd_handle = made.pd, .send_cq_handle = made.cq,
            .recv_cq_handle = made.cq, .max_send_wr = 8, .max_recv_wr = 8, .qp_type = IBV_QPT_RC);
    else
        PUT(d, struct ib_uverbs_create_qp, .pd_handle = made.pd, .send_cq_handle = made.cq,
            .recv_cq_handle = made.cq, .max_send_wr = 8, .max_recv_wr = 8, .qp_type = IBV_QPT_RC);
    PUT_UHW(d, struct mlx5_ib_create_qp, .buf_addr = (uintptr_t)arena + 131072,
            .db_addr = (uintptr_t)arena + 65600, .sq_wqe_count = 8, .rq_wqe_count = 8, .rq_wqe_shift = 4,
            .flags = MLX5_QP_FLAG_SCATTER_CQE);
}

/* The next transition, whichever that is: the state is the input's guess. */
static void draft_modify(struct draft *d, struct input *in)
{
    static const uint32_t masks[] = {
        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
            IBV_QP_MAX_QP_RD_ATOMIC,
        IBV_QP_STATE,
    };
    unsigned step = (unsigned)take(in, 1) % 8;
    struct ib_uverbs_ex_modify_qp q = {.base = {.qp_handle = made.qp,
                                                .attr_mask = masks[step < 3 ? step : 3],
                                                .qp_state = (uint8_t)(step + 1),
                                                .port_num = 1,
                                                .path_mtu = IBV_MTU_256,
                                                .dest_qp_num = 0x123456,
                                                .timeout = 10,
                                                .dest = {.is_global = 1, .port_num = 1}}};
    const uint8_t gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
    memcpy(q.base.dest.dgid, gid, 16);
    memcpy(d->core, &q, sizeof(q));
    d->core_len = sizeof(q);
}

static uint32_t draft(struct draft *d, struct input *in)
{
    unsigned what = (unsigned)take(in, 1) % 36;

    memset(d, 0, sizeof(*d));
    switch (what) {
    case 0: PUT(d, struct ib_uverbs_query_device, 0); return IB_USER_VERBS_CMD_QUERY_DEVICE;
    case 1: PUT(d, struct ib_uverbs_query_port, .port_num = 1); return IB_USER_VERBS_CMD_QUERY_PORT;
    case 2: PUT(d, struct ib_uverbs_alloc_pd, 0); return IB_USER_VERBS_CMD_ALLOC_PD;
    case 3: PUT(d, struct ib_uverbs_dealloc_pd, made.pd); return IB_USER_VERBS_CMD_DEALLOC_PD;
    case 4:
        PUT(d, struct ib_uverbs_reg_mr, .start = (uintptr_t)arena, .length = 8192, .hca_va = (uintptr_t)arena,
            .pd_handle = made.pd, .access_flags = 7);
        return IB_USER_VERBS_CMD_REG_MR;
    case 5: PUT(d, struct ib_uverbs_dereg_mr, made.mr); return IB_USER_VERBS_CMD_DEREG_MR;
    case 6: PUT(d, struct ib_uverbs_create_comp_channel, 0); return IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL;
    case 7:
    case 8: draft_cq(d, false); return IB_USER_VERBS_CMD_CREATE_CQ;
    case 9: draft_cq(d, true); return IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_CQ;
    case 10: PUT(d, struct ib_uverbs_destroy_cq, .cq_handle = made.cq); return IB_USER_VERBS_CMD_DESTROY_CQ;
    case 11:
    case 12: draft_qp(d, false); return IB_USER_VERBS_CMD_CREATE_QP;
    case 13: draft_qp(d, true); return IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_QP;
    case 14: PUT(d, struct ib_uverbs_query_qp, .qp_handle = made.qp); return IB_USER_VERBS_CMD_QUERY_QP;
    case 15: draft_modify(d, in); return IB_USER_VERBS_CMD_MODIFY_QP;
    case 16: draft_modify(d, in); return IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_QP;
    case 17: PUT(d, struct ib_uverbs_destroy_qp, .qp_handle = made.qp); return IB_USER_VERBS_CMD_DESTROY_QP;
    case 18:
        PUT(d, struct ib_uverbs_create_ah, .pd_handle = made.pd, .attr = {.is_global = 1, .port_num = 1});
        return IB_USER_VERBS_CMD_CREATE_AH;
    case 19: PUT(d, struct ib_uverbs_destroy_ah, made.ah); return IB_USER_VERBS_CMD_DESTROY_AH;
    case 20: draft_srq(d); return IB_USER_VERBS_CMD_CREATE_SRQ;
    case 21: draft_qp_of_srq(d); return IB_USER_VERBS_CMD_CREATE_QP;
    case 22:
        PUT(d, struct ib_uverbs_modify_srq, .srq_handle = made.srq, .attr_mask = 2, .srq_limit = 1);
        return IB_USER_VERBS_CMD_MODIFY_SRQ;
    case 23: PUT(d, struct ib_uverbs_query_srq, .srq_handle = made.srq); return IB_USER_VERBS_CMD_QUERY_SRQ;
    case 24:
        PUT(d, struct ib_uverbs_destroy_srq, .srq_handle = made.srq);
        return IB_USER_VERBS_CMD_DESTROY_SRQ;
    case 25: draft_xsrq(d); return IB_USER_VERBS_CMD_CREATE_XSRQ;
    case 26: draft_xrc_qp(d, false); return IB_USER_VERBS_CMD_CREATE_QP;
    case 27: draft_xrc_qp(d, true); return IB_USER_VERBS_CMD_CREATE_QP;
    case 28:
        PUT(d, struct ib_uverbs_open_xrcd, .fd = (uint32_t)(take(in, 1) & 1 ? -1 : 0), .oflags = O_CREAT);
        return IB_USER_VERBS_CMD_OPEN_XRCD;
    case 29: PUT(d, struct ib_uverbs_close_xrcd, made.xrcd); return IB_USER_VERBS_CMD_CLOSE_XRCD;
    case 30:
        PUT(d, struct ib_uverbs_alloc_mw, .pd_handle = made.pd, .mw_type = (uint8_t)(1 + (take(in, 1) & 1)));
        return IB_USER_VERBS_CMD_ALLOC_MW;
    case 31: PUT(d, struct ib_uverbs_dealloc_mw, made.mw); return IB_USER_VERBS_CMD_DEALLOC_MW;
    case 32:
        PUT(d, struct ib_uverbs_rereg_mr, .mr_handle = made.mr, .flags = (uint32_t)take(in, 1) & 15,
            .start = (uintptr_t)arena + 4096, .length = 4096, .hca_va = (uintptr_t)arena + 4096,
            .pd_handle = made.pd, .access_flags = (uint32_t)take(in, 1));
        return IB_USER_VERBS_CMD_REREG_MR;
    case 33:
        PUT(d, struct ib_uverbs_resize_cq, .cq_handle = made.cq, .cqe = (2u << take(in, 1) % 7) - 1);
        PUT_UHW(d, struct mlx5_ib_resize_cq, .buf_addr = (uintptr_t)arena + (take(in, 1) & 1) * 262144,
                .cqe_size = 64);
        return IB_USER_VERBS_CMD_RESIZE_CQ;
    case 34:
        PUT(d, struct ib_uverbs_ex_modify_cq, .cq_handle = made.cq, .attr_mask = 1);
        return IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_CQ;
    default:
        PUT(d, struct ib_uverbs_ex_query_device, 0);
        return IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE;
    }
}

static void remember(uint32_t cmd, uint64_t answer)
{
    uint32_t *slot = NULL;

    switch (cmd & ~IB_USER_VERBS_CMD_FLAG_EXTENDED) {
    case IB_USER_VERBS_CMD_ALLOC_PD: slot = &made.pd; break;
    case IB_USER_VERBS_CMD_REG_MR: slot = &made.mr; break;
    case IB_USER_VERBS_CMD_CREATE_CQ: slot = &made.cq; break;
    case IB_USER_VERBS_CMD_CREATE_QP: slot = &made.qp; break;
    case IB_USER_VERBS_CMD_ALLOC_MW: slot = &made.mw; break;
    case IB_USER_VERBS_CMD_CREATE_SRQ:
    case IB_USER_VERBS_CMD_CREATE_XSRQ: slot = &made.srq; break;
    case IB_USER_VERBS_CMD_OPEN_XRCD: slot = &made.xrcd; break;
    case IB_USER_VERBS_CMD_CREATE_AH: slot = &made.ah; break;
    case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL: slot = (uint32_t *)&made.channel; break;
    }
    if (!slot) return;
    memcpy(slot, (const void *)(uintptr_t)answer,
           sizeof(*slot)); /* it was written there, so it can be read */
    if (slot == (uint32_t *)&made.channel) channels[channel_count++] = made.channel;
}

static void command(int fd, struct input *in)
{
    static uint64_t out[64], drv[64];
    struct buffer b = {.hdr = {.object_id = UVERBS_OBJECT_DEVICE, .method_id = UVERBS_METHOD_INVOKE_WRITE}};
    struct draft d;
    uint32_t cmd = draft(&d, in);
    unsigned how = (unsigned)take(in, 1), changes = how & 7;

    while (changes-- && how & 8) {
        unsigned at = (unsigned)take(in, 1);
        if (at & 128)
            ((uint32_t *)d.uhw)[at & 31] = (uint32_t)take(in, 4);
        else
            ((uint32_t *)d.core)[at & 63] = (uint32_t)take(in, 4);
    }
    if (how & 16) d.uhw[0] = pointer(in);
    if (how & 32) d.uhw[1] = pointer(in);
    put(&b, UVERBS_ATTR_WRITE_CMD, 8, cmd);
    put_in(&b, UVERBS_ATTR_CORE_IN, d.core, (uint16_t)((how & 192) == 192 ? take(in, 1) : d.core_len));
    uint64_t answer = (how & 192) == 64 ? pointer(in) : (uintptr_t)out;
    put(&b, UVERBS_ATTR_CORE_OUT, (uint16_t)((how & 192) == 128 ? take(in, 1) : 400), answer);
    if (d.uhw_len) put_in(&b, UVERBS_ATTR_UHW_IN, d.uhw, (uint16_t)d.uhw_len);
    put(&b, UVERBS_ATTR_UHW_OUT, 400, (uintptr_t)drv);
    if (!submit(fd, &b)) remember(cmd, answer);
}

static void any_buffer(int fd, struct input *in)
{
    struct buffer b = {0};
    b.hdr.object_id = (uint16_t)take(in, 1);
    b.hdr.method_id = (uint16_t)take(in, 2);
    unsigned n = (unsigned)take(in, 1) % 8;
    for (unsigned i = 0; i < n; i++) {
        uint16_t id = (uint16_t)take(in, 2), len = (uint16_t)take(in, 2);
        put(&b, id, len, take(in, 1) & 1 ? pointer(in) : take(in, 8));
    }
    b.hdr.length = (uint16_t)(sizeof(b.hdr) + n * sizeof(b.attrs[0]) + (take(in, 1) == 7));
    uv_ioctl(fd, take(in, 1) == 9 ? take(in, 4) : RDMA_VERBS_IOCTL,
             take(in, 1) == 5 ? pointer(in) : (uintptr_t)&b);
}

/* A region of a file descriptor: mostly one that can be had. */
static void dmabuf(int fd, struct input *in)
{
    struct buffer b = {.hdr = {.object_id = UVERBS_OBJECT_MR, .method_id = UVERBS_METHOD_REG_DMABUF_MR}};
    uint64_t offset = take(in, 2), length = take(in, 2), iova = take(in, 1) & 1 ? take(in, 8) : offset;
    uint32_t access = (uint32_t)take(in, 1), keys[2];
    int32_t from = take(in, 1) & 3 ? memory_fd : (int32_t)take(in, 4);
    unsigned missing = (unsigned)take(in, 1) % 16; /* one of them, or none */

    put(&b, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0);
    put(&b, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, made.pd);
    put_in(&b, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, &offset, 8);
    put_in(&b, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, &length, 8);
    put_in(&b, UVERBS_ATTR_REG_DMABUF_MR_IOVA, &iova, 8);
    put_in(&b, UVERBS_ATTR_REG_DMABUF_MR_FD, &from, 4);
    put_in(&b, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, &access, 4);
    put(&b, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, take(in, 1) & 3 ? (uintptr_t)keys : pointer(in));
    if (missing < b.hdr.num_attrs) b.attrs[missing].attr_id = 0x7777;
    if (!submit(fd, &b) && missing) made.mr = (uint32_t)b.attrs[0].data;
}

/* ---- methods that take attributes ---- */

enum { NEW, HANDLE, IN4, IN8, OUT }; /* what an attribute is */

struct shape {
    uint16_t object, method;
    uint32_t *slot; /* where to keep what it makes */
    struct {
        uint16_t id;
        uint8_t kind;
        uint32_t *handle; /* or */
        uint64_t value;
    } attrs[9];
};

static const struct shape shapes[] = {
    {UVERBS_OBJECT_DEVICE,
     UVERBS_METHOD_QUERY_CONTEXT,
     NULL,
     {{MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, OUT, NULL, 0}}},
    {UVERBS_OBJECT_PD,
     MLX5_IB_METHOD_PD_QUERY,
     NULL,
     {{MLX5_IB_ATTR_QUERY_PD_HANDLE, HANDLE, &made.pd, 0}, {MLX5_IB_ATTR_QUERY_PD_RESP_PDN, OUT, NULL, 0}}},
    {UVERBS_OBJECT_MR,
     UVERBS_METHOD_QUERY_MR,
     NULL,
     {{UVERBS_ATTR_QUERY_MR_HANDLE, HANDLE, &made.mr, 0}, {UVERBS_ATTR_QUERY_MR_RESP_LENGTH, OUT, NULL, 0}}},
    {UVERBS_OBJECT_MR,
     UVERBS_METHOD_ADVISE_MR,
     NULL,
     {{UVERBS_ATTR_ADVISE_MR_PD_HANDLE, HANDLE, &made.pd, 0},
      {UVERBS_ATTR_ADVISE_MR_ADVICE, IN8, NULL, 1},
      {UVERBS_ATTR_ADVISE_MR_FLAGS, IN4, NULL, 1},
      {UVERBS_ATTR_ADVISE_MR_SGE_LIST, OUT, NULL, 0}}},
    {UVERBS_OBJECT_DM,
     UVERBS_METHOD_DM_ALLOC,
     &made.dm,
     {{UVERBS_ATTR_ALLOC_DM_HANDLE, NEW, NULL, 0},
      {UVERBS_ATTR_ALLOC_DM_LENGTH, IN8, NULL, 5000},
      {UVERBS_ATTR_ALLOC_DM_ALIGNMENT, IN4, NULL, 3},
      {MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, OUT, NULL, 0},
      {MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, OUT, NULL, 0}}},
    {UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, NULL, {{UVERBS_ATTR_FREE_DM_HANDLE, HANDLE, &made.dm, 0}}},
    {UVERBS_OBJECT_DM,
     MLX5_IB_METHOD_DM_QUERY,
     NULL,
     {{MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE, HANDLE, &made.dm, 0},
      {MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, OUT, NULL, 0}}},
    {UVERBS_OBJECT_MR,
     UVERBS_METHOD_DM_MR_REG,
     &made.mr,
     {{UVERBS_ATTR_REG_DM_MR_HANDLE, NEW, NULL, 0},
      {UVERBS_ATTR_REG_DM_MR_PD_HANDLE, HANDLE, &made.pd, 0},
      {UVERBS_ATTR_REG_DM_MR_DM_HANDLE, HANDLE, &made.dm, 0},
      {UVERBS_ATTR_REG_DM_MR_OFFSET, IN8, NULL, 16},
      {UVERBS_ATTR_REG_DM_MR_LENGTH, IN8, NULL, 64},
      {UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, IN4, NULL, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE},
      {UVERBS_ATTR_REG_DM_MR_RESP_LKEY, OUT, NULL, 0}}},
    {MLX5_IB_OBJECT_UAR,
     MLX5_IB_METHOD_UAR_OBJ_ALLOC,
     &made.uar,
     {{MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, NEW, NULL, 0},
      {MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, IN8, NULL, 1},
      {MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, OUT, NULL, 0}}},
    {MLX5_IB_OBJECT_UAR,
     MLX5_IB_METHOD_UAR_OBJ_DESTROY,
     NULL,
     {{MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, HANDLE, &made.uar, 0}}},
    {UVERBS_OBJECT_CQ,
     UVERBS_METHOD_CQ_CREATE,
     &made.cq,
     {{UVERBS_ATTR_CREATE_CQ_HANDLE, NEW, NULL, 0},
      {UVERBS_ATTR_CREATE_CQ_CQE, IN4, NULL, 15},
      {UVERBS_ATTR_CREATE_CQ_USER_HANDLE, IN8, NULL, 7},
      {UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, IN4, NULL, 0},
      {UVERBS_ATTR_CREATE_CQ_RESP_CQE, OUT, NULL, 0}}},
    {UVERBS_OBJECT_SRQ,
     UVERBS_METHOD_SRQ_CREATE,
     &made.srq,
     {{UVERBS_ATTR_CREATE_SRQ_HANDLE, NEW, NULL, 0},
      {UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, HANDLE, &made.pd, 0},
      {UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, IN8, NULL, 9},
      {UVERBS_ATTR_CREATE_SRQ_MAX_WR, IN4, NULL, 15},
      {UVERBS_ATTR_CREATE_SRQ_MAX_SGE, IN4, NULL, 1},
      {UVERBS_ATTR_CREATE_SRQ_TYPE, IN8, NULL, 0}}},
    {UVERBS_OBJECT_QP,
     UVERBS_METHOD_QP_CREATE,
     &made.qp,
     {{UVERBS_ATTR_CREATE_QP_HANDLE, NEW, NULL, 0},
      {UVERBS_ATTR_CREATE_QP_PD_HANDLE, HANDLE, &made.pd, 0},
      {UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, HANDLE, &made.cq, 0},
      {UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, HANDLE, &made.cq, 0},
      {UVERBS_ATTR_CREATE_QP_USER_HANDLE, IN8, NULL, 11},
      {UVERBS_ATTR_CREATE_QP_CAP, OUT, NULL, 0},
      {UVERBS_ATTR_CREATE_QP_TYPE, IN8, NULL, IBV_QPT_RC},
      {UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, OUT, NULL, 0}}},
};

/* The driver's part: the queues, in the arena, for those objects that have some. */
static void put_queues(struct buffer *b, const struct shape *s, uint64_t uhw[16])
{
    struct draft d = {0};

    if (s->object == UVERBS_OBJECT_CQ)
        draft_cq(&d, true);
    else if (s->object == UVERBS_OBJECT_SRQ)
        draft_srq(&d);
    else if (s->object == UVERBS_OBJECT_QP)
        draft_qp(&d, true);
    if (!d.uhw_len) return;
    memcpy(uhw, d.uhw, sizeof(d.uhw));
    put_in(b, UVERBS_ATTR_UHW_IN, uhw, (uint16_t)d.uhw_len);
}

/* As the library would ask, but for what the input changes. */
static void attributes(int fd, struct input *in)
{
    static uint64_t out[16];
    const struct shape *s = &shapes[take(in, 1) % (sizeof(shapes) / sizeof(shapes[0]))];
    struct buffer b = {.hdr = {.object_id = s->object, .method_id = s->method}};
    uint64_t values[9], uhw[16];
    unsigned odd = (unsigned)take(in, 1); /* which attribute is another, and how */

    for (unsigned i = 0; i < 9 && (i == 0 || s->attrs[i].id); i++) {
        bool changed = (odd & 15) == i;

        values[i] = changed ? take(in, 8) : s->attrs[i].value;
        switch (s->attrs[i].kind) {
        case NEW: put(&b, s->attrs[i].id, 0, 0); break;
        case HANDLE: put(&b, s->attrs[i].id, 0, changed ? values[i] : *s->attrs[i].handle); break;
        case IN4: put_in(&b, s->attrs[i].id, &values[i], 4); break;
        case IN8: put_in(&b, s->attrs[i].id, &values[i], 8); break;
        default: put(&b, s->attrs[i].id, 64, changed ? pointer(in) : (uintptr_t)out); break;
        }
        if (changed && odd & 64) b.attrs[i].attr_id = 0x7777;
    }
    put_queues(&b, s, uhw);
    if (submit(fd, &b)) return;
    for (unsigned i = 0; s->slot && i < b.hdr.num_attrs; i++)
        if (b.attrs[i].attr_id == s->attrs[0].id) *s->slot = (uint32_t)b.attrs[i].data;
}

static void map(int fd, struct input *in)
{
    uint64_t offset = take(in, 4) << 12 | (take(in, 1) == 3);
    size_t length = take(in, 1) == 3 ? take(in, 3) : 4096;
    void *at;
    if (!uv_mmap(fd, NULL, length, PROT_WRITE, MAP_SHARED, offset, &at)) munmap(at, length);
}

static int get_context(int fd, int32_t *async)
{
    struct mlx5_ib_alloc_ucontext_req_v2 req = {.total_num_bfregs = 16,
                                                .num_low_latency_bfregs = 4,
                                                .max_cqe_version = 1,
                                                .lib_caps = MLX5_LIB_CAP_4K_UAR};
    struct mlx5_ib_alloc_ucontext_resp resp;
    struct ib_uverbs_get_context_resp core;
    struct buffer b = {.hdr = {.object_id = UVERBS_OBJECT_DEVICE, .method_id = UVERBS_METHOD_INVOKE_WRITE}};
    uint64_t in = 0;

    put(&b, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_GET_CONTEXT);
    put_in(&b, UVERBS_ATTR_CORE_IN, &in, sizeof(in));
    put(&b, UVERBS_ATTR_CORE_OUT, sizeof(core), (uintptr_t)&core);
    put_in(&b, UVERBS_ATTR_UHW_IN, &req, sizeof(req));
    put(&b, UVERBS_ATTR_UHW_OUT, sizeof(resp), (uintptr_t)&resp);
    int err = submit(fd, &b);
    *async = err ? -1 : (int32_t)core.async_fd;
    return err;
}

/* The newer call, and the one for the events' fd, which a program may make later or never. */
static int get_context_attrs(int fd, int32_t *async)
{
    struct mlx5_ib_alloc_ucontext_req_v2 req = {.total_num_bfregs = 16, .max_cqe_version = 1};
    struct mlx5_ib_alloc_ucontext_resp resp;
    struct buffer b = {.hdr = {.object_id = UVERBS_OBJECT_DEVICE, .method_id = UVERBS_METHOD_GET_CONTEXT}};

    put_in(&b, UVERBS_ATTR_UHW_IN, &req, sizeof(req));
    put(&b, UVERBS_ATTR_UHW_OUT, sizeof(resp), (uintptr_t)&resp);
    *async = -1;
    return submit(fd, &b);
}

static void once(void)
{
    int32_t async;
    if (arena) return;
    setenv("GPUWIRE_NIC", "addr=127.0.0.1,seed=1", 1);
    arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* A device that stays open keeps the NIC from starting and ending with every input. */
    memory_fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (memory_fd < 0 || ftruncate(memory_fd, 4 * 4096)) abort();
    if (arena == MAP_FAILED || get_context(uv_open(O_RDWR | O_CLOEXEC, 0), &async)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    int32_t async = -1;

    once();
    int fd = uv_open(O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return 0;
    made = (struct made){.channel = -1};
    uint64_t how = take(&in, 1);
    if (how == 2 ? get_context_attrs(fd, &async) : how != 1 && get_context(fd, &async)) abort();
    for (int i = 0; i < MAX_REQUESTS && in.p < in.end; i++) {
        unsigned what = (unsigned)take(&in, 1);
        if (what < 192)
            command(fd, &in);
        else if (what < 200)
            dmabuf(fd, &in);
        else if (what < 216)
            attributes(fd, &in);
        else if (what < 224)
            any_buffer(fd, &in);
        else
            map(fd, &in);
    }
    uv_close(fd);
    close(fd);
    if (async >= 0) channels[channel_count++] = async;
    while (channel_count) {
        uv_close(channels[--channel_count]);
        close(channels[channel_count]);
    }
    return 0;
}
