/* SPDX-License-Identifier: Apache-2.0 */
/* What peers on the same host are told: which queue pairs take direct accesses, and to which regions. */
#include "softnic/engine/engine.h"

bool sn_direct_takes(const struct sn_qp *qp)
{
    if (qp->resp.fatal || (qp->init.type != IBV_QPT_RC && qp->init.type != IBV_QPT_XRC_SEND)) return false;
    if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) return true;
    /* In RTR the first packet is an event, which direct accesses would not make. */
    return qp->state == IBV_QPS_RTR && qp->resp.established;
}

uint32_t sn_direct_access(const struct sn_qp *qp)
{
    return qp->init.type == IBV_QPT_RC ? qp->attr.qp_access_flags : 0;
}

void sn_direct_tell_queue(struct sn_qp *qp)
{
    const struct sn_nic_config *c = &qp->nic->cfg;
    uint32_t pd = qp->init.pd ? qp->init.pd->number : 0; /* XRC_RECV has none, and takes none either */
    struct sn_peer_queue q = {qp->attr.dest_qp_num, sn_direct_access(qp), pd, qp->peer.gid};
    bool takes = !qp->peer.loop && sn_direct_takes(qp);

    if (!c->peers || (!takes && !qp->told)) return;
    qp->told = takes;
    c->peers->queue(c->peers_ctx, qp->number, takes ? &q : NULL);
}

void sn_direct_tell_region(struct sn_mr *mr, bool gone)
{
    const struct sn_nic_config *c = &mr->pd->nic->cfg;
    struct sn_peer_region r = {.iova = mr->init.iova,
                               .addr = mr->init.addr,
                               .length = mr->init.length,
                               .access = mr->init.access,
                               .pd = mr->pd->number,
                               .gpu = sn_mr_share(mr)};

    if (!c->peers || !sn_mr_told(mr)) return;
    c->peers->region(c->peers_ctx, mr->key, gone ? NULL : &r);
}

void sn_direct_quiesce(struct sn_nic *nic)
{
    if (nic->cfg.peers) nic->cfg.peers->quiesce(nic->cfg.peers_ctx);
}
