/* SPDX-License-Identifier: Apache-2.0 */
/* What `gpuwire nic` shows of the engine. */
#include "softnic/base/clock.h"
#include "softnic/nic/introspect.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include <gpuwire/detail/held.h>

#include "softnic/engine/engine.h"
#include "softnic/mem/guard.h"

/* Places of a table looked at in one go, whether there is something or not. */
enum { STRIDE = 1024, QP_PLACES = 1 << 16 };

/* Trying again and again, since the calls that wait until a time are on a clock that people set, or unknown
 * to ThreadSanitizer. */
int sn_introspect_lock(struct sn_nic *nic, uint64_t wait_ns)
{
    const struct timespec step = {.tv_nsec = 20000};
    uint64_t until = sn_now_ns() + wait_ns;

    while (pthread_mutex_trylock(&nic->lock)) {
        if (sn_now_ns() >= until) return -ETIMEDOUT;
        nanosleep(&step, NULL);
    }
    return 0;
}

const char *sn_qp_state_text(enum ibv_qp_state state)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

    return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

const char *sn_qp_type_text(enum ibv_qp_type type)
{
    switch (type) {
    case IBV_QPT_RC: return "RC";
    case IBV_QPT_UC: return "UC";
    case IBV_QPT_UD: return "UD";
    case IBV_QPT_XRC_SEND: return "XRC_SEND";
    case IBV_QPT_XRC_RECV: return "XRC_RECV";
    default: return "?";
    }
}

/* ---- queue pairs --------------------------------------------------------------------------------------- */

static int receives_posted(const struct sn_qp *qp)
{
    uint32_t word;
    uint16_t n;

    if (!qp->init.rq_wqes) return 0;
    if (sn_guard_load32(qp->init.dbrec + GW_MLX5_DBREC_RECV, &word)) return -1;
    n = (uint16_t)(gw_mlx5_dbrec_count(word) - qp->rq_ci);
    return n <= qp->init.rq_wqes ? n : -1;
}

static void view_requester(const struct sn_qp *qp, struct sn_qp_view *v)
{
    const struct sn_requester *r = &qp->req;

    v->una_psn = r->una_psn;
    v->next_psn = r->max_psn;
    v->posted = (uint16_t)(qp->sq_pi - qp->sq_next);
    v->outstanding = r->end - r->una;
    v->reads = r->read_tail - r->read_head;
    v->window = r->window;
    v->rnr_wait = r->rnr_wait;
    v->retries = r->retries;
    v->rnr_retries = r->rnr_retries;
    v->srtt_ns = r->srtt;
}

static void view_qp(const struct sn_qp *qp, struct sn_qp_view *v)
{
    GW_ASSERT_HELD(&qp->nic->lock);
    memset(v, 0, sizeof(*v));
    v->number = qp->number;
    v->type = qp->init.type;
    v->state = qp->state;
    v->peer = qp->attr.dest_qp_num;
    memcpy(v->peer_gid, qp->peer.gid, 16);
    v->mtu = qp->mtu;
    v->send_cq = qp->init.send_cq ? qp->init.send_cq->number : 0;
    v->recv_cq = qp->init.recv_cq ? qp->init.recv_cq->number : 0;
    v->expected_psn = qp->resp.epsn;
    v->receives = receives_posted(qp);
    v->syndrome = qp->syndrome;
    v->count = qp->count;
    if (qp->line) memcpy(v->line, qp->line, SN_REPORT_LINE);
    view_requester(qp, v);
}

int sn_introspect_qps(struct sn_nic *nic, uint32_t *cursor, struct sn_qp_view *out, int max, uint64_t wait_ns)
{
    int n = 0;

    while (!n && *cursor < QP_PLACES) {
        uint32_t end = *cursor + STRIDE;

        if (sn_introspect_lock(nic, wait_ns)) return -ETIMEDOUT;
        for (; *cursor < end && *cursor < QP_PLACES && n < max; ++*cursor) {
            if (nic->qps[*cursor]) view_qp(nic->qps[*cursor], &out[n++]);
        }
        sn_nic_unlock(nic);
    }
    return n;
}

/* ---- completion queues --------------------------------------------------------------------------------- */

static void view_cq(const struct sn_cq *cq, struct sn_cq_view *v)
{
    uint32_t ci;

    GW_ASSERT_HELD(&cq->nic->lock);
    memset(v, 0, sizeof(*v));
    v->number = cq->number;
    v->entries = cq->init.cqe_count;
    v->entry_size = cq->init.cqe_size;
    v->written = cq->pi;
    if (!cq->init.ignore_overrun && !sn_guard_load32(cq->init.dbrec + GW_MLX5_DBREC_CQ_CI, &ci))
        v->unpolled = (cq->pi - gw_be32(ci)) & 0xffffff;
    v->armed = cq->armed != SN_DISARMED;
    v->dead = cq->dead;
    v->events = cq->events;
}

int sn_introspect_cqs(struct sn_nic *nic, uint32_t *cursor, struct sn_cq_view *out, int max, uint64_t wait_ns)
{
    int n = 0;

    while (!n && *cursor < SN_MAX_CQ) {
        uint32_t end = *cursor + STRIDE;

        if (sn_introspect_lock(nic, wait_ns)) return -ETIMEDOUT;
        for (; *cursor < end && *cursor < SN_MAX_CQ && n < max; ++*cursor) {
            if (nic->cqs[*cursor]) view_cq(nic->cqs[*cursor], &out[n++]);
        }
        sn_nic_unlock(nic);
    }
    return n;
}

int sn_introspect_totals(struct sn_nic *nic, struct sn_totals *out, uint64_t wait_ns)
{
    if (sn_introspect_lock(nic, wait_ns)) return -ETIMEDOUT;
    *out = (struct sn_totals){nic->qp_count, nic->cq_count, nic->mr_count, nic->pd_count, nic->mr_bytes};
    sn_nic_unlock(nic);
    return 0;
}
