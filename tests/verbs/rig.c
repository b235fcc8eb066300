/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/mlx5/wqe.h"

static void wrong(struct rig *r, const char *what, uint32_t a, uint32_t b)
{
    if (!r->wrong[0]) snprintf(r->wrong, sizeof(r->wrong), "%s (%u, %u) at WQEBB %u", what, a, b, r->ci);
}

static void complete(struct rig *r, struct gw_mlx5_wc *wc)
{
    struct gw_mlx5_cqe *cqe = (struct gw_mlx5_cqe *)(r->cq + 64 * (size_t)(r->pi & (r->o.cqes - 1)));
    uint8_t last;

    wc->qpn = RIG_QPN;
    last = gw_mlx5_cqe_build(cqe, wc, r->pi, r->o.cqes);
    gw_st_release_u8(&cqe->op_own, last); /* the entry before its owner bit */
    r->pi++;
}

/* Executes the WQE at r->ci, of at most avail WQEBBs. Returns how many it took, 0 when it is wrong. */
static uint32_t execute(struct rig *r, uint32_t avail)
{
    struct gw_mlx5_wqe w;
    struct gw_mlx5_wc wc = {0};
    int n = gw_mlx5_wqe_parse(&w, &(struct gw_mlx5_wqe_at){r->sq, r->o.wqebbs, RIG_QPN, (uint16_t)r->ci,
                                                           avail, 63, GW_MLX5_FORM_CONNECTED});

    if (n < 0) {
        wrong(r, gw_mlx5_why_text(w.why), w.opcode, w.index);
        return 0;
    }
    if (w.opcode == GW_MLX5_NOP)
        r->nops++;
    else
        r->wqes++;
    r->bbs += (uint32_t)n;
    w.raddr >>= r->o.shift;
    if (w.has_raddr && w.raddr < r->o.tokens) {
        if (r->seen[w.raddr] < 255) r->seen[w.raddr]++;
    } else if (w.has_raddr) {
        wrong(r, "unknown token", (uint32_t)w.raddr, r->o.tokens);
    }
    wc.opcode = GW_MLX5_CQE_REQ;
    wc.wqe_opcode = w.opcode;
    wc.wqe_counter = w.index;
    wc.byte_cnt = w.length;
    if (r->failed || r->wqes == r->o.fail_at) {
        wc.opcode = GW_MLX5_CQE_REQ_ERR;
        wc.syndrome = r->failed ? GW_MLX5_SYND_FLUSHED : GW_MLX5_SYND_REM_ACCESS;
        r->failed = true;
    }
    if (w.signaled || r->failed) complete(r, &wc);
    return (uint32_t)n;
}

/* It goes by the ring's index, as a NIC may: a ring that comes after a newer one takes the queue back. */
static void take_ring(struct rig *r)
{
    uint64_t ring;
    uint32_t avail, index, record;

    if (!gw_ld_relaxed_u64(r->db)) return;
    ring = gw_exch_acquire_u64(r->db, 0);
    r->rings++;
    if (gw_be32((uint32_t)(ring >> 32)) >> 8 != RIG_QPN)
        wrong(r, "ring of another queue pair", (uint32_t)ring, 0);
    index = gw_be32((uint32_t)ring) >> 8 & 0xffff;
    record = gw_mlx5_dbrec_count(gw_ld_relaxed_u32(&r->dbrec[GW_MLX5_DBREC_SEND])) & 0xffff;
    gw_fence_acquire(); /* the record, which may be newer than the ring, before the WQEs it counts */
    avail = (index - r->ci) & 0xffff;
    if (!avail) r->empty_rings++;
    if (avail > r->o.wqebbs) {
        wrong(r, "a ring goes back, or past the queue", index, r->o.wqebbs);
        return;
    }
    if (((record - index) & 0xffff) > r->o.wqebbs) {
        wrong(r, "a ring says more than the record", index, record);
        return;
    }
    while (avail && !r->wrong[0]) {
        uint32_t n = execute(r, avail);

        r->ci += n;
        avail -= n;
    }
}

static void take_receives(struct rig *r)
{
    uint32_t n = (gw_mlx5_dbrec_count(gw_ld_relaxed_u32(&r->dbrec[GW_MLX5_DBREC_RECV])) - r->rq_ci) & 0xffff;

    gw_fence_acquire(); /* as above */
    if (n > r->o.wqes) wrong(r, "receive record", n, r->o.wqes);
    for (; n && !r->wrong[0]; n--) {
        struct gw_mlx5_rwqe w;
        struct gw_mlx5_wc wc = {0};

        if (gw_mlx5_rwqe_parse(&w, r->rq, r->o.wqes, 16, r->rq_ci) < 0)
            wrong(r, gw_mlx5_why_text(w.why), n, 0);
        wc.opcode = GW_MLX5_CQE_RESP_WR_IMM;
        wc.imm_be = gw_be32(r->rq_ci - (uint32_t)r->o.first);
        wc.byte_cnt = (uint32_t)w.length;
        complete(r, &wc);
        r->rq_ci++;
        r->received++;
    }
}

static void *nic(void *arg)
{
    struct rig *r = arg;
    uint32_t round = 0;

    while (!gw_ld_acquire_u32(&r->stop) && !r->wrong[0]) {
        uint32_t pi = r->pi, ci = r->ci;

        take_ring(r);
        if (r->o.receive) take_receives(r);
        round = pi == r->pi && ci == r->ci ? round + 1 : 0;
        gw_pause(round);
    }
    take_ring(r); /* stopped after the last post: what was rung for is still in the register */
    return NULL;
}

static void make_handles(struct rig *r)
{
    struct gw_qp_handle qp;
    struct gw_cq_handle cq;
    struct gw_qp_entry table[4];
    uint8_t *q = r->queues.dev, *h = r->handles.dev;
    uint32_t at = RIG_QPN * 2654435769u >> 8 & 3;

    memset(&qp, 0, sizeof(qp));
    memset(&cq, 0, sizeof(cq));
    memset(table, 0, sizeof(table));
    r->qp = (struct gw_qp_handle *)h;
    r->cqh = (struct gw_cq_handle *)(h + 512);
    qp.size = sizeof(qp);
    qp.version = GW_VERBS_VERSION;
    qp.flags = r->o.qp_flags;
    if (gw_exec_kind(r->exec) == GW_EXEC_CPU) qp.flags |= gw_sq_turns_(r->o.qp_flags);
    qp.max_inline = 512;
    qp.sq.buf = q + (r->sq - (uint8_t *)r->queues.host);
    qp.sq.wqebbs = r->o.wqebbs;
    qp.sq.qpn = RIG_QPN;
    qp.rq.buf = q + (r->rq - (uint8_t *)r->queues.host);
    qp.rq.wqes = r->o.wqes;
    qp.rq.stride = 16;
    qp.dbrec = (uint32_t *)q;
    qp.db = (uint64_t *)(q + 128);
    qp.slot = (struct gw_sq_slot *)(h + 2048);
    qp.rq_wr_id = (uint64_t *)(h + 2048 + 16 * (size_t)r->o.wqebbs);
    qp.rq_ready = (uint32_t *)(qp.rq_wr_id + r->o.wqes);
    qp.max_send_sge = 16;
    qp.max_recv_sge = 1;
    qp.rq_wqes = r->o.wqes;
    qp.interval = r->o.wqebbs > 2 ? r->o.wqebbs / 2 : 1;
    qp.send_cq = r->cqh;
    qp.sq_resv = qp.sq_ci = qp.sq_ok = qp.sq_rung = r->o.first;
    qp.rq_resv = qp.rq_ci = r->o.first;
    qp.sq_word = gw_sq_idle_(r->o.first);
    qp.rq_word = gw_rq_idle_(r->o.first);
    cq.size = sizeof(cq);
    cq.version = GW_VERBS_VERSION;
    cq.flags = r->o.cq_flags;
    cq.cqe = q + (r->cq - (uint8_t *)r->queues.host);
    cq.cqes = r->o.cqes;
    cq.table = (struct gw_qp_entry *)(h + 1024);
    cq.table_mask = 3;
    cq.dbrec = (uint32_t *)(q + 64);
    table[at].qpn = RIG_QPN;
    table[at].qp = r->qp;
    assert_int_equal(gw_copy_in(r->exec, r->qp, &qp, sizeof(qp)), 0);
    assert_int_equal(gw_copy_in(r->exec, r->cqh, &cq, sizeof(cq)), 0);
    assert_int_equal(gw_copy_in(r->exec, h + 1024, table, sizeof(table)), 0);
}

void rig_start(struct rig *r, struct gw_exec *exec, const struct rig_opts *o)
{
    size_t sq = 4096, rq = sq + 64 * (size_t)o->wqebbs, cq = rq + 16 * (size_t)o->wqes;
    uint32_t i;

    memset(r, 0, sizeof(*r));
    r->o = *o;
    r->exec = exec;
    cq = (cq + 63) & ~(size_t)63;
    assert_int_equal(gw_mem_alloc(exec, GW_MEM_HOST, cq + 64 * (size_t)o->cqes, &r->queues), 0);
    assert_int_equal(
        gw_mem_alloc(exec, GW_MEM_DEVICE, 2048 + 16 * (size_t)o->wqebbs + 12 * (size_t)o->wqes, &r->handles),
        0);
    r->dbrec = r->queues.host;
    r->cq_dbrec = (uint32_t *)((uint8_t *)r->queues.host + 64);
    r->db = (uint64_t *)((uint8_t *)r->queues.host + 128);
    r->sq = (uint8_t *)r->queues.host + sq;
    r->rq = (uint8_t *)r->queues.host + rq;
    r->cq = (uint8_t *)r->queues.host + cq;
    for (i = 0; i < o->cqes; i++) r->cq[64 * i + 63] = 0xf0;
    r->seen = calloc(o->tokens + 1, 1);
    make_handles(r);
    r->ci = r->rq_ci = (uint32_t)o->first;
    r->dbrec[GW_MLX5_DBREC_SEND] = r->dbrec[GW_MLX5_DBREC_RECV] = gw_mlx5_dbrec_be((uint32_t)o->first);
    assert_int_equal(pthread_create(&r->thread, NULL, nic, r), 0);
}

void rig_die(struct rig *r)
{
    gw_st_release_u32(&r->stop, 1);
    pthread_join(r->thread, NULL);
    r->dead = true;
}

void rig_stop(struct rig *r)
{
    if (!r->dead) rig_die(r);
    gw_mem_free(&r->queues);
    gw_mem_free(&r->handles);
}

void rig_free(struct rig *r)
{
    free(r->seen);
    r->seen = NULL;
}
