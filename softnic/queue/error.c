/* SPDX-License-Identifier: Apache-2.0 */
/* How a queue pair gets into the error states. */
#include <gpuwire/detail/held.h>

#include "softnic/queue/queue.h"

void sn_qp_error(struct sn_qp *qp)
{
    GW_ASSERT_HELD(&qp->nic->lock);
    if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RESET) return;
    /* From the flush on the memory is the program's again. */
    if (qp->req.early.batched) sn_settle(qp->nic);
    sn_qp_set_state(qp, IBV_QPS_ERR);
    sn_publish_queue(qp);
    sn_place_drop(qp);
    sn_timer_remove(qp);
    qp->req.deadline = qp->rate.wake_at = SN_NEVER;
    qp->rate.notify = false;
    qp->resp.ack_pending = qp->resp.nak_pending = false;
    sn_list_del(&qp->err_link);
    sn_list_add(&qp->nic->errs, &qp->err_link);
    sn_qp_wake(qp);
}

void sn_qp_send_error(struct sn_qp *qp)
{
    GW_ASSERT_HELD(&qp->nic->lock);
    if (sn_qp_reliable(qp))
        sn_qp_error(qp);
    else if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD)
        sn_qp_set_state(qp, IBV_QPS_SQE);
    sn_qp_wake(qp);
}

void sn_qp_fatal(struct sn_qp *qp)
{
    if (qp->state == IBV_QPS_ERR) return;
    sn_qp_error(qp);
    if (qp->nic->cfg.async_event)
        qp->nic->cfg.async_event(qp->nic->cfg.user, IBV_EVENT_QP_FATAL, qp->init.user);
}

/*
 * NVIDIA publishes no list. These are the codes that users of mlx5 devices have reported beside each
 * syndrome, again and again and from several programs (docs/softnic-verbs.md names the reports). Of others
 * none was seen.
 */
uint8_t sn_vendor_error(uint8_t syndrome)
{
    switch (syndrome) {
    case GW_MLX5_SYND_LOCAL_PROT: return 0x51;
    case GW_MLX5_SYND_FLUSHED: return 0xf9;
    case GW_MLX5_SYND_REM_INV_REQ: return 0x8a;
    case GW_MLX5_SYND_REM_ACCESS: return 0x88;
    case GW_MLX5_SYND_REM_OP: return 0x89;
    case GW_MLX5_SYND_RETRY_EXC: return 0x81;
    default: return 0;
    }
}
