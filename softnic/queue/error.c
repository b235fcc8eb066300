/* SPDX-License-Identifier: Apache-2.0 */
/* How a queue pair gets into the error states. */
#include "softnic/queue/queue.h"

void sn_qp_error(struct sn_qp *qp)
{
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
