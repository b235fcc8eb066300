/* SPDX-License-Identifier: Apache-2.0 */
/* address.h: IP addresses: in a packet, on a port's link, and mixed into a hash. Any thread. */
#ifndef GW_SRC_BALANCE_ADDRESS_H
#define GW_SRC_BALANCE_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/balance/objects.h"

static inline bool bal_same_addr(const struct bal_addr *a, const struct bal_addr *b)
{
    if (a->family != b->family) return false;
    return a->family == 4 ? !__builtin_memcmp(a->byte, b->byte, 4) : !__builtin_memcmp(a->byte, b->byte, 16);
}
static inline struct bal_addr bal_addr_of(const uint8_t *p, bool ipv6)
{
    struct bal_addr a = {.family = ipv6 ? 6 : 4};
    __builtin_memcpy(a.byte, p, ipv6 ? 16 : 4);
    return a;
}
/* A step of a hash: both halves of the product. `b` is odd, or random. */
static inline uint64_t bal_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 p = (unsigned __int128)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* Where packets to an address go from a port: to itself, or to the gateway if that may be. false: nowhere. */
bool bal_route(const struct bal_port *p, const struct bal_addr *to, bool gateway, struct bal_addr *hop);

#endif
