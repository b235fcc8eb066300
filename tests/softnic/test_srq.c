/* SPDX-License-Identifier: Apache-2.0 */
/* Shared receive queues: the list that a program links, many queue pairs at it, its events, its errors. */
#include "tests/softnic/rig.h"

enum { QPS = 6, WQES = 16, MSG = 3000, SPOT = 4096 };

/* Queue pairs of NIC 0, each connected to one of NIC 1, and those draw from one queue. */
struct shared {
    struct rig r;
    struct app_srq srq;
    struct app_qp from[QPS], to[QPS];
    struct app_cq sent;
    unsigned posted;
};

static void shared_up(struct shared *s, const struct world_options *o)
{
    struct app_connect c = app_connect_default;

    memset(s, 0, sizeof(*s));
    rig_up(&s->r, o);
    app_srq_up(&s->srq, &s->r.w.nics[1], s->r.b.pd, WQES, 2, NULL);
    app_cq_up(&s->sent, &s->r.w.nics[0], s->r.a.uar, 256, 64);
    c.rnr_retry = 7;
    c.timeout = 14;
    for (uint32_t i = 0; i < QPS; i++) {
        struct app_qp_options from = {.uidx = 100 + i}, to = {.uidx = 200 + i, .srq = &s->srq};

        app_qp_up(&s->from[i], &s->r.w.nics[0], s->r.a.pd, s->r.a.uar, &s->sent, &s->sent, &from);
        app_qp_up(&s->to[i], &s->r.w.nics[1], s->r.b.pd, s->r.b.uar, &s->r.b.cq, &s->r.b.cq, &to);
        app_connect(&s->from[i], &s->to[i], &c);
    }
}

static void shared_down(struct shared *s)
{
    for (uint32_t i = 0; i < QPS; i++) {
        app_qp_down(&s->from[i]);
        if (s->to[i].qp) app_qp_down(&s->to[i]);
    }
    app_srq_down(&s->srq);
    app_cq_down(&s->sent);
    rig_down(&s->r);
}

/* Entry e's data goes to place e of b's memory. */
static int give(struct shared *s)
{
    struct gw_mlx5_sge sge = sge_of(&s->r.b, s->srq.head % WQES * SPOT % RIG_MEM, SPOT);
    return app_srq_recv(&s->srq, &sge, 1);
}

static void send_imm(struct shared *s, uint32_t qp, uint32_t tag)
{
    uint32_t at = qp * SPOT;
    struct gw_mlx5_sge sge = sge_of(&s->r.a, at, MSG);
    struct gw_mlx5_wr wr = {
        .opcode = GW_MLX5_SEND_IMM, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &sge, .imm_be = tag};

    memset(s->r.a.mem + at, (int)(qp * 37 + 5), MSG);
    app_post(&s->from[qp], &wr);
    s->posted++;
}

/* One completion of a receive: its bytes are those of the sender, and its entry goes back. */
static bool took_one(struct shared *s, uint32_t *qp)
{
    struct gw_mlx5_wc wc;

    if (!app_poll(&s->r.b.cq, &wc, NULL)) return false;
    assert_int_equal(wc.opcode, GW_MLX5_CQE_RESP_SEND_IMM);
    assert_int_equal(wc.byte_cnt, MSG);
    assert_true(wc.uidx >= 200 && wc.uidx < 200 + QPS);
    *qp = wc.uidx - 200;
    assert_int_equal(wc.qpn, s->to[*qp].sq.qpn);
    assert_true(wc.wqe_counter < WQES);
    const uint8_t *m = s->r.b.mem + (size_t)wc.wqe_counter * SPOT % RIG_MEM;
    for (uint32_t i = 0; i < MSG; i++) assert_int_equal(m[i], (uint8_t)(*qp * 37 + 5));
    memset(s->r.b.mem + (size_t)wc.wqe_counter * SPOT % RIG_MEM, 0, SPOT);
    app_srq_free(&s->srq, wc.wqe_counter);
    return true;
}

/* Messages of all come in, in order for each, while the queue runs empty again and again. */
static void many_draw_from_one(const struct world_options *o, const struct world_faults *f, unsigned rounds)
{
    static struct shared s;
    unsigned done = 0, sends = 0, next_tag[QPS] = {0};
    struct gw_mlx5_wc wc;
    uint32_t qp;

    shared_up(&s, o);
    if (f) s.r.w.faults = *f;
    for (unsigned k = 0; k < rounds; k++)
        for (uint32_t i = 0; i < QPS; i++) send_imm(&s, i, k);
    for (unsigned turn = 0; done < rounds * QPS && turn < 100000; turn++) {
        for (unsigned n = world_below(&s.r.w, 4); n; n--) give(&s);
        world_settle(&s.r.w, 300000);
        while (took_one(&s, &qp)) {
            next_tag[qp]++;
            done++;
        }
        while (app_poll(&s.sent, &wc, NULL)) {
            assert_int_equal(wc.opcode, GW_MLX5_CQE_REQ);
            sends++;
        }
    }
    assert_int_equal(done, rounds * QPS);
    for (unsigned turn = 0; sends < done && turn < 1000; turn++) {
        world_settle(&s.r.w, MS);
        while (app_poll(&s.sent, &wc, NULL)) sends++;
    }
    assert_int_equal(sends, done);
    for (uint32_t i = 0; i < QPS; i++) assert_int_equal(next_tag[i], rounds);
    assert_true(counters(&s.r, 1).rnr_sent > 0);
    shared_down(&s);
}

static void plain(void **state)
{
    (void)state;
    many_draw_from_one(NULL, NULL, 12);
}

static void lossy(void **state)
{
    static const struct world_faults f = {
        .loss = 300, .dup = 300, .reorder = 300, .delay_ns = 1000, .jitter_ns = 2000, .reorder_ns = 20000};

    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct world_options o = {.seed = seed, .hostile = seed & 1};
        many_draw_from_one(&o, &f, 8);
    }
}

/* ---- events -------------------------------------------------------------------------------------------- */

static void limit(void **state)
{
    static struct shared s;
    uint32_t qp;

    (void)state;
    shared_up(&s, NULL);
    for (int i = 0; i < 6; i++) assert_true(give(&s) >= 0);
    assert_int_equal(sn_srq_set_limit(s.srq.srq, WQES), -EINVAL);
    assert_int_equal(sn_srq_set_limit(s.srq.srq, 5), 0);
    assert_int_equal(sn_srq_limit(s.srq.srq), 5);
    send_imm(&s, 0, 0);
    world_settle(&s.r.w, MS);
    assert_int_equal(s.r.w.events[IBV_EVENT_SRQ_LIMIT_REACHED], 0); /* five are left */
    send_imm(&s, 1, 0);
    world_settle(&s.r.w, MS);
    assert_int_equal(s.r.w.events[IBV_EVENT_SRQ_LIMIT_REACHED], 1);
    assert_ptr_equal(s.r.w.event_user, &s.srq);
    assert_int_equal(sn_srq_limit(s.srq.srq), 0);
    send_imm(&s, 2, 0);
    world_settle(&s.r.w, MS);
    assert_int_equal(s.r.w.events[IBV_EVENT_SRQ_LIMIT_REACHED], 1); /* one for each time it was asked for */
    while (took_one(&s, &qp)) {
    }
    assert_int_equal(sn_srq_set_limit(s.srq.srq, 4), 0); /* three are left already */
    assert_int_equal(s.r.w.events[IBV_EVENT_SRQ_LIMIT_REACHED], 2);
    shared_down(&s);
}

static void to_err(struct app_qp *q)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
    assert_int_equal(sn_qp_modify(q->qp, &a, IBV_QP_STATE), 0);
}

/* The first packet of a message that never ends: its queue pair holds a WQE. */
static void half_a_message(struct shared *s, uint32_t qp)
{
    struct roce_hdr h = {.opcode = ROCE_SEND_FIRST, .psn = app_connect_default.psn_here};
    uint8_t payload[1024] = {0};

    h.dqpn = s->to[qp].sq.qpn;
    forge(&s->r, &h, payload, sizeof(payload));
}

static void last_wqe(void **state)
{
    static struct shared s;
    struct gw_mlx5_wc wc;

    (void)state;
    shared_up(&s, NULL);
    assert_int_equal(give(&s), 0);
    assert_int_equal(give(&s), 1);
    half_a_message(&s, 3);
    to_err(&s.to[3]);
    world_settle(&s.r.w, MS);
    assert_int_equal(s.r.w.events[IBV_EVENT_QP_LAST_WQE_REACHED], 1);
    assert_ptr_equal(s.r.w.event_user, &s.to[3]);
    assert_int_equal(app_poll(&s.r.b.cq, &wc, NULL), 1);
    assert_int_equal(wc.opcode, GW_MLX5_CQE_RESP_ERR);
    assert_int_equal(wc.syndrome, GW_MLX5_SYND_FLUSHED);
    assert_int_equal(wc.wqe_counter, 0);
    assert_int_equal(wc.uidx, 203);
    assert_int_equal(app_poll(&s.r.b.cq, &wc, NULL), 0); /* the other WQE is still everybody's */
    world_settle(&s.r.w, 10 * MS);
    assert_int_equal(s.r.w.events[IBV_EVENT_QP_LAST_WQE_REACHED], 1);
    to_err(&s.to[4]); /* one that holds none */
    world_settle(&s.r.w, MS);
    assert_int_equal(s.r.w.events[IBV_EVENT_QP_LAST_WQE_REACHED], 2);
    shared_down(&s);
}

/* A queue pair that goes while it holds a WQE leaves a completion that gives it back, hostile or not.
 */
static void gone_with_a_wqe(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        static struct shared s;
        struct world_options o = {.seed = 3, .hostile = k & 1};
        struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
        struct gw_mlx5_wc wc;

        shared_up(&s, &o);
        assert_int_equal(give(&s), 0);
        half_a_message(&s, 2);
        if (k & 2) {
            app_qp_down(&s.to[2]);
            s.to[2].qp = NULL;
        } else {
            assert_int_equal(sn_qp_modify(s.to[2].qp, &a, IBV_QP_STATE), 0);
        }
        assert_int_equal(app_poll(&s.r.b.cq, &wc, NULL), 1);
        assert_int_equal(wc.opcode, GW_MLX5_CQE_RESP_ERR);
        assert_int_equal(wc.wqe_counter, 0);
        shared_down(&s);
    }
}

/* ---- errors -------------------------------------------------------------------------------------------- */

static void broken_list(void **state)
{
    static struct shared s;
    struct gw_mlx5_wc wc;

    (void)state;
    shared_up(&s, NULL);
    assert_int_equal(give(&s), 0);
    *(uint32_t *)s.srq.rq.buf = gw_be32(WQES);
    send_imm(&s, 0, 0);
    world_settle(&s.r.w, 20 * MS);
    assert_int_equal(s.r.w.events[IBV_EVENT_SRQ_ERR], 1);
    expect_report(&s.r, "link names no entry");
    assert_int_equal(app_poll(&s.sent, &wc, NULL), 1);
    assert_int_equal(wc.opcode, GW_MLX5_CQE_REQ_ERR);
    assert_int_equal(wc.syndrome, GW_MLX5_SYND_REM_OP);
    assert_int_equal(app_state(&s.to[0]), IBV_QPS_ERR);
    assert_int_equal(app_state(&s.to[1]), IBV_QPS_RTS);
    send_imm(&s, 1, 0); /* and the next one fails too, without another event */
    world_settle(&s.r.w, 20 * MS);
    assert_int_equal(s.r.w.events[IBV_EVENT_SRQ_ERR], 1);
    assert_int_equal(app_state(&s.to[1]), IBV_QPS_ERR);
    shared_down(&s);
}

static void record_runs_ahead(void **state)
{
    static struct shared s;

    (void)state;
    shared_up(&s, NULL);
    s.srq.dbrec[0] = gw_be32(WQES + 1);
    send_imm(&s, 0, 0);
    world_settle(&s.r.w, 20 * MS);
    assert_int_equal(s.r.w.events[IBV_EVENT_SRQ_ERR], 1);
    shared_down(&s);
}

/* A WQE that names a wrong key fails the queue pair that got it, and no other. Keys are the queue's domain's.
 */
static void wrong_key(void **state)
{
    static struct shared s;
    struct gw_mlx5_sge bad = {4096, SPOT, 0x1234567};
    struct gw_mlx5_wc wc;
    uint32_t qp;

    (void)state;
    shared_up(&s, NULL);
    assert_int_equal(app_srq_recv(&s.srq, &bad, 1), 0);
    assert_int_equal(give(&s), 1);
    send_imm(&s, 0, 0);
    world_settle(&s.r.w, MS);
    assert_int_equal(app_poll(&s.r.b.cq, &wc, NULL), 1);
    assert_int_equal(wc.opcode, GW_MLX5_CQE_RESP_ERR);
    assert_int_equal(wc.syndrome, GW_MLX5_SYND_LOCAL_PROT);
    assert_int_equal(wc.wqe_counter, 0);
    assert_int_equal(app_state(&s.to[0]), IBV_QPS_ERR);
    send_imm(&s, 1, 0);
    world_settle(&s.r.w, MS);
    assert_true(took_one(&s, &qp));
    assert_int_equal(qp, 1);
    assert_int_equal(s.r.w.events[IBV_EVENT_SRQ_ERR], 0);
    shared_down(&s);
}

/* The queue's WQEs name regions of its own domain, whichever the queue pairs' is. */
static void domains(void **state)
{
    static struct rig r;
    struct app_srq srq;
    struct app_qp to;
    struct sn_pd *pd;
    struct app_qp_options o = {.uidx = 9, .srq = &srq};
    struct gw_mlx5_wc wc;

    (void)state;
    rig_up(&r, NULL);
    assert_int_equal(sn_pd_create(r.w.nics[1].nic, &pd), 0);
    app_srq_up(&srq, &r.w.nics[1], r.b.pd, WQES, 1, NULL);
    app_qp_up(&to, &r.w.nics[1], pd, r.b.uar, &r.b.cq, &r.b.cq, &o);
    app_connect(&r.a.qp, &to, &app_connect_default);
    struct gw_mlx5_sge sge = sge_of(&r.b, 64, 100);
    assert_int_equal(app_srq_recv(&srq, &sge, 1), 0);
    post(&r, GW_MLX5_SEND, 0, 100, 0);
    world_settle(&r.w, MS);
    assert_int_equal(app_poll(&r.b.cq, &wc, NULL), 1);
    assert_int_equal(wc.opcode, GW_MLX5_CQE_RESP_SEND);
    assert_int_equal(sn_srq_destroy(srq.srq), -EBUSY);
    assert_int_equal(sn_pd_destroy(r.b.pd), -EBUSY);
    app_qp_down(&to);
    app_srq_down(&srq);
    assert_int_equal(sn_pd_destroy(pd), 0);
    rig_down(&r);
}

static void bad_init(void **state)
{
    static struct rig r;
    static uint64_t buf[64], record;
    struct sn_srq *srq;

    (void)state;
    rig_up(&r, NULL);
    struct sn_nic *nic = r.w.nics[0].nic;
    struct sn_srq_init good = {
        .pd = r.a.pd, .buf = (void *)(((uintptr_t)buf + 15) & ~(uintptr_t)15), .wqes = 4};
    good.stride = 32;
    good.dbrec = (uint32_t *)&record;
    struct sn_srq_init i = good;
    i.wqes = 3;
    assert_int_equal(sn_srq_create(nic, &i, &srq), -EINVAL);
    i = good;
    i.wqes = 2 * SN_MAX_RQ_WQE;
    assert_int_equal(sn_srq_create(nic, &i, &srq), -EINVAL);
    i = good;
    i.stride = 16;
    assert_int_equal(sn_srq_create(nic, &i, &srq), -EINVAL);
    i = good;
    i.buf = (char *)good.buf + 8;
    assert_int_equal(sn_srq_create(nic, &i, &srq), -EINVAL);
    i = good;
    i.dbrec = (uint32_t *)64;
    assert_int_equal(sn_srq_create(nic, &i, &srq), -EFAULT);
    assert_int_equal(sn_srq_create(nic, &good, &srq), 0);
    assert_int_equal(sn_srq_destroy(srq), 0);
    rig_down(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),
        cmocka_unit_test(lossy),
        cmocka_unit_test(limit),
        cmocka_unit_test(last_wqe),
        cmocka_unit_test(gone_with_a_wqe),
        cmocka_unit_test(broken_list),
        cmocka_unit_test(record_runs_ahead),
        cmocka_unit_test(wrong_key),
        cmocka_unit_test(domains),
        cmocka_unit_test(bad_init),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
