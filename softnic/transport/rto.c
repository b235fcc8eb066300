/* SPDX-License-Identifier: Apache-2.0 */
/* The requester's clock: how long answers take, when one is overdue, and what is done about it. */
#include <gpuwire/detail/held.h>

#include "softnic/transport/transport.h"
#include "src/trace/trace.h"

enum { MAX_PROBES = 6 };

/* Before any answer was timed. */
#define FIRST_PROBE_NS 10000000u

void sn_requester_measure(struct sn_qp *qp)
{
    struct sn_requester *r = &qp->req;
    uint64_t rtt, off;

    r->probes = 0;
    if (!r->timing || roce_psn_diff(r->una_psn, r->timed_psn) < 0) return;
    r->timing = false;
    rtt = qp->nic->now - r->timed_at;
    if (!r->srtt) {
        r->srtt = rtt + 1;
        r->rttvar = rtt / 2;
        return;
    }
    off = rtt > r->srtt ? rtt - r->srtt : r->srtt - rtt;
    r->rttvar += off / 4 - r->rttvar / 4;
    r->srtt += rtt / 8 - r->srtt / 8;
}

/* When an answer is overdue, going by how long they take; every time that nothing came, twice as long. */
static uint64_t overdue_at(const struct sn_qp *qp)
{
    const struct sn_requester *r = &qp->req;
    uint64_t ns = r->srtt ? r->srtt + 4 * r->rttvar : FIRST_PROBE_NS;

    if (ns < qp->nic->cfg.probe_ns) ns = qp->nic->cfg.probe_ns;
    return r->probes < MAX_PROBES ? qp->nic->now + (ns << r->probes) : SN_NEVER;
}

static void set_deadline(struct sn_qp *qp)
{
    uint64_t probe = overdue_at(qp), give_up = qp->req.give_up;

    sn_timer_set(qp, probe < give_up ? probe : give_up);
}

void sn_requester_restart_timer(struct sn_qp *qp)
{
    struct sn_requester *r = &qp->req;
    uint64_t ns = roce_ack_timeout_ns(qp->attr.timeout);

    /* A program that wants no timeout means it: nothing is ever repeated by the clock then. */
    if (!ns || roce_psn_diff(r->max_psn, r->una_psn) <= 0) {
        sn_timer_set(qp, SN_NEVER);
        return;
    }
    r->give_up = qp->nic->now + ns;
    set_deadline(qp);
}

static void timed_out(struct sn_qp *qp)
{
    struct sn_requester *r = &qp->req;
    char text[SN_WHY];

    GW_TRACE(softnic, timeout, qp->number, r->una_psn, r->retries);
    sn_count(&qp->nic->count.timeouts, 1);
    qp->count.timeouts++;
    if (r->retries++ >= qp->attr.retry_cnt) {
        sn_report_qp(qp, "%s: no answer from its peer (QP 0x%06x) to PSN %u: gave up after %u repeats",
                     sn_oldest_text(qp, text), qp->attr.dest_qp_num, r->una_psn, qp->attr.retry_cnt);
        sn_sq_fail(qp, GW_MLX5_SYND_RETRY_EXC);
        return;
    }
    r->asked = false;
    r->probes = 0;
    sn_rndv_unanswered(qp, false);
    sn_requester_back(qp);
    sn_requester_restart_timer(qp);
}

/*
 * Programs set timeouts for networks and with a margin: tens of milliseconds. No later packet tells of a loss
 * at the end of a burst. The engine repeats such packets long before that, and does not count it as a repeat.
 * It counts only when the program's own time is over.
 *
 * But the peer may just not have been let run. So the oldest packet goes alone, and the answer tells, as with
 * TCP (F-RTO, RFC 5682): see sn_requester_probed.
 */
static void rto_probe(struct sn_qp *qp)
{
    struct sn_requester *r = &qp->req;
    uint32_t cur = r->cur, cur_packet = r->cur_packet, window = r->window;
    bool no_loss = r->no_loss, first = !r->probing;

    sn_count(&qp->nic->count.probes, 1);
    qp->count.probes++;
    r->probes++;
    r->asked = false;
    sn_requester_back(qp);
    r->window = window;
    r->no_loss = no_loss;
    if (first) {
        r->probed = cur;
        r->probed_packet = cur_packet;
    }
    r->probing = true;
    set_deadline(qp);
}

/* An answer that reaches past what was repeated is to what was sent before: nothing is known to be lost, and
 * all goes on where it was. Otherwise the rest is repeated, too. */
void sn_requester_probed(struct sn_qp *qp, uint32_t end)
{
    struct sn_requester *r = &qp->req;

    if (!r->probing) return;
    r->probing = false;
    if (roce_psn_diff(end, sn_requester_psn(qp)) > 0) {
        r->cur = r->probed;
        r->cur_packet = r->probed_packet;
    } else {
        sn_requester_lost(r);
    }
}

/* Either the time that a responder asked for is over, or no acknowledgement came in time. */
void sn_requester_timeout(struct sn_qp *qp)
{
    struct sn_requester *r = &qp->req;

    if (r->rnr_wait) {
        r->rnr_wait = false;
        sn_qp_wake(qp);
        return;
    }
    if (roce_psn_diff(r->max_psn, r->una_psn) <= 0) return;
    if (qp->nic->now < r->give_up)
        rto_probe(qp);
    else
        timed_out(qp);
}

void sn_timers_expire(struct sn_nic *nic)
{
    struct sn_qp *qp;

    GW_ASSERT_HELD(&nic->lock);
    while ((qp = sn_timer_due(nic))) {
        if (qp->rate.wake_at <= nic->now) {
            qp->rate.wake_at = SN_NEVER;
            sn_qp_wake(qp);
        }
        if (qp->req.deadline <= nic->now) {
            qp->req.deadline = SN_NEVER;
            sn_requester_timeout(qp);
        }
        sn_timer_again(qp);
    }
}
