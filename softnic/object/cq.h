/* SPDX-License-Identifier: Apache-2.0 */
/* cq.h: completion queues. softnic/queue/cq.c writes their entries. */
#ifndef SOFTNIC_OBJECT_CQ_H
#define SOFTNIC_OBJECT_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/base/list.h"
#include "softnic/nic/nic.h"
#include "softnic/object/limits.h"
#include "src/mlx5/wqe.h"

enum sn_arm { SN_DISARMED, SN_ARM_SOLICITED, SN_ARM_NEXT };

struct sn_cq {
    struct sn_nic *nic;
    struct sn_cq_init init;
    struct sn_link uar_link, news_link;
    uint32_t number;
    uint32_t users;
    uint32_t pi; /* completions written, free-running */
    /* Completions written since the last event, and from the last solicited one or error on, it included. */
    uint32_t since_event, solicited_age;
    bool has_solicited;
    uint32_t resized_ci, resizings; /* the record's index when it was last read; resizings since it changed */
    bool dead;                      /* overrun: nothing is written any more */
    enum sn_arm armed;
    uint32_t arm_seen; /* the record's arm word when it was last looked at, */
    uint32_t arms;     /* arms of its page before that */
    uint32_t events;   /* given; its lower two bits are the sequence number that an arm must carry */
    unsigned reports;
};

struct sn_late_cqe {
    struct sn_cq *cq;
    struct sn_qp *qp; /* NULL: dropped */
    struct gw_mlx5_wc wc;
    uint64_t due;
    uint8_t scatter[SN_INLINE_ROOM];
    uint32_t scatter_len;
};

#endif
