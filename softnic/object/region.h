/* SPDX-License-Identifier: Apache-2.0 */
/* region.h: protection domains, memory regions and windows. softnic/region/ works on them. */
#ifndef SOFTNIC_OBJECT_REGION_H
#define SOFTNIC_OBJECT_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/base/list.h"
#include "softnic/nic/nic.h"

struct sn_pd {
    struct sn_nic *nic;
    uint32_t users;
    uint32_t number; /* what peers on this host know it by */
};

struct sn_xrcd {
    struct sn_nic *nic;
    uint32_t users;
};

/* A region or, with `window` set, a window: bound, that is the part of a region by another key. */
struct sn_mr {
    struct sn_pd *pd;
    struct sn_mr_init init; /* of a window that is not bound: nothing */
    uint32_t key;
    uint32_t window; /* 0, or enum ibv_mw_type */
    uint32_t qpn;    /* type 2: the QP whose peer may use it */
    bool changed;    /* it has been other memory by the same key */
    struct sn_mr *base;
    struct sn_link windows; /* a region's; a window's place there */
    struct sn_link of_qp;   /* type 2, bound: its place among that QP's */
};

/* Keys are an index into the table of regions and this number of random bits. */
enum { SN_KEY_SHIFT = 12, SN_MRS_GONE = 64, SN_WHY = 160 };

/* A region that was deregistered: remembered to explain accesses that come too late. */
struct sn_mr_gone {
    uint32_t key;
    uint64_t iova, length;
};

#endif
