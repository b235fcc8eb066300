/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of ticket.c. */
#include "pair.h"

GW_KERNEL(ticket, struct ends, e)
{
    uint64_t deadline = gw_clock_ns() + LIMIT, first = 0;
    struct gw_tx tx;
    uint32_t i;
    int err;

    if (gw_global_idx()) return;
    for (i = 0; i < 64; i++) e->a.word[i] = i + 1;
    err = gw_tx_open(&tx, e->a.qp);
    for (i = 0; i < 1000 && !err;
         i++) { /* far more than the queue holds: the library looks at the CQ when it must */
        uint64_t at = 8 * (i % 64), t = 0;

        do {
            err = gw_tx_post(&tx, gw_put_op(e->a.addr + at, e->a.lkey, e->b.addr + at, e->b.rkey, 8), 0, &t);
        } while (err == -EAGAIN && gw_clock_ns() < deadline);
        if (i == 63) first = t;
    }
    if (!err)
        err = gw_tx_wait(&tx, first, deadline); /* the 64th and all before it are in the peer's memory */
    if (!err && e->b.word[63] != 64) err = -EBADMSG;
    if (!err) err = gw_tx_flush(&tx, deadline); /* all */
    *e->result = err;
}
