/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of programs: to listen, connect, accept, reject, disconnect. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "softnic/cm/core.h"
#include "softnic/config/addr.h"

enum { RATE_100_GBPS = 16, MAX_RETRY = 7, TRANSPORT_RC = 0, TRANSPORT_UC = 1 };

int cm_listen(struct cm_id *id, uint32_t backlog)
{
    if (id->state == CM_IDLE) {
        struct cm_addr any = {.family = AF_INET};
        int err;

        sn_gid_from_ipv4(any.gid, 0);
        err = cm_bind(id, &any);
        if (err) return err;
    }
    if (id->state != CM_BOUND) return -EINVAL;
    if (cm_port_listening(id)) return -EADDRINUSE;
    id->backlog = backlog && backlog < CM_MAX_BACKLOG ? backlog : CM_MAX_BACKLOG;
    id->state = CM_LISTEN;
    return 0;
}

static uint8_t at_most(uint8_t value, uint8_t limit)
{
    return value < limit ? value : limit;
}

/* Private data as the program gave it, after what rdma_cm puts in front. */
static int add_private(struct roce_cm *m, const struct rdma_ucm_conn_param *p)
{
    if (m->private_len + p->private_data_len > roce_cm_private_room(m->attr)) return -EINVAL;
    memcpy(m->private_data + m->private_len, p->private_data, p->private_data_len);
    m->private_len += p->private_data_len;
    return 0;
}

static void add_cma_hdr(struct cm_id *id, struct roce_cm *m)
{
    struct roce_cma_hdr h = {.port = id->src.port};

    memcpy(h.src, id->nic->gid, 16);
    memcpy(h.dst, id->peer, 16);
    h.ipv6 = !sn_gid_is_ipv4(h.src);
    roce_cma_build(m->private_data, &h);
    m->private_len = ROCE_CMA_HDR;
}

static void describe_path(const struct cm_id *id, struct roce_cm *m)
{
    m->pkey = 0xffff;
    m->mtu = id->mtu;
    /* There are no LIDs on Ethernet. */
    m->slid = m->dlid = ROCE_LID_PERMISSIVE;
    memcpy(m->sgid, id->nic->gid, 16);
    memcpy(m->dgid, id->peer, 16);
    m->rate = RATE_100_GBPS;
    m->traffic_class = id->tos;
    m->hop_limit = CM_HOP_LIMIT;
    m->ack_timeout = id->ack_timeout;
}

static int connect_begin(struct cm_id *id)
{
    uint8_t lifetime = id->has_lifetime ? id->lifetime : CM_LIFETIME;
    int err = cm_id_begin(id);

    if (err) return err;
    cm_target(id, id->peer);
    id->active = true;
    id->service_id = roce_cm_service_id(id->ps, id->dst.port);
    id->mtu = id->nic->mtu;
    id->traffic_class = id->tos;
    id->hop_limit = CM_HOP_LIMIT;
    id->ack_timeout = (uint8_t)(lifetime + 1);
    return 0;
}

int cm_connect(struct cm_id *id, const struct rdma_ucm_connect *cmd)
{
    const struct rdma_ucm_conn_param *p = &cmd->conn_param;
    struct roce_cm m = {.attr = ROCE_CM_REQ};
    int err;

    if (!p->valid || id->state != CM_ROUTE_RESOLVED) return -EINVAL;
    err = connect_begin(id);
    if (err) return err;
    if (id->qp_type == IBV_QPT_UD) return cm_sidr_connect(id, p);
    add_cma_hdr(id, &m);
    err = add_private(&m, p);
    if (err) return err;
    id->qpn = p->qp_num & 0xffffff;
    id->srq = p->srq != 0;
    id->responder_resources = p->responder_resources;
    id->initiator_depth = p->initiator_depth;
    id->retry_count = at_most(p->retry_count, MAX_RETRY);
    describe_path(id, &m);
    m.attr_mod = cmd->ece.attr_mod;
    m.vendor_id = cmd->ece.vendor_id;
    m.service_id = id->service_id;
    m.ca_guid = id->nic->guid;
    m.qpn = id->qpn;
    m.psn = id->psn;
    m.responder_resources = p->responder_resources;
    m.initiator_depth = p->initiator_depth;
    m.transport = id->qp_type == IBV_QPT_UC ? TRANSPORT_UC : TRANSPORT_RC;
    m.remote_timeout = m.local_timeout = CM_RESPONSE_TIME;
    m.flow_control = p->flow_control != 0;
    m.retry_count = id->retry_count;
    m.rnr_retry = at_most(p->rnr_retry_count, MAX_RETRY);
    m.max_retries = CM_RETRIES;
    m.srq = id->srq;
    id->state = CM_REQ_SENT;
    cm_ask(id, &m);
    return 0;
}

static int send_rep(struct cm_id *id, const struct rdma_ucm_accept *cmd)
{
    const struct rdma_ucm_conn_param *p = &cmd->conn_param;
    struct roce_cm m = {.attr = ROCE_CM_REP};
    int err = add_private(&m, p);

    if (err) return err;
    id->qpn = p->qp_num & 0xffffff;
    id->srq = p->srq != 0;
    id->responder_resources = p->responder_resources;
    id->initiator_depth = p->initiator_depth;
    m.attr_mod = cmd->ece.attr_mod;
    m.vendor_id = cmd->ece.vendor_id;
    m.ca_guid = id->nic->guid;
    m.qpn = id->qpn;
    m.psn = id->psn;
    m.responder_resources = p->responder_resources;
    m.initiator_depth = p->initiator_depth;
    m.ack_delay = CM_ACK_DELAY;
    m.flow_control = p->flow_control != 0;
    m.rnr_retry = at_most(p->rnr_retry_count, MAX_RETRY);
    m.srq = id->srq;
    id->state = CM_REP_SENT;
    cm_ask(id, &m);
    return 0;
}

int cm_accept(struct cm_id *id, const struct rdma_ucm_accept *cmd)
{
    int err;

    if (!cmd->conn_param.valid) {
        struct roce_cm m = {.attr = ROCE_CM_RTU};

        if (id->state != CM_REP_RCVD) return -EINVAL;
        id->state = CM_ESTABLISHED;
        cm_say(id, &m);
        return 0;
    }
    if (id->state == CM_SIDR_RCVD)
        err = cm_sidr_accept(id, &cmd->conn_param);
    else
        err = id->state == CM_REQ_RCVD ? send_rep(id, cmd) : -EINVAL;
    if (!err) id->uid = cmd->uid;
    return err;
}

int cm_reject(struct cm_id *id, const struct rdma_ucm_reject *cmd)
{
    uint32_t reason = cmd->reason ? cmd->reason : ROCE_REJ_CONSUMER, room = roce_cm_private_room(ROCE_CM_REJ);

    if (id->state == CM_SIDR_RCVD) {
        struct rdma_ucm_conn_param p = {.private_data_len = cmd->private_data_len};

        if (cmd->private_data_len > roce_cm_private_room(ROCE_CM_SIDR_REP)) return -EINVAL;
        memcpy(p.private_data, cmd->private_data, cmd->private_data_len);
        cm_sidr_answer(id, ROCE_SIDR_REJECT, &p);
        return 0;
    }
    if (id->state != CM_REQ_RCVD && id->state != CM_REP_RCVD) return -EINVAL;
    if (cmd->private_data_len > room) return -EINVAL;
    cm_send_rej(id, id->state == CM_REQ_RCVD ? ROCE_ABOUT_REQ : ROCE_ABOUT_REP, reason, cmd->private_data,
                cmd->private_data_len);
    id->state = CM_ENDED;
    return 0;
}

/* A program that learns that the peer has disconnected answers by disconnecting. */
int cm_disconnect(struct cm_id *id)
{
    switch (id->state) {
    case CM_ESTABLISHED:
    case CM_REP_SENT: cm_send_dreq(id); return 0;
    case CM_DREQ_RCVD: cm_send_drep(id); return 0;
    case CM_DREQ_SENT:
    case CM_TIMEWAIT:
    case CM_ENDED: return 0;
    default: return -EINVAL;
    }
}

/* The program saw its peer's first packet before the peer's RTU came. */
int cm_notify(struct cm_id *id, uint32_t event)
{
    if (event != IBV_EVENT_COMM_EST) return -EINVAL;
    if (id->state == CM_ESTABLISHED) return 0;
    if (id->state != CM_REP_SENT) return -EINVAL;
    id->state = CM_ESTABLISHED;
    cm_deadline(id, SN_NEVER);
    cm_tell(id, CM_EVENT_ESTABLISHED, 0);
    return 0;
}
