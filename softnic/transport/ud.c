/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams: a message is one packet, and each request says where it goes (InfiniBand architecture volume 1,
 * 9.8.3). The Q_Key alone keeps strangers out. A receive gets 40 bytes in front of the payload, from which
 * ibv_init_ah_from_wc learns where it came from: the IPv6 header, or 20 bytes of nothing and the IPv4 header.
 */
#include <errno.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/base/bits.h"
#include "softnic/transport/transport.h"
#include "src/trace/trace.h"

enum {
    GRH_BYTES = 40,
    IPV4_BYTES = 20,
    UDP_BYTES = 8,
    IP_PROTO_UDP = 17,
    /* Sockets do not tell how far a packet has come; answers made from this go as far as any. */
    HOP_LIMIT = 64,
};

/* ---- sending ------------------------------------------------------------------------------------------- */

static bool ud_is_multicast(const uint8_t gid[16])
{
    return gid[0] == 0xff || (sn_gid_is_ipv4(gid) && gid[12] >> 4 == 0xe);
}

static unsigned gid_index(const struct gw_mlx5_av *av)
{
    return gw_be32(av->grh_be) >> 20 & 0xff;
}

const char *sn_ud_check(struct sn_qp *qp, struct sn_sreq *s, const struct gw_mlx5_wqe *w)
{
    const struct gw_mlx5_av *av = gw_mlx5_wqe_av(w);

    if (w->opcode == GW_MLX5_NOP) return NULL;
    if (!sn_gid_there(qp->nic, gid_index(av))) return "its address vector's GID index is of no GID";
    if (ud_is_multicast(av->rgid))
        return "its address vector is a multicast group, and there is no multicast";
    if (w->length <= qp->mtu) return NULL;
    s->error = GW_MLX5_SYND_LOCAL_LENGTH;
    return "a datagram longer than the port's MTU";
}

enum sn_step sn_ud_send(struct sn_qp *qp, struct sn_sreq *s)
{
    const struct gw_mlx5_wqe *w = s->wqe;
    bool imm = w->opcode == GW_MLX5_SEND_IMM;
    struct roce_hdr h = {.opcode = imm ? ROCE_UD_SEND_ONLY_IMM : ROCE_UD_SEND_ONLY,
                         .psn = sn_requester_psn(qp),
                         .solicited = w->solicited,
                         .imm_be = w->imm_be,
                         .sqpn = qp->number};
    struct sn_route to;
    uint8_t *frame;

    sn_route_set(qp->nic, &to, gw_mlx5_wqe_av(w)->rgid, w->dqpn);
    sn_route_from(qp->nic, &to, gid_index(gw_mlx5_wqe_av(w)), qp->attr.pkey_index);
    frame = sn_tx_begin_for(qp, &to);
    if (!frame) return SN_FULL;
    if (sn_gather(qp, s, 0, frame + roce_ops[h.opcode].hdr_len, w->length)) {
        s->error = GW_MLX5_SYND_LOCAL_PROT;
        return SN_DID;
    }
    h.qkey = w->qkey & GW_MLX5_QKEY_OF_QP ? qp->attr.qkey : w->qkey;
    GW_TRACE(softnic, tx, qp->number, h.psn, h.opcode, w->length);
    sn_tx_end_to(qp->nic, &to, frame, &h, w->length);
    sn_tx_count(qp, &h, w->length);
    s->looped = to.loop;
    s->tx_end = sn_tx_position(qp->nic, s->looped);
    return SN_DID;
}

/* ---- receiving ----------------------------------------------------------------------------------------- */

static uint16_t ip_checksum(const uint8_t *header)
{
    uint32_t sum = 0;

    for (int i = 0; i < IPV4_BYTES; i += 2) sum += (uint32_t)(header[i] << 8 | header[i + 1]);
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

static bool is_ipv4(const struct sn_frame *f)
{
    return sn_gid_is_ipv4(f->src_gid) && sn_gid_is_ipv4(f->dst_gid);
}

/* The IP header that the frame came with, as far as the wire tells. */
static void make_grh(const struct sn_frame *f, uint8_t grh[GRH_BYTES])
{
    uint8_t *ip = grh + GRH_BYTES - IPV4_BYTES;

    memset(grh, 0, GRH_BYTES);
    if (!is_ipv4(f)) {
        grh[0] = 6 << 4;
        grh[1] = (uint8_t)(f->ecn << 4);
        sn_put16_be(grh + 4, UDP_BYTES + f->len);
        grh[6] = IP_PROTO_UDP;
        grh[7] = HOP_LIMIT;
        memcpy(grh + 8, f->src_gid, 16);
        memcpy(grh + 24, f->dst_gid, 16);
        return;
    }
    ip[0] = 4 << 4 | IPV4_BYTES / 4;
    ip[1] = f->ecn;
    sn_put16_be(ip + 2, IPV4_BYTES + UDP_BYTES + f->len);
    sn_put16_be(ip + 4, f->has_ip_id ? f->ip_id : 0);
    sn_put16_be(ip + 6, ROCE_IP_DF);
    ip[8] = HOP_LIMIT;
    ip[9] = IP_PROTO_UDP;
    memcpy(ip + 12, f->src_gid + 12, 4);
    memcpy(ip + 16, f->dst_gid + 12, 4);
    sn_put16_be(ip + 10, ip_checksum(ip));
}

/* The receive WQE that the datagram goes to. false: there is none, and it is dropped. */
static bool ud_need_wqe(struct sn_qp *qp)
{
    int n = sn_rq_fetch(qp);

    if (n > 0) return true;
    if (n == 0) {
        sn_count(&qp->nic->count.drop_no_recv, 1);
    } else if (qp->resp.has_wqe) {
        sn_rq_fail(qp, GW_MLX5_SYND_LOCAL_QP_OP);
        sn_qp_error(qp);
    } else {
        sn_qp_fatal(qp);
    }
    return false;
}

/* Our own receive WQE is at fault. */
static void receive_failed(struct sn_qp *qp, int err)
{
    sn_rq_fail(qp, err == -EMSGSIZE ? GW_MLX5_SYND_LOCAL_LENGTH : GW_MLX5_SYND_LOCAL_PROT);
    sn_qp_error(qp);
}

static void ud_complete(struct sn_qp *qp, const struct sn_frame *f, const struct roce_hdr *h, uint32_t len)
{
    struct gw_mlx5_wc wc;

    memset(&wc, 0, sizeof(wc));
    wc.opcode = roce_flags(h->opcode) & ROCE_F_IMM ? GW_MLX5_CQE_RESP_SEND_IMM : GW_MLX5_CQE_RESP_SEND;
    wc.byte_cnt = GRH_BYTES + len;
    wc.imm_be = h->imm_be;
    wc.solicited = h->solicited;
    wc.grh = 1;
    wc.sl = is_ipv4(f) ? GW_MLX5_ROCE_V2_IPV4 : GW_MLX5_ROCE_V2_IPV6;
    wc.src_qp = h->sqpn;
    sn_rq_complete(qp, &wc, NULL, 0);
}

void sn_ud_rx(struct sn_qp *qp, const struct sn_frame *f, const struct roce_hdr *h, const uint8_t *payload,
              uint32_t len)
{
    uint8_t grh[GRH_BYTES];
    int err;

    GW_ASSERT_HELD(&qp->nic->lock);
    if (h->qkey != qp->attr.qkey) {
        sn_count(&qp->nic->count.drop_qkey, 1);
        sn_report_qp(qp, "a datagram of QP 0x%06x is dropped: its Q_Key is 0x%x, this queue pair's 0x%x",
                     h->sqpn, h->qkey, qp->attr.qkey);
        return;
    }
    if (!ud_need_wqe(qp)) return;
    make_grh(f, grh);
    err = sn_scatter_recv(qp, 0, grh, GRH_BYTES);
    if (!err) err = sn_scatter_recv(qp, GRH_BYTES, payload, len);
    if (!err) err = sn_place_flush(qp);
    if (err)
        receive_failed(qp, err);
    else
        ud_complete(qp, f, h, len);
}
