/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cm.h: communication management datagrams: how two ends agree on a connection (InfiniBand architecture
 * volume 1, chapter 12), and what rdma_cm adds to them (annex A11).
 *
 * A management datagram (MAD) is 256 bytes, sent by UD SEND from queue pair 1 to queue pair 1: a header of
 * 24 bytes and 232 of message. Pure functions, any thread. The parser takes any 256 bytes.
 */
#ifndef GW_SRC_ROCE_CM_H
#define GW_SRC_ROCE_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROCE_MAD_LEN = 256,
    ROCE_MAD_HDR = 24,
    ROCE_CM_CLASS = 7,
    ROCE_CM_VERSION = 2,
    ROCE_MAD_SEND = 3, /* the method of all messages of this class */
    ROCE_GSI_QPN = 1,
    ROCE_CM_PRIVATE = 224, /* the most private data that any message has room for */
    ROCE_CM_INFO = 72,     /* additional information in REJ and SIDR_REP */
    ROCE_LID_PERMISSIVE = 0xffff,
};
#define ROCE_GSI_QKEY 0x80010000u

enum roce_cm_attr {
    ROCE_CM_REQ = 0x10,
    ROCE_CM_MRA = 0x11,
    ROCE_CM_REJ = 0x12,
    ROCE_CM_REP = 0x13,
    ROCE_CM_RTU = 0x14,
    ROCE_CM_DREQ = 0x15,
    ROCE_CM_DREP = 0x16,
    ROCE_CM_SIDR_REQ = 0x17,
    ROCE_CM_SIDR_REP = 0x18,
};

/* Why a REQ or REP was rejected (table "REJ reasons"); those that are used here. */
enum roce_cm_reason {
    ROCE_REJ_NO_RESOURCES = 3,
    ROCE_REJ_TIMEOUT = 4,
    ROCE_REJ_UNSUPPORTED = 5,
    ROCE_REJ_INVALID_COMM_ID = 6,
    ROCE_REJ_INVALID_SERVICE_ID = 8,
    ROCE_REJ_INVALID_TRANSPORT = 9,
    ROCE_REJ_STALE_CONN = 10,
    ROCE_REJ_INVALID_GID = 12,
    ROCE_REJ_INVALID_MTU = 26,
    ROCE_REJ_CONSUMER = 28,
};

/* The subject of a REJ or MRA. */
enum roce_cm_about { ROCE_ABOUT_REQ, ROCE_ABOUT_REP, ROCE_ABOUT_OTHER };

enum roce_sidr_status { ROCE_SIDR_OK, ROCE_SIDR_UNSUPPORTED, ROCE_SIDR_REJECT, ROCE_SIDR_NO_QP };

/*
 * One message, of any kind: each has some of these fields, and the others are 0 after a parse and ignored
 * when building. Host byte order. Names and units are the specification's; times are exponents t of
 * 4.096 us * 2^t.
 */
struct roce_cm {
    uint16_t attr; /* enum roce_cm_attr */
    uint64_t tid;
    uint32_t attr_mod;            /* REQ, REP: options of enhanced connection establishment */
    uint32_t local_id, remote_id; /* the sender's and the receiver's; SIDR: local_id is the request's */
    uint64_t service_id;
    uint64_t ca_guid;
    uint32_t vendor_id; /* REQ, REP: of enhanced connection establishment */
    uint32_t qkey, qpn, psn;
    uint32_t responder_resources, initiator_depth;
    uint32_t remote_timeout, local_timeout, max_retries; /* of the CM's own messages */
    uint32_t transport, ext_transport;                   /* 0 RC, 1 UC, 3 as ext_transport says */
    uint32_t flow_control, retry_count, rnr_retry, srq;
    uint32_t pkey;
    uint32_t mtu; /* path MTU code: 1 = 256 … 5 = 4096 */
    /* REQ: the primary path */
    uint32_t slid, dlid;
    uint8_t sgid[16], dgid[16];
    uint32_t flow_label, rate, traffic_class, hop_limit, sl, subnet_local, ack_timeout;
    uint32_t ack_delay, failover;    /* REP */
    uint32_t about, service_timeout; /* MRA; about: REJ too */
    uint32_t reason;                 /* REJ */
    uint32_t status;                 /* SIDR_REP */
    uint32_t info_len;
    uint8_t info[ROCE_CM_INFO];
    uint32_t private_len; /* after a parse: all there is room for; it says nothing about what was meant */
    uint8_t private_data[ROCE_CM_PRIVATE];
};

/* Bytes of private data that a message of this kind carries; 0 for one that is not known. */
uint32_t roce_cm_private_room(uint16_t attr);

/* 0; or -1 for what is no CM message of a kind that is known, in a version that is known. */
int roce_cm_parse(const uint8_t mad[ROCE_MAD_LEN], struct roce_cm *m);

/* Numbers are cut to their fields' widths, private data and info to their room. -1: unknown attr. */
int roce_cm_build(uint8_t mad[ROCE_MAD_LEN], const struct roce_cm *m);

/*
 * The communication ID by which the receiver of a MAD knows what it is about: the remote ID, for SIDR_REP the
 * request's. False for a message without one (REQ, SIDR_REQ), and for what is no CM message.
 */
bool roce_cm_receiver_id(const uint8_t mad[ROCE_MAD_LEN], uint32_t *id);

/* The same for a whole packet, from BTH to ICRC, of any length and contents. */
bool roce_cm_receiver_of_packet(const uint8_t *p, size_t len, uint32_t *id);

/* ---- rdma_cm (annex A11) ------------------------------------------------------------------------------ */

/* The service ID of a port in a port space (RDMA_PS_TCP …), as the annex forms it. */
static inline uint64_t roce_cm_service_id(uint16_t port_space, uint16_t port)
{
    return (uint64_t)port_space << 16 | port;
}

enum { ROCE_CMA_HDR = 36 };

/* The beginning of REQ's and SIDR_REQ's private data: both ends of the connection, in terms of IP. */
struct roce_cma_hdr {
    bool ipv6;
    uint16_t port;            /* the sender's */
    uint8_t src[16], dst[16]; /* an IPv4 address is in the last four bytes */
};

/* 0; or -1: another version, or neither IPv4 nor IPv6. */
int roce_cma_parse(const uint8_t p[ROCE_CMA_HDR], struct roce_cma_hdr *h);
void roce_cma_build(uint8_t p[ROCE_CMA_HDR], const struct roce_cma_hdr *h);

#endif
