/* SPDX-License-Identifier: Apache-2.0 */
/* uar.h: doorbell pages, and the queue pairs that ring their registers. */
#ifndef SOFTNIC_OBJECT_UAR_H
#define SOFTNIC_OBJECT_UAR_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/base/list.h"
#include "softnic/nic/nic.h"

/* No ring: doorbells have a ds of at most 63, and no QP has number 0xffffff. */
#define SN_NOT_RUNG UINT64_MAX

/* The queues that ring a register, with all that a look at the record needs. There may be thousands to a
 * register. */
struct sn_ringer {
    const uint32_t *record;
    struct sn_qp *qp;
    uint16_t pi; /* qp->sq_pi */
};

struct sn_register {
    struct sn_ringer *ringers;
    uint32_t count, room;
    bool rung; /* since all of them were looked at: rings may have been hidden */
    uint64_t swept_at;
};

struct sn_uar {
    struct sn_nic *nic;
    struct sn_link link;     /* nic->uars, while a QP or CQ uses it */
    struct sn_link qps, cqs; /* its users */
    struct sn_link news;     /* those CQs that have completions of which no event told */
    uint32_t arms;           /* rings of the register that arms */
    struct sn_register registers[SN_UAR_BF_COUNT];
    uint64_t *page;
    bool merged; /* all registers count as the first */
    unsigned reports;
};

#endif
