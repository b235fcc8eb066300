/* SPDX-License-Identifier: Apache-2.0 */
/* The same as a pair (pair.h), made and used with libibverbs alone. */
#ifndef GW_TESTS_VERBS_THEIRS_H
#define GW_TESTS_VERBS_THEIRS_H

#include <gpuwire/verbs.h>

extern struct theirs {
    struct ibv_pd *pd;
    struct ibv_cq *cq[2];
    struct ibv_qp *qp[2];
    struct ibv_mr *mr;
    struct ibv_ah *ah; /* UD: to the device itself; else NULL */
    uint8_t *mem;
} theirs;

void theirs_make(struct gw_device *dev, size_t bytes, enum ibv_qp_type type);
/* Connects them, or after an error once more. */
void theirs_connect(void);
void theirs_free(void);

#endif
