/* SPDX-License-Identifier: Apache-2.0 */
/* Receive queues: they have a doorbell record but no doorbell; it is read when a receive WQE is needed. */
#include <errno.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/mem/guard.h"
#include "softnic/queue/queue.h"

/* Receive WQEs posted and not used. Negative: the record cannot be right, or cannot be read. */
static int rq_available(struct sn_qp *qp)
{
    uint32_t word;
    uint16_t n;

    if (!qp->init.rq_wqes) return 0;
    if (sn_guard_load32(qp->init.dbrec + GW_MLX5_DBREC_RECV, &word)) return -EFAULT;
    n = (uint16_t)(gw_mlx5_dbrec_count(word) - qp->rq_ci);
    if (n <= qp->init.rq_wqes) return n;
    if (!qp->rq_bad) {
        sn_report_qp(
            qp,
            "receive doorbell record %u is more than the queue's %u WQEs ahead of %u, the next to be used",
            gw_mlx5_dbrec_count(word), qp->init.rq_wqes, qp->rq_ci);
    }
    qp->rq_bad = true;
    return -EINVAL;
}

bool sn_rq_waiting(struct sn_qp *qp)
{
    return rq_available(qp) > 0;
}

struct parse_args {
    struct sn_qp *qp;
    int result;
};

static void rq_parse(void *arg)
{
    struct parse_args *a = arg;
    struct sn_qp *qp = a->qp;

    a->result =
        gw_mlx5_rwqe_parse(&qp->resp.wqe, qp->init.rq_buf, qp->init.rq_wqes, qp->init.rq_stride, qp->rq_ci);
}

int sn_rq_fetch(struct sn_qp *qp)
{
    struct parse_args a = {qp, -EINVAL};
    int n;

    GW_ASSERT_HELD(&qp->nic->lock);
    if (sn_rq_shared(qp)) return sn_srq_take(sn_rq_shared(qp), qp);
    n = rq_available(qp);
    if (n <= 0) return n;
    if (sn_guard_call(rq_parse, &a)) {
        sn_report_qp(qp, "its receive queue is not mapped");
        return -EFAULT;
    }
    qp->resp.has_wqe = true;
    qp->resp.received = 0;
    sn_cursor_reset(&qp->resp.cursor);
    if (a.result >= 0) return 1;
    sn_count(&qp->nic->count.bad_wqes, 1);
    sn_report_qp(qp, "receive WQE %u: %s", qp->rq_ci, gw_mlx5_why_text(qp->resp.wqe.why));
    return a.result;
}

int sn_rq_complete(struct sn_qp *qp, struct gw_mlx5_wc *wc, const void *scatter, uint32_t len)
{
    struct sn_srq *srq = sn_rq_shared(qp);
    bool xrc = srq && srq->init.cq;

    GW_ASSERT_HELD(&qp->nic->lock);
    wc->qpn = qp->number;
    wc->uidx = xrc ? srq->init.uidx : qp->init.uidx;
    if (qp->init.type != IBV_QPT_UD) wc->src_qp = qp->attr.dest_qp_num;
    wc->timestamp = qp->nic->now;
    wc->wqe_counter = srq ? qp->resp.entry : qp->rq_ci++;
    qp->resp.has_wqe = false;
    return sn_cq_post(xrc ? srq->init.cq : qp->init.recv_cq, qp, wc, scatter, len);
}

void sn_rq_fail(struct sn_qp *qp, uint8_t syndrome)
{
    struct gw_mlx5_wc wc;

    memset(&wc, 0, sizeof(wc));
    wc.opcode = GW_MLX5_CQE_RESP_ERR;
    wc.syndrome = syndrome;
    wc.vendor = syndrome == GW_MLX5_SYND_LOCAL_PROT ? 0 : sn_vendor_error(syndrome);
    sn_rq_complete(qp, &wc, NULL, 0);
}

/* In ERR. The message that was under way loses its WQE first. false: none left. */
bool sn_rq_flush_one(struct sn_qp *qp)
{
    GW_ASSERT_HELD(&qp->nic->lock);
    if (sn_rq_shared(qp) ? !qp->resp.has_wqe : rq_available(qp) <= 0) return false;
    sn_rq_fail(qp, GW_MLX5_SYND_FLUSHED);
    return true;
}
