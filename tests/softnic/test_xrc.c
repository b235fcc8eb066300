/* SPDX-License-Identifier: Apache-2.0 */
/* XRC: one connection to many shared receive queues, and what keeps them apart. */
#include "tests/softnic/rig.h"

enum { SRQS = 3, WQES = 8, CQES = 256, SPOT = 2048 };

/* NIC 0 sends on `from`; NIC 1 has `to`, and the queues, each with a domain of memory, CQ and user index of
 * its own. */
struct xrc {
    struct rig r;
    struct sn_xrcd *xrcd;
    struct app_qp from;
    struct sn_qp *to;
    struct app_cq sent;
    struct box {
        struct sn_pd *pd;
        struct sn_mr *mr;
        struct app_cq cq;
        struct app_srq srq;
        uint8_t *mem;
    } box[SRQS];
    uint32_t tag;
};

static void box_up(struct xrc *x, struct box *b, struct sn_xrcd *xrcd, uint32_t uidx)
{
    struct world_nic *n = &x->r.w.nics[1];
    struct sn_mr_init mr = {.length = WQES * SPOT, .access = (uint32_t)rig_access};
    struct app_srq_options o = {.xrcd = xrcd, .cq = &b->cq, .uidx = uidx};

    assert_int_equal(sn_pd_create(n->nic, &b->pd), 0);
    b->mem = calloc(1, WQES * SPOT);
    assert_non_null(b->mem);
    mr.addr = mr.iova = (uintptr_t)b->mem;
    assert_int_equal(sn_mr_create(b->pd, &mr, &b->mr), 0);
    app_cq_up(&b->cq, n, x->r.b.uar, CQES, 64);
    app_srq_up(&b->srq, n, b->pd, WQES, 1, &o);
}

static void box_down(struct box *b)
{
    if (b->srq.srq) app_srq_down(&b->srq);
    app_cq_down(&b->cq);
    assert_int_equal(sn_mr_destroy(b->mr), 0);
    assert_int_equal(sn_pd_destroy(b->pd), 0);
    free(b->mem);
}

static void connect_target(struct xrc *x)
{
    const struct app_connect *c = &app_connect_default;
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)rig_access};

    assert_int_equal(
        sn_qp_modify(x->to, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                             .path_mtu = (enum ibv_mtu)c->mtu,
                             .dest_qp_num = x->from.sq.qpn,
                             .rq_psn = c->psn_here,
                             .max_dest_rd_atomic = 4,
                             .min_rnr_timer = 1,
                             .ah_attr = {.is_global = 1, .port_num = 1}};
    memcpy(a.ah_attr.grh.dgid.raw, x->r.w.nics[0].gid, 16);
    assert_int_equal(sn_qp_modify(x->to, &a,
                                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                     0);
}

static void connect_source(struct xrc *x)
{
    const struct app_connect *c = &app_connect_default;
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = (enum ibv_mtu)c->mtu,
                            .dest_qp_num = sn_qp_number(x->to),
                            .rq_psn = c->psn_there,
                            .ah_attr = {.is_global = 1, .port_num = 1}};

    assert_int_equal(app_to_init(&x->from), 0);
    memcpy(a.ah_attr.grh.dgid.raw, x->r.w.nics[1].gid, 16);
    assert_int_equal(
        sn_qp_modify(x->from.qp, &a,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
        0);
    assert_int_equal(app_to_rts(&x->from, c), 0);
}

static void xrc_up(struct xrc *x, const struct world_options *o)
{
    struct app_qp_options from = {.uidx = 3, .type = IBV_QPT_XRC_SEND, .sq_wqebbs = 256};
    struct sn_qp_init to = {.type = IBV_QPT_XRC_RECV, .user = x};

    memset(x, 0, sizeof(*x));
    rig_up(&x->r, o);
    assert_int_equal(sn_xrcd_create(x->r.w.nics[1].nic, &x->xrcd), 0);
    for (uint32_t i = 0; i < SRQS; i++) box_up(x, &x->box[i], x->xrcd, 0x500 + i);
    app_cq_up(&x->sent, &x->r.w.nics[0], x->r.a.uar, CQES, 64);
    app_qp_up(&x->from, &x->r.w.nics[0], x->r.a.pd, x->r.a.uar, &x->sent, NULL, &from);
    to.xrcd = x->xrcd;
    assert_int_equal(sn_qp_create(x->r.w.nics[1].nic, &to, &x->to), 0);
    connect_target(x);
    connect_source(x);
}

static void xrc_down(struct xrc *x)
{
    app_qp_down(&x->from);
    if (x->to) assert_int_equal(sn_qp_destroy(x->to), 0);
    app_cq_down(&x->sent);
    for (uint32_t i = 0; i < SRQS; i++) box_down(&x->box[i]);
    assert_int_equal(sn_xrcd_destroy(x->xrcd), 0);
    rig_down(&x->r);
}

static void give(struct box *b)
{
    struct gw_mlx5_sge s = {(uintptr_t)b->mem + b->srq.head * SPOT, SPOT, sn_mr_key(b->mr)};

    app_srq_recv(&b->srq, &s, 1);
}

/* A request for box k's queue and memory; local bytes are box k's number. */
static void request(struct xrc *x, uint32_t k, uint8_t opcode, uint32_t len, uint32_t to, uint32_t srqn)
{
    struct gw_mlx5_sge s = sge_of(&x->r.a, k * SPOT, len);
    struct gw_mlx5_wr wr = {.opcode = opcode, .flags = GW_MLX5_SIGNALED, .num_sge = len != 0, .sge = &s};

    wr.imm_be = ++x->tag;
    wr.raddr = (uintptr_t)x->box[k].mem + to;
    wr.rkey = sn_mr_key(x->box[k].mr);
    wr.swap_or_add = 5;
    x->from.sq_pi += (uint32_t)gw_mlx5_put_xrc(&x->from.sq, x->from.sq_pi, &wr, srqn);
    app_publish(&x->from);
    app_ring(&x->from, 1);
}

static uint32_t number(struct xrc *x, uint32_t k)
{
    return sn_srq_number(x->box[k].srq.srq);
}

static void expect_sent(struct xrc *x, uint8_t syndrome)
{
    struct gw_mlx5_wc wc;

    assert_int_equal(app_poll(&x->sent, &wc, NULL), 1);
    assert_int_equal(wc.opcode, syndrome ? GW_MLX5_CQE_REQ_ERR : GW_MLX5_CQE_REQ);
    if (syndrome) assert_int_equal(wc.syndrome, syndrome);
    assert_int_equal(wc.uidx, 3);
}

static void expect_received(struct xrc *x, uint32_t k, uint8_t opcode)
{
    struct gw_mlx5_wc wc;

    assert_int_equal(app_poll(&x->box[k].cq, &wc, NULL), 1);
    assert_int_equal(wc.opcode, opcode);
    assert_int_equal(wc.uidx, 0x500 + k);
    assert_int_equal(wc.qpn, sn_qp_number(x->to));
    app_srq_free(&x->box[k].srq, wc.wqe_counter);
}

/* ---- what works ---------------------------------------------------------------------------------------- */

static void everything(void **state)
{
    static struct xrc x;

    (void)state;
    xrc_up(&x, NULL);
    for (uint32_t k = 0; k < SRQS; k++) memset(x.r.a.mem + k * SPOT, (int)k + 1, SPOT);
    for (uint32_t k = 0; k < SRQS; k++) {
        uint64_t word = 40;

        give(&x.box[k]);
        give(&x.box[k]);
        request(&x, k, GW_MLX5_SEND_IMM, 1500, 0, number(&x, k));
        request(&x, k, GW_MLX5_WRITE_IMM, 1400, 4 * SPOT, number(&x, k));
        world_settle(&x.r.w, MS);
        expect_received(&x, k, GW_MLX5_CQE_RESP_SEND_IMM);
        expect_received(&x, k, GW_MLX5_CQE_RESP_WR_IMM);
        assert_memory_equal(x.box[k].mem, x.r.a.mem + k * SPOT, 1500);
        assert_memory_equal(x.box[k].mem + 4 * SPOT, x.r.a.mem + k * SPOT, 1400);
        memcpy(x.box[k].mem + 5 * SPOT, &word, 8);
        request(&x, k, GW_MLX5_WRITE, 800, 6 * SPOT, number(&x, k));
        request(&x, k, GW_MLX5_ATOMIC_FA, 8, 5 * SPOT, number(&x, k));
        world_settle(&x.r.w, MS);
        assert_memory_equal(x.r.a.mem + k * SPOT, &word, 8);
        memcpy(&word, x.box[k].mem + 5 * SPOT, 8);
        assert_int_equal(word, 45);
        x.box[k].mem[7 * SPOT] = 99;
        request(&x, k, GW_MLX5_READ, 1300, 7 * SPOT, number(&x, k));
        world_settle(&x.r.w, MS);
        assert_int_equal(x.r.a.mem[k * SPOT], 99);
        for (int i = 0; i < 5; i++) expect_sent(&x, 0);
    }
    xrc_down(&x);
}

/* SENDs to all queues by turns, READs and atomics among them, while receives are missing and packets get
 * lost. */
static void lossy(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        static struct xrc x;
        struct world_options o = {.seed = seed, .hostile = seed & 1};
        struct gw_mlx5_wc wc;
        unsigned received[SRQS] = {0}, sent = 0;
        enum { ROUNDS = 12 };

        xrc_up(&x, &o);
        x.r.w.faults = (struct world_faults){.loss = 300,
                                             .dup = 300,
                                             .reorder = 300,
                                             .delay_ns = 1000,
                                             .jitter_ns = 2000,
                                             .reorder_ns = 20000};
        for (unsigned i = 0; i < ROUNDS * SRQS; i++) {
            uint32_t k = i % SRQS;

            request(&x, k, GW_MLX5_SEND_IMM, 1500, 0, number(&x, k));
            request(&x, k, i & 1 ? GW_MLX5_READ : GW_MLX5_ATOMIC_FA, 8, 7 * SPOT, number(&x, k));
            if (i % 8 != 7) continue;
            for (unsigned turn = 0; sent < 2 * (i + 1) && turn < 20000; turn++) {
                uint32_t b = world_below(&x.r.w, SRQS);
                if (x.box[b].srq.counter < received[b] + 2) give(&x.box[b]);
                world_settle(&x.r.w, 200000);
                for (b = 0; b < SRQS; b++)
                    while (app_poll(&x.box[b].cq, &wc, NULL)) {
                        assert_int_equal(wc.opcode, GW_MLX5_CQE_RESP_SEND_IMM);
                        assert_int_equal(wc.uidx, 0x500 + b);
                        assert_int_equal((wc.imm_be - 1) / 2 % SRQS, b);
                        app_srq_free(&x.box[b].srq, wc.wqe_counter);
                        received[b]++;
                    }
                while (app_poll(&x.sent, &wc, NULL)) {
                    assert_int_equal(wc.opcode, GW_MLX5_CQE_REQ);
                    sent++;
                }
            }
            assert_int_equal(sent, 2 * (i + 1));
        }
        assert_true(counters(&x.r, 1).rnr_sent > 0);
        xrc_down(&x);
    }
}

/* ---- what does not ------------------------------------------------------------------------------------- */

static void no_such_queue(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        static struct xrc x;
        struct sn_xrcd *other;
        struct box foreign;

        xrc_up(&x, NULL);
        assert_int_equal(sn_xrcd_create(x.r.w.nics[1].nic, &other), 0);
        box_up(&x, &foreign, other, 9);
        give(&foreign);
        /* One that does not exist, or one of another domain. */
        request(&x, 0, GW_MLX5_SEND, 100, 0, k ? sn_srq_number(foreign.srq.srq) : 0x123456);
        world_settle(&x.r.w, 10 * MS);
        expect_sent(&x, GW_MLX5_SYND_REM_INV_REQ);
        expect_report(&x.r, "shared receive queue");
        box_down(&foreign);
        assert_int_equal(sn_xrcd_destroy(other), 0);
        xrc_down(&x);
    }
}

/* A queue gives the rights of its own domain of memory, not of its neighbour's. */
static void rights(void **state)
{
    static struct xrc x;

    (void)state;
    xrc_up(&x, NULL);
    request(&x, 0, GW_MLX5_WRITE, 100, 0, number(&x, 1));
    world_settle(&x.r.w, 10 * MS);
    expect_sent(&x, GW_MLX5_SYND_REM_ACCESS);
    assert_int_equal(x.box[0].mem[0], 0);
    expect_report(&x.r, "of another protection domain");
    xrc_down(&x);
    xrc_up(&x, NULL);
    request(&x, 0, GW_MLX5_WRITE, 100, WQES * SPOT - 99, number(&x, 0));
    world_settle(&x.r.w, 10 * MS);
    expect_sent(&x, GW_MLX5_SYND_REM_ACCESS);
    expect_report(&x.r, "1 bytes past the end of that region");
    xrc_down(&x);
}

static void forge_xrc(struct xrc *x, uint8_t opcode, uint32_t psn, uint32_t srqn, uint32_t len)
{
    struct roce_hdr h = {
        .opcode = ROCE_XRC | opcode, .psn = psn, .xrcsrq = srqn, .dqpn = sn_qp_number(x->to)};
    uint8_t payload[1024] = {0};

    forge(&x->r, &h, payload, len);
}

static void queue_changes_in_a_message(void **state)
{
    static struct xrc x;
    uint32_t psn = app_connect_default.psn_here;
    struct ibv_qp_attr a;

    (void)state;
    xrc_up(&x, NULL);
    give(&x.box[0]);
    give(&x.box[1]);
    forge_xrc(&x, ROCE_SEND_FIRST, psn, number(&x, 0), 1024);
    forge_xrc(&x, ROCE_SEND_LAST, psn + 1, number(&x, 1), 10);
    world_settle(&x.r.w, MS);
    assert_int_equal(sn_qp_query(x.to, &a), 0);
    assert_int_equal(a.qp_state, IBV_QPS_ERR);
    struct gw_mlx5_wc wc;
    assert_int_equal(app_poll(&x.box[0].cq, &wc, NULL), 1); /* the first one's WQE comes back */
    assert_int_equal(wc.syndrome, GW_MLX5_SYND_FLUSHED);
    assert_int_equal(app_poll(&x.box[1].cq, &wc, NULL), 0);
    xrc_down(&x);
}

/* Destroyed in the middle of a message: nothing comes of it any more, and the peer is told. */
static void queue_goes(void **state)
{
    static struct xrc x;
    uint32_t psn = app_connect_default.psn_here;
    struct ibv_qp_attr a;
    struct gw_mlx5_wc wc;

    (void)state;
    xrc_up(&x, &(struct world_options){.seed = 4, .hostile = true});
    uint32_t srqn = number(&x, 0);
    give(&x.box[0]);
    forge_xrc(&x, ROCE_SEND_FIRST, psn, srqn, 1024);
    app_srq_down(&x.box[0].srq);
    x.box[0].srq.srq = NULL;
    forge_xrc(&x, ROCE_SEND_LAST, psn + 1, srqn, 10);
    world_settle(&x.r.w, MS);
    assert_int_equal(app_poll(&x.box[0].cq, &wc, NULL), 0);
    assert_int_equal(sn_qp_query(x.to, &a), 0);
    assert_int_equal(a.qp_state, IBV_QPS_ERR);
    xrc_down(&x);
}

/* Each end is one side only: what would be for the other is dropped. */
static void wrong_side(void **state)
{
    static struct xrc x;
    struct sn_counters before;

    (void)state;
    xrc_up(&x, NULL);
    before = counters(&x.r, 1);
    forge_xrc(&x, ROCE_ACK, 0, 0, 0);
    assert_int_equal(counters(&x.r, 1).drop_opcode, before.drop_opcode + 1);
    struct roce_hdr h = {
        .opcode = ROCE_SEND_ONLY, .psn = app_connect_default.psn_here, .dqpn = sn_qp_number(x.to)};
    forge(&x.r, &h, NULL, 0); /* RC */
    assert_int_equal(counters(&x.r, 1).drop_opcode, before.drop_opcode + 2);
    xrc_down(&x);
}

static void bad_init(void **state)
{
    static struct xrc x;
    struct sn_qp_init i = {.type = IBV_QPT_XRC_RECV};
    struct sn_qp *qp;

    (void)state;
    xrc_up(&x, NULL);
    assert_int_equal(sn_qp_create(x.r.w.nics[1].nic, &i, &qp), -EINVAL); /* no domain */
    i.xrcd = x.xrcd;
    i.pd = x.r.b.pd;
    assert_int_equal(sn_qp_create(x.r.w.nics[1].nic, &i, &qp), -EINVAL);
    assert_int_equal(sn_xrcd_destroy(x.xrcd), -EBUSY);
    assert_int_equal(sn_cq_destroy(x.box[0].cq.cq), -EBUSY);
    struct app_qp_options o = {.srq = &x.box[0].srq};
    struct sn_qp_init rc = {.type = IBV_QPT_RC, .pd = x.r.b.pd, .srq = o.srq->srq};
    uint64_t record = 0;
    rc.send_cq = rc.recv_cq = x.r.b.cq.cq;
    rc.uar = x.r.b.uar;
    rc.dbrec = (uint32_t *)&record;
    assert_int_equal(sn_qp_create(x.r.w.nics[1].nic, &rc, &qp), -EINVAL); /* an XRC queue is not for RC */
    xrc_down(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything),
        cmocka_unit_test(lossy),
        cmocka_unit_test(no_such_queue),
        cmocka_unit_test(rights),
        cmocka_unit_test(queue_changes_in_a_message),
        cmocka_unit_test(queue_goes),
        cmocka_unit_test(wrong_side),
        cmocka_unit_test(bad_init),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
