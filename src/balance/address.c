/* SPDX-License-Identifier: Apache-2.0 */
/* Where an address is: on a port's link, or behind its gateway. */
#include "src/balance/address.h"

#include <string.h>

static bool address_on_link(const struct bal_port *p, int k, const struct bal_addr *a)
{
    unsigned bytes = p->prefix[k] / 8u, bits = p->prefix[k] % 8u;
    if (p->addr[k].family != a->family || memcmp(p->addr[k].byte, a->byte, bytes)) return false;
    return !bits || !((p->addr[k].byte[bytes] ^ a->byte[bytes]) >> (8 - bits));
}

bool bal_route(const struct bal_port *p, const struct bal_addr *to, bool gateway, struct bal_addr *hop)
{
    for (int k = 0; k < 2; k++)
        if (address_on_link(p, k, to)) {
            *hop = *to;
            return true;
        }
    for (int k = 0; k < 2 && gateway; k++)
        if (p->gateway[k].family == to->family) {
            *hop = p->gateway[k];
            return true;
        }
    return false;
}
