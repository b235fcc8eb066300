/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.h: what the parts of the transport offer each other and the engine.
 *
 * requester.c makes packets of send requests, and requester_rx.c takes the answers. Requests come to
 * responder.c (responder.h lists its parts), and responder_tx.c answers them. UC and UD, where no peer
 * answers, have unreliable.c and ud.c. Between peers of one host, direct.c, eager_copy.c and rendezvous.c
 * spare packets. All packets have packet.c in common.
 */
#ifndef SOFTNIC_TRANSPORT_TRANSPORT_H
#define SOFTNIC_TRANSPORT_TRANSPORT_H

#include <string.h>

#include "softnic/base/gid.h"
#include "softnic/nic/frame.h"
#include "softnic/object/nic.h"
#include "softnic/queue/queue.h"
#include "softnic/region/region.h"
#include "src/roce/cm.h"
#include "src/roce/hdr.h"
#include "src/roce/icrc.h"
#include "src/roce/segment.h"

/* A message that waits this long for a receive is worth a line, at either end. */
#define SN_STARVED_NS UINT64_C(1000000000)

/*
 * transport/owner.c: the process at the other end, on the same host.
 * note: the peer is the process that has the slot now.
 * stays: no other process has replaced it. False: one has, and the queue pair is in ERR.
 * look: the same, asked of the wire; `stays` calls it when it is time.
 * sent: may this frame be the peer's?
 */
void sn_owner_note(struct sn_qp *qp);
bool sn_owner_look(struct sn_qp *qp);
static inline bool sn_owner_stays(struct sn_qp *qp)
{
    return qp->nic->now < qp->owner_look || sn_owner_look(qp);
}
bool sn_owner_sent(struct sn_qp *qp, const struct sn_frame *f);

/* transport/packet.c: frames to the QP's peer; sn_tx_begin_to and sn_tx_end_to: to anybody. */
void sn_route_set(struct sn_nic *nic, struct sn_route *to, const uint8_t gid[16], uint32_t qpn);
/* After that, for a queue pair: from which entries of the NIC's tables. Both are there. */
void sn_route_from(const struct sn_nic *nic, struct sn_route *to, unsigned sgid_index, unsigned pkey_index);
uint8_t *sn_tx_begin(struct sn_qp *qp); /* room for a frame, or NULL: later */
uint8_t *sn_tx_begin_for(struct sn_qp *qp,
                         const struct sn_route *to); /* the same for one that goes elsewhere */
void sn_tx_end(struct sn_qp *qp, uint8_t *frame, struct roce_hdr *h, uint32_t payload_len);
uint8_t *sn_tx_begin_to(struct sn_nic *nic, const struct sn_route *to);
void sn_tx_end_to(struct sn_nic *nic, struct sn_route *to, uint8_t *frame, struct roce_hdr *h,
                  uint32_t payload_len);
void sn_tx_mark_rndv(struct sn_qp *qp); /* what sn_tx_end has just made is one */
void sn_tx_count(struct sn_qp *qp, const struct roce_hdr *h, uint32_t payload_len); /* for `gpuwire nic` */
/* The ring's position after the last frame that was made; have the frames up to a position been taken out? */
uint32_t sn_tx_position(const struct sn_nic *nic, bool looped);
void sn_tx_push(struct sn_nic *nic);   /* offers the wire what there is */
bool sn_rx_looped(struct sn_nic *nic); /* what this NIC has sent to itself. false: nothing */
bool sn_rx(struct sn_nic *nic);        /* receives some. false: there was nothing */

/* transport/mad.c: a packet for queue pair 1. */
void sn_mad_rx(struct sn_nic *nic, const struct sn_frame *f, const struct roce_hdr *h, uint8_t *payload,
               uint32_t len);

/* transport/rto.c */
void sn_timers_expire(struct sn_nic *nic);

/* The result of a step of a QP. SN_FULL: frames, or copies, that are under way have to go first. */
enum sn_step { SN_IDLE, SN_DID, SN_FULL };

/* transport/requester.c, requester_rx.c */
void sn_requester_init(struct sn_qp *qp, uint32_t psn);
enum sn_step sn_requester_step(struct sn_qp *qp);
/* A request without packets at its turn: true if it may go on, else s->error says why not. */
bool sn_requester_local(struct sn_qp *qp, struct sn_sreq *s);
/* The next packet of a SEND or WRITE. 0, or the syndrome with which it fails when its time comes. */
uint8_t sn_requester_data_packet(struct sn_qp *qp, struct sn_sreq *s, uint8_t *frame);
/* The fields that the header of a SEND's or WRITE's packet takes from the WQE. last: the message's last
 * packet. */
static inline void sn_requester_fill(struct roce_hdr *h, const struct gw_mlx5_wqe *w, bool last)
{
    h->solicited = last && w->solicited;
    h->xrcsrq = w->srqn;
    h->va = w->raddr;
    h->rkey = w->rkey;
    h->dlen = w->length;
    h->imm_be = w->imm_be;
}
uint32_t sn_requester_psn(const struct sn_qp *qp);        /* of the next packet */
enum roce_msg sn_requester_kind(uint8_t opcode);          /* of a SEND or WRITE */
void sn_requester_drained(struct sn_qp *qp);              /* in SQD: says so, if it was asked for */
void sn_requester_back(struct sn_qp *qp);                 /* to the oldest packet that is not acknowledged */
void sn_requester_lost(struct sn_requester *r);           /* something was: the window closes */
void sn_requester_probed(struct sn_qp *qp, uint32_t end); /* everything before end is done: what of a probe */
void sn_requester_timeout(struct sn_qp *qp);
void sn_requester_restart_timer(struct sn_qp *qp);
void sn_requester_measure(struct sn_qp *qp); /* una_psn has moved */
/* For GW_CHECK: one queue pair's PSNs, windows and READs; and the slots of its responder. */
void sn_requester_check(const struct sn_qp *qp);
void sn_responder_check(const struct sn_qp *qp);
void sn_answer_rx(struct sn_qp *qp, const struct roce_hdr *h, const uint8_t *payload, uint32_t len);

/* transport/direct.c: WRITEs and READs executed by copies between processes of one host. */
bool sn_direct_step(struct sn_qp *qp, struct sn_sreq *s, enum sn_step *did); /* false: not this way */
/* transport/direct_batch.c */
/* Ended batches are completed, and the next one is started if there would soon be none. False: nothing has
 * changed. */
bool sn_direct_go(struct sn_nic *nic);
/* All accesses are made, and have ended; not inside the end of one. false: there were none. */
bool sn_direct_drain(struct sn_nic *nic);
/* No bytes are being copied any more, or will be; what that means to requests comes later. */
void sn_direct_settle(struct sn_nic *nic);
/* Is this process inside that peer's memory already? */
static inline bool sn_direct_is_inside(const struct sn_nic *nic, const struct sn_peer *peer)
{
    return nic->direct.peer == peer;
}

/* transport/eager_copy.c: WRITEs with immediate data whose bytes go ahead of them, as direct accesses. */
bool sn_eager_kind(const struct sn_sreq *s);
bool sn_eager_like(const struct sn_sreq *s); /* it changes no bytes any more: it was placed, or has none */
/* The same for one that may be placed, as far as its queue pair's past goes. false: by packets. */
bool sn_eager_wanted(struct sn_qp *qp, struct sn_sreq *s);
/* This request changes bytes when it is executed: nothing after it is placed before that. */
void sn_eager_not_before(struct sn_requester *r, uint32_t at);
/* May bytes be placed although requests of the queue pair are under way? */
bool sn_eager_may_follow(const struct sn_qp *qp);
/* If not: is it worth waiting for them? */
bool sn_eager_waits(struct sn_qp *qp, const struct sn_sreq *s);
/* Is it worth placing at all? dma: not all of its memory is plain. */
bool sn_eager_worth(struct sn_qp *qp, const struct sn_sreq *s, bool dma);
/* Is the next request, which was placed, to be sent as such? Otherwise it goes by packets, as what follows.
 */
bool sn_eager_stands(struct sn_qp *qp);
bool sn_eager_window_open(const struct sn_qp *qp, const struct sn_sreq *s);
void sn_eager_make(struct sn_qp *qp, struct sn_sreq *s, uint8_t *frame);
/* From the oldest request on all that was placed goes by packets: its peer does not believe it, or says
 * nothing. */
void sn_eager_unanswered(struct sn_qp *qp, bool refused);
/* The responder: the peer says that the bytes are there. Can that be so? */
bool sn_eager_is(const struct sn_qp *qp, const struct sn_frame *f, const struct roce_hdr *h, uint32_t len);
void sn_eager_parse(const uint8_t *payload, const struct roce_hdr *h, struct sn_body *body);
bool sn_eager_believed(struct sn_qp *qp, const struct sn_mr *mr, const struct sn_body *body);
/* The packet that ends at this PSN was executed: did it change bytes? */
void sn_eager_executed(struct sn_qp *qp, uint32_t psn, bool changed);

/* transport/self.c: with what a queue pair's peer is looked up. */
struct sn_peers sn_peers_of(const struct sn_qp *qp);

/* transport/rendezvous.c: long SENDs and WRITEs that the responder fetches. */
uint32_t sn_rndv_min(uint32_t configured);
bool sn_rndv_wanted(struct sn_qp *qp, struct sn_sreq *s); /* may the next packet be an offer? */
uint32_t sn_rndv_packets(const struct sn_qp *qp,
                         const struct sn_sreq *s); /* how many packets it stands for */
bool sn_rndv_window_open(const struct sn_qp *qp, uint32_t n);
bool sn_rndv_make(struct sn_qp *qp, struct sn_sreq *s, uint8_t *frame); /* false: by packets after all */
/* The oldest request goes by packets, if it was offered: its peer cannot fetch it, or says nothing. */
void sn_rndv_unanswered(struct sn_qp *qp, bool refused);
bool sn_rndv_parse(struct sn_rndv *o, const uint8_t *payload, uint32_t len); /* false: it is none */
/* Copies what is offered to these pieces, which are as long. False: nothing, or not all, was copied. */
bool sn_rndv_pull(struct sn_qp *qp, const struct sn_rndv *o, const struct sn_places *here);

/* transport/rate.c */
enum { SN_CNP_BYTES = 16 };
void sn_rate_init(struct sn_qp *qp);
void sn_rate_marked(struct sn_qp *qp);         /* a packet of the peer's was marked on its way */
enum sn_step sn_rate_notify(struct sn_qp *qp); /* sends the notification */
void sn_rate_cut(struct sn_qp *qp);            /* one has come */
/* May a packet leave now? If not the queue pair is woken when one may. */
bool sn_rate_open(struct sn_qp *qp);
void sn_rate_sent(struct sn_qp *qp, uint32_t bytes);

/* transport/responder.c, responder_tx.c, refuse.c */
void sn_request_rx(struct sn_qp *qp, const struct roce_hdr *h, const struct sn_body *body);
enum sn_step sn_responder_step(struct sn_qp *qp);
void sn_responder_nak(struct sn_qp *qp, uint8_t syndrome, uint32_t psn);
void sn_responder_fatal(struct sn_qp *qp, enum roce_nak nak, uint32_t psn, enum ibv_event_type event);

/* transport/unreliable.c: UC and UD. A request is done when the wire has taken its last frame. */
enum sn_step sn_unreliable_step(struct sn_qp *qp);
/* In SQE: flushes what was posted until now, which must not come to life again. false: the QP is in ERR now.
 */
bool sn_unreliable_resume(struct sn_qp *qp);
/* UC: is this packet the next of the message under way, or the first of a new one? Otherwise it is dropped.
 */
bool sn_uc_in_order(struct sn_qp *qp, const struct roce_hdr *h);
void sn_uc_drop(struct sn_qp *qp, uint64_t *counter); /* this packet, and with it its message */

/* transport/ud.c */
/* What is wrong with a request, or NULL; then s->error says what its completion will. */
const char *sn_ud_check(struct sn_qp *qp, struct sn_sreq *s, const struct gw_mlx5_wqe *w);
enum sn_step sn_ud_send(struct sn_qp *qp, struct sn_sreq *s);
void sn_ud_rx(struct sn_qp *qp, const struct sn_frame *f, const struct roce_hdr *h, const uint8_t *payload,
              uint32_t len);

#endif
