/* SPDX-License-Identifier: Apache-2.0 */
/* route.h: where frames go. */
#ifndef SOFTNIC_OBJECT_ROUTE_H
#define SOFTNIC_OBJECT_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "src/roce/icrc.h"

/* Where frames go: RC and UC queue pairs have one peer, each UD request its own. */
struct sn_route {
    uint8_t gid[16];
    uint32_t qpn;
    bool loop;  /* a QP of this NIC */
    bool gone;  /* the process that had it has ended: frames to it are lost */
    bool stray; /* they would leave from a GID that is not the NIC's address: they are lost, too */
    uint16_t pkey;
    struct roce_path path;
    uint32_t icrc_len, icrc_start; /* roce_icrc_start of the last length of a frame; 0: of none yet */
};

#endif
