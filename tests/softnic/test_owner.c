/* SPDX-License-Identifier: Apache-2.0 */
/* A queue pair speaks to the process that it was connected to, and to none that takes its slot later. */
#include "tests/softnic/fixture.h"

static const struct sn_owner peer = {SN_OWNER_PROCESS, 1000, 41};
static const struct sn_owner later = {SN_OWNER_PROCESS, 65534, 42};
static const struct sn_owner nobody = {.kind = SN_OWNER_NOBODY};

static int up_owned(enum ibv_qp_type type)
{
    rig_up_as(&r, NULL, type);
    r.w.owner = peer;
    rig_connect(&r);
    return 0;
}

static int up_rc(void **state)
{
    (void)state;
    return up_owned(IBV_QPT_RC);
}

static int up_uc(void **state)
{
    (void)state;
    return up_owned(IBV_QPT_UC);
}

/* Time for a look at the owner. */
static void pass_a_millisecond(void)
{
    r.w.now += MS;
}

static void write_once(uint32_t to)
{
    post(&r, GW_MLX5_WRITE, 0, 100, to);
    world_settle(&r.w, 5 * MS);
}

static uint64_t sent_by_a(void)
{
    return counters(&r, 0).tx_bytes;
}

/* ---- requester ----------------------------------------------------------------------------------------- */

static void as_long_as_it_is_the_same_all_goes_well(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        write_once(i * 100);
        expect(&r.a, GW_MLX5_CQE_REQ);
        pass_a_millisecond();
    }
    assert_true(r.w.owner_looks > 20);
}

static void whoever_takes_the_slot_later_gets_nothing(void **state)
{
    uint64_t before;

    (void)state;
    rig_fill(&r);
    write_once(0);
    expect(&r.a, GW_MLX5_CQE_REQ);
    r.w.owner = later;
    pass_a_millisecond();
    before = sent_by_a();
    write_once(1000);
    assert_int_equal(sent_by_a(), before);
    assert_int_not_equal(memcmp(r.b.mem + 1000, r.a.mem, 100), 0);
    assert_int_equal(app_state(&r.a.qp), IBV_QPS_ERR);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_FLUSHED);
    expect_report(&r, "a process of user 65534 has its slot (UDP port 49153) now");
    assert_int_equal(r.w.events[IBV_EVENT_QP_FATAL], 1);
}

/* A request that waits for an answer fails as if none had come. */
static void a_request_under_way_fails(void **state)
{
    (void)state;
    r.w.cut = true;
    post(&r, GW_MLX5_WRITE, 0, 100, 0);
    world_run(&r.w, 0);
    r.w.owner = later;
    world_settle(&r.w, 100 * MS);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_RETRY_EXC);
    assert_int_equal(app_state(&r.a.qp), IBV_QPS_ERR);
}

static void to_one_that_has_ended_nothing_is_sent(void **state)
{
    uint64_t before;

    (void)state;
    write_once(0);
    expect(&r.a, GW_MLX5_CQE_REQ);
    r.w.owner = nobody;
    pass_a_millisecond();
    before = r.w.sent;
    post(&r, GW_MLX5_WRITE, 0, 100, 0);
    world_settle(&r.w, 10 * MS);
    assert_int_equal(r.w.sent, before);
    assert_int_equal(app_state(&r.a.qp), IBV_QPS_RTS); /* until its retries are over */
    r.w.owner = later;                                 /* who is not sent the repeats either */
    world_settle(&r.w, 100 * MS);
    assert_int_equal(r.w.sent, before);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_RETRY_EXC);
}

static void unreliable_connections_end_too(void **state)
{
    uint64_t before;

    (void)state;
    write_once(0);
    expect(&r.a, GW_MLX5_CQE_REQ);
    r.w.owner = later;
    pass_a_millisecond();
    before = r.w.sent;
    write_once(0);
    assert_int_equal(r.w.sent, before);
    assert_int_equal(app_state(&r.a.qp), IBV_QPS_ERR);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_FLUSHED);
}

/* ---- responder ----------------------------------------------------------------------------------------- */

/* b's next request, from that slot at a's address. */
static void forge_write(unsigned slot, uint8_t byte, uint32_t at)
{
    struct roce_hdr h = {.opcode = ROCE_WRITE_ONLY,
                         .psn = app_connect_default.psn_here,
                         .va = (uintptr_t)r.b.mem + at,
                         .rkey = r.b.key,
                         .dlen = 1};

    r.w.inject_same_host = true;
    forge_from(&r, (uint16_t)(SN_SLOT_PORT + slot), &h, &byte, 1);
    world_run(&r.w, 1);
    r.w.inject_same_host = false;
}

static void what_a_later_owner_sends_is_dropped(void **state)
{
    (void)state;
    r.w.owner = later;
    pass_a_millisecond();
    forge_write(0, 7, 0);
    assert_int_equal(r.b.mem[0], 0);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_ERR);
    assert_int_equal(counters(&r, 1).drop_address, 1);
}

/* A peer's last packets may be found after its end; packets that come much later are another's. */
static void what_comes_late_is_dropped(void **state)
{
    (void)state;
    r.w.owner = nobody;
    pass_a_millisecond();
    world_run(&r.w, 1);
    forge_write(0, 7, 0);
    assert_int_equal(r.b.mem[0], 7);
    r.w.now += 20 * MS;
    forge_write(0, 8, 1);
    assert_int_equal(r.b.mem[1], 0);
    assert_int_equal(counters(&r, 1).drop_address, 1);
}

static void what_another_slot_of_the_host_sends_is_dropped(void **state)
{
    (void)state;
    forge_write(2, 7, 0);
    assert_int_equal(r.b.mem[0], 0);
    assert_int_equal(counters(&r, 1).drop_address, 1);
    forge_write(0, 7, 0);
    assert_int_equal(r.b.mem[0], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_long_as_it_is_the_same_all_goes_well, up_rc, down),
        cmocka_unit_test_setup_teardown(whoever_takes_the_slot_later_gets_nothing, up_rc, down),
        cmocka_unit_test_setup_teardown(a_request_under_way_fails, up_rc, down),
        cmocka_unit_test_setup_teardown(to_one_that_has_ended_nothing_is_sent, up_rc, down),
        cmocka_unit_test_setup_teardown(unreliable_connections_end_too, up_uc, down),
        cmocka_unit_test_setup_teardown(what_a_later_owner_sends_is_dropped, up_rc, down),
        cmocka_unit_test_setup_teardown(what_comes_late_is_dropped, up_rc, down),
        cmocka_unit_test_setup_teardown(what_another_slot_of_the_host_sends_is_dropped, up_rc, down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
