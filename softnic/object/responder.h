/* SPDX-License-Identifier: Apache-2.0 */
/* responder.h: the receiving half of a queue pair: what it expects, and what it has to answer. */
#ifndef SOFTNIC_OBJECT_RESPONDER_H
#define SOFTNIC_OBJECT_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/nic/nic.h"
#include "softnic/object/sreq.h"

enum sn_slot_kind { SN_SLOT_FREE, SN_SLOT_READ, SN_SLOT_ATOMIC };

/* A READ or atomic that was accepted; kept for repetition until the slot is needed again. */
struct sn_slot_rd {
    enum sn_slot_kind kind;
    bool pending;          /* has to be answered, from packet next on */
    bool answered;         /* was, to its end; pending again means that the peer asked again */
    uint32_t psn, packets; /* of the whole */
    uint32_t first;        /* where this answer begins (a repeated READ may begin later): packets from psn */
    uint32_t next;         /* packets from psn */
    uint32_t count;        /* where it ends: packets from psn */
    uint32_t len;          /* bytes of this answer, from packet first on */
    /* As the first request had them: a repeated one stays within. */
    uint64_t va;
    uint32_t whole; /* bytes */
    uint32_t srqn;  /* XRC: whose rights count */
    uint32_t rkey;
    uint64_t orig; /* atomics: what was there before */
    uint64_t request;
};

enum sn_message { SN_MSG_NONE, SN_MSG_SEND, SN_MSG_WRITE };

struct sn_responder {
    uint32_t epsn; /* next PSN expected */
    uint32_t msn;
    enum sn_message message; /* one that began and has not ended */
    bool silent;             /* a NAK for epsn is on its way: whatever comes until epsn is dropped */
    bool fatal;              /* the NAK ends the connection */
    bool established;        /* an event told that a packet came before RTS */
    bool ack_pending, nak_pending;
    uint8_t nak; /* its syndrome */
    uint32_t ack_psn, nak_psn;
    /* of the last SEND or WRITE packet that was executed; before the first one: of none */
    uint32_t plain_psn;
    uint32_t changed_psn; /* of the last packet whose execution changed bytes, about: eager_copy.c */
    enum ibv_event_type fatal_event;
    /* WRITE under way */
    uint64_t va;
    uint32_t rkey, left;
    /* SEND under way */
    struct sn_srq *srq; /* XRC: whose the message is. NULL: none since the queue went */
    bool has_wqe;
    uint16_t entry;    /* of a shared receive queue: which WQE it is */
    uint32_t received; /* bytes */
    struct gw_mlx5_rwqe wqe;
    struct sn_cursor cursor;
    uint64_t starved_since; /* its peer has waited for a receive since then; 0: it does not */
    bool starved_told;      /* a line said so */
    bool has_slots;         /* a READ or atomic was ever accepted */
    struct sn_slot_rd slots[SN_MAX_RD_ATOMIC];
    uint32_t slot_head; /* free-running: the next READ or atomic takes slots[slot_head % SN_MAX_RD_ATOMIC] */
};

#endif
