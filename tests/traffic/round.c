/* SPDX-License-Identifier: Apache-2.0 */
/* A round's queue pairs: made, connected, taken down. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "traffic.h"

enum { RD_ATOMIC = 4, ACK_TIMEOUT = 17 }; /* half a second: builds with sanitizers are slow */

/* ---- the device ---------------------------------------------------------------------------------------- */

static struct ibv_context *open_named(const char *name)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *ctx = NULL;

    for (int i = 0; list && list[i] && !ctx; i++)
        if (!name || !strcmp(name, ibv_get_device_name(list[i]))) ctx = ibv_open_device(list[i]);
    if (list) ibv_free_device_list(list);
    return ctx;
}

int device_open(struct side *s)
{
    s->ctx = open_named(s->opt.device);
    if (!s->ctx)
        return complain("no device%s%s", s->opt.device ? " " : "", s->opt.device ? s->opt.device : "");
    if (ibv_query_port(s->ctx, 1, &s->port) || ibv_query_gid(s->ctx, 1, s->opt.gid_index, &s->gid))
        return complain("port 1 has no GID %d", s->opt.gid_index);
    return 0;
}

void device_close(struct side *s)
{
    if (s->ctx) ibv_close_device(s->ctx);
}

/* ---- making -------------------------------------------------------------------------------------------- */

static enum link_type choose_type(const struct side *s, uint32_t index)
{
    const struct plan *p = &s->opt.plan;
    uint64_t h = mix(mix(p->seed, s->round), index);

    for (;; h = mix(h, 1))
        if (p->types >> h % LINK_TYPES & 1) return (enum link_type)(h % LINK_TYPES);
}

static int make_xrc(struct side *s)
{
    struct ibv_xrcd_init_attr domain = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
    struct ibv_srq_init_attr_ex srq = {
        .attr = {.max_wr = s->opt.plan.links * RECEIVES, .max_sge = 2},
        .comp_mask =
            IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
        .srq_type = IBV_SRQT_XRC,
        .pd = s->pd,
        .cq = s->recv_cq,
    };

    s->xrcd = srq.xrcd = ibv_open_xrcd(s->ctx, &domain);
    if (!s->xrcd) return complain("no XRC domain: %s", strerror(errno));
    s->xrc_srq = ibv_create_srq_ex(s->ctx, &srq);
    return s->xrc_srq ? 0 : complain("no XRC shared receive queue: %s", strerror(errno));
}

static int make_shared(struct side *s)
{
    uint32_t n = s->opt.plan.links;
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = n * RECEIVES, .max_sge = 2}};
    int access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

    s->events = mix(s->opt.plan.seed, s->round) & 1;
    s->links = calloc(n, sizeof(*s->links));
    s->areas = mmap(NULL, n * sizeof(*s->areas), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!s->links || s->areas == MAP_FAILED) return complain("out of memory");
    s->pd = ibv_alloc_pd(s->ctx);
    s->channel = ibv_create_comp_channel(s->ctx);
    if (!s->pd || !s->channel) return complain("no protection domain or channel: %s", strerror(errno));
    s->send_cq = ibv_create_cq(s->ctx, (int)(n * (WINDOW + 2)), NULL, s->channel, 0);
    s->recv_cq = ibv_create_cq(s->ctx, (int)(n * RECEIVES), NULL, s->channel, 0);
    s->mr = ibv_reg_mr(s->pd, s->areas, n * sizeof(*s->areas), access);
    if (!s->send_cq || !s->recv_cq || !s->mr)
        return complain("no completion queue or region: %s", strerror(errno));
    if (s->opt.plan.types >> LINK_XRC & 1 && make_xrc(s)) return -1;
    if (!(s->opt.plan.types >> LINK_SRQ & 1)) return 0;
    s->srq = ibv_create_srq(s->pd, &srq);
    return s->srq ? 0 : complain("no shared receive queue: %s", strerror(errno));
}

static struct ibv_qp *make_plain_qp(struct side *s, const struct link *l)
{
    struct ibv_qp_init_attr init = {
        .qp_type = l->type == LINK_UD   ? IBV_QPT_UD
                   : l->type == LINK_UC ? IBV_QPT_UC
                                        : IBV_QPT_RC,
        .send_cq = s->send_cq,
        .recv_cq = s->recv_cq,
        .srq = l->type == LINK_SRQ ? s->srq : NULL,
        .cap = {WINDOW + 2, RECEIVES, PIECES, 2, INLINE_BYTES},
    };

    return ibv_create_qp(s->pd, &init);
}

static struct ibv_qp *make_xrc_qp(struct side *s, bool receives)
{
    struct ibv_qp_init_attr_ex init = {
        .qp_type = receives ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND,
        .send_cq = receives ? NULL : s->send_cq,
        .cap = {.max_send_wr = WINDOW + 2, .max_send_sge = PIECES, .max_inline_data = INLINE_BYTES},
        .comp_mask = receives ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD,
        .pd = receives ? NULL : s->pd,
        .xrcd = receives ? s->xrcd : NULL,
    };

    if (receives) memset(&init.cap, 0, sizeof(init.cap));
    return ibv_create_qp_ex(s->ctx, &init);
}

static int to_init(struct link *l, struct ibv_qp *qp)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (link_is_reliable(l->type)) a.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    mask |= l->type == LINK_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    errno = ibv_modify_qp(qp, &a, mask);
    return errno ? complain("%s to INIT: %s", link_names[l->type], strerror(errno)) : 0;
}

static int make_qps(struct side *s, struct link *l)
{
    bool xrc = l->type == LINK_XRC;

    l->qp = xrc ? make_xrc_qp(s, false) : make_plain_qp(s, l);
    l->receiver = xrc ? make_xrc_qp(s, true) : l->qp;
    if (!l->qp || !l->receiver) return complain("no %s queue pair: %s", link_names[l->type], strerror(errno));
    if (to_init(l, l->qp)) return -1;
    return xrc ? to_init(l, l->receiver) : 0;
}

static void make_scripts(struct side *s, struct link *l)
{
    struct script sc = {s->opt.plan.seed, s->round, l->index, s->server, l->type, 0};
    struct area *a = &s->areas[l->index];

    l->target = &a->target;
    l->out.script = sc;
    sc.from_server = !s->server;
    l->in.script = sc;
    l->out.buf = a->out;
    l->in.buf = a->in;
    pattern_fill(a->target.fixed, FIXED_BYTES, mix(s->opt.plan.seed, l->index), 0);
}

static int make_link(struct side *s, uint32_t i)
{
    struct link *l = &s->links[i];

    l->index = i;
    l->type = choose_type(s, i);
    make_scripts(s, l);
    if (make_qps(s, l)) return -1;
    for (unsigned r = 0; r < RECEIVES; r++)
        if (receive_post(s, l, r)) return -1;
    l->mine = (struct link_info){
        .qpn = l->qp->qp_num,
        .receiver = l->receiver->qp_num,
        .psn = (uint32_t)mix(s->opt.plan.seed + s->server, s->round * 1000 + i) & 0xffffff,
        .rkey = s->mr->rkey,
        .mtu = s->port.active_mtu,
        .target = (uintptr_t)l->target,
        .gid = s->gid,
    };
    return s->xrc_srq && ibv_get_srq_num(s->xrc_srq, &l->mine.xrc_srq)
               ? complain("no number of the XRC queue")
               : 0;
}

/* ---- connecting ---------------------------------------------------------------------------------------- */

static struct ibv_ah_attr way_to(const struct side *s, const struct link *l)
{
    return (struct ibv_ah_attr){
        .is_global = 1,
        .port_num = 1,
        .grh = {.dgid = l->peer.gid, .sgid_index = (uint8_t)s->opt.gid_index, .hop_limit = 64},
    };
}

static int to_rtr(struct side *s, struct link *l, struct ibv_qp *qp, uint32_t dest, uint32_t mtu)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_RTR,
        .ah_attr = way_to(s, l),
        .path_mtu = (enum ibv_mtu)mtu,
        .dest_qp_num = dest,
        .rq_psn = l->peer.psn,
        .max_dest_rd_atomic = RD_ATOMIC,
        .min_rnr_timer = 1,
    };
    int mask = IBV_QP_STATE;

    if (l->type != LINK_UD) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (link_is_reliable(l->type)) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return ibv_modify_qp(qp, &a, mask);
}

static int to_rts(struct link *l)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = l->mine.psn,
        .max_rd_atomic = RD_ATOMIC,
        .timeout = ACK_TIMEOUT,
        .retry_cnt = 7,
        .rnr_retry = 7,
    };
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

    if (link_is_reliable(l->type))
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return ibv_modify_qp(l->qp, &a, mask);
}

/* The path MTU differs from link to link, up to what both ports carry. */
static int connect_link(struct side *s, struct link *l)
{
    uint32_t most = l->mine.mtu < l->peer.mtu ? l->mine.mtu : l->peer.mtu;
    uint32_t mtu = l->type == LINK_UD ? most : 1 + (uint32_t)(mix(s->opt.plan.seed, l->index) % most);
    struct ibv_ah_attr way = way_to(s, l);

    l->out.script.mtu = l->in.script.mtu = 128u << mtu;
    errno = to_rtr(s, l, l->qp, l->peer.receiver, mtu);
    if (!errno) errno = to_rts(l);
    if (!errno && l->type == LINK_XRC) errno = to_rtr(s, l, l->receiver, l->peer.qpn, mtu);
    if (errno)
        return complain("link %u (%s) does not connect: %s", l->index, link_names[l->type], strerror(errno));
    if (l->type != LINK_UD) return 0;
    l->ah = ibv_create_ah(s->pd, &way);
    return l->ah ? 0 : complain("no address handle: %s", strerror(errno));
}

int round_begin(struct side *s)
{
    uint32_t n = s->opt.plan.links;
    struct link_info *mine = calloc(n, sizeof(*mine)), *peers = calloc(n, sizeof(*peers));
    int err = mine && peers ? make_shared(s) : complain("out of memory");
    struct link *links;

    for (uint32_t i = 0; !err && i < n; i++) {
        err = make_link(s, i);
        mine[i] = s->links[i].mine;
    }
    links = s->links;
    s->links = NULL; /* nothing can come before all are connected */
    if (!err) err = control_exchange(s, mine, peers, n * sizeof(*mine));
    for (uint32_t i = 0; !err && i < n; i++) {
        links[i].peer = peers[i];
        err = connect_link(s, &links[i]);
    }
    if (!err) err = control_exchange(s, "go", peers, 2);
    s->links = links;
    free(mine);
    free(peers);
    return err;
}

/* ---- taking down --------------------------------------------------------------------------------------- */

int round_end(struct side *s)
{
    int err = 0;

    for (uint32_t i = 0; i < s->opt.plan.links; i++) {
        if (s->links[i].ah) err |= ibv_destroy_ah(s->links[i].ah);
        if (s->links[i].receiver != s->links[i].qp) err |= ibv_destroy_qp(s->links[i].receiver);
        err |= ibv_destroy_qp(s->links[i].qp);
    }
    if (s->srq) err |= ibv_destroy_srq(s->srq);
    if (s->xrc_srq) err |= ibv_destroy_srq(s->xrc_srq);
    if (s->xrcd) err |= ibv_close_xrcd(s->xrcd);
    err |= ibv_destroy_cq(s->send_cq) | ibv_destroy_cq(s->recv_cq);
    err |= ibv_destroy_comp_channel(s->channel);
    err |= ibv_dereg_mr(s->mr) | ibv_dealloc_pd(s->pd);
    munmap(s->areas, s->opt.plan.links * sizeof(*s->areas));
    free(s->links);
    s->links = NULL;
    s->srq = s->xrc_srq = NULL;
    s->xrcd = NULL;
    return err ? complain("something cannot be destroyed") : 0;
}
