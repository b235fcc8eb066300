/* SPDX-License-Identifier: Apache-2.0 */
/* gid.h: an IPv4 address a.b.c.d is the GID ::ffff:a.b.c.d. Any thread. */
#ifndef SOFTNIC_BASE_GID_H
#define SOFTNIC_BASE_GID_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool sn_gid_is_ipv4(const uint8_t gid[16])
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(gid, prefix, sizeof(prefix)) == 0;
}

#endif
