/* SPDX-License-Identifier: Apache-2.0 */
/* Peers of one host whose memory for frames is full: what is for them waits, and nothing else does. */
#include "tests/softnic/peers_rig.h"

static void up(enum ibv_qp_type type)
{
    fake_peers_up(&peers, 5);
    peers.no_offers = true;
    rig_up_as(&r, &(struct world_options){.seed = 1, .peers = &peers}, type);
    rig_connect(&r);
    rig_fill(&r);
}

static void run(void)
{
    world_settle(&r.w, MS);
}

static uint32_t send_from(struct end *e, uint32_t len)
{
    struct gw_mlx5_sge s = sge_of(e, 0, len);
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_SEND, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s};

    return app_post(&e->qp, &wr);
}

static void it_waits_and_holds_up_no_other(void **state)
{
    struct end c, d;

    (void)state;
    up(IBV_QPT_RC);
    end_up(&r, &c, 0, IBV_QPT_RC);
    end_up(&r, &d, 2, IBV_QPT_RC);
    app_connect(&c.qp, &d.qp, &app_connect_default);
    post_recv(&r.b, 0, 5000);
    for (int i = 0; i < 2; i++) post_recv(&d, 0, 5000);
    peers.full_qpn = r.b.qp.sq.qpn;
    send_from(&r.a, 5000);
    for (int i = 0; i < 2; i++) {
        send_from(&c, 5000);
        run();
        expect(&c, GW_MLX5_CQE_REQ);
        expect(&d, GW_MLX5_CQE_RESP_SEND);
    }
    expect_nothing(&r.a);
    assert_int_equal(counters(&r, 1).rx_packets, 0);
    peers.full_qpn = 0;
    run();
    expect(&r.a, GW_MLX5_CQE_REQ);
    expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    assert_int_equal(counters(&r, 0).retransmits, 0);
    end_down(&c);
    end_down(&d);
    down();
}

/* The engine looks again soon at a queue pair that waits, though nothing else happens. The wait does not keep
 * the NIC busy. */
static void it_is_looked_at_again(void **state)
{
    struct sn_nic *nic;
    uint64_t next;

    (void)state;
    up(IBV_QPT_RC);
    nic = r.w.nics[0].nic;
    post_recv(&r.b, 0, 100);
    peers.full_qpn = r.b.qp.sq.qpn;
    send_from(&r.a, 100);
    for (int i = 0; i < 3; i++) {
        next = i ? sn_nic_progress(nic, r.w.now) : sn_nic_posted(nic, r.w.now);
        assert_true(next > r.w.now && next < r.w.now + MS);
        r.w.now = next;
    }
    peers.full_qpn = 0;
    sn_nic_progress(nic, r.w.now);
    assert_int_equal(counters(&r, 0).tx_packets, 1);
    run();
    expect(&r.a, GW_MLX5_CQE_REQ);
    expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    down();
}

static void answers_wait_too(void **state)
{
    (void)state;
    up(IBV_QPT_RC);
    post_recv(&r.b, 0, 100);
    peers.full_qpn = r.a.qp.sq.qpn;
    send_from(&r.a, 100);
    world_settle(&r.w, MS / 2);
    expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    expect_nothing(&r.a);
    assert_int_equal(counters(&r, 1).tx_packets, 0);
    peers.full_qpn = 0;
    run();
    expect(&r.a, GW_MLX5_CQE_REQ);
    assert_int_equal(counters(&r, 1).acks_sent, 1);
    down();
}

/* Room comes and goes in the middle of messages: all arrive, once and whole. */
static void unreliable_ones_lose_nothing(void **state)
{
    enum { N = 8, LEN = 6000 };

    (void)state;
    up(IBV_QPT_UC);
    for (int i = 0; i < N; i++) post_recv(&r.b, 0, LEN);
    peers.full_qpn = r.b.qp.sq.qpn;
    for (int i = 0; i < N; i++) send_from(&r.a, LEN);
    world_settle(&r.w, 50 * MS);
    expect_nothing(&r.a);
    assert_int_equal(counters(&r, 0).tx_packets, 0);
    peers.full_qpn = 0;
    peers.full = 7000;
    world_settle(&r.w, 50 * MS);
    for (int i = 0; i < N; i++) {
        expect(&r.a, GW_MLX5_CQE_REQ);
        expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    }
    assert_memory_equal(r.b.mem, r.a.mem, LEN);
    assert_int_equal(counters(&r, 1).lost_messages, 0);
    down();
}

/* And is met before anything is sent to it. */
static void who_is_connected_to_is_asked_about(void **state)
{
    (void)state;
    for (enum ibv_qp_type type = IBV_QPT_RC; type <= IBV_QPT_UC; type++) {
        up(type);
        assert_true(peers.asked_qpn == r.a.qp.sq.qpn || peers.asked_qpn == r.b.qp.sq.qpn);
        down();
    }
}

static void datagrams_wait_in_their_order(void **state)
{
    struct gw_mlx5_sge s;
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_SEND, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s};

    (void)state;
    up(IBV_QPT_UD);
    for (int i = 0; i < 3; i++) post_recv(&r.b, 0, 200);
    s = sge_of(&r.a, 0, 100);
    for (int i = 0; i < 3; i++) {
        peers.full_qpn = i ? r.b.qp.sq.qpn : 0;
        app_post_ud(&r.a.qp, &wr, r.w.nics[1].gid, r.b.qp.sq.qpn, APP_QKEY);
        run();
    }
    expect(&r.a, GW_MLX5_CQE_REQ);
    expect_nothing(&r.a);
    peers.full_qpn = 0;
    run();
    for (int i = 0; i < 2; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    for (int i = 0; i < 3; i++) expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    down();
}

static void who_waits_can_be_ended(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    (void)state;
    up(IBV_QPT_RC);
    peers.full_qpn = r.b.qp.sq.qpn;
    send_from(&r.a, 100);
    run();
    expect_nothing(&r.a);
    assert_int_equal(sn_qp_modify(r.a.qp.qp, &attr, IBV_QP_STATE), 0);
    world_run(&r.w, 0);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_FLUSHED);
    down();

    up(IBV_QPT_RC);
    peers.full_qpn = r.b.qp.sq.qpn;
    send_from(&r.a, 100);
    run();
    app_qp_down(&r.a.qp);
    world_run(&r.w, 0);
    app_qp_up(&r.a.qp, &r.w.nics[0], r.a.pd, r.a.uar, &r.a.cq, &r.a.cq,
              &(struct app_qp_options){.type = IBV_QPT_RC});
    down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_waits_and_holds_up_no_other),
        cmocka_unit_test(it_is_looked_at_again),
        cmocka_unit_test(answers_wait_too),
        cmocka_unit_test(unreliable_ones_lose_nothing),
        cmocka_unit_test(who_is_connected_to_is_asked_about),
        cmocka_unit_test(datagrams_wait_in_their_order),
        cmocka_unit_test(who_waits_can_be_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
