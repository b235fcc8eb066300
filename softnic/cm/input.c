/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages received. A message about a connection counts only if it is the peer's, which origin.c decides,
 * and fits the state. Otherwise it is dropped, or answered as if there were no connection.
 */
#include <string.h>
#include <sys/socket.h>

#include <gpuwire/detail/held.h>

#include "softnic/cm/core.h"

enum { TRANSPORT_RC = 0, TRANSPORT_UC = 1, MTU_256 = 1 };

/* ---- requests ------------------------------------------------------------------------------------------ */

static struct cm_id *by_remote(struct cm *cm, const uint8_t *from, uint32_t remote_id)
{
    for (uint32_t i = 0; i < cm->high; i++) {
        struct cm_id *id = cm->ids[i];

        if (id && id->local_id && !id->active && id->remote_id == remote_id && !memcmp(id->peer, from, 16))
            return id;
    }
    return NULL;
}

/* The peer has not seen our answer. */
static void repeated_request(struct cm_id *id)
{
    if (id->state == CM_REQ_RCVD)
        cm_send_mra(id, ROCE_ABOUT_REQ);
    else if (id->state == CM_REP_SENT || id->state == CM_SIDR_RCVD || id->state == CM_ENDED)
        cm_say_again(id);
}

static void addresses(struct cm_id *id, const struct roce_cma_hdr *h, uint16_t port)
{
    id->src.family = id->dst.family = h->ipv6 ? AF_INET6 : AF_INET;
    /* The GIDs rather than what the header says: an IPv4 address is the end of one. */
    memcpy(id->src.gid, id->nic->gid, 16);
    memcpy(id->dst.gid, id->peer, 16);
    id->src.port = port;
    id->dst.port = h->port;
}

struct cm_id *cm_child(struct cm_id *listener, const struct cm_nic *nic, const struct cm_origin *from,
                       const struct roce_cm *m, const struct roce_cma_hdr *h)
{
    struct cm_id *id = listener->backlog ? cm_id_new(listener->cm, listener->file) : NULL;

    if (!id) return NULL;
    id->nic = nic;
    if (cm_id_begin(id)) {
        cm_id_free(id);
        return NULL;
    }
    id->ps = listener->ps;
    id->qp_type = listener->qp_type;
    id->tos = listener->tos;
    id->tid = m->tid;
    id->remote_id = m->local_id;
    id->service_id = m->service_id;
    memcpy(id->peer, from->gid, 16);
    id->same_host = cm_is_same_host(from);
    addresses(id, h, listener->src.port);
    id->traffic_class = listener->tos;
    id->hop_limit = CM_HOP_LIMIT;
    return id;
}

void cm_child_tell(struct cm_id *listener, struct cm_id *id, const struct roce_cm *m)
{
    struct cm_event *e = cm_event_new(listener, CM_EVENT_CONNECT_REQUEST, 0);

    if (!e) {
        cm_destroy(id);
        return;
    }
    cm_event_request(e, id);
    if (id->qp_type == IBV_QPT_UD) {
        struct rdma_ucm_ud_param *p = &cm_event_resp(e)->param.ud;

        p->private_data_len = (uint8_t)(m->private_len - ROCE_CMA_HDR);
        memcpy(p->private_data, m->private_data + ROCE_CMA_HDR, p->private_data_len);
    } else {
        cm_event_conn(e, m, ROCE_CMA_HDR);
    }
    cm_event_post(e);
}

/* 0, or why the request cannot be met. */
static uint32_t objection(const struct cm_id *listener, const struct cm_nic *nic, const uint8_t *from,
                          const struct roce_cm *m)
{
    uint32_t transport = listener->qp_type == IBV_QPT_UC ? TRANSPORT_UC : TRANSPORT_RC;

    if (memcmp(m->sgid, from, 16) || memcmp(m->dgid, nic->gid, 16)) return ROCE_REJ_INVALID_GID;
    if (m->transport != transport || listener->qp_type == IBV_QPT_UD) return ROCE_REJ_INVALID_TRANSPORT;
    if (m->mtu < MTU_256 || m->mtu > nic->mtu) return ROCE_REJ_INVALID_MTU;
    return 0;
}

static void cm_input_request(struct cm *cm, const struct cm_nic *nic, const struct cm_origin *origin,
                             const struct roce_cm *m)
{
    const uint8_t *from = origin->gid;
    struct cm_id *id = by_remote(cm, from, m->local_id), *listener;
    struct roce_cma_hdr h;
    uint32_t reason;

    if (!cm_request_is_its_own(cm, origin, m)) return;
    if (id) {
        if (id->tid == m->tid && id->same_host == cm_is_same_host(origin)) repeated_request(id);
        return;
    }
    if (roce_cma_parse(m->private_data, &h)) {
        cm_refuse(cm, nic, from, m, ROCE_REJ_UNSUPPORTED);
        return;
    }
    listener = cm_listener(cm, nic, m->service_id, &h);
    if (!listener && cm_listens_soon(cm, nic, m->service_id)) return;
    reason = listener ? objection(listener, nic, from, m) : ROCE_REJ_INVALID_SERVICE_ID;
    if (reason) {
        cm_refuse(cm, nic, from, m, reason);
        return;
    }
    id = cm_too_many(cm, origin, m) ? NULL : cm_child(listener, nic, origin, m, &h);
    if (!id) {
        cm_refuse(cm, nic, from, m, ROCE_REJ_NO_RESOURCES);
        return;
    }
    id->state = CM_REQ_RCVD;
    id->remote_qpn = m->qpn;
    id->remote_psn = m->psn;
    id->initiator_depth = (uint8_t)m->responder_resources;
    id->responder_resources = (uint8_t)m->initiator_depth;
    id->retry_count = (uint8_t)m->retry_count;
    id->rnr_retry = (uint8_t)m->rnr_retry;
    id->mtu = (uint8_t)m->mtu;
    id->ack_timeout = (uint8_t)m->ack_timeout;
    id->traffic_class = (uint8_t)m->traffic_class;
    /* The program will take its time: the peer is to wait and not to ask again. */
    cm_send_mra(id, ROCE_ABOUT_REQ);
    cm_child_tell(listener, id, m);
}

/* ---- answers ------------------------------------------------------------------------------------------- */

/* How long an answer may take, with what the peer's adapter needs itself (specification, 9.7.6.1.3). */
static uint8_t ack_timeout(uint32_t delay, uint8_t timeout)
{
    if (timeout >= delay)
        timeout = (uint8_t)(timeout + (delay + 1 >= timeout));
    else
        timeout = (uint8_t)(delay + (timeout + 1u >= delay));
    return timeout < 31 ? timeout : 31;
}

static void reply(struct cm_id *id, const struct roce_cm *m)
{
    struct cm_event *e;

    if (id->state == CM_REP_RCVD && id->remote_id == m->local_id) {
        cm_send_mra(id, ROCE_ABOUT_REP);
        return;
    }
    if (id->state == CM_ESTABLISHED && id->active && id->remote_id == m->local_id) {
        cm_say_again(id);
        return;
    }
    if (id->state != CM_REQ_SENT) return;
    id->state = CM_REP_RCVD;
    id->remote_id = m->local_id;
    id->remote_qpn = m->qpn;
    id->remote_psn = m->psn;
    id->initiator_depth = (uint8_t)m->responder_resources;
    id->responder_resources = (uint8_t)m->initiator_depth;
    id->rnr_retry = (uint8_t)m->rnr_retry;
    id->ack_timeout = ack_timeout(m->ack_delay, id->ack_timeout);
    cm_deadline(id, SN_NEVER);
    cm_send_mra(id, ROCE_ABOUT_REP);
    e = cm_event_new(id, CM_EVENT_CONNECT_RESPONSE, 0);
    if (e) cm_event_conn(e, m, 0);
    cm_event_post(e);
}

/*
 * More time, for us to wait: not more than we would ask for. The peer repeats its REP by itself, so a REQ is
 * not repeated in that time. An RTU is never repeated by itself: our REP is, because the RTU answers it.
 */
static void wait_longer(struct cm_id *id, const struct roce_cm *m)
{
    uint32_t time = m->service_timeout < CM_SERVICE_TIME ? m->service_timeout : CM_SERVICE_TIME;
    uint64_t longer = cm_time_ns(time) + cm_time_ns(CM_RESPONSE_TIME);

    if (id->state == CM_REQ_SENT && m->about == ROCE_ABOUT_REQ) {
        id->remote_id = m->local_id;
        cm_deadline(id, longer);
    } else if (id->state == CM_REP_SENT && m->about == ROCE_ABOUT_REP) {
        id->patience = id->cm->env.now(id->cm->env.ctx) + longer;
    }
}

static void ready_to_use(struct cm_id *id, const struct roce_cm *m)
{
    struct cm_event *e;

    if (id->state != CM_REP_SENT) return;
    id->state = CM_ESTABLISHED;
    cm_deadline(id, SN_NEVER);
    e = cm_event_new(id, CM_EVENT_ESTABLISHED, 0);
    if (e) cm_event_conn(e, m, 0);
    cm_event_post(e);
}

static void rejected(struct cm_id *id, const struct roce_cm *m)
{
    struct cm_event *e;

    switch (id->state) {
    case CM_REQ_SENT:
    case CM_REP_RCVD:
    case CM_REQ_RCVD:
    case CM_REP_SENT: break;
    default: return;
    }
    id->state = CM_ENDED;
    id->has_mad = false;
    cm_deadline(id, SN_NEVER);
    e = cm_event_new(id, CM_EVENT_REJECTED, (int)m->reason);
    if (e) cm_event_conn(e, m, 0);
    cm_event_post(e);
}

static void cm_input_disconnect(struct cm_id *id, const struct roce_cm *m)
{
    struct cm_event *e;
    bool both = id->state == CM_DREQ_SENT; /* began it at the same time */

    switch (id->state) {
    case CM_ESTABLISHED:
    case CM_REP_SENT:
    case CM_DREQ_SENT: break;
    case CM_TIMEWAIT: cm_say_again(id); return; /* our DREP got lost */
    default: return;
    }
    id->end_tid = m->tid;
    e = cm_event_new(id, CM_EVENT_DISCONNECTED, 0);
    if (e) cm_event_conn(e, m, 0);
    cm_event_post(e);
    if (both) { /* later there is no thread to answer */
        cm_send_drep(id);
        return;
    }
    id->state = CM_DREQ_RCVD;
    cm_deadline(id, SN_NEVER);
}

static void disconnected(struct cm_id *id, const struct roce_cm *m)
{
    struct cm_event *e;

    if (id->state != CM_DREQ_SENT) return;
    e = cm_event_new(id, CM_EVENT_DISCONNECTED, 0);
    if (e) cm_event_conn(e, m, 0);
    cm_event_post(e);
    cm_timewait(id);
}

/* ---- all of them --------------------------------------------------------------------------------------- */

/* A message about a connection that we do not know. */
static void cm_input_stranger(struct cm *cm, const struct cm_nic *nic, const uint8_t *from,
                              const struct roce_cm *m)
{
    struct roce_cm r = {
        .attr = ROCE_CM_DREP, .tid = m->tid, .local_id = m->remote_id, .remote_id = m->local_id};
    uint8_t mad[ROCE_MAD_LEN];

    if (m->attr == ROCE_CM_REP) cm_refuse(cm, nic, from, m, ROCE_REJ_INVALID_COMM_ID);
    if (m->attr != ROCE_CM_DREQ) return;
    roce_cm_build(mad, &r);
    cm->env.send(cm->env.ctx, nic, from, mad);
}

/* Which connection a message is about, and NULL if it is about none, or not its peer's. */
static struct cm_id *cm_input_find(struct cm *cm, const struct cm_origin *from, const struct roce_cm *m)
{
    struct cm_id *id = cm_id_by_local(cm, m->remote_id);
    const char *wrong;

    /* A peer that gives up before the first answer does not know our ID. */
    if (m->attr == ROCE_CM_REJ && !m->remote_id) id = by_remote(cm, from->gid, m->local_id);
    if (!id) {
        cm_suspect_stray(cm, from, m);
        return NULL;
    }
    wrong = cm_not_its_peers(id, from, m);
    if (wrong) {
        cm_suspect(cm, from, m, wrong);
        return NULL;
    }
    if (!id->remote_id) id->same_host = cm_is_same_host(from);
    return id;
}

static void cm_input_dispatch(struct cm_id *id, const struct roce_cm *m)
{
    switch (m->attr) {
    case ROCE_CM_MRA: wait_longer(id, m); break;
    case ROCE_CM_REJ: rejected(id, m); break;
    case ROCE_CM_REP: reply(id, m); break;
    case ROCE_CM_RTU: ready_to_use(id, m); break;
    case ROCE_CM_DREQ: cm_input_disconnect(id, m); break;
    case ROCE_CM_DREP: disconnected(id, m); break;
    default: break;
    }
    if (!id->file && !id->kept && (id->state == CM_ENDED || id->state == CM_TIMEWAIT)) cm_id_free(id);
}

void cm_input(struct cm *cm, const uint8_t at[16], const struct cm_origin *from,
              const uint8_t mad[ROCE_MAD_LEN])
{
    const struct cm_nic *nic = cm_nic_at(cm, at);
    struct roce_cm m;
    struct cm_id *id;

    GW_ASSERT_HELD(&cm->lock);
    if (!cm->nic_count || roce_cm_parse(mad, &m)) return;
    if (!nic && (m.attr == ROCE_CM_REQ || m.attr == ROCE_CM_SIDR_REQ)) return;
    if (m.attr == ROCE_CM_SIDR_REQ || m.attr == ROCE_CM_SIDR_REP) {
        cm_sidr_input(cm, nic, from, &m);
        return;
    }
    if (m.attr == ROCE_CM_REQ) {
        cm_input_request(cm, nic, from, &m);
        return;
    }
    id = cm_input_find(cm, from, &m);
    /* A connection that is over is one that we do not know: who still wants to end it is told that it has. */
    if (id && m.attr == ROCE_CM_DREQ && id->state == CM_ENDED) id = NULL;
    if (id)
        cm_input_dispatch(id, &m);
    else if (nic)
        cm_input_stranger(cm, nic, from->gid, &m);
}
