/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of atomics.c: what was there before each operation arrives in a's words 0, 1, 2, 3. */
#include "pair.h"

GW_KERNEL(atomics, struct ends, e)
{
    uint64_t deadline = gw_clock_ns() + LIMIT, to = e->b.addr, old = e->a.addr;
    uint32_t lkey = e->a.lkey, rkey = e->b.rkey;
    struct gw_tx tx;
    int err;

    if (gw_global_idx()) return;
    err = gw_tx_open(&tx, e->a.qp);
    if (!err) err = gw_tx_post(&tx, gw_fetch_add_op(old, lkey, to, rkey, 5), 0, NULL);
    if (!err) err = gw_tx_post(&tx, gw_cmp_swap_op(old + 8, lkey, to, rkey, 105, 0x1ff), 0, NULL);
    if (!err) err = gw_tx_flush(&tx, deadline);

    /* ConnectX's own. Two fields: the lower byte, whose sum is not carried into what is above it, and the
     * rest. */
    if (!err) err = gw_tx_post(&tx, gw_masked_fetch_add_op(old + 16, lkey, to, rkey, 2, 0x80), 0, NULL);
    if (err == -EOPNOTSUPP) { /* posting mode proxy-post: no NIC's verbs have them */
        *e->result = 1;
        return;
    }
    /* If the second byte is 1, the lowest becomes 0xaa. */
    if (!err)
        err = gw_tx_post(
            &tx, gw_with_masks(gw_cmp_swap_op(old + 24, lkey, to, rkey, 0x100, 0xaa), 0xff00, 0xff), 0, NULL);
    if (!err) err = gw_tx_flush(&tx, deadline);
    *e->result = err;
}
