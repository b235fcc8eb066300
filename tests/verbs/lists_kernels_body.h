/* SPDX-License-Identifier: Apache-2.0 */
/* Included by lists_kernels.c for the CPU and by lists_kernels.cu for the GPU. */
#include "tests/verbs/lists_kernels.h"

/* Takes what is there; 0 when nothing was. */
GW_DEV int take(const struct lists_args *a, int side)
{
    struct outcome *o = a->out;
    int n = o->n[side] < OUTCOME_WCS ? gw_poll_cq(a->cq[side], 1, &o->wc[side][o->n[side]]) : 0;

    o->n[side] += n;
    return n;
}

GW_DEV void post(const struct lists_args *a)
{
    struct ibv_send_wr *bad_send = NULL;
    struct ibv_recv_wr *bad_recv = NULL;
    struct outcome *o = a->out;
    struct batch *b = a->batch;

    if (b->recvs + b->refused) o->ret[1] = gw_post_recv(a->qp[1], b->recv, &bad_recv);
    if (bad_recv) o->bad[1] = bad_recv - b->recv;
    while (o->lists < a->times && !o->ret[0]) {
        o->ret[0] = gw_post_send(a->qp[0], b->wr, &bad_send);
        o->lists += !o->ret[0];
    }
    if (bad_send) o->bad[0] = bad_send - b->wr;
}

GW_KERNEL(lists_kernel, struct lists_args, a)
{
    uint64_t deadline = gw_clock_ns() + a->limit_ns;
    uint32_t round = 0;

    if (gw_global_idx() != a->who) return;
    if (a->batch) post(a);
    while (!lists_sent(a->out, &a->goal) && gw_clock_ns() < deadline)
        if (!(take(a, 1) | take(a, 0))) gw_pause(round++);
    while (a->out->n[1] < a->goal.recvs && gw_clock_ns() < deadline)
        if (!take(a, 1)) gw_pause(round++);
}
