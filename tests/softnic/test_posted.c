/* SPDX-License-Identifier: Apache-2.0 */
/* The work that a thread does for the NIC when it has just posted, and the work that it leaves to the next
 * one that looks. */
#include "tests/softnic/fixture.h"

static void post_one(uint32_t at)
{
    post(&r, GW_MLX5_WRITE, at, 8, at);
    assert_true(sn_nic_posted(r.w.nics[0].nic, r.w.now) > r.w.now);
}

static void the_first_leaves_at_once(void **state)
{
    (void)state;
    memset(r.a.mem, 0x5a, 8);
    post_one(0);
    assert_int_equal(r.w.sent, 1);
    world_settle(&r.w, 10 * MS);
    expect(&r.a, GW_MLX5_CQE_REQ);
    assert_memory_equal(r.b.mem, r.a.mem, 8);
    post_one(8); /* all before it is acknowledged: it is a first one again */
    assert_int_equal(r.w.sent, 3);
    world_settle(&r.w, 10 * MS);
    expect(&r.a, GW_MLX5_CQE_REQ);
}

static void the_next_wait_for_the_acknowledgement(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) post_one(i * 8);
    assert_int_equal(r.w.sent, 1);
    world_settle(&r.w, 10 * MS); /* the answer to the first wakes the NIC */
    for (int i = 0; i < 4; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    expect_nothing(&r.a);
}

static void or_for_whoever_looks(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) post_one(i * 8);
    world_run(&r.w, 0);
    assert_int_equal(r.w.sent, 4);
    world_settle(&r.w, 10 * MS);
}

static void or_until_there_are_enough(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 30; i++) post_one(i * 8);
    assert_int_equal(r.w.sent, 1);
    post_one(240);
    assert_int_equal(r.w.sent, 31);
    world_settle(&r.w, 10 * MS);
}

static void what_has_arrived_stays_where_it_is(void **state)
{
    (void)state;
    post_one(0);
    world_advance(&r.w, 10 * MS);
    assert_non_null(r.w.nics[1].inbox);
    sn_nic_posted(r.w.nics[1].nic, r.w.now);
    assert_int_equal(counters(&r, 1).rx_packets, 0);
    world_settle(&r.w, 10 * MS);
    assert_int_equal(counters(&r, 1).rx_packets, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_leaves_at_once, up, down),
        cmocka_unit_test_setup_teardown(the_next_wait_for_the_acknowledgement, up, down),
        cmocka_unit_test_setup_teardown(or_for_whoever_looks, up, down),
        cmocka_unit_test_setup_teardown(or_until_there_are_enough, up, down),
        cmocka_unit_test_setup_teardown(what_has_arrived_stays_where_it_is, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
