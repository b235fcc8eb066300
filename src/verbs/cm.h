/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the connection manager. */
#ifndef GW_VERBS_CM_H
#define GW_VERBS_CM_H

#include <rdma/rdma_cma.h>

#include <gpuwire/connect.h>

#include "src/verbs/impl.h"

struct gw_link {
    struct rdma_event_channel *ch; /* its own: no other thread waits on it */
    struct rdma_cm_id *id;
    bool ended;
};

/* Of each, what is said for either side. */
struct gw_cm_terms {
    uint32_t mtu;    /* bytes */
    uint8_t respond; /* READs and atomics of the peer at once */
    uint8_t begin;   /* of our own */
};

/* ---- cm_data.c: private data --------------------------------------------------------------------------- */

#define GW_CM_OFFER_BYTES  56u  /* what a request has room for */
#define GW_CM_REFUSE_BYTES 128u /* a refusal has room for 148 */

void gw_cm_pack(const struct gw_offer *offer, uint32_t mtu, uint8_t out[GW_CM_OFFER_BYTES]);
/* -EPROTO: not one of ours, of another version, or senseless. */
int gw_cm_unpack(const void *data, size_t len, struct gw_offer *offer, uint32_t *mtu);
void gw_cm_pack_refusal(const char *why, uint8_t out[GW_CM_REFUSE_BYTES]);
/* Printable text for people; empty when there is none. */
void gw_cm_unpack_refusal(const void *data, size_t len, char *why, size_t size);

/* ---- cm_event.c: ids and their events ------------------------------------------------------------------ */

/* A channel that never blocks; NULL with an error line: no rdma_cm here. */
struct rdma_event_channel *gw_cm_channel(void);
/* The channel's next event, for rdma_ack_cm_event. -ETIMEDOUT, -ECANCELED without an error line. */
int gw_cm_event(struct rdma_event_channel *ch, int stop_fd, uint64_t deadline_ns, struct rdma_cm_event **ev);
/*
 * rdma_resolve_addr from the device's own address: so the id lies on that device, even if another NIC of the
 * host is in the same subnet. 0, or -1 and errno.
 */
int gw_cm_resolve(const struct gw_device *dev, struct rdma_cm_id *id, struct sockaddr *to, int ms);
/* The end of an error's line that says what rdma_cm lacks on this device; empty: nothing that is known. */
const char *gw_cm_lacks(const struct gw_device *dev);
/* Does the id lie on the device? else -EXDEV. */
int gw_cm_same_device(const struct gw_device *dev, const struct rdma_cm_id *id);
void gw_cm_address(const struct sockaddr *sa, char *text, size_t size);
/* The meaning of an event that ends an attempt, as an error with its line; `who` is the peer. */
int gw_cm_failure(const struct rdma_cm_event *ev, const char *who);
/* rdma_cm does not report that a peer has left before it was accepted. Its calls on that id fail instead,
 * with -EINVAL: -ECONNRESET then, and else err. */
int gw_cm_gave_up(int err);
/* RESET → INIT → RTR → RTS as rdma_cm says. -ECONNRESET: the peer has left. */
int gw_cm_bring_up(struct gw_qp *qp, struct rdma_cm_id *id, const struct gw_connect_opts *o,
                   const struct gw_cm_terms *terms);
/* Our own wishes, by options and device. -EINVAL: an option is out of range. */
int gw_cm_terms(const struct gw_qp *qp, const struct gw_connect_opts *o, struct gw_cm_terms *terms);
/* Both sides' smaller ones. mtu is the peer's in bytes. */
void gw_cm_agree(struct gw_cm_terms *terms, const struct rdma_conn_param *theirs, uint32_t mtu);

#endif
