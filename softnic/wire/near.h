/* SPDX-License-Identifier: Apache-2.0 */
/*
 * near.h: which UDP ports of this host are software NICs' slots.
 *
 * Whoever has a slot says so by a name, whatever its user and its address: "gpuwire/GID/slot/NUMBER". It is
 * asked for before a frame for another address of this host goes to the slot's own port instead of port 4791.
 * So an address that is not this host's, and a port that another program happens to have, are never taken for
 * a NIC's. Of a frame that came it is asked whether the address is this host's, and no more: who sent it may
 * have ended by then.
 */
#ifndef SN_WIRE_NEAR_H
#define SN_WIRE_NEAR_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/wire/addr.h"

enum { SN_NEAR_KNOWN = 64 }; /* power of two */

/* What the last answers were; zeroed at first. One thread at a time. */
struct sn_near {
    struct sn_near_answer {
        uint8_t gid[16];
        uint32_t about; /* a slot, or the address itself */
        bool is;
        uint64_t asked_ns; /* 0: never */
    } known[SN_NEAR_KNOWN];
};

/* Says so; the name is kept as long as the fd that is returned is open. -EADDRINUSE: another process said so.
 */
int sn_near_claim(const uint8_t gid[16], unsigned slot);

/* Is that a NIC's slot, to send to? An answer holds for a tenth of a second. */
bool sn_near_to(struct sn_near *near, const uint8_t gid[16], unsigned slot);
/* Is that an address of this host? That it is not is asked again after some milliseconds: it may be new. Where
 * the system lets programs bind addresses that are not its own (net.ipv4.ip_nonlocal_bind), all seem to be. */
bool sn_near_from(struct sn_near *near, const struct sn_addr *from);

#endif
