/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_ud.h: datagrams. Included by verbs_device.h.
 *
 * A UD queue pair (GW_QP_UD) has no peer. The function gw_qp_activate gives it a Q_Key. Each request says to
 * which host it goes, to which queue pair there, and with which Q_Key. A host is an address handle, which the
 * CPU makes: gw_ah_create. A message is one packet: at most the port's MTU (gw_device_info.mtu), else the
 * request completes with IBV_WC_LOC_LEN_ERR. There are no acknowledgements. A request completes when the
 * packet has left. The receiver drops a packet silently if no receive is posted for it, or if its Q_Key
 * is not the receiver's.
 *
 * A receive needs GW_GRH bytes more than the message: what the network said of the packet lies in front of
 * it, byte_len counts it, and wc_flags has IBV_WC_GRH. The sender is in src_qp and gw_grh_source.
 *
 * Datagrams are operations (gw_send_to_op), posted by gw_post_op or through a view (gw_tx_post), whose
 * tickets complete when the packet has left. gw_post_send sends them too (gw_ibv_ah). Receive with gw_recv,
 * gw_poll_cq and gw_wait_cq. The operations for connected queue pairs (gw_put_op and its like) are refused:
 * -EOPNOTSUPP.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_VERBS_UD_H
#define GPUWIRE_VERBS_UD_H

enum { GW_GRH = 40 /* bytes in front of a received datagram */ };

/* An address handle, as gw_ah_create fills it. Plain memory, at any place that the posting thread can read.
 */
struct gw_ah_handle {
    uint32_t size, version;
    uint32_t number; /* by which a posting proxy knows it */
    uint32_t pad;
    struct gw_u128 av[GW_MLX5_AV_UNITS]; /* as a ConnectX wants it in a WQE */
} __attribute__((aligned(16)));

#ifdef __cplusplus
static_assert(sizeof(struct gw_ah_handle) == 64, "handle size");
#else
static_assert(sizeof(struct gw_ah_handle) == 64, "handle size");
#endif

/* For ibv_send_wr.wr.ud.ah of gw_post_send, which takes no other handles. Any thread; it only renames the
 * address. In order: gw_post_send reads *ah before it returns. */
GW_FN struct ibv_ah *gw_ibv_ah(const struct gw_ah_handle *ah);

/*
 * The GID of the host that sent a datagram, out of the GW_GRH bytes at `grh` that lie in front of the
 * message. Returns 0. Returns -EPROTO if that is neither an InfiniBand or IPv6 header nor, in its last 20
 * bytes, an IPv4 header. The sender wrote it: it is as true as the network is. (ibv_init_ah_from_wc looks at
 * the same bytes: RoCEv2 annex, A17.4.5.2.) Any thread that took the completion, which acquires what the NIC
 * wrote; it only reads *grh, and writes gid.
 */
GW_FN int gw_grh_source(const void *grh, uint8_t gid[16]);

#endif
