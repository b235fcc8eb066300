/* SPDX-License-Identifier: Apache-2.0 */
/* The device's description of itself, and the results of opening it: GET_CONTEXT, QUERY_DEVICE,
 * QUERY_PORT. */
#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include "softnic/runtime/process.h"
#include "softnic/sysfs/tree.h"
#include "softnic/uverbs/attrs.h"
#include "softnic/uverbs/object.h"
#include "softnic/uverbs/uverbs.h"

#define MAX_SQ_DESC    1024 /* bytes of the largest send WQE */
#define CACHE_LINE     64
#define LOG_UAR_SIZE   12
#define MAX_SGE        30
#define LINK_WIDTH_4X  2
#define LINK_SPEED_EDR 32
#define PHYS_LINK_UP   5
#define LINK_ETHERNET  2
#define VECTORS        1 /* of completion queues */

/* ---- address ---- */

static void name_interface(const struct sn_addr *addr, char *name, size_t size)
{
    struct ifaddrs *list;

    name[0] = 0;
    if (getifaddrs(&list)) return;
    for (struct ifaddrs *i = list; i && !name[0]; i = i->ifa_next) {
        struct sockaddr_in6 sa = {0};
        uint8_t gid[16];
        uint16_t port;
        if (!i->ifa_addr) continue;
        if (i->ifa_addr->sa_family == AF_INET)
            memcpy(&sa, i->ifa_addr, sizeof(struct sockaddr_in));
        else if (i->ifa_addr->sa_family == AF_INET6)
            memcpy(&sa, i->ifa_addr, sizeof(struct sockaddr_in6));
        else
            continue;
        if (sn_addr_from_sock(&sa, gid, &port) && !memcmp(gid, addr->gid, 16))
            snprintf(name, size, "%s", i->ifa_name);
    }
    freeifaddrs(list);
    /* All of 127.0.0.0/8 is this host's, though the loopback interface lists one of it. */
    if (!name[0] && sn_gid_is_ipv4(addr->gid) && addr->gid[12] == 127) snprintf(name, size, "lo");
}

_Static_assert((int)UV_MAX_NICS == (int)SN_MAX_NICS, "the tree has room for all NICs");
_Static_assert((int)SN_TREE_GIDS == (int)SN_GIDS && (int)SN_TREE_PKEYS == (int)SN_PKEYS,
               "and for their tables");

static void uv_device_describe(const struct sn_config *c, struct sn_tree_info *nic)
{
    memcpy(nic->gid, c->addr.gid, 16);
    name_interface(&c->addr, nic->ndev, sizeof(nic->ndev));
    nic->gids = c->tables.gids;
    for (unsigned i = 0; i < nic->gids; i++) {
        const struct sn_gid_entry *e = &c->tables.gid[i];
        bool own = e->own;

        nic->table[i].v1 = e->v1;
        memcpy(nic->table[i].gid, own ? nic->gid : e->gid, 16);
        snprintf(nic->table[i].ndev, sizeof(nic->table[i].ndev), "%s", own ? nic->ndev : e->ndev);
    }
    nic->pkeys = c->tables.pkeys;
    memcpy(nic->pkey, c->tables.pkey, sizeof(nic->pkey));
}

int uv_describe(unsigned index, struct sn_tree_info *info)
{
    struct sn_config config;
    char why[SN_CONFIG_WHY];
    int err = sn_process_config(index, &config, why);

    if (err)
        fprintf(stderr, "gpuwire: %s\n", why);
    else
        uv_device_describe(&config, info);
    return err;
}

int uv_tree_info(struct sn_tree_info *nics)
{
    char why[SN_CONFIG_WHY];
    int count = sn_process_nics(why), err = 0;

    if (count < 0) fprintf(stderr, "gpuwire: %s\n", why);
    for (int i = 0; i < count && !err; i++) err = uv_describe((unsigned)i, &nics[i]);
    return err ? err : count;
}

/* ---- GET_CONTEXT ---- */

void uv_fill_context(struct mlx5_ib_alloc_ucontext_resp *r, bool small_uars, uint32_t registers)
{
    memset(r, 0, sizeof(*r));
    r->qp_tab_size = SN_MAX_QP;
    r->bf_reg_size = SN_UAR_BF_SIZE;
    /* A number here, and not 0, makes libmlx5 map its doorbell pages up front: the form that all releases
     * know. */
    r->tot_bfregs = registers;
    r->cache_line_size = CACHE_LINE;
    r->max_sq_desc_sz = MAX_SQ_DESC;
    r->max_rq_desc_sz = SN_MAX_RQ_STRIDE;
    r->max_send_wqebb = SN_MAX_SQ_WQEBB;
    r->max_recv_wr = SN_MAX_RQ_WQE;
    r->max_srq_recv_wr = SN_MAX_RQ_WQE - 1;
    r->num_ports = 1;
    r->response_length = sizeof(*r);
    r->cqe_version = 1;
    r->cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH;
    r->eth_min_inline = MLX5_USER_INLINE_MODE_NONE;
    r->clock_info_versions = 1u << MLX5_IB_CLOCK_INFO_V1;
    if (small_uars) {
        r->log_uar_size = LOG_UAR_SIZE;
        r->num_uars_per_page = 1;
    }
    r->num_dyn_bfregs = UV_MAX_DYNAMIC_PAGES * UV_BFREGS_PER_PAGE;
}

/* The kernel gives what is asked for rounded up to whole pages, within a limit. */
static int count_registers(const struct mlx5_ib_alloc_ucontext_req_v2 *req, uint32_t *registers)
{
    uint32_t limit = UV_MAX_STATIC_PAGES * UV_BFREGS_PER_PAGE;

    if (!req->total_num_bfregs || req->total_num_bfregs > limit) return -ENOMEM;
    *registers = (req->total_num_bfregs + UV_BFREGS_PER_PAGE - 1) / UV_BFREGS_PER_PAGE * UV_BFREGS_PER_PAGE;
    return req->num_low_latency_bfregs > *registers - 1 ? -EINVAL : 0;
}

static int check_request(const struct uv_cmd *c)
{
    const struct mlx5_ib_alloc_ucontext_req_v2 *req = c->uhw;

    /* No firmware commands here: libmlx5 asks again without them, unless the program insists. (It then tries
     * older forms of the request, too, and tells of the last answer.) */
    if (req->flags & MLX5_IB_ALLOC_UCTX_DEVX) return -EOPNOTSUPP;
    /* The first form of the request knows no completion format but version 0, which we do not write. */
    if (c->uhw_len <= offsetof(struct mlx5_ib_alloc_ucontext_req_v2, max_cqe_version) ||
        !req->max_cqe_version)
        return -EINVAL;
    return req->flags || req->comp_mask || req->reserved0 || req->reserved1 || req->reserved2 ? -EOPNOTSUPP
                                                                                              : 0;
}

static int uv_device_open_streams(struct uv_file *f, int *fd)
{
    int err = uv_stream_new(sizeof(struct ib_uverbs_async_event_desc), f, fd, &f->async);
    if (err) return err;
    err = uv_fd_add_stream(*fd, f->async);
    if (!err) return 0;
    close(*fd);
    uv_stream_put(f->async);
    f->async = NULL;
    return err;
}

/* libmlx5 asks several times over when it is refused: the NIC's reason is said once. */
static int start_nic(struct uv_file *f)
{
    if (!f->start_error) f->start_error = uv_take_nic(f);
    return f->start_error;
}

/* The older call's answer has the fd for the device's events in it. */
static int answer_with_fd(const struct uv_cmd *c, const struct mlx5_ib_alloc_ucontext_resp *drv)
{
    struct uv_file *f = c->file;
    struct ib_uverbs_get_context_resp core = {.num_comp_vectors = VECTORS};
    int fd, err = uv_device_open_streams(f, &fd);

    if (err) return err;
    core.async_fd = (uint32_t)fd;
    err = uv_reply(c, &core, sizeof(core), drv, sizeof(*drv));
    if (!err) return 0;
    uv_close(fd);
    close(fd);
    uv_stream_put(f->async);
    f->async = NULL;
    return err;
}

/* The newer call's: that fd is asked for by a call of its own. */
static int answer_attrs(const struct uv_request *r, const struct mlx5_ib_alloc_ucontext_resp *drv)
{
    const uint32_t vectors = VECTORS;
    const uint64_t support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;
    int err = uv_attr_out(r, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors, sizeof(vectors));

    if (!err) err = uv_attr_out(r, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &support, sizeof(support));
    return err ? err : uv_attr_out(r, UVERBS_ATTR_UHW_OUT, drv, sizeof(*drv));
}

/* r: the newer call, or NULL. */
static int uv_device_make_context(const struct uv_cmd *c, const struct uv_request *r)
{
    struct uv_file *f = c->file;
    const struct mlx5_ib_alloc_ucontext_req_v2 *req = c->uhw;
    struct mlx5_ib_alloc_ucontext_resp drv;
    uint32_t registers;
    int err = check_request(c);

    if (!err) err = count_registers(req, &registers);
    if (!err) err = start_nic(f);
    if (err) return err;
    err = uv_uars_init(f, registers, req->num_low_latency_bfregs);
    uv_fill_context(&drv, req->lib_caps & MLX5_LIB_CAP_4K_UAR, registers);
    if (!err) err = r ? answer_attrs(r, &drv) : answer_with_fd(c, &drv);
    if (!err) return 0;
    uv_uars_end(f);
    uv_give_nic(f);
    return err;
}

int uv_get_context(const struct uv_cmd *c)
{
    return uv_device_make_context(c, NULL);
}

int uv_attr_get_context(struct uv_file *f, const struct uv_request *r)
{
    struct mlx5_ib_alloc_ucontext_req_v2 req = {0};
    const struct ib_uverbs_attr *in = uv_attr(r, UVERBS_ATTR_UHW_IN);
    const struct uv_cmd c = {.file = f, .uhw = &req, .uhw_len = in ? in->len : 0};
    int err = in ? uv_attr_in(r, UVERBS_ATTR_UHW_IN, &req, sizeof(req)) : 0;

    return err ? err : uv_device_make_context(&c, r);
}

/*
 * A program imports a device by a copy of the fd, and gets a context of its own over the same objects. With
 * no registers that are mapped beforehand libmlx5 asks for doorbell pages one by one, as objects.
 */
int uv_query_context(struct uv_file *f, const struct uv_request *r)
{
    struct mlx5_ib_alloc_ucontext_resp drv;
    uint32_t vectors = VECTORS;
    uint64_t support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;
    (void)f;

    uv_fill_context(&drv, true, 0);
    int err = uv_attr_out(r, UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &vectors, sizeof(vectors));
    if (!err) err = uv_attr_out(r, UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, &support, sizeof(support));
    return err ? err : uv_attr_out(r, MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, &drv, sizeof(drv));
}

/* mlx5dv_query_port asks about switches inside the adapter, and this one has none. */
int uv_query_vport(struct uv_file *f, const struct uv_request *r)
{
    const struct mlx5_ib_uapi_query_port none = {0};
    uint32_t port = 0;
    int err = uv_attr_in(r, MLX5_IB_ATTR_QUERY_PORT_PORT_NUM, &port, sizeof(port));

    (void)f;
    if (err || port != 1) return -EINVAL;
    return uv_attr_out(r, MLX5_IB_ATTR_QUERY_PORT, &none, sizeof(none));
}

/* ---- QUERY_DEVICE ---- */

static void device_attr(const struct uv_file *f, struct ib_uverbs_query_device_resp *r)
{
    memset(r, 0, sizeof(*r));
    r->fw_ver = (uint64_t)SN_FW_MAJOR << 32 | SN_FW_MINOR << 16 | SN_FW_SUBMINOR;
    r->vendor_id = SN_VENDOR_ID;
    r->vendor_part_id = SN_PCI_DEVICE;
    r->max_mr_size = UINT64_MAX;
    r->page_size_cap = 0xfffff000;
    r->max_qp = SN_MAX_QP;
    r->max_qp_wr = SN_MAX_SQ_WQEBB;
    r->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |
                          IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
    r->max_sge = r->max_sge_rd = MAX_SGE;
    r->max_cq = SN_MAX_CQ;
    r->max_cqe = SN_MAX_CQE - 1;
    r->max_mr = r->max_mw = SN_MAX_MR - 1; /* together */
    r->max_pd = SN_MAX_PD;
    r->max_qp_rd_atom = r->max_qp_init_rd_atom = SN_MAX_RD_ATOMIC;
    r->max_res_rd_atom = SN_MAX_RD_ATOMIC * SN_MAX_QP;
    r->max_ah = 1u << 16;
    r->max_srq = SN_MAX_SRQ;
    r->max_srq_wr = SN_MAX_RQ_WQE - 1;
    r->max_srq_sge = SN_MAX_RQ_STRIDE / 16 - 1;
    r->max_pkeys = SN_PKEYS;
    r->local_ca_ack_delay = 16;
    r->phys_port_cnt = 1;
    struct sn_config config;
    char why[SN_CONFIG_WHY];
    if (sn_process_config(f->index, &config, why)) return;
    r->node_guid = r->sys_image_guid = htobe64(sn_guid(config.addr.gid, f->index));
    /* Among all that reach the memory through this NIC. */
    r->atomic_cap = config.no_atomics ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA;
}

int uv_query_device(const struct uv_cmd *c)
{
    struct ib_uverbs_query_device_resp r;
    device_attr(c->file, &r);
    return uv_reply(c, &r, sizeof(r), NULL, 0);
}

/* Every transport moves its payload under the guard, so none needs its memory to stay. */
static void fill_odp(struct ib_uverbs_ex_query_device_resp *r)
{
    const uint32_t messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;

    r->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
    r->odp_caps.per_transport_caps.ud_odp_caps = messages;
    r->odp_caps.per_transport_caps.uc_odp_caps = messages | IBV_ODP_SUPPORT_WRITE;
    r->odp_caps.per_transport_caps.rc_odp_caps =
        messages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
    r->xrc_odp_caps = r->odp_caps.per_transport_caps.rc_odp_caps;
}

int uv_query_device_ex(const struct uv_cmd *c)
{
    const struct ib_uverbs_ex_query_device *req = c->in;
    struct ib_uverbs_ex_query_device_resp r = {0};
    struct mlx5_ib_query_device_resp drv = {.flags = MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD};

    if (req->comp_mask || req->reserved) return -EINVAL;
    device_attr(c->file, &r.base);
    r.response_length = c->out_len < sizeof(r) ? (uint32_t)c->out_len : (uint32_t)sizeof(r);
    r.device_cap_flags_ex = r.base.device_cap_flags;
    r.timestamp_mask = UINT64_MAX;
    r.hca_core_clock = 1000000; /* kHz: time stamps are nanoseconds */
    r.max_dm_size = UV_DM_BYTES;
    fill_odp(&r);
    drv.response_length = c->uhw_out_len < sizeof(drv) ? (uint32_t)c->uhw_out_len : (uint32_t)sizeof(drv);
    return uv_reply(c, &r, sizeof(r), c->uhw_out_len ? &drv : NULL, c->uhw_out_len ? sizeof(drv) : 0);
}

/* ---- QUERY_PORT ---- */

static uint8_t mtu_code(uint32_t bytes)
{
    uint8_t code = IBV_MTU_256;
    while (code < IBV_MTU_4096 && 128u << (code + 1) <= bytes) code++;
    return code;
}

int uv_query_port(const struct uv_cmd *c)
{
    const struct ib_uverbs_query_port *req = c->in;
    struct ib_uverbs_query_port_resp r = {
        .port_cap_flags = IB_UVERBS_PCF_CM_SUP | IB_UVERBS_PCF_IP_BASED_GIDS,
        .max_msg_sz = SN_MAX_MSG,
        .gid_tbl_len = 1,
        .pkey_tbl_len = 1,
        .active_mtu = IBV_MTU_1024,
        .state = IBV_PORT_ACTIVE,
        .max_mtu = IBV_MTU_4096,
        .max_vl_num = 1,
        .active_width = LINK_WIDTH_4X,
        .active_speed = LINK_SPEED_EDR,
        .phys_state = PHYS_LINK_UP,
        .link_layer = LINK_ETHERNET,
        .flags = IB_UVERBS_QPF_GRH_REQUIRED,
    };

    struct sn_config config;
    char why[SN_CONFIG_WHY];

    if (req->port_num != 1) return -EINVAL;
    if (!sn_process_config(c->file->index, &config, why)) {
        r.active_mtu = mtu_code(config.mtu);
        r.gid_tbl_len = config.tables.gids;
        r.pkey_tbl_len = (uint16_t)config.tables.pkeys;
    }
    return uv_reply(c, &r, sizeof(r), NULL, 0);
}
