/* SPDX-License-Identifier: Apache-2.0 */
/* ud.h: what verbs_ud.h offers. Included by verbs_device.h. */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_UD_H
#define GPUWIRE_DETAIL_VERBS_UD_H

GW_FN struct ibv_ah *gw_ibv_ah(const struct gw_ah_handle *ah)
{
    return (struct ibv_ah *)(uintptr_t)ah;
}

GW_FN int gw_grh_source(const void *grh, uint8_t gid[16])
{
    const uint8_t *b = (const uint8_t *)grh, *ip = b + GW_GRH - 20;
    uint32_t sum = 0, i;
    int six = b[0] >> 4 == 6;

    for (i = 0; i < 20; i += 2) sum += (uint32_t)ip[i] << 8 | ip[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    /* The bytes before an IPv4 header are undefined, and may look like IPv6's: its checksum decides then. */
    if (ip[0] == 0x45 && (!six || sum == 0xffff)) {
        for (i = 0; i < 10; i++) gid[i] = 0;
        gid[10] = gid[11] = 0xff;
        for (i = 0; i < 4; i++) gid[12 + i] = ip[12 + i];
        return 0;
    }
    if (!six) return -EPROTO;
    for (i = 0; i < 16; i++) gid[i] = b[8 + i];
    return 0;
}

#endif
