/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC's thread looks on before it sleeps, and then sleeps for some time: both are tested without the
 * thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "softnic/port/port.h"
#include "softnic/runtime/thread_state.h"
#include "tests/wire/fake_nic.h"

enum { SHORT = 10000, LONG = 1000000, VAIN_MAX = 100 };

static unsigned packet_at; /* which receive brings one; 0: none */
static unsigned receives;
static struct sn_thread t;

static int receive(void *ctx, struct sn_frame *frames, int max, bool *more)
{
    (void)ctx;
    (void)frames;
    (void)max;
    *more = false;
    return ++receives == packet_at;
}

static const struct sn_wire_ops wire_ops = {.recv = receive};

static int set_up(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof(fake));
    fake.next = SN_NEVER;
    fake.config.wire = &wire_ops;
    memset(&t, 0, sizeof(t));
    t.nic = (struct sn_nic *)&fake;
    packet_at = receives = 0;
    return 0;
}

static void nothing_in_a_row_no_lingering(void **state)
{
    (void)state;
    assert_false(sn_thread_linger(&t));
    sn_thread_woken(&t, LONG);
    assert_false(sn_thread_linger(&t));
    assert_int_equal(receives, 0);
}

static void after_a_short_sleep_it_finds_the_next_packet(void **state)
{
    (void)state;
    sn_thread_woken(&t, SHORT);
    packet_at = 3;
    /* A thread that is not let run finds its time over before it has looked so often. */
    for (int i = 0; i < VAIN_MAX && !sn_thread_linger(&t); i++) sn_thread_woken(&t, SHORT);
    assert_int_equal(receives, 3);
}

static void in_vain_it_gives_up(void **state)
{
    unsigned before;
    int times = 0;

    (void)state;
    sn_thread_woken(&t, SHORT);
    do {
        before = receives;
        assert_false(sn_thread_linger(&t));
    } while (receives != before && ++times < VAIN_MAX);
    assert_true(times > 0 && times < VAIN_MAX);
}

static void a_kick_and_one_that_polls_end_it(void **state)
{
    (void)state;
    sn_thread_woken(&t, SHORT);
    t.kicks = t.kicks_seen + 1;
    assert_true(sn_thread_linger(&t));
    t.kicks_seen = t.kicks;
    fake.contended = 1;
    assert_false(sn_thread_linger(&t));
    assert_int_equal(receives, 0);
}

static void who_polls_is_told_that_it_looks(void **state)
{
    (void)state;
    assert_false(sn_thread_looks(&t, fake_now()));
    sn_thread_woken(&t, SHORT);
    sn_thread_linger(&t);
    assert_true(t.looked_at);
    assert_true(sn_thread_looks(&t, t.looked_at));
    assert_true(sn_thread_looks(&t, t.looked_at - 1)); /* it read its clock before */
    assert_false(sn_thread_looks(&t, t.looked_at + LONG));
}

static void naps_are_short_only_where_posts_come_unannounced(void **state)
{
    struct sn_config config;
    char why[SN_CONFIG_WHY];

    (void)state;
    memset(&config, 0, sizeof(config));
    assert_int_equal(sn_config_parse("addr=127.51.52.53,local=off", &config, why), 0);
    assert_int_equal(sn_port_open(&config, &t.port, why), 0);
    fake.ringable = 1;
    t.active_at = 1;
    assert_int_equal(sn_thread_plan(&t, 1 + 160 * SHORT, SN_NEVER).ns, 10 * SHORT);
    assert_int_equal(sn_thread_plan(&t, UINT64_MAX / 2, SN_NEVER).ns, SN_FIRST_NAP_NS);
    t.unannounced = true;
    assert_int_equal(sn_thread_plan(&t, UINT64_MAX / 2, SN_NEVER).ns, SN_NAP_MAX_NS);
    fake.ringable = 0;
    assert_int_equal(sn_thread_plan(&t, UINT64_MAX / 2, SN_NEVER).sleep, UNLIMITED);
    sn_port_close(t.port);
}

/* Packets that wait for the one inside do not wake who cannot take them. */
static void beside_one_inside_it_sleeps_for_a_moment(void **state)
{
    struct sn_config config;
    struct plan plan;
    char why[SN_CONFIG_WHY];

    (void)state;
    memset(&config, 0, sizeof(config));
    assert_int_equal(sn_config_parse("addr=127.51.52.54,local=off", &config, why), 0);
    assert_int_equal(sn_port_open(&config, &t.port, why), 0);
    fake.ringable = 1;
    /* One that counts as polling takes what comes. */
    plan = sn_thread_plan(&t, SHORT, SN_CONTENDED);
    assert_int_equal(plan.sleep, AWAY);
    /* That one left packets waiting before: it may again. */
    t.distrust_next = SN_DISTRUST_MIN;
    sn_thread_deserted(&t);
    plan = sn_thread_plan(&t, SHORT, SN_CONTENDED);
    assert_int_equal(plan.sleep, WATCHING);
    assert_false(plan.deaf);
    /* Some have come, and it still is inside. */
    t.heard = true;
    plan = sn_thread_plan(&t, SHORT, SN_CONTENDED);
    assert_int_equal(plan.sleep, WATCHING);
    assert_true(plan.deaf);
    assert_true(plan.ns > 0 && plan.ns <= SN_NAP_MIN_NS);
    /* It was not inside any more. */
    t.heard = true;
    assert_false(sn_thread_plan(&t, SHORT, SN_NEVER).deaf);
    assert_false(t.heard);
    /* It goes to sleep: it will not take them. */
    t.heard = true;
    t.kicks = t.kicks_seen + 1;
    plan = sn_thread_plan(&t, SHORT, SN_CONTENDED);
    assert_int_equal(plan.sleep, WATCHING);
    assert_false(plan.deaf);
    sn_port_close(t.port);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_in_a_row_no_lingering, set_up),
        cmocka_unit_test_setup(after_a_short_sleep_it_finds_the_next_packet, set_up),
        cmocka_unit_test_setup(in_vain_it_gives_up, set_up),
        cmocka_unit_test_setup(a_kick_and_one_that_polls_end_it, set_up),
        cmocka_unit_test_setup(who_polls_is_told_that_it_looks, set_up),
        cmocka_unit_test_setup(naps_are_short_only_where_posts_come_unannounced, set_up),
        cmocka_unit_test_setup(beside_one_inside_it_sleeps_for_a_moment, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
