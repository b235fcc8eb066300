/* SPDX-License-Identifier: Apache-2.0 */
/* Peers on the same host learn here which queue pairs take direct accesses, and to which regions. */
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/object/nic.h"

bool sn_qp_takes_direct(const struct sn_qp *qp)
{
    if (qp->resp.fatal || (qp->init.type != IBV_QPT_RC && qp->init.type != IBV_QPT_XRC_SEND)) return false;
    if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) return true;
    /* In RTR the first packet is an event, which direct accesses would not make. */
    return qp->state == IBV_QPS_RTR && qp->resp.established;
}

uint32_t sn_qp_direct_access(const struct sn_qp *qp)
{
    return qp->init.type == IBV_QPT_RC ? qp->attr.qp_access_flags : 0;
}

void sn_qp_peer_queue(const struct sn_qp *qp, struct sn_peer_queue *q)
{
    *q = (struct sn_peer_queue){.dest_qpn = qp->attr.dest_qp_num,
                                .access = sn_qp_direct_access(qp),
                                .pd = qp->init.pd ? qp->init.pd->number
                                                  : 0, /* XRC_RECV has none, and takes none either */
                                .terms = {.psn = qp->attr.rq_psn,
                                          .mtu = qp->mtu,
                                          .pkey = qp->nic->cfg.pkey[qp->attr.pkey_index],
                                          .reads = qp->attr.max_dest_rd_atomic}};
    memcpy(q->terms.gid, qp->peer.gid, sizeof(q->terms.gid));
}

void sn_qp_peer_terms(const struct sn_qp *qp, struct sn_peer_terms *t)
{
    *t = (struct sn_peer_terms){
        .psn = qp->attr.sq_psn, .mtu = qp->mtu, .pkey = qp->peer.pkey, .reads = qp->attr.max_rd_atomic};
    memcpy(t->gid, qp->nic->cfg.gid, sizeof(t->gid));
}

void sn_publish_queue(struct sn_qp *qp)
{
    const struct sn_nic_config *c = &qp->nic->cfg;
    struct sn_peer_queue q;
    bool takes = !qp->peer.loop && sn_qp_takes_direct(qp);

    GW_ASSERT_HELD(&qp->nic->lock);
    if (!c->peers || (!takes && !qp->published)) return;
    qp->published = takes;
    sn_qp_peer_queue(qp, &q);
    c->peers->queue(c->peers_ctx, qp->number, takes ? &q : NULL);
}

void sn_publish_quiesce(struct sn_nic *nic)
{
    if (nic->cfg.peers) nic->cfg.peers->quiesce(nic->cfg.peers_ctx);
}
