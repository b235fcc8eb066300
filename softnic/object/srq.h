/* SPDX-License-Identifier: Apache-2.0 */
/* srq.h: shared receive queues. */
#ifndef SOFTNIC_OBJECT_SRQ_H
#define SOFTNIC_OBJECT_SRQ_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/nic/nic.h"

struct sn_srq {
    struct sn_nic *nic;
    struct sn_srq_init init;
    uint32_t number;
    uint32_t users;
    uint32_t limit;
    uint16_t head;  /* entry that is taken next */
    uint16_t taken; /* entries taken so far, mod 2^16, as the record counts */
    bool dead;      /* its list is broken: nothing is taken any more */
};

#endif
