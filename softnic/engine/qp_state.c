/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of a queue pair and the transitions between them. For each type it says which attributes a
 * transition needs and which it allows (InfiniBand architecture volume 1, table 91, as ibv_modify_qp's manual
 * page gives it).
 */
#include <errno.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/engine/engine.h"

enum {
    ALWAYS = IBV_QP_STATE | IBV_QP_CUR_STATE,
};

/* Attributes that types have or do not have. */
enum {
    RC = 1,
    UC = 2,
    UD = 4,
    XS = 8,  /* XRC_SEND */
    XR = 16, /* XRC_RECV */
    CONNECTED = RC | UC | XS | XR,
    ACKED = RC | XS | XR,
    PATH = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
    MAY_CHANGE = IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE,
};

struct transition {
    int types;
    enum ibv_qp_state from, to;
    int needs, allows;
};

static const struct transition transitions[] = {
    {CONNECTED, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {UD, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    {CONNECTED, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {UD, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    {RC | XR, IBV_QPS_INIT, IBV_QPS_RTR, PATH | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {UC | XS, IBV_QPS_INIT, IBV_QPS_RTR, PATH, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {XR, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN, MAY_CHANGE | IBV_QP_MIN_RNR_TIMER},
    {RC | XS, IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     MAY_CHANGE | IBV_QP_MIN_RNR_TIMER},
    {UC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, MAY_CHANGE},
    {UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_QKEY},
    {ACKED, IBV_QPS_RTS, IBV_QPS_RTS, 0, MAY_CHANGE | IBV_QP_MIN_RNR_TIMER},
    {UC, IBV_QPS_RTS, IBV_QPS_RTS, 0, MAY_CHANGE},
    {UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_QKEY},
    {CONNECTED | UD, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {ACKED, IBV_QPS_SQD, IBV_QPS_RTS, 0, MAY_CHANGE | IBV_QP_MIN_RNR_TIMER},
    {UC, IBV_QPS_SQD, IBV_QPS_RTS, 0, MAY_CHANGE},
    {UD, IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_QKEY},
    {ACKED, IBV_QPS_SQD, IBV_QPS_SQD, 0,
     MAY_CHANGE | IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
         IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER},
    {UC, IBV_QPS_SQD, IBV_QPS_SQD, 0, MAY_CHANGE | IBV_QP_AV | IBV_QP_PKEY_INDEX},
    {UD, IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {UC, IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS},
    {UD, IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_QKEY},
};

static int type_bit(const struct sn_qp *qp)
{
    switch (qp->init.type) {
    case IBV_QPT_UC: return UC;
    case IBV_QPT_UD: return UD;
    case IBV_QPT_XRC_SEND: return XS;
    case IBV_QPT_XRC_RECV: return XR;
    default: return RC;
    }
}

/* Any state may become RESET or ERR, with nothing else said. */
static bool qp_state_find(int type, enum ibv_qp_state from, enum ibv_qp_state to, struct transition *t)
{
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
        *t = (struct transition){type, from, to, 0, 0};
        return true;
    }
    for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
        if (transitions[i].from != from || transitions[i].to != to || !(transitions[i].types & type))
            continue;
        *t = transitions[i];
        return true;
    }
    return false;
}

/* ---- values -------------------------------------------------------------------------------------------- */

static const char *check_av(const struct sn_nic *nic, const struct ibv_ah_attr *av)
{
    if (!av->is_global) return "the address vector has no global route, and RoCE needs a GID: try -g 0";
    if (av->port_num != 1) return "the address vector's port is not 1";
    if (!sn_gid_there(nic, av->grh.sgid_index)) return "the GID index is of no GID";
    return NULL;
}

static const char *check_path(const struct sn_qp *qp, const struct ibv_qp_attr *a, int mask)
{
    const char *wrong = mask & IBV_QP_AV ? check_av(qp->nic, &a->ah_attr) : NULL;

    if (wrong) return wrong;
    if ((mask & IBV_QP_PORT) && a->port_num != 1) return "the port is not 1";
    if ((mask & IBV_QP_PKEY_INDEX) && a->pkey_index >= qp->nic->cfg.pkeys)
        return "the P_Key index is past the end of the table";
    if (mask & IBV_QP_PATH_MTU) {
        uint32_t mtu = roce_mtu_bytes(a->path_mtu);

        if (!mtu) return "the path MTU is none";
        if (mtu > qp->nic->cfg.max_mtu) return "the path MTU is larger than the port's";
    }
    if ((mask & IBV_QP_PATH_MIG_STATE) && a->path_mig_state != IBV_MIG_MIGRATED)
        return "there is no path migration";
    return NULL;
}

/* Not the access flags: the kernel's driver uses those of remote access, and looks at no other bit. */
static const char *check_limits(const struct ibv_qp_attr *a, int mask)
{
    if ((mask & IBV_QP_DEST_QPN) && a->dest_qp_num > 0xffffff)
        return "the destination QP number has more than 24 bits";
    if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && a->max_rd_atomic > SN_MAX_RD_ATOMIC)
        return "max_rd_atomic is above 16";
    if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && a->max_dest_rd_atomic > SN_MAX_RD_ATOMIC)
        return "max_dest_rd_atomic is above 16";
    if ((mask & IBV_QP_MIN_RNR_TIMER) && a->min_rnr_timer > 31) return "min_rnr_timer is above 31";
    if ((mask & IBV_QP_TIMEOUT) && a->timeout > 31) return "timeout is above 31";
    if ((mask & IBV_QP_RETRY_CNT) && a->retry_cnt > 7) return "retry_cnt is above 7";
    if ((mask & IBV_QP_RNR_RETRY) && a->rnr_retry > 7) return "rnr_retry is above 7";
    return NULL;
}

static const char *qp_state_check(const struct sn_qp *qp, const struct ibv_qp_attr *a, int mask,
                                  enum ibv_qp_state to)
{
    struct transition t;
    const char *wrong;

    if ((mask & IBV_QP_CUR_STATE) && a->cur_qp_state != qp->state) return "the current state is another";
    if (!qp_state_find(type_bit(qp), qp->state, to, &t)) return "there is no such transition";
    if (t.needs & ~mask) return "attributes are missing";
    if (mask & ~(ALWAYS | t.needs | t.allows)) return "attributes that do not belong to this transition";
    wrong = check_path(qp, a, mask);
    return wrong ? wrong : check_limits(a, mask);
}

/* ---- taking over --------------------------------------------------------------------------------------- */

static void copy_attrs(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
    if (mask & IBV_QP_ACCESS_FLAGS) to->qp_access_flags = from->qp_access_flags;
    if (mask & IBV_QP_PKEY_INDEX) to->pkey_index = from->pkey_index;
    if (mask & IBV_QP_PORT) to->port_num = from->port_num;
    if (mask & IBV_QP_AV) to->ah_attr = from->ah_attr;
    if (mask & IBV_QP_PATH_MTU) to->path_mtu = from->path_mtu;
    if (mask & IBV_QP_DEST_QPN) to->dest_qp_num = from->dest_qp_num;
    if (mask & IBV_QP_RQ_PSN) to->rq_psn = from->rq_psn & 0xffffff;
    if (mask & IBV_QP_SQ_PSN) to->sq_psn = from->sq_psn & 0xffffff;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC) to->max_rd_atomic = from->max_rd_atomic;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) to->max_dest_rd_atomic = from->max_dest_rd_atomic;
    if (mask & IBV_QP_MIN_RNR_TIMER) to->min_rnr_timer = from->min_rnr_timer;
    if (mask & IBV_QP_TIMEOUT) to->timeout = from->timeout;
    if (mask & IBV_QP_RETRY_CNT) to->retry_cnt = from->retry_cnt;
    if (mask & IBV_QP_RNR_RETRY) to->rnr_retry = from->rnr_retry;
    if (mask & IBV_QP_QKEY) to->qkey = from->qkey;
}

/* The peer that its packets will be for is met now. Packets before that go over the wire, to sockets that may
 * run full. */
static void meet_peer(struct sn_qp *qp)
{
    const struct sn_nic_config *c = &qp->nic->cfg;

    if (c->peers && qp->init.type != IBV_QPT_UD && !qp->peer.loop)
        c->peers->in_memory(c->peers_ctx, qp->peer.gid, qp->peer.qpn);
}

static void qp_state_to_rtr(struct sn_qp *qp)
{
    /* A datagram may be as long as the port's MTU. */
    qp->mtu = qp->init.type == IBV_QPT_UD ? qp->nic->cfg.max_mtu : roce_mtu_bytes(qp->attr.path_mtu);
    memset(&qp->resp, 0, sizeof(qp->resp));
    qp->resp.epsn = qp->attr.rq_psn;
    qp->resp.plain_psn = qp->resp.changed_psn = roce_psn_add(qp->resp.epsn, 0xffffff);
    meet_peer(qp);
}

static void qp_state_enter(struct sn_qp *qp, const struct ibv_qp_attr *a, int mask, enum ibv_qp_state to)
{
    enum ibv_qp_state from = qp->state;

    GW_ASSERT_HELD(&qp->nic->lock);
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) sn_qp_last_word(qp);
    if (to == IBV_QPS_RESET) {
        if (qp->nic->cfg.by_index) sn_sq_settle(qp); /* a ring from before must not count afterwards */
        sn_sq_leave(qp);
        sn_qp_forget(qp);
        return;
    }
    copy_attrs(&qp->attr, a, mask);
    if (mask & IBV_QP_AV) {
        sn_route_set(qp->nic, &qp->peer, qp->attr.ah_attr.grh.dgid.raw, qp->attr.dest_qp_num);
        sn_route_from(qp->nic, &qp->peer, qp->attr.ah_attr.grh.sgid_index, qp->attr.pkey_index);
        sn_owner_note(qp);
    }
    if (to == IBV_QPS_ERR) {
        if (from == IBV_QPS_RESET) sn_qp_set_state(qp, IBV_QPS_INIT); /* it goes on to ERR like any other */
        sn_qp_error(qp);
        return;
    }
    if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) qp_state_to_rtr(qp);
    if (from == IBV_QPS_RTR && to == IBV_QPS_RTS) sn_requester_init(qp, qp->attr.sq_psn);
    if (from == IBV_QPS_SQE && !sn_unreliable_resume(qp)) return;
    if (to == IBV_QPS_SQD && (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)) qp->sqd_notify = a->en_sqd_async_notify;
    sn_qp_set_state(qp, to);
    sn_publish_queue(qp);
    sn_qp_wake(qp);
}

int sn_qp_modify(struct sn_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    enum ibv_qp_state from, to;
    const char *wrong;

    sn_nic_lock(qp->nic);
    from = qp->state;
    to = mask & IBV_QP_STATE ? attr->qp_state : from;
    wrong = qp_state_check(qp, attr, mask, to);
    if (wrong) {
        sn_report_qp(qp, "modify from %s to %s (mask 0x%x) refused: %s", sn_qp_state_text(from),
                     sn_qp_state_text(to), (unsigned)mask, wrong);
    } else {
        qp_state_enter(qp, attr, mask, to);
        GW_CHECK(sn_qp_check(qp));
    }
    sn_nic_unlock(qp->nic);
    if (!wrong && (to == IBV_QPS_RESET || to == IBV_QPS_ERR)) sn_publish_quiesce(qp->nic);
    return wrong ? -EINVAL : 0;
}
