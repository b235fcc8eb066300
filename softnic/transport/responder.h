/* SPDX-License-Identifier: Apache-2.0 */
/*
 * responder.h: what the files of the responder's receiving half share. responder.c looks whether a request
 * packet may be executed. responder_write.c executes SENDs and WRITEs, responder_read.c READs and atomics.
 * refuse.c says why one is refused. All of it under the NIC's lock.
 */
#ifndef SOFTNIC_TRANSPORT_RESPONDER_H
#define SOFTNIC_TRANSPORT_RESPONDER_H

#include "softnic/transport/transport.h"

/* refuse.c: the packet is refused. The fault of the packet: */
void sn_resp_invalid(struct sn_qp *qp, const struct roce_hdr *h, const char *what);
/* A READ or atomic whose PSN was taken before names what the first one did not, which is `what`. */
void sn_resp_not_repeated(struct sn_qp *qp, const struct roce_hdr *h, const char *what);
/* The peer named a key, or a range, that it was never given: counted, and reported if it looks like guessing.
 * certain: no mistake looks like that. */
void sn_resp_guessed(struct sn_qp *qp, bool certain);
/* The registered memory itself failed. */
void sn_resp_memory_failed(struct sn_qp *qp, uint32_t psn);
/* Our own receive WQE is at fault: its owner learns what, the peer only that. */
void sn_resp_receive_failed(struct sn_qp *qp, const struct roce_hdr *h, uint8_t syndrome, enum roce_nak nak);

/* What it offers cannot be fetched, or is not believed to be in its place; counted there. As if it had been
 * lost: the requester sends the bytes instead. */
void sn_resp_no_bytes(struct sn_qp *qp, const struct roce_hdr *h, uint64_t *counter);

/* The region by which the packet may access len > 0 bytes at va. NULL: refused. */
struct sn_mr *sn_resp_remote(struct sn_qp *qp, const struct roce_hdr *h, uint32_t rkey, uint64_t va,
                             uint64_t len, uint32_t access);
/*
 * All payload that the coming acknowledgement or completion vouches for is visible from here on: a NIC may
 * leave that open until then, and no longer. false: refused.
 */
bool sn_resp_settle(struct sn_qp *qp, const struct roce_hdr *h);

/* responder_write.c: the next packet of a message. flags: roce_flags() of its opcode. */
void sn_take_send(struct sn_qp *qp, const struct roce_hdr *h, uint32_t flags, const struct sn_body *body);
void sn_take_write(struct sn_qp *qp, const struct roce_hdr *h, uint32_t flags, const struct sn_body *body);

/* responder_read.c: a new one, or one that was taken before and is to be answered again. */
void sn_take_read(struct sn_qp *qp, const struct roce_hdr *h);
void sn_take_atomic(struct sn_qp *qp, const struct roce_hdr *h);
void sn_take_again(struct sn_qp *qp, const struct roce_hdr *h);

#endif
