/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of docs/verbs.md: included by example_kernel.c for the CPU and by example_kernel.cu for the GPU.
 */
#include "tests/verbs/example.h"

/* One thread writes to the peer, the peer's side waits for it: 0, or a negative errno. */
GW_KERNEL(hello_kernel, struct hello_args, a)
{
    uint64_t deadline = gw_clock_ns() + 5000000000u;
    struct ibv_wc wc;
    int err;

    if (gw_global_idx()) return;
    err = gw_recv_empty(a->to, 1, 7); /* a write with an immediate takes a receive at the other end */
    if (!err) err = gw_put_imm(a->from, a->laddr, a->lkey, a->raddr, a->rkey, a->len, 42, GW_SIGNALED, 1);
    if (!err && gw_wait_cq(a->to_cq, 1, &wc, deadline, NULL, -1) != 1) err = -ETIMEDOUT;
    if (!err && (wc.status != IBV_WC_SUCCESS || wc.wr_id != 7 || gw_wc_imm(&wc) != 42)) err = -EIO;
    if (!err && gw_wait_cq(a->from_cq, 1, &wc, deadline, NULL, -1) != 1) err = -ETIMEDOUT;
    *a->result = err;
}
