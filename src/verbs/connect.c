/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: endpoints, connecting, taking down, starting again, and what went wrong. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "src/verbs/impl.h"

void gw_qp_endpoint(const struct gw_qp *qp, struct gw_endpoint *ep)
{
    memset(ep, 0, sizeof(*ep));
    memcpy(ep->gid, qp->dev->info.gid, sizeof(ep->gid));
    ep->qpn = gw_qp_num(qp);
    ep->psn = qp->psn;
    ep->mtu = qp->dev->info.mtu;
    ep->lid = qp->dev->info.lid;
}

static uint32_t connect_pick(uint32_t given, uint32_t otherwise)
{
    return given ? given : otherwise;
}

static uint32_t connect_smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

enum ibv_mtu gw_mtu_code(uint32_t bytes)
{
    uint32_t code = IBV_MTU_256;

    while (code < IBV_MTU_4096 && 256u << code <= bytes) code++;
    return (enum ibv_mtu)code;
}

/* A route to another subnet needs one, and an address that is no LID. RoCE has no other address. */
static bool needs_grh(const struct gw_device *dev, const struct gw_endpoint *peer)
{
    return dev->roce || dev->settings.grh || !peer->lid || memcmp(peer->gid, dev->info.gid, 8);
}

struct ibv_ah_attr gw_way_to(const struct gw_device *dev, const struct gw_endpoint *peer,
                             const struct gw_connect_opts *o)
{
    struct ibv_ah_attr a = {.dlid = (uint16_t)peer->lid, .port_num = (uint8_t)dev->info.port};

    a.is_global = needs_grh(dev, peer);

    memcpy(a.grh.dgid.raw, peer->gid, 16);
    a.grh.sgid_index = (uint8_t)dev->info.gid_index;
    a.grh.hop_limit = (uint8_t)connect_pick(o->hop_limit, 64);
    a.grh.traffic_class = (uint8_t)connect_pick(o->traffic_class, (uint32_t)dev->settings.tc);
    a.sl = (uint8_t)connect_pick(o->service_level, (uint32_t)dev->settings.sl);
    return a;
}

static int to_init(struct gw_qp *qp)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_INIT,
        .pkey_index = qp->dev->pkey_index,
        .port_num = (uint8_t)qp->dev->info.port,
        .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                           (qp->dev->attr.atomic_cap == IBV_ATOMIC_NONE ? 0 : IBV_ACCESS_REMOTE_ATOMIC),
    };

    return qp->ops->qp_modify(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int connect_to_rtr(struct gw_qp *qp, const struct gw_endpoint *peer, const struct gw_connect_opts *o)
{
    struct gw_device *dev = qp->dev;
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = gw_mtu_code(connect_pick(o->mtu, connect_smaller(peer->mtu, dev->info.mtu))),
        .dest_qp_num = peer->qpn,
        .rq_psn = peer->psn,
        .max_dest_rd_atomic =
            (uint8_t)connect_smaller(connect_pick(o->rd_atomic, 16), (uint32_t)dev->attr.max_qp_rd_atom),
        .min_rnr_timer = (uint8_t)connect_pick(o->min_rnr_timer, 12),
        .ah_attr = gw_way_to(dev, peer, o),
    };

    return qp->ops->qp_modify(qp, &a,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct gw_qp *qp, const struct gw_connect_opts *o)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_RTS,
        .timeout = (uint8_t)connect_pick(o->timeout, (uint32_t)qp->dev->settings.timeout),
        .retry_cnt = (uint8_t)connect_pick(o->retry_cnt, 7),
        .rnr_retry = (uint8_t)connect_pick(o->rnr_retry, 7),
        .sq_psn = qp->psn,
        .max_rd_atomic = (uint8_t)connect_smaller(connect_pick(o->rd_atomic, 16),
                                                  (uint32_t)qp->dev->attr.max_qp_init_rd_atom),
    };

    return qp->ops->qp_modify(qp, &a,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int gw_qp_set_state(struct gw_qp *qp, uint32_t state)
{
    if (gw_exec_kind(qp->dev->exec) != GW_EXEC_CPU)
        return gw_copy_in(qp->dev->exec, &qp->handle->state, &state, sizeof(state));
    gw_st_release_u32(&qp->handle->state, state); /* after all that made the queue pair ready */
    return 0;
}

bool gw_connect_sane(const struct gw_connect_opts *o)
{
    return o->timeout < 32 && o->retry_cnt < 8 && o->rnr_retry < 8 && o->min_rnr_timer < 32 &&
           o->service_level < 16 && (!o->mtu || (o->mtu >= 256 && o->mtu <= 4096));
}

int gw_qp_connect(struct gw_qp *qp, const struct gw_endpoint *peer, const struct gw_connect_opts *opts)
{
    const struct gw_connect_opts none = {0}, *o = opts ? opts : &none;
    const char *step = "INIT";
    int err;

    if (gw_is_ud(qp))
        return gw_error(-EINVAL, "queue pair %06x: it is for datagrams and has no peer; call gw_qp_activate",
                        gw_qp_num(qp));
    if (!gw_connect_sane(o))
        return gw_error(-EINVAL, "queue pair %06x: a connection option is out of range", gw_qp_num(qp));
    if (peer->qpn < 2 || peer->qpn > 0xffffff || peer->psn > 0xffffff || peer->mtu < 256)
        return gw_error(-EINVAL, "queue pair %06x: the peer's endpoint is not valid", gw_qp_num(qp));
    err = to_init(qp);
    if (!err) step = "RTR", err = connect_to_rtr(qp, peer, o);
    if (!err) step = "RTS", err = to_rts(qp, o);
    if (err)
        return gw_error_errno(err, "queue pair %06x: cannot go to %s towards queue pair %06x", gw_qp_num(qp),
                              step, peer->qpn);
    return gw_qp_set_state(qp, GW_QP_READY);
}

int gw_qp_activate(struct gw_qp *qp, uint32_t qkey)
{
    static const struct {
        enum ibv_qp_state state;
        int mask;
        const char *name;
    } way[] = {{IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, "INIT"},
               {IBV_QPS_RTR, 0, "RTR"},
               {IBV_QPS_RTS, IBV_QP_SQ_PSN, "RTS"}};
    struct ibv_qp_attr a = {.port_num = (uint8_t)qp->dev->info.port,
                            .pkey_index = qp->dev->pkey_index,
                            .qkey = qkey,
                            .sq_psn = qp->psn};

    if (!gw_is_ud(qp))
        return gw_error(-EINVAL, "queue pair %06x: it needs a peer; call gw_qp_connect", gw_qp_num(qp));
    for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
        int err;

        a.qp_state = way[i].state;
        err = qp->ops->qp_modify(qp, &a, IBV_QP_STATE | way[i].mask);
        if (err) return gw_error_errno(err, "queue pair %06x: cannot go to %s", gw_qp_num(qp), way[i].name);
    }
    return gw_qp_set_state(qp, GW_QP_READY_UD);
}

static int to_plain(struct gw_qp *qp, enum ibv_qp_state state, const char *name)
{
    struct ibv_qp_attr a = {.qp_state = state};
    int err = qp->ops->qp_modify(qp, &a, IBV_QP_STATE);

    return err ? gw_error_errno(err, "queue pair %06x: cannot go to %s", gw_qp_num(qp), name) : 0;
}

int gw_qp_abort(struct gw_qp *qp)
{
    return to_plain(qp, IBV_QPS_ERR, "ERR");
}

int gw_qp_reset(struct gw_qp *qp, uint32_t flags, uint64_t deadline_ns)
{
    bool quiet = flags & GW_RESET_QUIET;
    uint32_t psn;
    int err = gw_qp_set_state(qp, GW_QP_NOT_CONNECTED);

    if (!err) err = to_plain(qp, IBV_QPS_RESET, "RESET");
    if (!err) err = gw_cq_clean(qp->send_cq, gw_qp_num(qp), quiet, deadline_ns);
    if (!err && qp->recv_cq != qp->send_cq) err = gw_cq_clean(qp->recv_cq, gw_qp_num(qp), quiet, deadline_ns);
    /* Indices start again: an old slot's content must not pass for that of the next post there. */
    if (!err) err = gw_arena_clear(&qp->dev->handles, &qp->slots);
    if (!err && qp->rq.wqes) err = gw_arena_clear(&qp->dev->handles, &qp->rq_slots);
    if (err) return err;
    if (getrandom(&psn, sizeof(psn), 0) != sizeof(psn)) psn = qp->psn + 0x80000;
    qp->psn = psn & 0xffffff;
    return gw_copy_in(qp->dev->exec, qp->handle, &qp->fresh, sizeof(qp->fresh));
}

int gw_qp_fault(struct gw_qp *qp, struct gw_fault *fault)
{
    struct gw_exec *exec = qp->dev->exec;
    struct gw_qp_handle h;
    int err;

    memset(fault, 0, sizeof(*fault));
    if (gw_exec_kind(exec) == GW_EXEC_CPU) return gw_fault_of(qp->handle, fault);
    /* State first, then the rest: the poller wrote them the other way round. */
    err = gw_copy_out(exec, &h.state, &qp->handle->state, sizeof(h.state));
    if (err || h.state != GW_QP_FAULTED) return err;
    err = gw_copy_out(exec, &h, qp->handle, sizeof(h));
    return err ? err : gw_fault_of(&h, fault);
}

static const char *cause(uint32_t status)
{
    switch (status) {
    case IBV_WC_LOC_LEN_ERR:
        return "a message is longer than the receive or a region, or a datagram than the MTU";
    case IBV_WC_LOC_QP_OP_ERR:
        return "a malformed work request, or one that this type of queue pair does not know";
    case IBV_WC_LOC_PROT_ERR:
        return "a local key does not cover the buffer, or is of another protection domain";
    case IBV_WC_WR_FLUSH_ERR: return "the queue pair was taken down";
    case IBV_WC_REM_ACCESS_ERR: return "the remote key is wrong, or does not allow that address or operation";
    case IBV_WC_REM_INV_REQ_ERR:
        return "the peer does not accept such a request, or its receive is too short";
    case IBV_WC_REM_OP_ERR: return "the peer could not complete it";
    case IBV_WC_RETRY_EXC_ERR: return "the peer does not answer: it is gone, not connected, or unreachable";
    case IBV_WC_RNR_RETRY_EXC_ERR: return "the peer has posted no receive";
    case IBV_WC_FATAL_ERR: return "the NIC gave the queue pair up, or has failed itself";
    case IBV_WC_LOC_ACCESS_ERR:
        return "the NIC could not reach local memory, or not make sure that data had arrived in the GPU";
    default: return "see the vendor syndrome";
    }
}

void gw_fault_text(const struct gw_fault *f, char *text, size_t size)
{
    if (!f->status) {
        snprintf(text, size, "no error");
        return;
    }
    snprintf(text, size, "%s failed: %s (syndrome %02x, vendor %02x, WQE %u): %s",
             f->recv ? "a receive" : "a send", ibv_wc_status_str((enum ibv_wc_status)f->status), f->syndrome,
             f->vendor, f->wqe_index, cause(f->status));
}
