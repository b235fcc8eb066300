/* SPDX-License-Identifier: Apache-2.0 */
/* Marked packets, the notifications that they cause, and what becomes of the sender's rate. */
#include "tests/softnic/fixture.h"

enum { BIG = 32 << 10 };

/* How long it takes until one request is complete, polled for by a thread that does nothing else. */
static uint64_t complete_one(void)
{
    uint64_t start = r.w.now;
    struct gw_mlx5_wc wc;

    for (;;) {
        for (unsigned i = 0; i < 2; i++) world_run(&r.w, i);
        if (app_poll(&r.a.cq, &wc, NULL)) break;
        if (!world_busy(&r.w) && !world_advance(&r.w, 10 * MS)) fail_msg("stuck");
        assert_true(r.w.now - start < UINT64_C(1000) * MS);
    }
    assert_int_equal(wc.opcode, GW_MLX5_CQE_REQ);
    return r.w.now - start;
}

/* How many requests of one kind, one after the other, are complete after that time. */
static unsigned in_time(uint8_t opcode, uint64_t ns)
{
    unsigned n = 0;

    for (uint64_t passed = 0; passed < ns; n++) {
        post(&r, opcode, 0, BIG, 0);
        passed += complete_one();
    }
    return n;
}

static void a_mark_is_told_to_the_sender(void **state)
{
    (void)state;
    in_time(GW_MLX5_WRITE, MS);
    r.w.faults.mark = 10000;
    post(&r, GW_MLX5_WRITE, 0, BIG, 0);
    complete_one();
    world_settle(&r.w, MS);
    /* It was many marked packets, in less than 50 µs; answers are marked too, and their sender told. */
    assert_true(counters(&r, 1).ecn_marked >= BIG / 4096);
    assert_int_equal(counters(&r, 1).cnp_sent, 1);
    assert_int_equal(counters(&r, 0).cnp_received, 1);
    assert_int_equal(counters(&r, 0).cnp_sent, 1);
}

static void slows_down_and_recovers(uint8_t opcode)
{
    unsigned before, during, after;

    before = in_time(opcode, 2 * MS);
    r.w.faults.mark = 10000;
    in_time(opcode, 4 * MS);
    during = in_time(opcode, 20 * MS);
    r.w.faults.mark = 0;
    in_time(opcode, 200 * MS);
    after = in_time(opcode, 2 * MS);
    assert_true(during >= 3); /* 8 MB/s are left */
    assert_true(during / 10 < before / 20);
    assert_true(after > before / 2);
}

static void the_rate_goes_down_and_comes_back(void **state)
{
    (void)state;
    slows_down_and_recovers(GW_MLX5_WRITE);
    assert_true(counters(&r, 0).cnp_received >= 20);
}

static void the_sender_of_answers_slows_down_too(void **state)
{
    (void)state;
    slows_down_and_recovers(GW_MLX5_READ);
    assert_true(counters(&r, 1).cnp_received >= 20);
}

static void few_marks_cost_less_than_many(void **state)
{
    unsigned few, many;

    (void)state;
    in_time(GW_MLX5_WRITE, MS);
    r.w.faults.mark = 1;
    few = in_time(GW_MLX5_WRITE, 50 * MS);
    assert_true(counters(&r, 0).cnp_received > 0);
    r.w.faults.mark = 1000;
    many = in_time(GW_MLX5_WRITE, 50 * MS);
    assert_true(many < few / 2);
}

/* A notification to a's queue pair, as its peer would send it. */
static void notify(const uint8_t *from, bool damaged)
{
    struct roce_hdr h = {.opcode = ROCE_CNP, .becn = true, .pkey = ROCE_DEFAULT_PKEY, .dqpn = r.a.qp.sq.qpn};
    struct roce_path path = {.sport = 0xc001, .dport = ROCE_UDP_PORT, .frag_off = ROCE_IP_DF};
    uint8_t p[ROCE_BTH_LEN + 16 + ROCE_ICRC_LEN] = {0};

    memcpy(path.src, from + 12, 4);
    memcpy(path.dst, r.w.nics[0].gid + 12, 4);
    roce_pack(p, &h);
    roce_icrc_end(roce_icrc(&path, p, sizeof(p)), p + sizeof(p) - ROCE_ICRC_LEN);
    if (damaged) p[20] ^= 1;
    world_inject(&r.w, 0, from, path.sport, p, sizeof(p));
}

static void a_storm_of_notifications_stops_nobody(void **state)
{
    uint64_t start;
    unsigned done = 0;

    (void)state;
    in_time(GW_MLX5_WRITE, MS);
    start = r.w.now;
    while (r.w.now - start < 50u * MS) {
        struct gw_mlx5_wc wc;

        if (r.w.now == start || app_poll(&r.a.cq, &wc, NULL)) {
            post(&r, GW_MLX5_WRITE, 0, BIG, 0);
            done++;
        }
        for (int i = 0; i < 8; i++) notify(r.w.nics[1].gid, false);
        for (unsigned i = 0; i < 2; i++) world_run(&r.w, i);
        world_advance(&r.w, 5000);
    }
    assert_true(done > 5 && done < 50); /* 8 MB/s, and what came before the rate was down */
    assert_true(counters(&r, 0).cnp_received > 10000);
    r.w.faults.mark = 0;
    world_settle(&r.w, 100 * MS);
}

/* What it acknowledges in that time does not wait for its rate, and does not use it up for its own requests.
 */
static void acknowledgements_cost_a_limited_sender_nothing(void **state)
{
    struct roce_hdr h = {.opcode = ROCE_WRITE_ONLY, .ackreq = true, .pkey = ROCE_DEFAULT_PKEY};
    struct roce_path path = {.sport = 0xc001, .dport = ROCE_UDP_PORT, .frag_off = ROCE_IP_DF};
    uint8_t p[ROCE_BTH_LEN + ROCE_RETH_LEN + ROCE_ICRC_LEN] = {0};
    struct ibv_qp_attr at;

    (void)state;
    in_time(GW_MLX5_WRITE, MS);
    assert_int_equal(sn_qp_query(r.a.qp.qp, &at), 0);
    h.dqpn = r.a.qp.sq.qpn;
    h.psn = at.rq_psn;
    memcpy(path.src, r.w.nics[1].gid + 12, 4);
    memcpy(path.dst, r.w.nics[0].gid + 12, 4);
    for (int i = 0; i < 30000; i++, h.psn = roce_psn_add(h.psn, 1)) {
        notify(r.w.nics[1].gid, false);
        roce_pack(p, &h);
        roce_icrc_end(roce_icrc(&path, p, sizeof(p)), p + sizeof(p) - ROCE_ICRC_LEN);
        world_inject(&r.w, 0, r.w.nics[1].gid, path.sport, p, sizeof(p));
        for (unsigned n = 0; n < 2; n++) world_run(&r.w, n);
        world_advance(&r.w, 500);
    }
    assert_true(counters(&r, 0).acks_sent > 29000);
    post(&r, GW_MLX5_WRITE, 0, 4096, 0);
    assert_true(complete_one() < 10 * MS);
}

static void nobody_else_can_slow_it_down(void **state)
{
    unsigned before;

    (void)state;
    before = in_time(GW_MLX5_WRITE, 2 * MS);
    for (int i = 0; i < 20; i++) {
        notify(r.w.nics[2].gid, false);
        notify(r.w.nics[1].gid, true);
        world_run(&r.w, 0);
        r.w.now += 60000;
    }
    assert_int_equal(counters(&r, 0).cnp_received, 0);
    assert_int_equal(counters(&r, 0).drop_address, 20);
    assert_int_equal(counters(&r, 0).drop_icrc, 20);
    assert_true(in_time(GW_MLX5_WRITE, 2 * MS) > before / 2);
}

static void it_can_be_switched_off(void **state)
{
    static const struct world_options off = {.seed = 1, .no_ecn = true};
    unsigned before;

    (void)state;
    rig_up(&r, &off);
    rig_connect(&r);
    before = in_time(GW_MLX5_WRITE, 2 * MS);
    r.w.faults.mark = 10000;
    in_time(GW_MLX5_WRITE, 2 * MS);
    assert_int_equal(counters(&r, 1).ecn_marked, 0); /* no switch may mark them */
    for (int i = 0; i < 20; i++) {
        notify(r.w.nics[1].gid, false);
        world_run(&r.w, 0);
        r.w.now += 60000;
    }
    assert_true(in_time(GW_MLX5_WRITE, 2 * MS) > before / 2);
    rig_down(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_mark_is_told_to_the_sender, up, down),
        cmocka_unit_test_setup_teardown(the_rate_goes_down_and_comes_back, up, down),
        cmocka_unit_test_setup_teardown(few_marks_cost_less_than_many, up, down),
        cmocka_unit_test_setup_teardown(the_sender_of_answers_slows_down_too, up, down),
        cmocka_unit_test_setup_teardown(a_storm_of_notifications_stops_nobody, up, down),
        cmocka_unit_test_setup_teardown(acknowledgements_cost_a_limited_sender_nothing, up, down),
        cmocka_unit_test_setup_teardown(nobody_else_can_slow_it_down, up, down),
        cmocka_unit_test(it_can_be_switched_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
