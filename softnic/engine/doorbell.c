/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbell pages. They are ordinary memory that programs and GPU kernels store to, so nothing announces a
 * ring: pages are looked at. A ring is taken out by exchange, so that each is seen once. It says only which
 * queue to look at. Two queue pairs may share a register, and the later ring hides the earlier. So after a
 * ring the engine looks at all that share it, too, which is called a sweep. The doorbell records say how far
 * to go, and only a ring makes the engine read them: a program that forgets to ring must not work.
 */
#include <gpuwire/detail/held.h>

#include "softnic/engine/engine.h"
#include "softnic/mem/guard.h"

/* How long a record may be ahead of the last ring before a line says so. */
#define WATCH_NS 1000000000u

/*
 * With at most FEW queue pairs to a register each ring sweeps it. Otherwise only the queue pair that the ring
 * names is checked. The others are swept now and then, so that sweeps, of a few nanoseconds for each, take a
 * small part of the time.
 */
enum { FEW = 16, SWEEP_NS = 64 };

enum { HALVES = SN_UAR_BF_COUNT * 2, HALF_WORDS = SN_UAR_BF_SIZE / 2 / 8 };

/* ---- rings --------------------------------------------------------------------------------------------- */

static void doorbell_wrong(struct sn_uar *uar, const char *what, uint32_t number)
{
    if (!sn_report_due(uar->nic, &uar->reports)) return;
    sn_report(uar->nic, "doorbell for %s 0x%06x, which does not exist or does not use that doorbell page",
              what, number);
}

/* A walk over a register's records, up to the first that is not as it was; it may end in a fault, too. */
struct walk {
    const struct sn_register *r;
    const struct sn_qp *but; /* this one is left out */
    volatile uint32_t at;
};

static void doorbell_walk(void *arg)
{
    struct walk *w = arg;

    for (uint32_t i = w->at; i < w->r->count; i++) {
        const struct sn_ringer *k = &w->r->ringers[i];

        if (k->qp == w->but) continue;
        w->at = i; /* before the access, which may be the last */
        /* Acquire: what the program wrote before it published this word is seen by reads that follow. */
        if ((uint16_t)gw_mlx5_dbrec_count(__atomic_load_n(k->record, __ATOMIC_ACQUIRE)) != k->pi) return;
    }
    w->at = w->r->count;
}

/* but: the queue pair whose ring was taken just now, by its index. If another ring hides a later ring of this
 * queue pair, that other ring is still in the register, so it comes next. */
static void doorbell_sweep(struct sn_nic *nic, struct sn_register *r, const struct sn_qp *but)
{
    struct walk w = {.r = r, .but = but};

    GW_ASSERT_HELD(&nic->lock);
    r->rung = false;
    r->swept_at = nic->now;
    for (;; w.at++) {
        (void)sn_guard_call(doorbell_walk, &w);
        if (w.at >= r->count) return;
        sn_sq_look(r->ringers[w.at].qp); /* which tells of one that cannot be read */
    }
}

/* Sweeps it now if that is due, or says when it is. */
static void sweep_in_time(struct sn_nic *nic, struct sn_register *r, const struct sn_qp *but)
{
    uint64_t due = r->count > FEW ? r->swept_at + r->count * (uint64_t)SWEEP_NS : 0;

    if (nic->now >= due)
        doorbell_sweep(nic, r, but);
    else if (!nic->sweep_at || due < nic->sweep_at)
        nic->sweep_at = due;
}

static void doorbell_sweep_all(struct sn_nic *nic)
{
    struct sn_link *it, *tmp;

    nic->sweep_at = 0;
    sn_list_each(it, tmp, &nic->uars)
    {
        struct sn_uar *uar = sn_entry(it, struct sn_uar, link);

        for (unsigned i = 0; i < SN_UAR_BF_COUNT; i++)
            if (uar->registers[i].rung) sweep_in_time(nic, &uar->registers[i], NULL);
    }
}

/* value: two big-endian words, the lower address first: the WQE's or the new index, and qpn << 8 | ds. */
static void send_ring(struct sn_uar *uar, unsigned reg, unsigned half, uint64_t value)
{
    uint32_t qpn = gw_be32((uint32_t)(value >> 32)) >> 8;
    struct sn_qp *named = sn_qp_find(uar->nic, qpn);
    struct sn_register *r = &uar->registers[reg];
    bool known = named && named->init.uar == uar, by_index = known && uar->nic->cfg.by_index;

    sn_count(&uar->nic->count.doorbells, 1);
    sn_activity(uar->nic);
    if (!known)
        doorbell_wrong(uar, "QP", qpn);
    else if (by_index)
        sn_sq_rung(named, half, value);
    else if (named->init.bfreg != reg || r->count > FEW)
        sn_sq_look(named);
    r->rung = true;
    sweep_in_time(uar->nic, r, by_index ? named : NULL);
}

static void arm_ring(struct sn_uar *uar, uint64_t value)
{
    uint32_t cqn = gw_be32((uint32_t)(value >> 32)) & 0xffffff;
    struct sn_cq *cq = sn_cq_find(uar->nic, cqn);

    sn_count(&uar->nic->count.cq_arms, 1);
    sn_activity(uar->nic);
    if (cq && cq->init.uar == uar)
        sn_cq_armed(uar, cq);
    else
        doorbell_wrong(uar, "CQ", cqn);
}

static bool doorbell_take(uint64_t *word, uint64_t *value)
{
    if (__atomic_load_n(word, __ATOMIC_RELAXED) == SN_NOT_RUNG) return false;
    /* Acquire: the records are read after the ring was seen; the ringer wrote them before it. */
    *value = __atomic_exchange_n(word, SN_NOT_RUNG, __ATOMIC_ACQ_REL);
    return *value != SN_NOT_RUNG;
}

/* sends false: the rings of send queues stay where they are. */
static void doorbell_scan(struct sn_uar *uar, bool sends)
{
    uint64_t value;

    GW_ASSERT_HELD(&uar->nic->lock);
    for (unsigned i = 0; sends && i < HALVES; i++)
        if (doorbell_take(uar->page + SN_UAR_BF / 8 + i * HALF_WORDS, &value))
            send_ring(uar, uar->merged ? 0 : i / 2, i & 1, value);
    if (doorbell_take(uar->page + SN_UAR_CQ / 8, &value)) arm_ring(uar, value);
}

void sn_doorbells(struct sn_nic *nic)
{
    struct sn_link *it, *tmp;
    bool sends = !nic->cfg.deaf || __atomic_exchange_n(&nic->heard, 0, __ATOMIC_SEQ_CST);

    sn_list_each(it, tmp, &nic->uars) doorbell_scan(sn_entry(it, struct sn_uar, link), sends);
    if (nic->sweep_at && nic->now >= nic->sweep_at) doorbell_sweep_all(nic);
}

void sn_sq_settle(struct sn_qp *qp)
{
    if (!qp->init.uar) return;
    doorbell_scan(qp->init.uar, !qp->nic->cfg.deaf);
    if (qp->ringer && sn_register_of(qp)->rung) sn_sq_look(qp);
}

/* ---- rings that are missing ---------------------------------------------------------------------------- */

int sn_record_ahead(struct sn_qp *qp)
{
    uint32_t word;
    uint16_t pi;

    if (!qp->init.sq_wqebbs || (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)) return -1;
    if (sn_guard_load32(qp->init.dbrec + GW_MLX5_DBREC_SEND, &word)) return -1;
    pi = (uint16_t)gw_mlx5_dbrec_count(word);
    return pi == qp->sq_pi ? -1 : pi;
}

void sn_report_missing_ring(struct sn_qp *qp)
{
    if (qp->missing_reported) return;
    qp->missing_reported = true;
    sn_report_qp(
        qp,
        "the send doorbell record moved from %u to %d, but the doorbell was not rung: nothing is executed",
        qp->sq_pi, sn_record_ahead(qp));
}

/*
 * On hardware a program that forgets to ring waits forever, and nothing says why. Once a second of NIC time:
 * a record that is ahead by the same count as a second ago is no post in progress.
 */
void sn_watch_records(struct sn_nic *nic)
{
    struct sn_link *it, *tmp;

    GW_ASSERT_HELD(&nic->lock);
    if (nic->now - nic->watched_at < WATCH_NS) return;
    nic->watched_at = nic->now;
    sn_list_each(it, tmp, &nic->all_qps)
    {
        struct sn_qp *qp = sn_entry(it, struct sn_qp, all_link);
        int ahead = sn_record_ahead(qp);

        if (ahead >= 0 && ahead == qp->ahead_before) sn_report_missing_ring(qp);
        qp->ahead_before = ahead;
    }
}
