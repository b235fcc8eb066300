/* SPDX-License-Identifier: Apache-2.0 */
/* drop.h: why a packet goes nowhere. */
#ifndef GW_SRC_BALANCE_DROP_H
#define GW_SRC_BALANCE_DROP_H

enum bal_drop {
    BAL_DROP_BAD,          /* not what its headers say: too short, wrong length or header checksum */
    BAL_DROP_OTHER_HOST,   /* to the MAC of another host, or of a group */
    BAL_DROP_NOT_OURS,     /* for no service, and not ARP, ND or ICMP for the balancer */
    BAL_DROP_NO_WORKER,    /* no worker is up */
    BAL_DROP_NO_NEIGHBOUR, /* the next hop's MAC is not known yet */
    BAL_DROP_TOO_BIG,      /* it does not fit its way; its sender was told by ICMP */
    BAL_DROP_TTL,          /* its time to live is over */
    BAL_DROP_INVALID,      /* an answer to no flow, or a TCP segment that opens nothing */
    BAL_DROP_QP,           /* RoCE: the queue pair is not known, or its worker is down */
    BAL_DROP_FRAGMENT,     /* a later fragment whose first did not come */
    BAL_DROP_NO_ROOM,      /* no room in front of the packet, or in the sender's queue */
    BAL_DROPS,
};
const char *bal_drop_name(enum bal_drop why); /* "no_worker": a label for metrics */

#endif
