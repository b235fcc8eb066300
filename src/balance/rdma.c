/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RoCEv2: which worker has a queue pair.
 *
 * A packet names its destination's queue pair, a number that the worker chose. With NAT the worker's REP
 * tells it. With direct routing and tunnels the REP does not come this way. So the client's address is
 * remembered with the worker that it is connecting to, and the first packet to an unknown number tells the
 * rest. Until then, and for some seconds more, the client's other connections go to the same worker.
 *
 * All packets of one client come to one core.
 */
#include "src/balance/rdma.h"

#include <errno.h>
#include <string.h>

#include "src/balance/choose.h"
#include "src/balance/feed.h"
#include "src/balance/forward.h"
#include "src/balance/rdma_key.h"
#include "src/balance/rewrite.h"
#include "src/roce/cm.h"
#include "src/trace/trace.h"

/* ---- the table ---- */

static bool rdma_look(struct bal_core *core, const struct bal_wide *key, struct gw_flow *at)
{
    if (gw_flow_lookup_bulk(core->wide, key, 1, at) != 1) return false;
    at->worker = bal_worker_of(at->worker);
    return true;
}

/* A queue pair is a connection, and so is one client's datagrams. The rest leads to them. */
static uint32_t rdma_entry(const struct bal_wide *key, uint16_t worker)
{
    return key->kind == BAL_W_QP || key->kind == BAL_W_DATAGRAM ? worker : bal_beside(worker);
}

static void rdma_put(struct bal_core *core, const struct bal_wide *key, uint16_t worker,
                     enum bal_flow_state state)
{
    struct gw_flow at;
    uint32_t entry = rdma_entry(key, worker);
    int evicted = gw_flow_insert(core->wide, key, entry, state, &at);
    core->burst.inserted = true;
    bal_mark_all_changed(core); /* such packets are few, and name several flows each */
    if (evicted == 1) bal_count(&core->counters->evicted, 1);
    if (evicted == -EEXIST) {
        gw_flow_set_worker(core->wide, at.slot, entry);
        gw_flow_set_state(core->wide, at.slot, state);
    }
    if (evicted >= 0 || evicted == -EEXIST) bal_tell(core, BAL_WIDE, key, worker, (uint8_t)state);
}

static void rdma_close_one(struct bal_core *core, const struct bal_wide *key)
{
    struct gw_flow at;
    if (!rdma_look(core, key, &at)) return;
    gw_flow_set_state(core->wide, at.slot, BAL_ROCE_CLOSING);
    bal_mark_all_changed(core);
    bal_tell(core, BAL_WIDE, key, at.worker, BAL_ENDED);
}

/* ---- which queue pair a connection has: for a DREQ that does not say ---- */

static uint32_t rdma_place(const struct bal_core *core, const struct bal_wide *cm, uint32_t *tag)
{
    const uint64_t *seed = core->bal->seed;
    uint64_t a[2], h = cm->x ^ (uint64_t)cm->service << 32;
    memcpy(a, cm->client, 16);
    h = bal_mix(h ^ seed[0], seed[1] | 1);
    h = bal_mix(bal_mix(h ^ a[0], seed[1] | 1) ^ a[1], seed[0] | 1);
    *tag = (uint32_t)h | 1;
    return (uint32_t)(h >> 32) % BAL_QPNS;
}

static void rdma_note_qpn(struct bal_core *core, const struct bal_wide *cm, uint32_t qpn)
{
    uint32_t tag, i = rdma_place(core, cm, &tag);
    core->qpn_of[i].tag = tag;
    core->qpn_of[i].qpn = qpn;
}

static bool rdma_noted_qpn(const struct bal_core *core, const struct bal_wide *cm, uint32_t *qpn)
{
    uint32_t tag, i = rdma_place(core, cm, &tag);
    *qpn = core->qpn_of[i].qpn;
    return core->qpn_of[i].tag == tag;
}

static void rdma_close(struct bal_core *core, struct bal_work *w, const struct bal_wide *cm, uint32_t qpn)
{
    struct bal_wide qp = bal_roce_key_of(w, BAL_W_QP, qpn);
    if (qpn || rdma_noted_qpn(core, cm, &qp.x)) rdma_close_one(core, &qp);
    rdma_close_one(core, cm);
}

/* ---- from the client ---- */

/* NAT: the request names the VIP inside, too. */
static void rdma_rewrite_request(struct bal_core *core, struct bal_work *w, uint16_t worker, uint16_t attr)
{
    enum { REQ_DGID = 96, REQ_CMA = 164, SIDR_CMA = 40, CMA_DST = 20 };
    const struct bal_addr *to = &core->snap->config.worker[worker].addr;
    const struct bal_addr *vip = &core->snap->config.service[w->service].vip;
    const uint32_t at[2] = {REQ_DGID, (attr == ROCE_CM_REQ ? REQ_CMA : SIDR_CMA) + CMA_DST};
    uint32_t n = w->m.ipv6 ? 16 : 4;
    for (int i = attr == ROCE_CM_REQ ? 0 : 1; i < 2; i++) {
        uint32_t field = BAL_MAD_AT + at[i] + 16 - n; /* IPv4: the last four bytes */
        if (memcmp(w->p->data + w->m.l4 + 8 + field, vip->byte, n)) continue;
        bal_roce_change(w->p->data, &w->m, field, to->byte, n);
    }
}

static void rdma_send_on(struct bal_core *core, struct bal_work *w, uint16_t worker, uint16_t attr)
{
    if (w->side == BAL_FROM_CLIENT && (attr == ROCE_CM_REQ || attr == ROCE_CM_SIDR_REQ))
        rdma_rewrite_request(core, w, worker, attr);
    bal_to_worker(core, w, worker);
}

static uint16_t rdma_choose(struct bal_core *core, struct bal_work *w)
{
    uint16_t worker = bal_choose(core, w->service, bal_row(core->snap, w->service, w->client, w->m.ipv6, 0));
    if (worker == BAL_NO_WORKER)
        bal_drop(core, w, BAL_DROP_NO_WORKER);
    else
        bal_opened(core, worker);
    return worker;
}

static void rdma_request(struct bal_core *core, struct bal_work *w)
{
    struct bal_wide peer = bal_roce_key_of(w, BAL_W_PEER, 0);
    struct gw_flow at;
    uint16_t worker = w->found.worker;
    bool there = w->found.slot != GW_FLOW_NONE && bal_keeps(core->snap, worker, w->service);
    /* Of a connection that lives it is an old copy. Or the number is used again: that worker will do, if it
     * is up. */
    bool again = there && (w->found.state == BAL_ROCE_OPENING ||
                           (w->found.state == BAL_ROCE_LIVE && bal_is_up(core->snap, worker)));
    if (!again) {
        bool blind = w->side == BAL_CLIENT_ONLY && rdma_look(core, &peer, &at);
        if (blind && bal_is_up(core->snap, at.worker) && bal_keeps(core->snap, at.worker, w->service)) {
            worker = at.worker;
            bal_opened(core, worker);
        } else {
            worker = rdma_choose(core, w);
        }
        if (worker == BAL_NO_WORKER) return;
        GW_TRACE(balance, opened, w->client, w->m.ipv6, w->client_port, w->service, worker, BAL_ROCE_OPENING);
        rdma_put(core, &w->wide, worker, BAL_ROCE_OPENING);
    }
    if (w->side == BAL_CLIENT_ONLY) rdma_put(core, &peer, worker, BAL_ROCE_OPENING);
    rdma_send_on(core, w, worker, ROCE_CM_REQ);
}

/* Messages after a request: RTU, DREQ, DREP, REJ, MRA. */
static void rdma_later_message(struct bal_core *core, struct bal_work *w, const struct roce_cm *cm)
{
    uint16_t worker = w->found.worker;
    if (w->found.slot == GW_FLOW_NONE) {
        struct bal_wide qp = bal_roce_key_of(w, BAL_W_QP, cm->qpn);
        struct gw_flow at;
        if (cm->attr != ROCE_CM_DREQ || !rdma_look(core, &qp, &at)) {
            bal_drop(core, w, BAL_DROP_QP);
            return;
        }
        worker = at.worker;
    }
    if (!bal_keeps(core->snap, worker, w->service)) {
        bal_drop(core, w, BAL_DROP_QP);
        return;
    }
    if (cm->attr == ROCE_CM_DREQ || cm->attr == ROCE_CM_DREP || cm->attr == ROCE_CM_REJ)
        rdma_close(core, w, &w->wide, cm->attr == ROCE_CM_DREQ ? cm->qpn : 0);
    else if (cm->attr == ROCE_CM_RTU)
        rdma_put(core, &w->wide, worker, BAL_ROCE_LIVE);
    rdma_send_on(core, w, worker, cm->attr);
}

static void rdma_datagram(struct bal_core *core, struct bal_work *w, uint16_t attr)
{
    uint16_t worker = w->found.worker;
    bool there = w->found.slot != GW_FLOW_NONE && bal_keeps(core->snap, worker, w->service);
    if (!there) {
        worker = rdma_choose(core, w);
        if (worker == BAL_NO_WORKER) return;
    }
    if (!there || w->found.state != BAL_UDP_STREAM)
        rdma_put(core, &w->wide, worker, there ? BAL_UDP_STREAM : BAL_UDP_NEW);
    rdma_send_on(core, w, worker, attr);
}

static void rdma_queue_pair(struct bal_core *core, struct bal_work *w)
{
    uint16_t worker = w->found.worker;
    if (w->found.slot == GW_FLOW_NONE && w->side == BAL_CLIENT_ONLY) {
        struct bal_wide peer = bal_roce_key_of(w, BAL_W_PEER, 0);
        if (rdma_look(core, &peer, &w->found)) {
            worker = w->found.worker;
            rdma_put(core, &w->wide, worker, BAL_UNPROVEN); /* a stranger may name any number */
            rdma_put(core, &peer, worker, BAL_ROCE_CLOSING);
            rdma_look(core, &w->wide, &w->found);
        }
    }
    if (w->found.slot != GW_FLOW_NONE && w->found.state == BAL_UNPROVEN &&
        !bal_random_below(&core->choice, BAL_LOT))
        rdma_put(core, &w->wide, worker, BAL_ROCE_LIVE);
    /* A queue pair lives on one worker, and dies with it. */
    if (w->found.slot == GW_FLOW_NONE || !bal_keeps(core->snap, worker, w->service))
        bal_drop(core, w, BAL_DROP_QP);
    else
        bal_to_worker(core, w, worker);
}

/* ---- from the worker ---- */

static void rdma_from_worker(struct bal_core *core, struct bal_work *w, const struct roce_cm *cm)
{
    if (cm && cm->attr == ROCE_CM_REP) {
        struct bal_wide qp = bal_roce_key_of(w, BAL_W_QP, cm->qpn);
        rdma_put(core, &qp, w->back, BAL_ROCE_LIVE);
        rdma_note_qpn(core, &w->wide, cm->qpn);
    }
    if (cm && (cm->attr == ROCE_CM_DREQ || cm->attr == ROCE_CM_DREP || cm->attr == ROCE_CM_REJ))
        rdma_close(core, w, &w->wide, 0);
    bal_to_client(core, w, w->back);
}

/* Of the services that the worker's address serves, the one with this flow. */
static void rdma_find_answered(struct bal_core *core, struct bal_work *w)
{
    for (uint16_t b = w->back; b != BAL_NO_WORKER; b = core->snap->next_back[b]) {
        w->wide.service = core->snap->config.worker[b].service;
        if (!rdma_look(core, &w->wide, &w->found) || w->found.worker != b) continue;
        w->back = b;
        w->service = w->wide.service;
        return;
    }
    w->wide.service = w->service;
}

void bal_roce(struct bal_core *core, struct bal_work *w)
{
    struct roce_cm cm;
    const uint8_t *mad = bal_roce_mad(w);
    bool is_cm = mad && !roce_cm_parse(mad, &cm);
    w->found.worker = bal_worker_of(w->found.worker);
    if (w->side == BAL_FROM_WORKER) {
        if (core->snap->next_back[w->back] != BAL_NO_WORKER) rdma_find_answered(core, w);
        rdma_from_worker(core, w, is_cm ? &cm : NULL);
    } else if (w->wide.kind == BAL_W_DATAGRAM) {
        rdma_datagram(core, w, is_cm ? cm.attr : 0);
    } else if (w->wide.kind == BAL_W_QP) {
        rdma_queue_pair(core, w);
    } else if (cm.attr == ROCE_CM_REQ) {
        rdma_request(core, w);
    } else {
        rdma_later_message(core, w, &cm);
    }
}
