/* SPDX-License-Identifier: Apache-2.0 */
/* TCP's states: what a segment makes of each. */
#include "src/balance/states.h"

/* The kind of a segment. A RST counts before a SYN, a SYN before a FIN. */
enum kind { SYN, SYNACK, FIN, ACK, RST, NONE };

static enum kind states_kind(uint8_t flags)
{
    if (flags & BAL_RST) return RST;
    if ((flags & (BAL_SYN | BAL_FIN)) == (BAL_SYN | BAL_FIN)) return NONE; /* no host sends it */
    if (flags & BAL_SYN) return flags & BAL_ACK ? SYNACK : SYN;
    if (flags & BAL_FIN) return FIN;
    return flags & BAL_ACK ? ACK : NONE;
}

int bal_tcp_first(uint8_t flags)
{
    switch (states_kind(flags)) {
    case SYN: return BAL_SYN_SENT;
    case ACK:
    case FIN: return BAL_LOOSE;
    default: return -1;
    }
}

/* A SYN moves no connection that may live: without its numbers anybody can send one. */
static int on_syn(int state, enum bal_side side)
{
    if (side == BAL_FROM_WORKER) return state;
    if (state == BAL_TIME_WAIT) return BAL_REOPEN;
    /* Of a connection that only the client's side is seen of, this is all there is to see of its end. */
    if (side == BAL_CLIENT_ONLY && state == BAL_CLOSE_WAIT) return BAL_REOPEN;
    if (side == BAL_CLIENT_ONLY && state == BAL_FIN_WAIT) return BAL_RENEW;
    return state == BAL_CLOSE || state == BAL_LOOSE ? BAL_RENEW : state;
}

static int on_synack(int state, enum bal_side side)
{
    return state == BAL_SYN_SENT && side == BAL_FROM_WORKER ? BAL_SYN_RECV : state;
}

static int on_fin(int state, enum bal_side side, unsigned evidence)
{
    switch (state) {
    case BAL_SYN_RECV:
    case BAL_UNPROVEN:
    case BAL_ESTABLISHED:
    case BAL_CLOSE: return BAL_FIN_WAIT;
    case BAL_LOOSE: return side == BAL_FROM_CLIENT ? state : BAL_FIN_WAIT;
    case BAL_SYN_SENT: return side == BAL_CLIENT_ONLY ? BAL_FIN_WAIT : state;
    case BAL_FIN_WAIT:
    case BAL_CLOSE_WAIT: /* one side's second FIN is its first, once more */
        return side != BAL_CLIENT_ONLY && evidence & BAL_NOTED ? BAL_LAST_ACK : state;
    default: return state;
    }
}

static int on_ack_opening(int state, enum bal_side side, unsigned evidence)
{
    switch (state) {
    case BAL_SYN_SENT:
        /* With both sides in sight the worker's answer comes first. A plain ACK says that it has one. */
        return side == BAL_CLIENT_ONLY ? BAL_UNPROVEN : side == BAL_FROM_WORKER ? BAL_ESTABLISHED : state;
    case BAL_SYN_RECV:
        if (side == BAL_FROM_WORKER) return state;
        return evidence & BAL_ACKS ? BAL_ESTABLISHED : evidence & BAL_NOTED ? state : BAL_UNPROVEN;
    case BAL_LOOSE:
        if (side == BAL_FROM_WORKER) return BAL_ESTABLISHED;
        return side == BAL_CLIENT_ONLY && evidence & BAL_LUCKY ? BAL_UNPROVEN : state;
    default: /* BAL_UNPROVEN */
        if (side == BAL_FROM_WORKER) return BAL_ESTABLISHED;
        return side == BAL_CLIENT_ONLY && evidence & BAL_LUCKY ? BAL_ESTABLISHED : state;
    }
}

static int on_ack(int state, enum bal_side side, unsigned evidence)
{
    switch (state) {
    case BAL_SYN_SENT:
    case BAL_SYN_RECV:
    case BAL_LOOSE:
    case BAL_UNPROVEN: return on_ack_opening(state, side, evidence);
    case BAL_FIN_WAIT:
        if (evidence & BAL_FAR) return BAL_UNPROVEN;
        return evidence & (side == BAL_CLIENT_ONLY ? BAL_AFTER : BAL_ACKS) ? BAL_CLOSE_WAIT : state;
    case BAL_CLOSE_WAIT: return evidence & BAL_FAR ? BAL_UNPROVEN : state;
    case BAL_LAST_ACK: return evidence & BAL_FAR ? BAL_UNPROVEN : evidence & BAL_ACKS ? BAL_TIME_WAIT : state;
    case BAL_CLOSE: return BAL_UNPROVEN; /* who sends on has not been reset */
    default: return state;
    }
}

int bal_tcp_next(int state, uint8_t flags, enum bal_side side, unsigned evidence)
{
    switch (states_kind(flags)) {
    case SYN: return on_syn(state, side);
    case SYNACK: return on_synack(state, side);
    case FIN: return on_fin(state, side, evidence);
    case ACK: return on_ack(state, side, evidence);
    case RST: return state == BAL_LOOSE && side == BAL_FROM_CLIENT ? state : BAL_CLOSE;
    default: return state;
    }
}
