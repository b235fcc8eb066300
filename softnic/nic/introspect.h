/* SPDX-License-Identifier: Apache-2.0 */
/*
 * introspect.h: looking into a NIC while it works: what its objects are and how far they have come.
 *
 * Objects are copied out some at a time, and the lock is held for microseconds each time. What is read of one
 * object is consistent; what is read of two need not be. The functions wait for the lock until wait_ns are
 * over, then return -ETIMEDOUT: the engine has been inside one call for that time. Any thread.
 */
#ifndef SOFTNIC_NIC_INTROSPECT_H
#define SOFTNIC_NIC_INTROSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/nic/nic.h"

enum { SN_REPORT_LINE = 320, SN_SEE_QPS = 32, SN_SEE_CQS = 64 };

/* Per queue pair; as in struct sn_counters. */
struct sn_qp_counters {
    uint64_t tx_packets, tx_bytes, rx_packets, rx_bytes;
    uint64_t retransmits, go_backs, timeouts, probes;
    uint64_t naks_received, rnr_received, naks_sent, rnr_sent;
};

struct sn_qp_view {
    uint32_t number;
    enum ibv_qp_type type;
    enum ibv_qp_state state;
    uint32_t peer; /* queue pair number; connected types, from RTR on */
    uint8_t peer_gid[16];
    uint32_t mtu, send_cq, recv_cq;
    uint32_t una_psn;      /* oldest not acknowledged */
    uint32_t next_psn;     /* of the next packet that is sent for the first time */
    uint32_t expected_psn; /* from the peer */
    uint32_t posted;       /* send WQEBBs rung and not read yet */
    uint32_t outstanding;  /* send requests read and not complete */
    uint32_t reads;        /* of them READs and atomics that wait for their answers */
    int receives;          /* receive WQEs posted and not used; -1: the record cannot be right */
    uint32_t window;       /* packets that may be unacknowledged */
    bool rnr_wait;         /* waits because the peer had no receive posted */
    uint8_t retries, rnr_retries;
    uint64_t srtt_ns; /* how long answers take; 0: not known */
    uint8_t syndrome; /* of the first error completion; 0: none */
    struct sn_qp_counters count;
    char line[SN_REPORT_LINE]; /* what was last reported about it; "": nothing */
};

struct sn_cq_view {
    uint32_t number, entries, entry_size;
    uint32_t written;  /* completions so far, mod 2^32 */
    uint32_t unpolled; /* of them not taken by the program; if it keeps the record */
    bool armed, dead;
    uint32_t events;
};

struct sn_totals {
    unsigned qps, cqs, mrs, pds;
    uint64_t mr_bytes;
};

/* From *cursor (0 to begin with) on; *cursor moves. Returns how many were copied, 0 at the end, or
 * -ETIMEDOUT. */
int sn_introspect_qps(struct sn_nic *nic, uint32_t *cursor, struct sn_qp_view *out, int max,
                      uint64_t wait_ns);
int sn_introspect_cqs(struct sn_nic *nic, uint32_t *cursor, struct sn_cq_view *out, int max,
                      uint64_t wait_ns);
int sn_introspect_totals(struct sn_nic *nic, struct sn_totals *out, uint64_t wait_ns);

/* The NIC's lock, for a change of its wire: 0, or -ETIMEDOUT. Ended by sn_nic_unlock. */
int sn_introspect_lock(struct sn_nic *nic, uint64_t wait_ns);

/* "RTS", "RC" and the like. Constant. */
const char *sn_qp_state_text(enum ibv_qp_state state);
const char *sn_qp_type_text(enum ibv_qp_type type);

#endif
