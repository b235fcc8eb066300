/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_ud.h: datagrams. Included by verbs_device.h; names that end in _ are private.
 *
 * A UD queue pair (GW_QP_UD) has no peer: gw_qp_activate gives it a Q_Key, and each request says where it goes: to which
 * host (an address handle, which the CPU makes: gw_ah_create), to which queue pair there, and with which Q_Key. A message
 * is one packet: at most the port's MTU (gw_device_info.mtu), else the request completes with IBV_WC_LOC_LEN_ERR. Nobody
 * acknowledges: a request completes when the packet has left, and a packet for which no receive is posted, or whose
 * Q_Key is not the receiver's, is dropped without a word.
 *
 * A receive needs GW_GRH bytes more than the message: what the network said of the packet lies in front of it, byte_len
 * counts it, and wc_flags has IBV_WC_GRH. Who sent it is told by src_qp and gw_grh_source.
 *
 * Post and poll with gw_post_send (gw_ibv_ah), gw_send_to, gw_recv, gw_poll_cq and gw_wait_cq, or with tickets
 * (gw_send_to_op, verbs_op.h; gw_tx_wait returns when the packet has left); the calls for connected queue pairs (gw_put
 * and its like) return -EOPNOTSUPP.
 */
#ifndef GPUWIRE_VERBS_UD_H
#define GPUWIRE_VERBS_UD_H

enum { GW_GRH = 40 /* bytes in front of a received datagram */ };

/* An address handle, as gw_ah_create fills it. Plain memory, at any place that the posting thread can read. */
struct gw_ah_handle {
    uint32_t size, version;
    uint32_t number; /* by which a posting proxy knows it */
    uint32_t pad;
    struct gw_u128 av[GW_MLX5_AV_UNITS]; /* as a ConnectX wants it in a WQE */
} __attribute__((aligned(16)));

#ifdef __cplusplus
static_assert(sizeof(struct gw_ah_handle) == 64, "handle size");
#else
_Static_assert(sizeof(struct gw_ah_handle) == 64, "handle size");
#endif

/* For ibv_send_wr.wr.ud.ah of gw_post_send, which takes no other handles. Any thread; it only renames the address. In order:
 * gw_post_send reads *ah before it returns. */
GW_FN struct ibv_ah *gw_ibv_ah(const struct gw_ah_handle *ah)
{
    return (struct ibv_ah *)(uintptr_t)ah;
}

/*
 * Sends [laddr, laddr + len) to queue pair qpn at *ah, into the next receive there; len 0: no payload. qkey is the
 * receiver's; with GW_MLX5_QKEY_OF_QP set the sender's own goes instead (the InfiniBand rule for privileged keys).
 * One thread. What the calling thread stored before is visible to the NIC, as with gw_put; to other threads nothing is.
 * Returns as gw_put (verbs_device.h); -EOPNOTSUPP: it is a connected queue pair.
 */
GW_FN int gw_send_to(struct gw_qp_handle *qp, const struct gw_ah_handle *ah, uint32_t qpn, uint32_t qkey,
                     uint64_t laddr, uint32_t lkey, uint32_t len, uint32_t flags, uint64_t wr_id);
/* gw_send_to with an immediate (host order), which the receiver reads with gw_wc_imm. One thread; it returns, and makes visible,
 * what gw_send_to does. */
GW_FN int gw_send_to_imm(struct gw_qp_handle *qp, const struct gw_ah_handle *ah, uint32_t qpn, uint32_t qkey,
                         uint64_t laddr, uint32_t lkey, uint32_t len, uint32_t imm, uint32_t flags,
                         uint64_t wr_id);
/*
 * gw_send_to_imm or gw_send_to by a whole warp: a datagram for each lane, to its own destination, all with one reservation
 * and one doorbell. As gw_put_warp: every thread of the warp calls it, those with on == 0 send nothing, with_imm and
 * GW_DEFER are the same in all; all or none is posted. What every lane stored before is visible to the NIC.
 */
GW_DEV int gw_send_to_warp(struct gw_qp_handle *qp, int on, const struct gw_ah_handle *ah, uint32_t qpn,
                           uint32_t qkey, uint64_t laddr, uint32_t lkey, uint32_t len, int with_imm,
                           uint32_t imm, uint32_t flags, uint64_t wr_id);

/*
 * Who sent a datagram: the GID of its host, out of the GW_GRH bytes at `grh` that lie in front of the message. 0, or
 * -EPROTO: that is neither an InfiniBand or IPv6 header nor, in its last 20 bytes, an IPv4 header. The sender wrote it:
 * it is as true as the network is. (Where libibverbs' ibv_init_ah_from_wc looks: RoCEv2 annex, A17.4.5.2.) Any thread that
 * took the completion, which acquires what the NIC wrote; it only reads *grh, and writes gid.
 */
GW_FN int gw_grh_source(const void *grh, uint8_t gid[16]);

/* ---- how ----------------------------------------------------------------------------------------------- */

/* The address vector of the WQE at WQEBB idx. */
GW_HOT_FN void gw_ud_put_av_(const struct gw_sq_ *q, uint32_t idx, const struct gw_ah_handle *ah,
                             uint32_t qpn, uint32_t qkey)
{
    gw_mlx5_put_av(&q->sq, idx * GW_MLX5_UNITS_PER_BB + 1, ah->av, q->flags & GW_AH_NUMBER_ ? ah->number : 0,
                   qpn & 0xffffff, qkey);
}

/* WQEBBs of a datagram of one entry. */
GW_HOT_FN uint32_t gw_ud_bbs_(uint32_t len)
{
    return gw_mlx5_wqebbs(GW_MLX5_UD_HEAD + (len ? 1 : 0));
}

GW_HOT_FN void gw_ud_write_(const struct gw_sq_ *q, uint64_t at, uint32_t opcode,
                            const struct gw_ah_handle *ah, uint32_t qpn, uint32_t qkey, uint64_t laddr,
                            uint32_t lkey, uint32_t len, uint32_t imm_be, uint32_t flags, uint64_t wr_id)
{
    uint32_t idx = (uint32_t)at;

    gw_mlx5_put_nth_(&q->sq, idx, 0,
                     gw_mlx5_ctrl(opcode, idx, q->sq.qpn, GW_MLX5_UD_HEAD + (len ? 1 : 0),
                                  gw_ctrl_flags_(q->flags, flags), imm_be));
    gw_ud_put_av_(q, idx, ah, qpn, qkey);
    if (len) gw_mlx5_put_nth_(&q->sq, idx + 1, 0, gw_mlx5_data(laddr, len, lkey));
    gw_sq_slot_(q, at, gw_ud_bbs_(len), wr_id);
}

GW_HOT_FN int gw_ud_post_(struct gw_qp_handle *qp, uint32_t opcode, const struct gw_ah_handle *ah,
                          uint32_t qpn, uint32_t qkey, uint64_t laddr, uint32_t lkey, uint32_t len,
                          uint32_t imm_be, uint32_t flags, uint64_t wr_id)
{
    struct gw_sq_ q = gw_sq_of_(qp);
    uint32_t bbs = gw_ud_bbs_(len);
    uint64_t at;
    int err = gw_ud_usable_(qp);

    if (!err) err = gw_sq_room_(&q, bbs, &at);
    if (err) return err;
    gw_ud_write_(&q, at, opcode, ah, qpn, qkey, laddr, lkey, len, imm_be, flags, wr_id);
    gw_sq_publish_(&q, at, bbs, bbs, flags);
    return 0;
}

GW_FN int gw_send_to(struct gw_qp_handle *qp, const struct gw_ah_handle *ah, uint32_t qpn, uint32_t qkey,
                     uint64_t laddr, uint32_t lkey, uint32_t len, uint32_t flags, uint64_t wr_id)
{
    return gw_ud_post_(qp, GW_MLX5_SEND, ah, qpn, qkey, laddr, lkey, len, 0, flags, wr_id);
}

GW_FN int gw_send_to_imm(struct gw_qp_handle *qp, const struct gw_ah_handle *ah, uint32_t qpn, uint32_t qkey,
                         uint64_t laddr, uint32_t lkey, uint32_t len, uint32_t imm, uint32_t flags,
                         uint64_t wr_id)
{
    return gw_ud_post_(qp, GW_MLX5_SEND_IMM, ah, qpn, qkey, laddr, lkey, len, gw_be32(imm), flags, wr_id);
}

GW_DEV int gw_send_to_warp(struct gw_qp_handle *qp, int on, const struct gw_ah_handle *ah, uint32_t qpn,
                           uint32_t qkey, uint64_t laddr, uint32_t lkey, uint32_t len, int with_imm,
                           uint32_t imm, uint32_t flags, uint64_t wr_id)
{
    uint32_t longer = gw_ballot(gw_warp_all(), on && gw_ud_bbs_(len) > 1);
    struct gw_warp_post_ w;
    int begun = gw_warp_begin_(&w, qp, on, longer, gw_ud_usable_(qp));

    if (begun <= 0) return begun;
    if (on)
        gw_ud_write_(&w.q, w.mine, with_imm ? GW_MLX5_SEND_IMM : GW_MLX5_SEND, ah, qpn, qkey, laddr, lkey,
                     len, with_imm ? gw_be32(imm) : 0, flags, wr_id);
    gw_warp_end_(&w, flags);
    return 0;
}

GW_FN int gw_grh_source(const void *grh, uint8_t gid[16])
{
    const uint8_t *b = (const uint8_t *)grh, *ip = b + GW_GRH - 20;
    uint32_t sum = 0, i;
    int six = b[0] >> 4 == 6;

    for (i = 0; i < 20; i += 2) sum += (uint32_t)ip[i] << 8 | ip[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    /* What lies before an IPv4 header is undefined, and may look like IPv6's: its checksum decides then. */
    if (ip[0] == 0x45 && (!six || sum == 0xffff)) {
        for (i = 0; i < 10; i++) gid[i] = 0;
        gid[10] = gid[11] = 0xff;
        for (i = 0; i < 4; i++) gid[12 + i] = ip[12 + i];
        return 0;
    }
    if (!six) return -EPROTO;
    for (i = 0; i < 16; i++) gid[i] = b[8 + i];
    return 0;
}

#endif
