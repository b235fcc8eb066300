/* SPDX-License-Identifier: Apache-2.0 */
/* Looking into a NIC that works, that lost something, and that is stuck. */
#include <errno.h>

#include "softnic/nic/introspect.h"
#include "tests/softnic/fixture.h"

#define WAIT UINT64_C(1000000000)

static struct sn_qp_view only_qp(unsigned nic)
{
    struct sn_qp_view views[4];
    uint32_t cursor = 0;

    assert_int_equal(sn_introspect_qps(r.w.nics[nic].nic, &cursor, views, 4, WAIT), 1);
    assert_int_equal(sn_introspect_qps(r.w.nics[nic].nic, &cursor, views + 1, 3, WAIT), 0);
    return views[0];
}

static void objects_are_as_they_are(void **state)
{
    struct sn_qp_view v;
    struct sn_cq_view c;
    struct sn_totals t;
    uint32_t cursor = 0;

    (void)state;
    post_recv(&r.b, 0, 100);
    post_recv(&r.b, 0, 100);
    post(&r, GW_MLX5_SEND, 0, 100, 0);
    post(&r, GW_MLX5_WRITE, 0, 5000, 0);
    world_settle(&r.w, 10 * MS);
    v = only_qp(0);
    assert_int_equal(v.number, r.a.qp.sq.qpn);
    assert_int_equal(v.peer, r.b.qp.sq.qpn);
    assert_memory_equal(v.peer_gid, r.w.nics[1].gid, 16);
    assert_string_equal(sn_qp_type_text(v.type), "RC");
    assert_string_equal(sn_qp_state_text(v.state), "RTS");
    assert_int_equal(v.outstanding, 0);
    assert_int_equal(v.una_psn, v.next_psn);
    assert_int_equal(v.count.tx_packets, counters(&r, 0).tx_packets);
    assert_int_equal(v.count.rx_bytes, counters(&r, 0).rx_bytes);
    assert_string_equal(v.line, "");
    assert_int_equal(only_qp(1).receives, 1);
    assert_int_equal(only_qp(1).expected_psn, v.next_psn);
    assert_int_equal(sn_introspect_cqs(r.w.nics[0].nic, &cursor, &c, 1, WAIT), 1);
    assert_int_equal(c.number, sn_cq_number(r.a.cq.cq));
    assert_int_equal(c.entries, 64);
    assert_int_equal(c.written, 2);
    assert_int_equal(c.unpolled, 2);
    expect(&r.a, GW_MLX5_CQE_REQ);
    cursor = 0;
    sn_introspect_cqs(r.w.nics[0].nic, &cursor, &c, 1, WAIT);
    assert_int_equal(c.unpolled, 1);
    assert_int_equal(sn_introspect_totals(r.w.nics[0].nic, &t, WAIT), 0);
    assert_int_equal(t.qps, 1);
    assert_int_equal(t.cqs, 1);
    assert_int_equal(t.mrs, 1);
    assert_int_equal(t.mr_bytes, RIG_MEM);
}

/* A caller with room for a few stops between two strides. From there, strides no longer end with the
 * table. */
static void one_at_a_time_to_the_end(void **state)
{
    struct sn_qp_view v;
    struct sn_cq_view c;
    uint32_t qp = 0, cq = 0;

    (void)state;
    assert_int_equal(sn_introspect_qps(r.w.nics[0].nic, &qp, &v, 1, WAIT), 1);
    assert_int_equal(sn_introspect_cqs(r.w.nics[0].nic, &cq, &c, 1, WAIT), 1);
    assert_int_equal(sn_introspect_qps(r.w.nics[0].nic, &qp, &v, 1, WAIT), 0);
    assert_int_equal(sn_introspect_cqs(r.w.nics[0].nic, &cq, &c, 1, WAIT), 0);
    assert_int_equal(qp, 1 << 16); /* the number of places */
    assert_int_equal(cq, SN_MAX_CQ);
}

static void what_is_lost_shows(void **state)
{
    struct sn_qp_view v;

    (void)state;
    r.w.cut = true;
    post(&r, GW_MLX5_WRITE, 0, 100, 0);
    for (int i = 0; i < 10; i++) {
        world_run(&r.w, 0);
        world_advance(&r.w, MS);
    }
    v = only_qp(0);
    assert_int_equal(v.outstanding, 1);
    assert_int_not_equal(v.una_psn, v.next_psn);
    assert_true(v.count.retransmits > 0 && v.count.timeouts > 0);
    assert_int_equal(v.count.retransmits, counters(&r, 0).retransmits);
    r.w.cut = false;
    world_settle(&r.w, 10000 * (uint64_t)MS);
    assert_int_equal(only_qp(0).outstanding, 0);
}

static void the_first_error_and_the_last_report_stay(void **state)
{
    struct sn_qp_view v;

    (void)state;
    r.b.key ^= 1;
    post(&r, GW_MLX5_WRITE, 0, 100, 0);
    post(&r, GW_MLX5_WRITE, 0, 100, 0);
    r.b.key ^= 1;
    world_settle(&r.w, 10 * MS);
    v = only_qp(0);
    assert_string_equal(sn_qp_state_text(v.state), "ERR");
    assert_int_equal(v.syndrome, GW_MLX5_SYND_REM_ACCESS);
    assert_int_equal(v.count.naks_received, 1);
    v = only_qp(1);
    assert_int_equal(v.count.naks_sent, 1);
    assert_non_null(strstr(v.line, "rkey"));
}

static void a_stuck_nic_is_told_as_such(void **state)
{
    struct sn_qp_view v;
    struct sn_cq_view c;
    struct sn_totals t;
    uint32_t cursor = 0;

    (void)state;
    sn_nic_lock(r.w.nics[0].nic);
    assert_int_equal(sn_introspect_qps(r.w.nics[0].nic, &cursor, &v, 1, 1000000), -ETIMEDOUT);
    assert_int_equal(sn_introspect_cqs(r.w.nics[0].nic, &cursor, &c, 1, 1000000), -ETIMEDOUT);
    assert_int_equal(sn_introspect_totals(r.w.nics[0].nic, &t, 1000000), -ETIMEDOUT);
    sn_nic_unlock(r.w.nics[0].nic);
    assert_int_equal(sn_introspect_totals(r.w.nics[0].nic, &t, 1000000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(objects_are_as_they_are, up, down),
        cmocka_unit_test_setup_teardown(one_at_a_time_to_the_end, up, down),
        cmocka_unit_test_setup_teardown(what_is_lost_shows, up, down),
        cmocka_unit_test_setup_teardown(the_first_error_and_the_last_report_stay, up, down),
        cmocka_unit_test_setup_teardown(a_stuck_nic_is_told_as_such, up, down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
