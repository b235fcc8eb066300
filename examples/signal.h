/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of signal.c: one thread plays both ends. */
#include "pair.h"

/* Waits until the word has that value. Acquire: what was written before the signal is visible after it. */
GW_DEV int see(const uint64_t *word, uint64_t value, uint64_t deadline)
{
    uint32_t round = 0;

    while (gw_ld_acquire_u64(word) != value) {
        if (gw_clock_ns() >= deadline) return -ETIMEDOUT;
        gw_pause(round++);
    }
    return 0;
}

GW_KERNEL(put_signal, struct ends, e)
{
    uint64_t deadline = gw_clock_ns() + LIMIT, at = e->b.addr + BYTES - 8; /* where the signal goes */
    struct gw_tx tx;
    int err;

    if (gw_global_idx()) return;
    e->a.word[0] = 42;
    err = gw_tx_open(&tx, e->a.qp);
    if (!err)
        err = gw_tx_post(
            &tx, gw_with_signal(gw_put_op(e->a.addr, e->a.lkey, e->b.addr, e->b.rkey, 8), at, e->b.rkey, 1),
            0, NULL);
    if (!err) err = see(&e->b.word[BYTES / 8 - 1], 1, deadline);
    if (!err && e->b.word[0] != 42) err = -EBADMSG;
    if (!err) err = gw_tx_flush(&tx, deadline);
    *e->result = err;
}
