/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Congestion control as DCQCN does it (Zhu et al., SIGCOMM 2015). The receiver of a packet that a switch has
 * marked tells its sender, by a congestion notification packet (InfiniBand annex A17, 17.9.3). It does so
 * every 50 µs at most for one queue pair. The sender cuts its rate, by the more the more such packets came
 * lately. As long as none comes then, it goes half the way back to where it was, five times. From there on it
 * feels its way up.
 *
 * There is no limit until the first notification, and none again when the rate has grown past what any wire
 * carries. Nothing here runs by itself: what time has changed is reckoned up when a packet wants to leave.
 */
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/transport/transport.h"

#define CNP_EVERY_NS 50000u  /* as often as one is sent, and as one counts */
#define PERIOD_NS    55000u  /* of both clocks: how congested it was, and the way up */
#define BURST_NS     100000u /* clocks are coarse: how much may be made up for at once */

#define RATE_MIN  UINT64_C(8000000) /* bytes per second: a sender of notifications cannot stop a queue pair */
#define RATE_MAX  UINT64_C(12500000000)
#define RATE_STEP UINT64_C(5000000)

enum { ALPHA_ONE = 1 << 16, ALPHA_SHIFT = 8, FAST_ROUNDS = 5 };

void sn_rate_init(struct sn_qp *qp)
{
    memset(&qp->rate, 0, sizeof(qp->rate));
    qp->rate.wake_at = SN_NEVER;
}

/* ---- the receiver of marked packets -------------------------------------------------------------------- */

void sn_rate_marked(struct sn_qp *qp)
{
    struct sn_rate *r = &qp->rate;

    if (r->notified && qp->nic->now - r->notified_at < CNP_EVERY_NS) return;
    r->notified = r->notify = true;
    r->notified_at = qp->nic->now;
    sn_qp_wake(qp);
}

/* A BTH whose backward notification bit is set, and 16 bytes of nothing. */
enum sn_step sn_rate_notify(struct sn_qp *qp)
{
    struct roce_hdr h = {.opcode = ROCE_CNP, .becn = true};
    uint8_t *frame = sn_tx_begin(qp);

    if (!frame) return SN_FULL;
    memset(frame + roce_ops[ROCE_CNP].hdr_len, 0, SN_CNP_BYTES);
    sn_tx_end(qp, frame, &h, SN_CNP_BYTES);
    qp->rate.notify = false;
    sn_count(&qp->nic->count.cnp_sent, 1);
    return SN_DID;
}

/* ---- the sender ---------------------------------------------------------------------------------------- */

/* Where there was no limit, the rate was at most a window per round trip. */
static uint64_t unlimited(const struct sn_qp *qp)
{
    uint64_t bytes = (uint64_t)qp->req.window_max * qp->mtu, rate;

    if (!qp->req.srtt) return RATE_MAX;
    rate = bytes * 1000000000u / qp->req.srtt;
    return rate < RATE_MAX ? rate : RATE_MAX;
}

static void rate_raise(struct sn_rate *r)
{
    if (r->rounds < FAST_ROUNDS)
        r->rounds++;
    else
        r->target += RATE_STEP;
    r->bytes_per_s = (r->bytes_per_s + r->target) / 2;
}

/* Ends: without notifications the rate reaches its end after RATE_MAX / RATE_STEP periods or so. */
static void catch_up(struct sn_rate *r, uint64_t now)
{
    while (r->bytes_per_s && now - r->period_at >= PERIOD_NS) {
        r->period_at += PERIOD_NS;
        r->alpha -= r->alpha >> ALPHA_SHIFT;
        rate_raise(r);
        if (r->bytes_per_s >= RATE_MAX) r->bytes_per_s = 0;
    }
}

void sn_rate_cut(struct sn_qp *qp)
{
    struct sn_rate *r = &qp->rate;
    uint64_t now = qp->nic->now;

    GW_ASSERT_HELD(&qp->nic->lock);
    sn_count(&qp->nic->count.cnp_received, 1);
    catch_up(r, now);
    if (!r->bytes_per_s) {
        r->bytes_per_s = unlimited(qp);
        r->alpha = ALPHA_ONE;
    } else if (now - r->cut_at < CNP_EVERY_NS) {
        return;
    }
    r->target = r->bytes_per_s;
    r->bytes_per_s -= r->bytes_per_s * r->alpha / ALPHA_ONE / 2;
    if (r->bytes_per_s < RATE_MIN) r->bytes_per_s = RATE_MIN;
    r->alpha += (ALPHA_ONE - r->alpha) >> ALPHA_SHIFT;
    r->rounds = 0;
    r->cut_at = r->period_at = now;
}

bool sn_rate_open(struct sn_qp *qp)
{
    struct sn_rate *r = &qp->rate;

    catch_up(r, qp->nic->now);
    if (!r->bytes_per_s || r->ready_at <= qp->nic->now) return true;
    sn_timer_wake_at(qp, r->ready_at);
    return false;
}

void sn_rate_sent(struct sn_qp *qp, uint32_t bytes)
{
    struct sn_rate *r = &qp->rate;
    uint64_t now = qp->nic->now, earliest = now > BURST_NS ? now - BURST_NS : 0;

    /* Acknowledgements and the like do not wait for their turn. Were they all to count, a peer that asks for
     * enough of them could keep requests from ever having theirs. */
    if (!r->bytes_per_s || r->ready_at > now) return;
    if (r->ready_at < earliest) r->ready_at = earliest;
    r->ready_at += bytes * UINT64_C(1000000000) / r->bytes_per_s;
}
