/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams need no connection, but their sender has to ask which queue pair serves a port: SIDR_REQ,
 * SIDR_REP.
 */
#include <errno.h>
#include <string.h>

#include "softnic/cm/core.h"
#include "softnic/config/addr.h"

int cm_sidr_connect(struct cm_id *id, const struct rdma_ucm_conn_param *p)
{
    struct roce_cm m = {.attr = ROCE_CM_SIDR_REQ, .service_id = id->service_id, .pkey = 0xffff};
    struct roce_cma_hdr h = {.port = id->src.port, .ipv6 = !sn_gid_is_ipv4(id->nic->gid)};

    if ((uint32_t)ROCE_CMA_HDR + p->private_data_len > roce_cm_private_room(m.attr)) return -EINVAL;
    memcpy(h.src, id->nic->gid, 16);
    memcpy(h.dst, id->peer, 16);
    roce_cma_build(m.private_data, &h);
    memcpy(m.private_data + ROCE_CMA_HDR, p->private_data, p->private_data_len);
    m.private_len = ROCE_CMA_HDR + p->private_data_len;
    id->state = CM_SIDR_SENT;
    cm_ask(id, &m);
    return 0;
}

void cm_sidr_answer(struct cm_id *id, uint32_t status, const struct rdma_ucm_conn_param *p)
{
    struct roce_cm m = {.attr = ROCE_CM_SIDR_REP, .status = status, .service_id = id->service_id};

    if (status == ROCE_SIDR_OK) {
        m.qpn = id->qpn;
        m.qkey = id->qkey;
    }
    if (p) {
        memcpy(m.private_data, p->private_data, p->private_data_len);
        m.private_len = p->private_data_len;
    }
    /* The message names the connection by the peer's request, in the place of the sender's ID. */
    m.tid = id->tid;
    m.local_id = id->remote_id;
    id->has_mad = id->last_word = roce_cm_build(id->mad, &m) == 0;
    id->state = CM_ENDED;
    cm_say_again(id);
}

int cm_sidr_accept(struct cm_id *id, const struct rdma_ucm_conn_param *p)
{
    if (p->private_data_len > roce_cm_private_room(ROCE_CM_SIDR_REP)) return -EINVAL;
    id->qpn = p->qp_num & 0xffffff;
    id->qkey = p->qkey ? p->qkey : CM_UDP_QKEY;
    cm_sidr_answer(id, ROCE_SIDR_OK, p);
    return 0;
}

static void cm_sidr_request(struct cm *cm, const struct cm_nic *nic, const struct cm_origin *origin,
                            const struct roce_cm *m)
{
    const uint8_t *from = origin->gid;
    struct roce_cm no = {
        .attr = ROCE_CM_SIDR_REP, .tid = m->tid, .local_id = m->local_id, .status = ROCE_SIDR_UNSUPPORTED};
    struct roce_cma_hdr h;
    uint8_t mad[ROCE_MAD_LEN];
    struct cm_id *listener = NULL, *id = NULL;

    if (!cm_request_is_its_own(cm, origin, m)) return;
    for (uint32_t i = 0; i < cm->high; i++) {
        id = cm->ids[i];
        if (!id || id->active || !id->local_id || id->remote_id != m->local_id || memcmp(id->peer, from, 16))
            continue;
        if (id->state == CM_ENDED) cm_say_again(id);
        return;
    }
    if (roce_cma_parse(m->private_data, &h) == 0) listener = cm_listener(cm, nic, m->service_id, &h);
    if (!listener && cm_listens_soon(cm, nic, m->service_id)) return;
    if (listener && listener->qp_type != IBV_QPT_UD) listener = NULL;
    id = listener && !cm_too_many(cm, origin, m) ? cm_child(listener, nic, origin, m, &h) : NULL;
    if (!id) {
        no.service_id = m->service_id;
        roce_cm_build(mad, &no);
        if (!listener)
            cm->env.send(cm->env.ctx, nic, from, mad); /* with too many waiting, the peer asks again */
        return;
    }
    id->state = CM_SIDR_RCVD;
    cm_child_tell(listener, id, m);
}

static const char *not_the_answer(const struct cm_id *id, const struct cm_origin *from,
                                  const struct roce_cm *m)
{
    if (memcmp(id->peer, from->gid, 16)) return "it comes from another address than was asked";
    if (m->tid != id->tid) return "it names another transaction";
    if (m->service_id != id->service_id) return "it names another service";
    if (cm_is_same_host(from) && m->status == ROCE_SIDR_OK && m->qpn >> 16 != (uint32_t)from->slot)
        return "its queue pair is another process's";
    return NULL;
}

static void cm_sidr_take_answer(struct cm *cm, const struct cm_origin *from, const struct roce_cm *m)
{
    struct cm_id *id = cm_id_by_local(cm, m->local_id);
    const char *wrong;
    bool ok = m->status == ROCE_SIDR_OK;
    struct rdma_ucm_ud_param *p;
    struct cm_event *e;

    if (!id) cm_suspect_stray(cm, from, m);
    if (!id || id->state != CM_SIDR_SENT) return;
    wrong = not_the_answer(id, from, m);
    if (wrong) {
        cm_suspect(cm, from, m, wrong);
        return;
    }
    id->state = CM_ENDED;
    cm_deadline(id, SN_NEVER);
    id->remote_qpn = m->qpn;
    if (ok) id->qkey = m->qkey;
    e = cm_event_new(id, ok ? CM_EVENT_ESTABLISHED : CM_EVENT_UNREACHABLE, (int)m->status);
    if (!e) return;
    p = &cm_event_resp(e)->param.ud;
    p->qp_num = m->qpn;
    p->qkey = m->qkey;
    p->private_data_len = (uint8_t)m->private_len;
    memcpy(p->private_data, m->private_data, m->private_len);
    cm_ah_attr(id, &p->ah_attr);
    cm_event_post(e);
}

void cm_sidr_input(struct cm *cm, const struct cm_nic *nic, const struct cm_origin *from,
                   const struct roce_cm *m)
{
    if (m->attr == ROCE_CM_SIDR_REQ)
        cm_sidr_request(cm, nic, from, m);
    else
        cm_sidr_take_answer(cm, from, m);
}
