/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SEND with invalidation: kernels open no memory windows, but take those of their peers back. The peer is
 * libibverbs' own queue pair, with a window. A kernel may write to it until it says that it is done. The
 * other way round, a kernel learns which of its host's windows the peer has taken back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/verbs/impl.h"
#include "tests/verbs/device.h"
#include "tests/verbs/pair.h"

#define LIMIT_NS 60000000000u
#define ROUNDS   20

/* The peer. Its packets are numbered from 0. */
struct peer {
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct ibv_mw *mw;
    uint8_t *mem;
};

static struct gw_device_info info;

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

static void take(struct peer *w, struct ibv_wc *wc)
{
    uint64_t deadline = gw_deadline(LIMIT_NS);
    int n;

    while (!(n = ibv_poll_cq(w->cq, 1, wc)) && gw_clock_ns() < deadline) continue;
    assert_int_equal(n, 1);
    assert_int_equal(wc->status, IBV_WC_SUCCESS);
}

static void peer_connect(struct peer *w, const struct gw_endpoint *to)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

    must(ibv_modify_qp(w->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "INIT");
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                             .path_mtu = IBV_MTU_1024,
                             .dest_qp_num = to->qpn,
                             .rq_psn = to->psn,
                             .max_dest_rd_atomic = 1,
                             .min_rnr_timer = 12,
                             .ah_attr = {.is_global = 1,
                                         .port_num = 1,
                                         .grh = {.hop_limit = 64, .sgid_index = (uint8_t)info.gid_index}}};
    memcpy(a.ah_attr.grh.dgid.raw, to->gid, 16);
    must(ibv_modify_qp(w->qp, &a,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "RTR");
    a = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    must(ibv_modify_qp(w->qp, &a,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                           IBV_QP_MAX_QP_RD_ATOMIC),
         "RTS");
}

/* Connected to the pair's queue pair `side`. */
static void peer_make(struct peer *w, struct pair *p, int side)
{
    struct ibv_context *ctx = gw_device_context(dev);
    struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, 0}};
    struct gw_endpoint ours, theirs = {.mtu = 1024};

    memset(w, 0, sizeof(*w));
    w->pd = ibv_alloc_pd(ctx);
    a.send_cq = a.recv_cq = w->cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
    assert_true(w->pd && w->cq);
    w->qp = ibv_create_qp(w->pd, &a);
    w->mem = aligned_alloc(4096, 8192);
    memset(w->mem, 0, 8192);
    w->mr = ibv_reg_mr(w->pd, w->mem, 8192, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    w->mw = ibv_alloc_mw(w->pd, IBV_MW_TYPE_2);
    assert_true(w->qp && w->mr && w->mw);
    gw_qp_endpoint(p->qp[side], &ours);
    memcpy(theirs.gid, info.gid, 16);
    theirs.qpn = w->qp->qp_num;
    peer_connect(w, &ours);
    must(gw_qp_connect(p->qp[side], &theirs, NULL), "gw_qp_connect");
}

static void peer_free(struct peer *w)
{
    must(ibv_destroy_qp(w->qp) || ibv_dealloc_mw(w->mw) || ibv_dereg_mr(w->mr) || ibv_destroy_cq(w->cq) ||
             ibv_dealloc_pd(w->pd),
         "the peer's end");
    free(w->mem);
}

/* Opens a window of 4 KiB at the beginning of a region, by one of its owner's queue pairs. */
static void bind_window(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mr *mr)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;

    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
        .mr = mr, .addr = (uintptr_t)mr->addr, .length = 4096, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    must(ibv_post_send(qp, &wr, &bad), "BIND_MW");
    mw->rkey = wr.bind_mw.rkey;
}

/* A put into the window, and what takes the window back after it, in one list. */
static void put_and_invalidate(struct pair *p, const struct peer *w, uint32_t imm)
{
    struct step *s = pair_step(p, STEP_IBV_SEND, 0, 0, 100, 0, 1);

    s->opcode = IBV_WR_RDMA_WRITE;
    s->raddr = (uintptr_t)w->mem;
    s->rkey = w->mw->rkey;
    s->flags = 0;
    s->more = 1;
    s = pair_step(p, STEP_IBV_SEND, 0, 200, 8, 0, 2);
    s->opcode = IBV_WR_SEND_WITH_INV;
    s->imm = imm;
    pair_wait(p, 0, 1);
}

static void kernel_takes_the_peers_window_back(void **state)
{
    struct pair_opts o = {.unconnected = 1};
    uint8_t expected[100];
    struct ibv_wc wc;
    struct step *s;
    struct peer w;
    struct pair p;

    (void)state;
    pair_make(&p, dev, &o);
    peer_make(&w, &p, 0);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct ibv_sge to = {(uintptr_t)w.mem + 4096, 64, w.mr->lkey};
        struct ibv_recv_wr rw = {.wr_id = i, .sg_list = &to, .num_sge = 1}, *bad;

        bind_window(w.qp, w.mw, w.mr);
        take(&w, &wc);
        must(ibv_post_recv(w.qp, &rw, &bad), "receive");
        pair_fill(&p, 0, i);
        put_and_invalidate(&p, &w, w.mw->rkey);
        pair_run_ok(&p);
        assert_int_equal(p.out.wc[0].wr_id, 2);
        assert_int_equal(p.out.wc[0].opcode, IBV_WC_SEND);
        take(&w, &wc);
        assert_int_equal(wc.wr_id, i);
        assert_true(wc.opcode == IBV_WC_RECV && wc.wc_flags & IBV_WC_WITH_INV);
        assert_int_equal(wc.invalidated_rkey, w.mw->rkey);
        pair_read(&p, 0, 0, expected, 100);
        assert_memory_equal(w.mem, expected, 100);
    }
    s = pair_step(&p, STEP_PUT, 0, 300, 100, 0, 3);
    s->raddr = (uintptr_t)w.mem;
    s->rkey = w.mw->rkey;
    pair_wait(&p, 0, 1);
    pair_run(&p);
    assert_int_equal(p.out.wc[0].status, IBV_WC_REM_ACCESS_ERR);
    assert_memory_equal(w.mem, expected, 100);
    peer_free(&w);
    pair_free(&p);
}

/* The window is made without the library's knowledge, by libibverbs on the very queue pair: kernels send
 * nothing through it. A posting proxy would take the completion for one of its own. */
static void kernel_hears_of_its_window(void **state)
{
    struct pair_opts o = {.unconnected = 1};
    struct ibv_mw *mw;
    struct ibv_mr *mr;
    struct ibv_wc wc;
    struct gw_mem mem;
    struct peer w;
    struct pair p;

    (void)state;
    if (info.post_mode == GW_POST_PROXY_POST) skip();
    pair_make(&p, dev, &o);
    peer_make(&w, &p, 1);
    must(gw_mem_alloc(exec, GW_MEM_HOST, 4096, &mem), "gw_mem_alloc");
    mr = ibv_reg_mr(p.pd->pd, mem.host, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    mw = ibv_alloc_mw(p.pd->pd, IBV_MW_TYPE_2);
    assert_true(mr && mw);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct ibv_sge from = {(uintptr_t)w.mem, 8, w.mr->lkey};
        struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .sg_list = &from,
                                 .num_sge = 1},
                           *bad;

        bind_window(p.qp[1]->qp, mw, mr);
        pair_wait(&p, 1, 1);
        pair_step(&p, STEP_RECV, 1, 0, 64, 0, 50 + i);
        pair_run_ok(&p);
        wr.invalidate_rkey = mw->rkey;
        must(ibv_post_send(w.qp, &wr, &bad), "SEND_WITH_INV");
        pair_wait(&p, 1, 1);
        pair_run_ok(&p);
        assert_int_equal(p.out.wc[0].wr_id, 50 + i);
        assert_true(p.out.wc[0].opcode == IBV_WC_RECV && p.out.wc[0].wc_flags & IBV_WC_WITH_INV);
        assert_int_equal(p.out.wc[0].invalidated_rkey, mw->rkey);
        take(&w, &wc);
    }
    must(gw_qp_reset(p.qp[1], GW_RESET_QUIET, 0), "gw_qp_reset");
    must(ibv_dealloc_mw(mw) || ibv_dereg_mr(mr), "the window's end");
    gw_mem_free(&mem);
    peer_free(&w);
    pair_free(&p);
}

static int open_windows(void **state)
{
    if (open_all(state)) return -1;
    gw_device_query(dev, &info);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_takes_the_peers_window_back),
        cmocka_unit_test(kernel_hears_of_its_window),
    };

    setenv("GPUWIRE_NIC", "addr=127.0.0.1,hostile=1", 0);
    test_options(argc, argv);
    return cmocka_run_group_tests(tests, open_windows, close_all);
}
