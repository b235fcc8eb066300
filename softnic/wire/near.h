/* SPDX-License-Identifier: Apache-2.0 */
/*
 * near.h: which addresses are this host's.
 *
 * A frame for another address of this host goes to its slot's own port, any other to port 4791. And a frame
 * from such an address is a slot's of this host. The kernel's routing table is asked, which no other user can
 * change: its answer also holds where programs may bind addresses that are not the host's
 * (net.ipv4.ip_nonlocal_bind).
 */
#ifndef SOFTNIC_WIRE_NEAR_H
#define SOFTNIC_WIRE_NEAR_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/config/addr.h"

enum { SN_NEAR_BITS = 10, SN_NEAR_KNOWN = 1 << SN_NEAR_BITS };

/* The last answers; zeroed at first. One thread at a time. */
struct sn_near_cache {
    struct sn_near_answer {
        uint8_t gid[16];
        bool is;
        uint64_t asked_ns; /* 0: never */
    } known[SN_NEAR_KNOWN];
};

/* Is that an address of this host? An answer holds for a tenth of a second; that it is not, which may be
 * about to change, for some milliseconds. */
bool sn_near_is(struct sn_near_cache *cache, const struct sn_addr *addr);
/* The same, asked now. Any thread. */
bool sn_near_is_now(const struct sn_addr *addr);

#endif
