/* SPDX-License-Identifier: Apache-2.0 */
/* An overdue answer: the oldest packet goes alone, and what comes back tells whether anything was lost. */
#include "softnic/nic/introspect.h"
#include "tests/softnic/fixture.h"

enum { LENGTH = 60 << 10, PACKETS = 15, LATE_MS = 4 };

static struct sn_qp_view sender(void)
{
    struct sn_qp_view v;
    uint32_t cursor = 0;

    assert_int_equal(sn_introspect_qps(r.w.nics[0].nic, &cursor, &v, 1, MS), 1);
    return v;
}

static void complete(void)
{
    struct gw_mlx5_wc wc;
    int got = 0;

    world_settle(&r.w, 100 * MS);
    while (app_poll(&r.a.cq, &wc, NULL)) {
        assert_int_equal(wc.opcode, GW_MLX5_CQE_REQ);
        got++;
    }
    assert_int_equal(got, 1);
    assert_memory_equal(r.a.mem, r.b.mem, LENGTH);
}

/* One round trip has been timed, so that answers are soon overdue; something to send is new. */
static void begin(void)
{
    post(&r, GW_MLX5_WRITE, 0, LENGTH, 0);
    complete();
    for (unsigned i = 0; i < LENGTH; i++) r.a.mem[i] = (uint8_t)(i * 7 + 1);
}

/* The sender alone, for that time. */
static void alone(uint64_t ns)
{
    for (uint64_t end = r.w.now + ns; r.w.now < end;) {
        world_run(&r.w, 0);
        if (!world_advance(&r.w, 100000)) r.w.now += 100000;
    }
}

static void a_late_answer_costs_a_packet_and_no_window(void **state)
{
    struct sn_qp_view before;

    (void)state;
    begin();
    before = sender();
    post(&r, GW_MLX5_WRITE, 0, LENGTH, 0);
    alone(LATE_MS * MS); /* the peer is not let run */
    assert_true(counters(&r, 0).probes >= 2);
    complete();
    assert_int_equal(counters(&r, 0).retransmits, counters(&r, 0).probes);
    assert_int_equal(counters(&r, 1).duplicates, counters(&r, 0).probes);
    assert_int_equal(counters(&r, 0).timeouts, 0);
    assert_true(sender().window >= before.window);
}

static void what_was_lost_is_repeated_and_the_window_closes(void **state)
{
    struct sn_qp_view before;

    (void)state;
    begin();
    before = sender();
    r.w.faults.loss = 10000;
    post(&r, GW_MLX5_WRITE, 0, LENGTH, 0);
    world_run(&r.w, 0);
    r.w.faults.loss = 0;
    complete();
    assert_true(counters(&r, 0).retransmits >= PACKETS);
    assert_int_equal(counters(&r, 0).timeouts, 0);
    assert_true(sender().window < before.window);
}

/* Only answers were: what is repeated is known already, and says so. */
static void lost_answers_cost_no_window(void **state)
{
    struct sn_qp_view before;

    (void)state;
    begin();
    before = sender();
    post(&r, GW_MLX5_WRITE, 0, LENGTH, 0);
    world_run(&r.w, 0);
    r.w.faults.loss = 10000;
    while (world_advance(&r.w, 2000) && r.w.faults.loss) {
        world_run(&r.w, 1);
        if (counters(&r, 1).acks_sent > counters(&r, 0).rx_packets) r.w.faults.loss = 0;
    }
    complete();
    assert_int_equal(counters(&r, 0).retransmits, 1);
    assert_true(sender().window >= before.window);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_late_answer_costs_a_packet_and_no_window, up, down),
        cmocka_unit_test_setup_teardown(what_was_lost_is_repeated_and_the_window_closes, up, down),
        cmocka_unit_test_setup_teardown(lost_answers_cost_no_window, up, down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
