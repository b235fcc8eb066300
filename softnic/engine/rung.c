/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meaning of a ring for a send queue: its doorbell record says how far to go.
 *
 * A NIC may go by the index in the ring itself. With `by_index` this one does. A ring that comes after a
 * newer one would then take the queue back: it ends the queue pair with a line. A NIC gets every ring. Here a
 * later ring of the same register hides an earlier one, so for queue pairs that a ring does not name the
 * record counts still.
 */
#include <gpuwire/detail/held.h>

#include "softnic/engine/engine.h"
#include "softnic/mem/guard.h"
#include "src/trace/trace.h"

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

/* False: there is none, or none that can be read. */
static bool read_record(struct sn_qp *qp, uint16_t *pi)
{
    uint32_t word;

    if (!qp->init.sq_wqebbs) return false;
    if (sn_guard_load32(qp->init.dbrec + GW_MLX5_DBREC_SEND, &word)) {
        sn_report_qp(qp, "its doorbell record is not mapped");
        sn_qp_fatal(qp);
        return false;
    }
    *pi = (uint16_t)gw_mlx5_dbrec_count(word);
    return true;
}

/* Counters mod 2^16; a queue has half of that at most. */
static bool is_behind(uint16_t a, uint16_t b)
{
    return a != b && (uint16_t)(b - a) < 0x8000;
}

/* Everything up to pi is posted. */
static void go_to(struct sn_qp *qp, uint16_t pi)
{
    GW_ASSERT_HELD(&qp->nic->lock);
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
    /* Each ringer rings before the next one writes its record. So what rings for less has been rung over. */
    for (unsigned half = 0; half < 2; half++)
        if (is_behind(qp->sq_rung[half], qp->sq_pi)) qp->sq_rung[half] = qp->sq_pi;
    GW_TRACE(softnic, doorbell, qp->number, qp->sq_pi, pi);
    sn_ringer_at(qp, pi);
    sn_qp_wake(qp);
}

void sn_sq_look(struct sn_qp *qp)
{
    uint16_t pi;

    if (read_record(qp, &pi)) go_to(qp, pi);
}

/* The next index or, if there is a size, the index of a WQE of that size. */
static uint16_t rung_end_of(uint64_t ring)
{
    uint32_t ds = gw_be32((uint32_t)(ring >> 32)) & 0x3f;

    return (uint16_t)((gw_be32((uint32_t)ring) >> 8) + gw_mlx5_wqebbs(ds));
}

void sn_sq_rung(struct sn_qp *qp, unsigned half, uint64_t ring)
{
    uint16_t end = rung_end_of(ring), record;

    if (!read_record(qp, &record)) return;
    if (!takes_rings(qp->state)) {
        go_to(qp, record);
    } else if (is_behind(end, qp->sq_rung[half])) {
        sn_report_qp(qp, "a ring for index %u came after the ring for index %u: posters must ring in order",
                     end, qp->sq_rung[half]);
        sn_qp_fatal(qp);
    } else if (is_behind(record, end)) {
        sn_report_qp(qp, "a ring for index %u, but its doorbell record says %u: write the record first", end,
                     record);
        sn_qp_fatal(qp);
    } else {
        if (is_behind(qp->sq_pi, end)) go_to(qp, end);
        qp->sq_rung[half] = end;
    }
}
