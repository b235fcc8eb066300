/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of ranks.c: each block is one rank and tells every other one its number. */
#include "pair.h"

enum { RANKS = 4 };

/* One rank's data: a set of queue pairs, two to each rank, and where in each rank's memory its place is. */
struct rank {
    const struct gw_qp_set_handle *set;
    uint64_t *word; /* [r]: what rank r says; [RANKS]: what this one does */
    uint64_t addr;
    uint32_t lkey;
    uint64_t there[RANKS];
    uint32_t rkey[RANKS];
};

struct ranks {
    struct rank rank[RANKS];
    int *result; /* of each rank */
};

/* Says it to one rank, through the second of the queue pairs that lead there. */
GW_DEV int tell(const struct rank *me, uint32_t mine, uint32_t to, uint64_t deadline)
{
    struct gw_qp_handle *qp = gw_qp_to(me->set, to, 1);
    struct gw_tx tx;
    uint64_t t = 0;
    int err = qp ? gw_tx_open(&tx, qp) : -ENOENT;

    if (!err)
        err = gw_tx_post(
            &tx, gw_put_op(me->addr + 8 * RANKS, me->lkey, me->there[to] + 8 * mine, me->rkey[to], 8), 0, &t);
    return err ? err : gw_tx_wait(&tx, t, deadline);
}

GW_KERNEL(ranks, struct ranks, a)
{
    uint32_t mine = gw_block_idx(), to;
    const struct rank *me = &a->rank[mine];
    uint64_t deadline = gw_clock_ns() + LIMIT;
    int err = 0;

    if (gw_thread_idx()) return;
    me->word[RANKS] = 100 + mine;
    for (to = 0; to < RANKS && !err; to++)
        if (to != mine) err = tell(me, mine, to, deadline);
    /* There is none to itself, to a rank that is none, or a third one. */
    if (!err && (gw_qp_to(me->set, mine, 0) || gw_qp_to(me->set, RANKS, 0) || gw_qp_to(me->set, !mine, 2)))
        err = -EEXIST;
    if (!err && gw_qp_to(me->set, !mine, 0) == gw_qp_to(me->set, !mine, 1)) err = -EEXIST; /* two are two */
    a->result[mine] = err;
}
