/* SPDX-License-Identifier: Apache-2.0 */
#include "src/balance/states.h"

/* What a segment is about. A RST counts before a SYN, a SYN before a FIN. */
enum kind { SYN, SYNACK, FIN, ACK, RST, NONE };

static enum kind kind_of(uint8_t flags)
{
    if (flags & BAL_RST) return RST;
    if ((flags & (BAL_SYN | BAL_FIN)) == (BAL_SYN | BAL_FIN)) return NONE; /* no host sends it */
    if (flags & BAL_SYN) return flags & BAL_ACK ? SYNACK : SYN;
    if (flags & BAL_FIN) return FIN;
    return flags & BAL_ACK ? ACK : NONE;
}

int bal_tcp_first(uint8_t flags)
{
    switch (kind_of(flags)) {
    case SYN: return BAL_SYN_SENT;
    case ACK:
    case FIN: return BAL_LOOSE;
    default: return -1;
    }
}

static int on_syn(int state, enum bal_side side)
{
    if (state == BAL_TIME_WAIT || state == BAL_CLOSE) return side == BAL_FROM_WORKER ? state : BAL_REOPEN;
    /* Of a connection that only the client's side is seen of, FIN_WAIT is all there is to see of its end. */
    if (side == BAL_CLIENT_ONLY && state == BAL_FIN_WAIT) return BAL_REOPEN;
    if (state == BAL_LOOSE && side != BAL_FROM_WORKER) return BAL_REOPEN;
    if (state == BAL_SYN_SENT && side == BAL_FROM_WORKER) return BAL_SYN_SENT2;
    return state;
}

static int on_synack(int state, enum bal_side side)
{
    if (state == BAL_SYN_SENT && side == BAL_FROM_WORKER) return BAL_SYN_RECV;
    if (state == BAL_SYN_SENT2) return BAL_SYN_RECV;
    return state;
}

static int on_fin(int state, enum bal_side side)
{
    switch (state) {
    case BAL_SYN_RECV:
    case BAL_ESTABLISHED:
    case BAL_LOOSE: return BAL_FIN_WAIT;
    case BAL_SYN_SENT: return side == BAL_CLIENT_ONLY ? BAL_FIN_WAIT : state;
    case BAL_FIN_WAIT:
    case BAL_CLOSE_WAIT: return side == BAL_CLIENT_ONLY ? state : BAL_LAST_ACK;
    default: return state;
    }
}

static int on_ack(int state, enum bal_side side)
{
    switch (state) {
    case BAL_SYN_SENT: /* with both sides in sight, the worker's answer comes first */
        return side == BAL_CLIENT_ONLY ? BAL_ESTABLISHED : state;
    case BAL_SYN_RECV: return side == BAL_FROM_WORKER ? state : BAL_ESTABLISHED;
    case BAL_LOOSE: return side == BAL_FROM_CLIENT ? state : BAL_ESTABLISHED;
    case BAL_FIN_WAIT: return side == BAL_CLIENT_ONLY ? state : BAL_CLOSE_WAIT;
    case BAL_LAST_ACK: return BAL_TIME_WAIT;
    default: return state;
    }
}

int bal_tcp_next(int state, uint8_t flags, enum bal_side side)
{
    switch (kind_of(flags)) {
    case SYN: return on_syn(state, side);
    case SYNACK: return on_synack(state, side);
    case FIN: return on_fin(state, side);
    case ACK: return on_ack(state, side);
    case RST: return state == BAL_LOOSE && side == BAL_FROM_CLIENT ? state : BAL_CLOSE;
    default: return state;
    }
}
