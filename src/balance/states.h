/* SPDX-License-Identifier: Apache-2.0 */
/* states.h: what a flow can be in, and what a TCP segment makes of it. Pure functions, any thread. */
#ifndef GW_SRC_BALANCE_STATES_H
#define GW_SRC_BALANCE_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "src/balance/parse.h"

/* The names are those of Linux' connection tracking. */
enum bal_flow_state {
    BAL_SYN_SENT, /* the client's SYN */
    BAL_UNPROVEN, /* like established, but a stranger could have sent all that was seen */
    BAL_SYN_RECV, /* the worker's SYN and ACK */
    BAL_ESTABLISHED,
    BAL_FIN_WAIT,   /* one side's FIN */
    BAL_CLOSE_WAIT, /* that has been acknowledged */
    BAL_LAST_ACK,   /* the other side's FIN */
    BAL_TIME_WAIT,
    BAL_CLOSE, /* reset */
    BAL_LOOSE, /* a segment in the middle of a connection whose beginning we have not seen */
    BAL_UDP_NEW,
    BAL_UDP_STREAM,
    BAL_ROCE_OPENING,
    BAL_ROCE_LIVE,
    BAL_ROCE_CLOSING,
    BAL_FRAGMENT, /* the first fragment of a packet that has more */
};

/* States whose flows may make room for new ones when a table is full: nothing that a worker has answered. */
#define BAL_EVICTABLE                                                                                        \
    (1u << BAL_SYN_SENT | 1u << BAL_SYN_RECV | 1u << BAL_TIME_WAIT | 1u << BAL_CLOSE | 1u << BAL_LOOSE |     \
     1u << BAL_UDP_NEW | 1u << BAL_ROCE_OPENING | 1u << BAL_FRAGMENT)
/* And these, once they have been quiet for a while, where none of the others is near. */
#define BAL_EVICTABLE_IDLE                                                                                   \
    (1u << BAL_UNPROVEN | 1u << BAL_FIN_WAIT | 1u << BAL_CLOSE_WAIT | 1u << BAL_LAST_ACK |                   \
     1u << BAL_UDP_STREAM)

/* Which segments we see: with NAT both directions, otherwise the client's segments alone. */
enum bal_side { BAL_FROM_CLIENT, BAL_FROM_WORKER, BAL_CLIENT_ONLY };

enum {
    BAL_REOPEN = 0x100, /* not a state: this SYN begins a new connection in the place of one that has ended */
    BAL_RENEW,          /* the same where its end is not known: it keeps its worker */
};

/* The evidence of a segment's numbers, beside the notes of earlier segments (sequence.h). */
enum bal_evidence {
    BAL_ACKS = 1,   /* it acknowledges exactly the other side's SYN or FIN */
    BAL_NOTED = 2,  /* the other side's SYN or FIN is noted */
    BAL_AFTER = 4,  /* it comes right after its own side's FIN */
    BAL_FAR = 8,    /* no connection has both this segment and the FIN that was noted: one is a stranger's */
    BAL_LUCKY = 16, /* drawn by lot, so that a flow of many segments is likely to have had it */
};

/* The state after a segment with these flags, or BAL_REOPEN, or BAL_RENEW. A segment that fits nowhere
 * changes nothing. */
int bal_tcp_next(int state, uint8_t flags, enum bal_side side, unsigned evidence);
/* The state that the client's first segment opens, or -1: it opens nothing (RST, SYN with FIN, no flags). */
int bal_tcp_first(uint8_t flags);

/* The same for UDP. */
static inline int bal_udp_next(int state, enum bal_side side)
{
    /* Where no answers can be seen, a client's second datagram stands for one. */
    return side == BAL_FROM_CLIENT ? state : BAL_UDP_STREAM;
}

#endif
