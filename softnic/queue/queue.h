/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h: the queues that a program shares with the NIC: send, receive, shared receive and completion
 * queues. */
#ifndef SOFTNIC_QUEUE_QUEUE_H
#define SOFTNIC_QUEUE_QUEUE_H

#include "softnic/object/nic.h"
#include "softnic/region/region.h"

/* error.c */
/* sn_vendor_error - the code that a ConnectX puts beside a syndrome of a completion; 0: none is known. */
uint8_t sn_vendor_error(uint8_t syndrome);
void sn_qp_error(struct sn_qp *qp); /* to ERR; everything posted will be flushed */
void sn_qp_send_error(
    struct sn_qp *qp); /* a send request failed: to ERR, or to SQE on unacknowledged transports */
void sn_qp_fatal(struct sn_qp *qp); /* to ERR, and an event says so */

/* sq.c */
/* What else is wrong with a request, or NULL; s->error then says what its completion will. */
typedef const char *sn_wqe_check(struct sn_qp *qp, struct sn_sreq *s, const struct gw_mlx5_wqe *w);
/* Reads the next WQE into the ring. false: there is none, or no room. check: what its service forbids; may be
 * NULL. */
bool sn_sq_fetch(struct sn_qp *qp, sn_wqe_check *check);
bool sn_sq_complete(struct sn_qp *qp); /* completes what is acknowledged. false: the QP is no longer alive */
void sn_sq_fail(struct sn_qp *qp, uint8_t syndrome); /* fails the oldest, and with it the QP */
bool sn_sq_flush_one(struct sn_qp *qp);
void sn_sq_rest(struct sn_qp *qp); /* gives the ring and arena back if nothing is under way; often called */
void sn_sq_free_rooms(struct sn_nic *nic);
/* For GW_CHECK: do the requests that were read, their counters, PSNs and copies agree? */
void sn_sq_check(const struct sn_qp *qp);

/* rq.c */
int sn_rq_fetch(
    struct sn_qp *qp); /* 1: resp.wqe is the next; 0: none; negative: it, or the record, is wrong */
int sn_rq_complete(struct sn_qp *qp, struct gw_mlx5_wc *wc, const void *scatter, uint32_t len);
void sn_rq_fail(struct sn_qp *qp, uint8_t syndrome);
bool sn_rq_flush_one(struct sn_qp *qp);
bool sn_rq_waiting(struct sn_qp *qp); /* are there receive WQEs */

/* srq.c: takes the next WQE for a QP, as sn_rq_fetch. */
int sn_srq_take(struct sn_srq *srq, struct sn_qp *qp);
/* The XRC queue of that number that a QP of this domain may take from, or NULL. */
struct sn_srq *sn_srq_find(struct sn_nic *nic, const struct sn_xrcd *xrcd, uint32_t number);
/* Whose regions a peer may name: the QP's, or with XRC those of the queue that the packet is for. NULL: none.
 */
const struct sn_pd *sn_resp_pd(const struct sn_qp *qp, uint32_t srqn);

/* cq.c: 0, or -EOVERFLOW: the CQ is dead, and the QP has been put into ERR. scatter: payload for the CQE. */
int sn_cq_post(struct sn_cq *cq, struct sn_qp *qp, const struct gw_mlx5_wc *wc, const void *scatter,
               uint32_t len);
int sn_cq_post_now(struct sn_cq *cq, struct sn_qp *qp, const struct gw_mlx5_wc *wc, const void *scatter,
                   uint32_t len);                       /* also in hostile mode */
void sn_cq_armed(struct sn_uar *uar, struct sn_cq *cq); /* after a ring for this one */
struct sn_cq *sn_cq_find(struct sn_nic *nic, uint32_t number);

/* cq_late.c: those that hostile mode holds back. */
void sn_cq_release_late(struct sn_nic *nic, bool all);
void sn_cq_drop_late(struct sn_qp *qp); /* those of a QP with an SRQ are written, as they give WQEs back */
void sn_cq_drop_late_uidx(struct sn_cq *cq, uint32_t uidx); /* receives of an XRC queue */

#endif
