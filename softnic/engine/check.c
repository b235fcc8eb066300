/* SPDX-License-Identifier: Apache-2.0 */
/* Looks whether the NIC's parts agree with each other, in builds that check assertions. */
#ifdef GW_ASSERTS
#include <gpuwire/detail/held.h>

#include "softnic/engine/engine.h"

/* Timers: each queue pair knows its place, and none is due before the one above it. */
static void heap_check(const struct sn_nic *nic)
{
    GW_ASSERT(nic->heap_len <= nic->heap_room && nic->heap_len <= nic->qp_count);
    for (uint32_t i = 0; i < nic->heap_len; i++) {
        GW_ASSERT(nic->heap[i]->heap_at == i + 1);
        GW_ASSERT(nic->heap[(i - (i > 0)) / 2]->heap_time <= nic->heap[i]->heap_time);
    }
}

static void timer_check(const struct sn_qp *qp)
{
    uint64_t first = qp->req.deadline < qp->rate.wake_at ? qp->req.deadline : qp->rate.wake_at;

    if (first != SN_NEVER) GW_ASSERT(qp->heap_at && qp->heap_time <= first);
}

/* In hostile mode: what is held back. */
static void late_check(const struct sn_nic *nic)
{
    GW_ASSERT(nic->late_tail - nic->late_head <= SN_LATE_CQES);
    GW_ASSERT(nic->held_count <= SN_PLACE_PIECES && nic->held_used <= SN_PLACE_BYTES);
    GW_ASSERT(nic->behind_count <= SN_PIECES_BEHIND);
}

void sn_qp_check(const struct sn_qp *qp)
{
    const struct sn_nic *nic = qp->nic;

    GW_ASSERT(nic->qps[qp->number & 0xffff] == qp && !sn_list_empty(&qp->all_link));
    GW_ASSERT(sn_list_empty(&qp->err_link) == (qp->state != IBV_QPS_ERR));
    GW_ASSERT(!qp->parked || !sn_list_empty(&qp->run_link));
    GW_ASSERT(qp->copy_waits || sn_list_empty(&qp->copy_wait_link));
    GW_ASSERT(qp->dirty_count <= SN_DIRTY_MRS);
    GW_ASSERT(!qp->ringer || sn_register_of((struct sn_qp *)qp)->ringers[qp->ringer - 1].qp == qp);
    GW_ASSERT(!qp->ringer || sn_register_of((struct sn_qp *)qp)->ringers[qp->ringer - 1].pi == qp->sq_pi);
    timer_check(qp);
    sn_sq_check(qp);
    sn_requester_check(qp);
    sn_responder_check(qp);
}

void sn_nic_check(const struct sn_nic *nic)
{
    unsigned qps = 0, ringable = 0, held = 0;

    GW_ASSERT_HELD(&nic->lock);
    for (const struct sn_link *it = nic->all_qps.next; it != &nic->all_qps; it = it->next) {
        const struct sn_qp *qp = sn_entry(it, const struct sn_qp, all_link);

        sn_qp_check(qp);
        qps++;
        ringable += qp->ringable;
        held += qp->held;
    }
    GW_ASSERT(qps == nic->qp_count && held == nic->held_count);
    GW_ASSERT(ringable == nic->ringable);
    GW_ASSERT(nic->objects >=
              qps + nic->cq_count + nic->srq_count + nic->mr_count + nic->pd_count + nic->uar_count);
    GW_ASSERT(nic->tx.tail - nic->tx.head <= SN_TX_FRAMES && nic->loop.tail - nic->loop.head <= SN_TX_FRAMES);
    GW_ASSERT(!nic->direct.peer); /* a thread that leaves the NIC has ended all copies */
    heap_check(nic);
    late_check(nic);
}
#endif
