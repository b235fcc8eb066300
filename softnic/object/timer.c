/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers: one per queue pair, in a binary heap. A deadline that moves away, as every acknowledgement makes
 * it, leaves the heap alone; when the old time comes the queue pair goes to its new place.
 */
#include <gpuwire/detail/held.h>

#include "softnic/object/nic.h"

static void timer_put(struct sn_nic *nic, uint32_t i, struct sn_qp *qp)
{
    nic->heap[i] = qp;
    qp->heap_at = i + 1;
}

static void sift_up(struct sn_nic *nic, uint32_t i)
{
    struct sn_qp *qp = nic->heap[i];

    while (i && nic->heap[(i - 1) / 2]->heap_time > qp->heap_time) {
        timer_put(nic, i, nic->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    timer_put(nic, i, qp);
}

static void sift_down(struct sn_nic *nic, uint32_t i)
{
    struct sn_qp *qp = nic->heap[i];

    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child + 1 < nic->heap_len && nic->heap[child + 1]->heap_time < nic->heap[child]->heap_time)
            child++;
        if (child >= nic->heap_len || nic->heap[child]->heap_time >= qp->heap_time) break;
        timer_put(nic, i, nic->heap[child]);
        i = child;
    }
    timer_put(nic, i, qp);
}

void sn_timer_remove(struct sn_qp *qp)
{
    struct sn_nic *nic = qp->nic;
    uint32_t i = qp->heap_at - 1;

    GW_ASSERT_HELD(&nic->lock);
    if (!qp->heap_at) return;
    GW_ASSERT(i < nic->heap_len && nic->heap[i] == qp);
    qp->heap_at = 0;
    if (i == --nic->heap_len) return;
    timer_put(nic, i, nic->heap[nic->heap_len]);
    sift_up(nic, i);
    sift_down(nic, i);
}

/* Its turn comes at that time at the latest. */
static void timer_look_at(struct sn_qp *qp, uint64_t at)
{
    struct sn_nic *nic = qp->nic;

    GW_ASSERT_HELD(&nic->lock);
    if (at == SN_NEVER || (qp->heap_at && qp->heap_time <= at)) return;
    qp->heap_time = at;
    GW_ASSERT(qp->heap_at || nic->heap_len < nic->heap_room);
    if (!qp->heap_at) timer_put(nic, nic->heap_len++, qp);
    sift_up(nic, qp->heap_at - 1);
}

void sn_timer_set(struct sn_qp *qp, uint64_t deadline)
{
    qp->req.deadline = deadline;
    timer_look_at(qp, deadline);
}

void sn_timer_wake_at(struct sn_qp *qp, uint64_t at)
{
    qp->rate.wake_at = at;
    timer_look_at(qp, at);
}

struct sn_qp *sn_timer_due(struct sn_nic *nic)
{
    struct sn_qp *qp = nic->heap_len ? nic->heap[0] : NULL;

    GW_ASSERT_HELD(&nic->lock);
    if (!qp || qp->heap_time > nic->now) return NULL;
    sn_timer_remove(qp);
    return qp;
}

void sn_timer_again(struct sn_qp *qp)
{
    timer_look_at(qp, qp->req.deadline);
    timer_look_at(qp, qp->rate.wake_at);
}

/* May be too early, when the first deadline has moved; never too late. */
uint64_t sn_timer_next(const struct sn_nic *nic)
{
    return nic->heap_len ? nic->heap[0]->heap_time : SN_NEVER;
}
