/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flush.h: how a poller makes sure that data has arrived in a GPU's memory. Included by verbs_device.h, after
 * cq.h; names that end in _ are private.
 *
 * The NIC writes data to the GPU and the completion to host memory. These are two ways. A GPU need not
 * promise that who sees the completion sees the data (CUDA's GPU_DIRECT_RDMA_WRITES_ORDERING). Where it does
 * not, the poller has the same NIC READ from that memory before it tells of a completion that brings data. On
 * its way the READ pushes all that the NIC has written there before. One READ does for all completions of a
 * poll.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_FLUSH_H
#define GPUWIRE_DETAIL_VERBS_FLUSH_H

#define GW_FLUSH_NS_ 1000000000u /* a READ by the NIC from beside it takes microseconds */

/* The poller alone calls it. 0, or -EIO: it cannot be known whether the data is there, now and ever after. */
GW_SLOW_FN int gw_flush_(struct gw_flush_handle *f)
{
    struct gw_cq_handle *cq = f->cq;
    uint32_t ci = gw_ld_relaxed_u32_gpu(&cq->ci), round = 0;
    struct ibv_wc wc;
    uint64_t until;

    if (f->failed) return -EIO;
    f->failed = 1;
    if (gw_post_op(f->qp, gw_get_op(f->at + 64, f->lkey, f->at, f->rkey, 8), GW_SIGNALED, 0)) return -EIO;
    until = gw_clock_ns() + GW_FLUSH_NS_;
    /* Acquire, in there: the READ's end comes before the caller's reads of the data. */
    while (!gw_cq_ready_(cq, ci)) {
        /* Looked at once more: this thread may have been stopped right here for that long. */
        if (gw_clock_ns() >= until && !gw_cq_ready_(cq, ci)) return -EIO;
        if (cq->host) gw_cpu_nudge_(cq->host);
        gw_pause(round++);
    }
    wc.status = IBV_WC_GENERAL_ERR;
    (void)gw_cq_take_(cq, gw_cq_entry_(cq, ci), &wc, 0);
    gw_cq_taken_(cq, ci + 1, 0);
    f->failed = wc.status != IBV_WC_SUCCESS;
    return f->failed ? -EIO : 0;
}

#endif
