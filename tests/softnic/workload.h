/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload.h: random work between queue pairs whose outcome is known beforehand: which completions come in
 * which order, and what every byte of memory is at the end. Everything that a program may rely on is checked
 * when it may first be relied on.
 */
#ifndef TESTS_SOFTNIC_WORKLOAD_H
#define TESTS_SOFTNIC_WORKLOAD_H

#include "tests/softnic/app.h"

enum { SIDES = 8, SIDE_OPS = 24, SIDE_MEM = 192 << 10, MAX_PIECES = 3 };

struct op {
    struct gw_mlx5_wr wr;
    struct gw_mlx5_sge sge[MAX_PIECES];
    uint32_t len;
    bool nop, consumes; /* a receive at the other side */
    bool signaled;
    uint32_t index; /* of its WQE */
    uint32_t wqebbs;
    uint32_t remote; /* offset of the remote memory in the other side's */
    bool fresh;      /* a READ of memory that nobody has written to */
    /* the receive that it consumes */
    struct gw_mlx5_sge recv_sge[MAX_PIECES];
    uint32_t recv_pieces;
};

struct side {
    struct world *w;
    struct world_nic *n;
    struct app_qp qp;
    struct app_cq cq;
    struct side *peer; /* may be itself */
    struct sn_mr *mr;
    uint8_t *mem, *expected;
    uint32_t used, key;
    struct op ops[SIDE_OPS];
    uint32_t op_count, posted, completed; /* completed: retired by a completion */
    uint32_t recv_total, recv_posted, recv_done;
    uint32_t sq_used;
    bool sig_all, by_event, asleep, unrung;
};

/* What a seed chose; also the switches of the sim program. */
struct plan {
    uint64_t seed;
    bool verbose;
};

/* Runs one seed. 0, or 1 after it has said on stderr what is wrong. */
int run_seed(const struct plan *plan);

/* Fills in s->ops for what s sends to s->peer, and the memory of both. */
void make_ops(struct side *s, uint32_t count, uint32_t mtu);

/* Everything the two sides' completions have to be; false and a line in why when they are not. */
bool check_completion(struct side *s, const struct gw_mlx5_wc *wc, const struct gw_mlx5_cqe *cqe,
                      char why[160]);

#endif
