/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h: how much of everything the NIC handles at once. */
#ifndef SOFTNIC_OBJECT_LIMITS_H
#define SOFTNIC_OBJECT_LIMITS_H

#include "softnic/nic/nic.h"

enum {
    SN_TX_COMPANY = 30, /* packets worth a system call while earlier ones are under way */
    SN_RX_BATCH = 32,   /* frames asked from the wire at once */
    /* Packets a QP may send before it is the next one's turn: of the longest, as many as leave as one
       message. */
    SN_QUANTUM = 15,
    SN_SQ_WINDOW = 128,      /* send requests of a QP that were read and are not complete */
    SN_SQ_ARENA = 16384,     /* bytes of private copies of their WQEs */
    SN_SQ_ROOMS = 256,       /* kept for QPs that become busy; 27 KB each */
    SN_LATE_CQES = 256,      /* hostile mode: completions held back */
    SN_PIECES_BEHIND = 4096, /* hostile mode: pieces that come after their completions */
    SN_PLACE_PIECES = 128,   /* hostile mode: pieces of payload held back, of all QPs */
    SN_PLACE_BYTES = 65536,
    SN_REPORTS = 4,                   /* lines about one object at most */
    SN_INLINE_ROOM = 64,              /* bytes that scatter-to-CQE can carry */
    SN_DIRECT_ITEMS = SN_PEER_PIECES, /* requests in one copy between processes */
    SN_BATCHES_AHEAD = 3,             /* such copies under way at once, where they can be */
    SN_DIRECT_HERE = 512,             /* and pieces of this process's memory */
};

#endif
