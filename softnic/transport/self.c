/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A NIC's own queue pairs as peers of each other. direct.c and rendezvous.c look up another process's table
 * and copy from its memory; here is the same within one NIC. Nothing can be taken back during the copy: that
 * needs the lock.
 */
#include "softnic/mem/pieces.h"
#include "softnic/transport/transport.h"

static struct sn_peer *self_find(void *ctx, const uint8_t gid[16], uint32_t qpn)
{
    (void)gid;
    (void)qpn;
    return ctx; /* a name for the NIC itself, which no other peer can have */
}

static bool always(void *ctx, const uint8_t gid[16], uint32_t qpn)
{
    (void)ctx;
    (void)gid;
    (void)qpn;
    return true;
}

static bool self_enter(void *ctx, struct sn_peer *peer, uint64_t now)
{
    (void)ctx;
    (void)peer;
    (void)now;
    return true;
}

static void self_leave(void *ctx, struct sn_peer *peer)
{
    (void)ctx;
    (void)peer;
}

static bool grant(void *ctx, struct sn_peer *peer, const struct sn_peer_access *a, uint64_t *addr,
                  struct sn_reach *by)
{
    struct sn_qp *qp = sn_qp_find(ctx, a->dst_qpn);
    struct sn_peer_queue q;
    struct sn_mr *mr;

    (void)peer;
    *addr = 0;
    *by = sn_mr_reach(NULL);
    if (!qp || !sn_qp_takes_direct(qp) || !qp->peer.loop) return false;
    sn_qp_peer_queue(qp, &q);
    if (!sn_peer_queue_takes(&q, a)) return false;
    if (!a->length) return true;
    mr = sn_mr_remote(qp, qp->init.pd, a->rkey, a->va, a->length, a->access);
    if (!mr || !sn_mr_copies(mr)) return false;
    *by = sn_mr_reach(mr);
    *addr = mr->init.addr + (a->va - mr->init.iova);
    return true;
}

static bool self_never(void *ctx, const struct sn_peer *peer)
{
    (void)ctx;
    (void)peer;
    return false;
}

static bool self_lends(void *ctx)
{
    (void)ctx;
    return true;
}

static int64_t self_copy(void *ctx, struct sn_peer *peer, const struct sn_copy *c,
                         struct sn_copying *under_way)
{
    (void)ctx;
    (void)peer;
    return sn_pieces_copy(c, under_way);
}

static const struct sn_peer_ops self_ops = {.find = self_find,
                                            .pulls = always,
                                            .lags = self_never,
                                            .enter = self_enter,
                                            .grant = grant,
                                            .copy = self_copy,
                                            .leave = self_leave,
                                            .lends = self_lends};

struct sn_peers sn_peers_of(const struct sn_qp *qp)
{
    struct sn_nic *nic = qp->nic;

    if (qp->peer.loop) return (struct sn_peers){&self_ops, nic};
    return (struct sn_peers){nic->cfg.peers, nic->cfg.peers_ctx};
}
