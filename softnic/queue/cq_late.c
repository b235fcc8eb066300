/* SPDX-License-Identifier: Apache-2.0 */
/* Completions, at once or, in hostile mode, late: all wait in one line for a random time. */
#include <errno.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/queue/queue.h"

/* A completion is late by up to this. */
#define LATE_NS 8000u

static struct sn_late_cqe *late_at(struct sn_nic *nic, uint32_t i)
{
    return &nic->late[i % SN_LATE_CQES];
}

void sn_cq_release_late(struct sn_nic *nic, bool all)
{
    GW_ASSERT_HELD(&nic->lock);
    while (nic->late_head != nic->late_tail) {
        struct sn_late_cqe *l = late_at(nic, nic->late_head);

        if (l->qp && !all && l->due > nic->now) return;
        nic->late_head++;
        if (l->qp) sn_cq_post_now(l->cq, l->qp, &l->wc, l->scatter, l->scatter_len);
    }
}

/* After a QP is destroyed or reset nothing may be written for it: its program has taken its entries out of
 * the CQ. */
void sn_cq_drop_late(struct sn_qp *qp)
{
    struct sn_nic *nic = qp->nic;

    GW_ASSERT_HELD(&nic->lock);
    /* Its program, when it takes this queue pair's entries out, gives the WQEs that they name back. */
    if ((qp->init.srq || qp->init.xrcd) && nic->late) sn_cq_release_late(nic, true);
    for (uint32_t i = nic->late_head; i != nic->late_tail; i++)
        if (late_at(nic, i)->qp == qp) late_at(nic, i)->qp = NULL;
}

void sn_cq_drop_late_uidx(struct sn_cq *cq, uint32_t uidx)
{
    struct sn_nic *nic = cq->nic;

    GW_ASSERT_HELD(&nic->lock);
    for (uint32_t i = nic->late_head; i != nic->late_tail; i++) {
        struct sn_late_cqe *l = late_at(nic, i);

        if (l->cq == cq && l->wc.uidx == uidx) l->qp = NULL;
    }
}

/* All CQs' entries stand in one line, so those of each CQ stay in order. */
static void cq_late_hold(struct sn_cq *cq, struct sn_qp *qp, const struct gw_mlx5_wc *wc, const void *scatter,
                         uint32_t len)
{
    struct sn_nic *nic = cq->nic;
    struct sn_late_cqe *l;

    GW_ASSERT_HELD(&nic->lock);
    if (nic->late_tail - nic->late_head == SN_LATE_CQES) sn_cq_release_late(nic, true);
    GW_ASSERT(nic->late_tail - nic->late_head < SN_LATE_CQES && len <= sizeof(l->scatter));
    l = late_at(nic, nic->late_tail++);
    l->cq = cq;
    l->qp = qp;
    l->wc = *wc;
    l->due = nic->now + sn_random_below(nic, LATE_NS);
    l->scatter_len = len;
    if (len) memcpy(l->scatter, scatter, len);
}

int sn_cq_post(struct sn_cq *cq, struct sn_qp *qp, const struct gw_mlx5_wc *wc, const void *scatter,
               uint32_t len)
{
    if (!cq->nic->late) return sn_cq_post_now(cq, qp, wc, scatter, len);
    if (cq->dead) {
        if (qp->state != IBV_QPS_ERR) sn_qp_fatal(qp);
        return -EOVERFLOW;
    }
    cq_late_hold(cq, qp, wc, scatter, len);
    return 0;
}
