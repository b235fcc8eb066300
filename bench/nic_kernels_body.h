/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/nic_kernels.h"

/* Writes of one size, one after the other, as fast as the queue takes them; until the last is complete. */
GW_KERNEL(stream_kernel, struct nic_args, a)
{
    uint64_t start = gw_clock_ns(), deadline = start + a->limit_ns;
    struct gw_tx tx;
    int err = gw_tx_open(&tx, a->qp);
    uint32_t i;

    for (i = 0; i < a->count && !err;) {
        err = gw_tx_post(&tx, gw_put_op(a->laddr, a->lkey, a->raddr, a->rkey, a->len), 0, NULL);
        i += !err;
        if (err == -EAGAIN && gw_clock_ns() < deadline) err = 0;
    }
    if (!err) err = gw_tx_flush(&tx, deadline);
    a->result->ns = gw_clock_ns() - start;
    a->result->err = err;
}

/* Sends a number of 8 bytes and waits for the same one to come back. */
GW_KERNEL(serve_kernel, struct nic_args, a)
{
    uint64_t start = gw_clock_ns(), deadline = start + a->limit_ns, i;
    struct gw_tx tx;
    int err = gw_tx_open(&tx, a->qp);
    uint32_t round;

    for (i = 1; i <= a->count && !err; i++) {
        gw_st_relaxed_u64(a->out, i); /* the post releases it */
        do {
            err = gw_tx_post(&tx, gw_put_op(a->laddr, a->lkey, a->raddr, a->rkey, 8), 0, NULL);
        } while (err == -EAGAIN && gw_clock_ns() < deadline);
        for (round = 0; !err && gw_ld_acquire_u64(a->in) != i; round++) {
            if (round % 64 == 63 && gw_clock_ns() > deadline) err = -ETIMEDOUT;
            gw_pause(0);
        }
    }
    a->result->ns = gw_clock_ns() - start;
    a->result->err = err;
}
