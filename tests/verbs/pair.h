/* SPDX-License-Identifier: Apache-2.0 */
/* Two connected queue pairs of one process on one device, with a buffer half of which belongs to each. */
#ifndef GW_TESTS_VERBS_PAIR_H
#define GW_TESTS_VERBS_PAIR_H

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "tests/verbs/script_kernels.h"

struct pair_opts {
    uint32_t send_wr, recv_wr, sge, max_inline;
    uint32_t qp_flags, cq_flags, post_mode;
    uint32_t mem;  /* enum gw_mem_kind */
    uint32_t type; /* enum gw_qp_type; UD: both have PAIR_QKEY, and `connect` does not count */
    size_t half;   /* bytes per side */
    struct gw_connect_opts connect;
    int unconnected;
};

#define PAIR_QKEY 0x11223344u

struct pair {
    struct gw_device *dev;
    uint32_t type;
    struct gw_ah *ah; /* to the device itself */
    struct gw_pd *pd;
    struct gw_cq *cq[2];
    struct gw_qp *qp[2];
    struct gw_mem mem;
    struct gw_mr *mr;
    size_t half;
    uint64_t base; /* address of the buffer, as in work requests */
    struct step step[SCRIPT_STEPS];
    uint32_t steps;
    struct script_out out;
};

/* A wrong local key completes with a protection error. With Linux' rxe it is an operation error, unless the
 * key is for bytes that come back (fetches). */
uint32_t pair_local_key_status(const struct gw_device *dev, int fetches);

void pair_make(struct pair *p, struct gw_device *dev, const struct pair_opts *o);
void pair_connect(struct pair *p, const struct gw_connect_opts *o);
void pair_free(struct pair *p);

/* Fills one side with bytes that the seed gives, or reads it. */
void pair_fill(struct pair *p, int side, uint64_t seed);
void pair_read(struct pair *p, int side, size_t off, void *to, size_t n);
void pair_write(struct pair *p, int side, size_t off, const void *from, size_t n);

/* Appends a step of queue pair qp: from loff of its side to (or from) roff of the other's. */
struct step *pair_step(struct pair *p, uint32_t call, uint32_t qp, size_t loff, size_t len, size_t roff,
                       uint64_t wr_id);
struct step *pair_wait(struct pair *p, uint32_t qp, uint32_t n);
/* Runs the steps in one kernel and reads the output; then there are none again. */
void pair_run(struct pair *p);
/* As pair_run; every step must return 0 and every completion be good. */
void pair_run_ok(struct pair *p);

#endif
