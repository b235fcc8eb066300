/* SPDX-License-Identifier: Apache-2.0 */
/* The results of the handshake, as attributes for the queue pair, paths and addresses. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "softnic/cm/core.h"

enum { PKEY = 0xffff, EXACTLY = 2, RATE_100_GBPS = 16, AF_IB_FAMILY = 27 };

void cm_ah_attr(const struct cm_id *id, struct ib_uverbs_ah_attr *ah)
{
    memset(ah, 0, sizeof(*ah));
    memcpy(ah->grh.dgid, id->peer, 16);
    ah->grh.sgid_index = id->nic ? id->nic->gid_index : 0;
    ah->grh.hop_limit = id->hop_limit;
    ah->grh.traffic_class = id->traffic_class;
    ah->is_global = 1;
    ah->port_num = 1;
}

static bool cm_attr_connected(const struct cm_id *id)
{
    return id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_UC;
}

static int init_attr(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
    a->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    a->port_num = 1;
    if (id->qp_type == IBV_QPT_UD) {
        a->qp_attr_mask |= IBV_QP_QKEY;
        a->qkey = id->qkey ? id->qkey : CM_UDP_QKEY;
        return 0;
    }
    a->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
    if (!id->local_id) return 0; /* before the handshake nothing is allowed */
    a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (id->responder_resources) a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    return 0;
}

static bool knows_peer(const struct cm_id *id)
{
    switch (id->state) {
    case CM_REQ_RCVD:
    case CM_REP_SENT:
    case CM_REP_RCVD:
    case CM_ESTABLISHED: return true;
    default: return false;
    }
}

static int rtr_attr(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
    if (!cm_attr_connected(id) || !knows_peer(id)) return -EINVAL;
    a->qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    cm_ah_attr(id, &a->ah_attr);
    a->path_mtu = id->mtu;
    a->dest_qp_num = id->remote_qpn;
    a->rq_psn = id->psn; /* what is sent to the peer is what the peer is to begin with */
    if (id->qp_type == IBV_QPT_UC) return 0;
    a->qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    a->max_dest_rd_atomic = id->responder_resources;
    return 0;
}

static int rts_attr(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
    if (!cm_attr_connected(id) || !knows_peer(id)) return -EINVAL;
    a->qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    a->sq_psn = id->remote_psn;
    if (id->qp_type == IBV_QPT_UC) return 0;
    a->qp_attr_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    a->timeout = id->ack_timeout;
    a->retry_cnt = id->retry_count;
    a->rnr_retry = id->rnr_retry;
    a->max_rd_atomic = id->initiator_depth;
    return 0;
}

int cm_qp_attr(struct cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *a)
{
    memset(a, 0, sizeof(*a));
    if (!id->nic) return -EINVAL;
    a->qp_state = state;
    switch (state) {
    case IBV_QPS_INIT: return init_attr(id, a);
    case IBV_QPS_RTR: return rtr_attr(id, a);
    case IBV_QPS_RTS: return rts_attr(id, a);
    default: return -EINVAL;
    }
}

/* ---- queries ------------------------------------------------------------------------------------------- */

static bool has_route(const struct cm_id *id)
{
    return id->nic && id->dst.family && id->state != CM_ADDR_RESOLVED;
}

static void peer_gid(const struct cm_id *id, uint8_t gid[16])
{
    if (id->local_id)
        memcpy(gid, id->peer, 16);
    else if (id->nic && id->dst.family)
        cm_target(id, gid);
    else
        memset(gid, 0, 16);
}

static void route_path(const struct cm_id *id, struct ib_user_path_rec *p)
{
    p->pkey = htobe16(PKEY);
    p->hop_limit = CM_HOP_LIMIT;
    p->traffic_class = id->tos;
    p->reversible = 1;
    p->numb_path = 1;
    p->mtu_selector = p->rate_selector = p->packet_life_time_selector = EXACTLY;
    p->mtu = id->mtu ? id->mtu : id->nic->mtu;
    p->rate = RATE_100_GBPS;
    p->packet_life_time = id->has_lifetime ? id->lifetime : CM_LIFETIME;
}

void cm_query_route(struct cm_id *id, struct rdma_ucm_query_route_resp *r)
{
    memset(r, 0, sizeof(*r));
    cm_addr_out(&id->src, &r->src_addr);
    cm_addr_out(&id->dst, &r->dst_addr);
    if (!id->nic) return;
    r->node_guid = htobe64(id->nic->guid);
    r->port_num = 1;
    /* Nothing numbers devices here: librdmacm then goes by the GUID. */
    r->ibdev_index = UINT32_MAX;
    memcpy(r->ib_route[0].sgid, id->nic->gid, 16);
    peer_gid(id, r->ib_route[0].dgid);
    r->ib_route[0].pkey = htobe16(PKEY);
    if (!has_route(id)) return;
    r->num_paths = 1;
    route_path(id, &r->ib_route[0]);
}

void cm_query_addr(struct cm_id *id, struct rdma_ucm_query_addr_resp *r)
{
    memset(r, 0, sizeof(*r));
    r->src_size = (uint16_t)cm_addr_out(&id->src, &r->src_addr);
    r->dst_size = (uint16_t)cm_addr_out(&id->dst, &r->dst_addr);
    r->ibdev_index = UINT32_MAX;
    if (!id->nic) return;
    r->node_guid = htobe64(id->nic->guid);
    r->port_num = 1;
    r->pkey = PKEY;
}

/* struct sockaddr_ib: family, P_Key, flow information, GID, service ID and mask, scope. */
struct gid_name {
    uint16_t family, pkey;
    uint32_t flow;
    uint8_t gid[16];
    uint64_t sid, sid_mask, scope;
};

static uint16_t gid_out(const struct cm_id *id, const uint8_t gid[16], uint16_t port, void *sa)
{
    struct gid_name n = {.family = AF_IB_FAMILY, .pkey = htobe16(PKEY)};

    memcpy(n.gid, gid, 16);
    n.sid = htobe64(roce_cm_service_id(id->ps, port));
    n.sid_mask = UINT64_MAX;
    memcpy(sa, &n, sizeof(n));
    return sizeof(n);
}

void cm_query_gid(struct cm_id *id, struct rdma_ucm_query_addr_resp *r)
{
    static const uint8_t none[16];
    uint8_t gid[16];

    cm_query_addr(id, r);
    memset(&r->src_addr, 0, sizeof(r->src_addr));
    memset(&r->dst_addr, 0, sizeof(r->dst_addr));
    peer_gid(id, gid);
    r->src_size = gid_out(id, id->nic ? id->nic->gid : none, id->src.port, &r->src_addr);
    r->dst_size = gid_out(id, gid, id->dst.port, &r->dst_addr);
}

/* struct ibv_path_record: a path record as the subnet's administrator would give it. */
struct path_record {
    uint64_t service_id;
    uint8_t dgid[16], sgid[16];
    uint16_t dlid, slid;
    uint32_t flow_hop;
    uint8_t tclass, reversible;
    uint16_t pkey, sl;
    uint8_t mtu, rate, lifetime, preference, reserved[6];
};
_Static_assert(sizeof(struct path_record) == sizeof(((struct ib_path_rec_data *)0)->path_rec),
               "as the ABI has it");

void cm_query_path(struct cm_id *id, struct ib_path_rec_data *path, uint32_t *count)
{
    struct path_record p = {.pkey = htobe16(PKEY), .reversible = 0x81, .tclass = id->tos};

    *count = has_route(id);
    if (!*count) return;
    memset(path, 0, sizeof(*path));
    path->flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
    p.service_id = htobe64(id->service_id);
    memcpy(p.sgid, id->nic->gid, 16);
    peer_gid(id, p.dgid);
    p.flow_hop = htobe32(CM_HOP_LIMIT);
    p.mtu = EXACTLY << 6 | (id->mtu ? id->mtu : id->nic->mtu);
    p.rate = EXACTLY << 6 | RATE_100_GBPS;
    p.lifetime = (uint8_t)(EXACTLY << 6 | (id->has_lifetime ? id->lifetime : CM_LIFETIME));
    memcpy(path->path_rec, &p, sizeof(p));
}
