/* SPDX-License-Identifier: Apache-2.0 */
/* Receives that the host posts before kernels use a queue pair, wherever the kernels' side of it lies. */
#include <errno.h>
#include <string.h>

#include "src/verbs/impl.h"

/* Marks the receives from index `at` on with wr_id, in the executor's memory; they may go round the ring. */
static int verbs_recv_mark(struct gw_qp *qp, uint64_t at, uint32_t n, uint64_t wr_id)
{
    uint32_t mask = qp->fresh.rq_wqes - 1;
    int err = 0;

    for (; n && !err; n--, at++)
        err = gw_copy_in(qp->dev->exec, &qp->fresh.rq_wr_id[at & mask], &wr_id, sizeof(wr_id));
    return err;
}

int gw_qp_recv_empty(struct gw_qp *qp, uint32_t n, uint64_t wr_id)
{
    struct gw_exec *exec = qp->dev->exec;
    struct gw_mlx5_rq rq = qp->rq; /* as the CPU sees it */
    struct gw_qp_handle h;
    uint64_t at, word;
    uint32_t i;
    int err = gw_copy_out(exec, &h, qp->handle, sizeof(h));

    if (err) return err;
    at = h.rq_resv;
    if (n > h.rq_wqes || at - h.rq_ci > h.rq_wqes - n)
        return gw_error(-EAGAIN, "queue pair %06x: no room for %u receives", gw_qp_num(qp), n);
    for (i = 0; i < n; i++) gw_mlx5_put_recv(&rq, (uint32_t)at + i, NULL, 0, h.max_recv_sge);
    err = verbs_recv_mark(qp, at, n, wr_id);
    if (err) return err;
    /* WQEs before the record: the NIC takes them as soon as it sees the count. */
    gw_fence_release();
    gw_dbrec_store_(qp->dbrec, GW_MLX5_DBREC_RECV, (uint32_t)at + n);
    at += n;
    word = gw_rq_idle_(at);
    err = gw_copy_in(exec, &qp->handle->rq_resv, &at, sizeof(at));
    return err ? err : gw_copy_in(exec, &qp->handle->rq_word, &word, sizeof(word));
}
