/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of a ring for a send queue: its doorbell record says how far to go. */
#include "softnic/engine/engine.h"
#include "softnic/mem/guard.h"

static bool takes_rings(enum ibv_qp_state state)
{
    return state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE || state == IBV_QPS_ERR;
}

static void report_early(struct sn_qp *qp)
{
    if (qp->early_reported) return;
    qp->early_reported = true;
    sn_report_qp(qp, "a post does nothing: it is in %s, not yet in RTS: ibv_modify_qp it to RTS, then post",
                 sn_qp_state_text(qp->state));
}

void sn_qp_post_refused(struct sn_nic *nic, uint32_t number)
{
    struct sn_qp *qp;

    sn_nic_lock(nic);
    qp = sn_qp_find(nic, number);
    if (qp && !takes_rings(qp->state)) report_early(qp);
    sn_nic_unlock(nic);
}

void sn_sq_leave(struct sn_qp *qp)
{
    uint32_t word;

    qp->sq_left = 0;
    if (!qp->init.sq_wqebbs || sn_guard_load32(qp->init.dbrec + GW_MLX5_DBREC_SEND, &word)) return;
    qp->sq_left = (uint16_t)gw_mlx5_dbrec_count(word);
}

void sn_sq_look(struct sn_qp *qp)
{
    uint32_t word;
    uint16_t pi;

    if (!qp->init.sq_wqebbs) return;
    if (sn_guard_load32(qp->init.dbrec + GW_MLX5_DBREC_SEND, &word)) {
        sn_report_qp(qp, "its doorbell record is not mapped");
        sn_qp_fatal(qp);
        return;
    }
    pi = (uint16_t)gw_mlx5_dbrec_count(word);
    if (pi == qp->sq_pi) return;
    if (!takes_rings(qp->state)) {
        if (qp->state == IBV_QPS_RESET && pi == qp->sq_left) return;
        report_early(qp);
        return;
    }
    if ((uint16_t)(pi - qp->sq_ci) > qp->init.sq_wqebbs) {
        sn_report_qp(
            qp,
            "send doorbell record %u is more than the queue's %u WQEBBs ahead of %u, the oldest not complete",
            pi, qp->init.sq_wqebbs, qp->sq_ci);
        sn_qp_fatal(qp);
        return;
    }
    sn_ringer_at(qp, pi);
    sn_qp_wake(qp);
}
