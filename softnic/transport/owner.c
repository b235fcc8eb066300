/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is at the other end. On one host an address and a slot name the process that has the slot at the
 * moment. When a peer has ended, another process may take its slot, also one of another user. So a queue
 * pair remembers the process that had the slot when it was connected, and speaks to no other.
 */
#include <gpuwire/detail/held.h>

#include "softnic/transport/transport.h"

/* How often to look: what is sent before the next look may reach a process that has just taken the slot. */
#define LOOK_NS 500000u

/* How long a peer's last packets may lie in the socket after its end was noticed. */
#define LATE_NS 10000000u

static struct sn_owner owner_ask(const struct sn_qp *qp)
{
    const struct sn_nic_config *c = &qp->nic->cfg;

    return c->wire->owner(c->wire_ctx, qp->peer.gid, qp->peer.qpn);
}

void sn_owner_note(struct sn_qp *qp)
{
    qp->owner = (struct sn_owner){.kind = SN_OWNER_UNKNOWN};
    qp->owner_look = SN_NEVER;
    if (qp->init.type == IBV_QPT_UD || qp->peer.loop || qp->peer.stray || !qp->nic->cfg.wire->owner) return;
    qp->owner = owner_ask(qp);
    if (qp->owner.kind != SN_OWNER_UNKNOWN) qp->owner_look = qp->nic->now + LOOK_NS;
}

/* The connection ends as one whose peer does not answer. */
static void owner_fail(struct sn_qp *qp, struct sn_owner now)
{
    sn_report_qp(
        qp,
        "the connection is over: its peer (QP 0x%06x) has ended, and a process of user %u has its slot "
        "(UDP port %u) now",
        qp->peer.qpn, now.uid, SN_SLOT_PORT + (qp->peer.qpn >> 16));
    if (sn_qp_reliable(qp) && qp->req.una != qp->req.end) sn_sq_fail(qp, GW_MLX5_SYND_RETRY_EXC);
    sn_qp_fatal(qp);
}

/* Memory that is shared with a process leads to no other. */
static bool is_in_memory(const struct sn_qp *qp)
{
    const struct sn_nic_config *c = &qp->nic->cfg;

    return c->peers && c->peers->in_memory(c->peers_ctx, qp->peer.gid, qp->peer.qpn);
}

bool sn_owner_look(struct sn_qp *qp)
{
    struct sn_owner now;

    GW_ASSERT_HELD(&qp->nic->lock);
    qp->owner_look = qp->nic->now + LOOK_NS;
    if (is_in_memory(qp)) return true;
    now = owner_ask(qp);
    if (!qp->peer.gone && sn_same_owner(now, qp->owner)) return true;
    if (now.kind == SN_OWNER_PROCESS) {
        owner_fail(qp, now);
        return false;
    }
    /* Gone: it is not there to answer, and retries will find that out. The next owner gets nothing. */
    if (!qp->peer.gone) qp->gone_at = qp->nic->now;
    qp->peer.gone = true;
    qp->owner_look = 0;
    return true;
}

bool sn_owner_sent(struct sn_qp *qp, const struct sn_frame *f)
{
    if (f->no_icrc) return true; /* it came over memory */
    if (!sn_owner_stays(qp)) return false;
    return !qp->peer.gone || qp->nic->now - qp->gone_at < LATE_NS;
}
