/* SPDX-License-Identifier: Apache-2.0 */
/* Doorbells, records, completion queues, events, and WQEs that are wrong. */
#include <sys/mman.h>

#include "tests/softnic/fixture.h"

static void a_record_without_a_ring_does_nothing(void **state)
{
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE, .flags = GW_MLX5_SIGNALED};

    (void)state;
    app_put(&r.a.qp, &wr);
    app_publish(&r.a.qp);
    world_settle(&r.w, 10 * MS);
    expect_nothing(&r.a);
    assert_int_equal(counters(&r, 0).tx_packets, 0);
    /* After a second of the same a line says why nothing happens; once. */
    for (int i = 0; i < 4; i++) {
        r.w.now += 1100u * MS;
        world_run(&r.w, 0);
    }
    expect_report(&r, "doorbell was not rung");
    assert_int_equal(r.w.reports, 1);
    app_ring(&r.a.qp, 1);
    world_settle(&r.w, 10 * MS);
    expect(&r.a, GW_MLX5_CQE_REQ);
}

static void a_ring_is_missing_at_the_end(void **state)
{
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE};
    struct app_qp_options o = {.uidx = 1};
    struct app_qp q;

    (void)state;
    app_qp_up(&q, &r.w.nics[0], r.a.pd, r.a.uar, &r.a.cq, &r.a.cq, &o);
    app_connect(&q, &q, &app_connect_default);
    app_put(&q, &wr);
    app_publish(&q);
    app_qp_down(&q);
    expect_report(&r, "doorbell was not rung");
}

static void a_ring_serves_all_of_its_register(void **state)
{
    struct app_qp_options o = {.uidx = 99};
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE, .flags = GW_MLX5_SIGNALED};
    struct app_qp q;
    struct gw_mlx5_wc wc;

    (void)state;
    app_qp_up(&q, &r.w.nics[0], r.a.pd, r.a.uar, &r.a.cq, &r.a.cq, &o);
    app_connect(&q, &q, &app_connect_default);
    app_put(&q, &wr);
    app_publish(&q);
    app_ring(&q, 1);
    q.half ^= 1;
    r.a.qp.half = q.half;
    app_post(&r.a.qp, &wr); /* into the same half: the first ring is gone before anybody saw it */
    world_settle(&r.w, 10 * MS);
    assert_int_equal(app_poll(&r.a.cq, &wc, NULL) + app_poll(&r.a.cq, &wc, NULL), 2);
    app_qp_down(&q);
}

/* Others of the register come and go, and it starts again itself: a later ring is seen all the same. */
static void a_register_outlives_its_first_user(void **state)
{
    struct app_qp_options o = {0};
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    struct app_qp q[6];

    (void)state;
    for (int i = 0; i < 6; i++) app_qp_up(&q[i], &r.w.nics[0], r.a.pd, r.a.uar, &r.a.cq, &r.a.cq, &o);
    app_qp_down(&q[2]);
    app_qp_down(&q[5]);
    app_qp_down(&q[0]);
    for (int turn = 0; turn < 2; turn++) {
        post(&r, GW_MLX5_WRITE, 0, 8, 0);
        world_settle(&r.w, MS);
        expect(&r.a, GW_MLX5_CQE_REQ);
        for (int k = 0; k < 2; k++) {
            struct app_qp *of = k ? &r.b.qp : &r.a.qp;

            assert_int_equal(sn_qp_modify(of->qp, &reset, IBV_QP_STATE), 0);
            of->sq_pi = of->rq_pi = of->dbrec[0] = of->dbrec[1] = 0;
        }
        rig_connect(&r);
    }
    app_qp_down(&q[4]);
    app_qp_down(&q[1]);
    app_qp_down(&q[3]);
}

static void all_registers_and_halves_are_seen(void **state)
{
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE, .flags = GW_MLX5_SIGNALED};
    uint8_t *page = sn_uar_page(r.a.uar);

    (void)state;
    for (uint32_t k = 0; k < SN_UAR_BF_COUNT * 2; k++) {
        app_put(&r.a.qp, &wr);
        app_publish(&r.a.qp);
        *(uint64_t *)(page + gw_mlx5_bf_offset(k / 2, SN_UAR_BF_SIZE, k & 1)) =
            gw_mlx5_sq_db_be(r.a.qp.sq_pi, r.a.qp.sq.qpn);
        world_settle(&r.w, 10 * MS);
        expect(&r.a, GW_MLX5_CQE_REQ);
    }
    assert_int_equal(r.w.reports, 0);
}

static void strange_rings_are_reported(void **state)
{
    uint8_t *page = sn_uar_page(r.a.uar);

    (void)state;
    for (int i = 0; i < 20; i++) {
        *(uint64_t *)(page + SN_UAR_BF) = gw_mlx5_sq_db_be(0, 0x123456);
        world_run(&r.w, 0);
    }
    expect_report(&r, "QP 0x123456");
    *(uint64_t *)(page + SN_UAR_CQ) = gw_mlx5_cq_db_be(0, 0x77);
    world_run(&r.w, 0);
    assert_in_range(r.w.reports, 1, 5);
    r.a.qp.dbrec[GW_MLX5_DBREC_SEND] = gw_mlx5_dbrec_be(1000); /* of 64 */
    app_ring(&r.a.qp, 1);
    world_run(&r.w, 0);
    expect_report(&r, "doorbell record 1000");
    assert_int_equal(app_state(&r.a.qp), IBV_QPS_ERR);
    assert_int_equal(r.w.events[IBV_EVENT_QP_FATAL], 1);
}

static void wrong_wqes_fail_in_their_turn(void **state)
{
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE, .flags = GW_MLX5_SIGNALED};

    (void)state;
    app_put(&r.a.qp, &wr);
    uint32_t bad = app_put(&r.a.qp, &wr);
    app_put(&r.a.qp, &wr);
    ((uint8_t *)r.a.qp.sq_buf)[bad * 64 + 3] = 0x25; /* an opcode that is not supported */
    app_publish(&r.a.qp);
    app_ring(&r.a.qp, 0);
    world_settle(&r.w, 10 * MS);
    assert_int_equal(expect(&r.a, GW_MLX5_CQE_REQ).wqe_counter, 0);
    struct gw_mlx5_wc wc = expect(&r.a, GW_MLX5_CQE_REQ_ERR);
    assert_int_equal(wc.syndrome, GW_MLX5_SYND_LOCAL_QP_OP);
    assert_int_equal(wc.wqe_counter, bad);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_FLUSHED);
    expect_nothing(&r.a);
    expect_report(&r, "send WQE at index 1");
    assert_int_equal(app_state(&r.a.qp), IBV_QPS_ERR);
}

static void what_is_posted_in_err_comes_back(void **state)
{
    (void)state;
    struct ibv_qp_attr to_err = {.qp_state = IBV_QPS_ERR};

    post_recv(&r.a, 0, 64);
    assert_int_equal(sn_qp_modify(r.a.qp.qp, &to_err, IBV_QP_STATE), 0);
    world_settle(&r.w, MS);
    expect_error(&r.a, GW_MLX5_CQE_RESP_ERR, GW_MLX5_SYND_FLUSHED);
    post(&r, GW_MLX5_SEND, 0, 64, 0);
    post_recv(&r.a, 0, 64);
    world_settle(&r.w, MS);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_FLUSHED);
    expect_error(&r.a, GW_MLX5_CQE_RESP_ERR, GW_MLX5_SYND_FLUSHED);
    expect_nothing(&r.a);
}

/* Only some of them are looked at in one go; in the end all are. */
static void in_err_all_have_their_turn(void **state)
{
    enum { MANY = 50 };
    static struct app_qp q[MANY];
    struct app_qp_options o = {.rq_wqes = 1};
    struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
    struct gw_mlx5_sge s = sge_of(&r.a, 0, 8);
    struct gw_mlx5_wc wc;
    int back = 0;

    (void)state;
    for (int i = 0; i < MANY; i++) {
        app_qp_up(&q[i], &r.w.nics[0], r.a.pd, r.a.uar, &r.a.cq, &r.a.cq, &o);
        assert_int_equal(sn_qp_modify(q[i].qp, &err, IBV_QP_STATE), 0);
    }
    world_settle(&r.w, MS);
    for (int i = 0; i < MANY; i++) app_recv(&q[i], &s, 1);
    for (int i = 0; i < 4; i++) world_run(&r.w, 0);
    while (app_poll(&r.a.cq, &wc, NULL)) back += wc.syndrome == GW_MLX5_SYND_FLUSHED;
    assert_int_equal(back, MANY);
    for (int i = 0; i < MANY; i++) app_qp_down(&q[i]);
}

static void an_overrun_never_overwrites(void **state)
{
    struct app_cq small;
    struct app_qp_options o = {.uidx = 3, .sig_all = true};
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE};
    struct app_qp q;
    struct gw_mlx5_wc wc;

    (void)state;
    app_cq_up(&small, &r.w.nics[0], r.a.uar, 4, 64);
    app_qp_up(&q, &r.w.nics[0], r.a.pd, r.a.uar, &small, &small, &o);
    app_connect(&q, &q, &app_connect_default);
    for (int i = 0; i < 5; i++) app_put(&q, &wr);
    app_publish(&q);
    app_ring(&q, 0);
    world_settle(&r.w, MS);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(app_poll(&small, &wc, NULL), 1);
        assert_int_equal(wc.wqe_counter, i);
    }
    assert_int_equal(app_poll(&small, &wc, NULL), 0);
    assert_int_equal(r.w.events[IBV_EVENT_CQ_ERR], 1);
    assert_int_equal(r.w.events[IBV_EVENT_QP_FATAL], 1);
    assert_int_equal(app_state(&q), IBV_QPS_ERR);
    app_qp_down(&q);
    app_cq_down(&small);
}

static unsigned fired;

static void on_event(void *cq_user)
{
    assert_ptr_equal(cq_user, &r.b.cq);
    fired++;
}

static void send_one(bool solicited)
{
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_SEND, .flags = solicited ? GW_MLX5_SOLICITED : 0};

    post_recv(&r.b, 0, 64);
    app_post(&r.a.qp, &wr);
    world_settle(&r.w, MS);
}

static void events_come_once_per_arm(void **state)
{
    struct gw_mlx5_wc wc;

    (void)state;
    fired = 0;
    r.w.cq_event = on_event;
    send_one(false);
    assert_int_equal(fired, 0); /* not armed */
    assert_int_equal(app_poll(&r.b.cq, &wc, NULL), 1);
    app_arm(&r.b.cq, false); /* the first: its word is 0 but for the index */
    world_settle(&r.w, MS);
    assert_int_equal(fired, 0);
    send_one(false);
    send_one(false);
    assert_int_equal(fired, 1);
    app_arm(&r.b.cq, false); /* before the event was taken: the same number, so not another */
    world_settle(&r.w, MS);
    assert_int_equal(fired, 1);
    app_event_taken(&r.b.cq);
    app_arm(&r.b.cq, false); /* one came after the event: at once */
    world_settle(&r.w, MS);
    assert_int_equal(fired, 2);
}

/* A program that takes one completion per event must not get events for those that it was told of. */
static void events_tell_of_a_completion_once(void **state)
{
    struct gw_mlx5_wc wc;

    (void)state;
    for (int solicited = 0; solicited < 2; solicited++) {
        fired = 0;
        r.w.cq_event = on_event;
        app_arm(&r.b.cq, solicited);
        send_one(true);
        assert_int_equal(fired, 1);
        app_event_taken(&r.b.cq);
        app_arm(&r.b.cq, solicited); /* told of, and not polled */
        world_settle(&r.w, MS);
        assert_int_equal(fired, 1);
        send_one(true);
        assert_int_equal(fired, 2);
        app_event_taken(&r.b.cq);
        assert_int_equal(app_poll(&r.b.cq, &wc, NULL), 1);
        app_arm(&r.b.cq, solicited); /* one of the two is still there */
        world_settle(&r.w, MS);
        assert_int_equal(fired, 2);
        send_one(!solicited);
        send_one(true);
        assert_int_equal(fired, 3);
        app_event_taken(&r.b.cq);
        while (app_poll(&r.b.cq, &wc, NULL) == 1) continue;
    }
}

static void solicited_events_wait_for_solicited_completions(void **state)
{
    (void)state;
    fired = 0;
    r.w.cq_event = on_event;
    app_arm(&r.b.cq, true);
    send_one(false);
    assert_int_equal(fired, 0);
    send_one(true);
    assert_int_equal(fired, 1);
}

static void the_first_arm_of_all_is_seen(void **state)
{
    (void)state;
    fired = 0;
    r.w.cq_event = on_event;
    app_arm(&r.b.cq, false); /* all zeros, as the record began */
    send_one(false);
    assert_int_equal(fired, 1);
}

/* All CQs of a page are armed through one register, where the later arm hides the earlier. */
static void no_arm_is_lost_behind_another(void **state)
{
    struct app_cq other;
    struct gw_mlx5_wc wc;

    (void)state;
    app_cq_up(&other, &r.w.nics[1], r.b.uar, 16, 64);
    fired = 0;
    r.w.cq_event = on_event;
    for (int i = 0; i < 3; i++) {
        app_arm(&r.b.cq, false); /* nothing is there yet */
        app_arm(&other, false);
        world_settle(&r.w, MS);
        assert_int_equal(fired, 2 * i);
        send_one(false);
        assert_int_equal(fired, 2 * i + 1);
        app_event_taken(&r.b.cq);
        send_one(false); /* while it is not armed */
        assert_int_equal(fired, 2 * i + 1);
        app_arm(&r.b.cq, false);
        app_arm(&other, false);
        world_settle(&r.w, MS);
        assert_int_equal(fired, 2 * i + 2);
        app_event_taken(&r.b.cq);
        while (app_poll(&r.b.cq, &wc, NULL)) continue;
    }
    assert_int_equal(r.w.reports, 0);
    app_cq_down(&other);
}

static void busy_objects_cannot_go(void **state)
{
    (void)state;
    assert_int_equal(sn_cq_destroy(r.a.cq.cq), -EBUSY);
    assert_int_equal(sn_pd_destroy(r.a.pd), -EBUSY);
    assert_int_equal(sn_uar_destroy(r.a.uar), -EBUSY);
    assert_int_equal(sn_nic_destroy(r.w.nics[0].nic), -EBUSY);
}

/* Addresses come from a command: they may be anything. */
static void queues_in_no_mans_land_are_errors(void **state)
{
    void *hole = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sn_cq_init c = {.buf = hole, .cqe_count = 4, .cqe_size = 64, .dbrec = hole, .uar = r.a.uar};
    struct sn_qp_init q = {.type = IBV_QPT_RC,
                           .pd = r.a.pd,
                           .send_cq = r.a.cq.cq,
                           .recv_cq = r.a.cq.cq,
                           .sq_buf = hole,
                           .sq_wqebbs = 4,
                           .dbrec = hole,
                           .uar = r.a.uar};
    uint32_t dbrec[2] __attribute__((aligned(8))) = {0, 0};
    struct sn_cq *cq;
    struct sn_qp *qp;

    (void)state;
    assert_int_equal(sn_cq_create(r.w.nics[0].nic, &c, &cq), -EFAULT);
    assert_int_equal(sn_qp_create(r.w.nics[0].nic, &q, &qp), -EFAULT);
    q.dbrec = dbrec;
    assert_int_equal(sn_qp_create(r.w.nics[0].nic, &q, &qp), 0);
    struct app_qp a = {.qp = qp, .n = &r.w.nics[0], .uar = r.a.uar, .sq = {hole, 4, sn_qp_number(qp)}};
    app_connect(&a, &a, &app_connect_default);
    dbrec[1] = gw_mlx5_dbrec_be(1);
    a.sq_pi = 1;
    app_ring(&a, 1);
    world_settle(&r.w, MS);
    expect_report(&r, "send queue is not mapped");
    assert_int_equal(app_state(&a), IBV_QPS_ERR);
    sn_qp_destroy(qp);
    munmap(hole, 8192);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, up, down)
    const struct CMUnitTest tests[] = {
        T(a_record_without_a_ring_does_nothing),
        T(a_ring_is_missing_at_the_end),
        T(a_ring_serves_all_of_its_register),
        T(a_register_outlives_its_first_user),
        T(all_registers_and_halves_are_seen),
        T(strange_rings_are_reported),
        T(wrong_wqes_fail_in_their_turn),
        T(what_is_posted_in_err_comes_back),
        T(in_err_all_have_their_turn),
        T(an_overrun_never_overwrites),
        T(events_come_once_per_arm),
        T(events_tell_of_a_completion_once),
        T(solicited_events_wait_for_solicited_completions),
        T(the_first_arm_of_all_is_seen),
        T(no_arm_is_lost_behind_another),
        T(busy_objects_cannot_go),
        T(queues_in_no_mans_land_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
