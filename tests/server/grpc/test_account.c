/* SPDX-License-Identifier: Apache-2.0 */
/* The share of one client of the gRPC door, and the rest for others. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "src/server/grpc/account.h"
#include "tests/exec/dies.h"

enum { CALLS = 16, EACH = 6, STREAMS = 8, BYTES = 4000 };

static struct gw_grpc_accounts accounts;
static struct gw_grpc_client *one, *other;

static int begin(void **state)
{
    const struct gw_grpc_limits limits = {CALLS, EACH, STREAMS, BYTES};
    (void)state;
    gw_grpc_accounts_open(&accounts, &limits);
    one = gw_grpc_client_join(&accounts, "user 7");
    other = gw_grpc_client_join(&accounts, "192.0.2.7");
    return !one || !other;
}

static int end(void **state)
{
    (void)state;
    gw_grpc_client_leave(&accounts, one);
    gw_grpc_client_leave(&accounts, other);
    gw_grpc_accounts_close(&accounts);
    return 0;
}

static uint32_t calls(struct gw_grpc_client *c, int is_stream)
{
    uint32_t n = 0;
    while (n < 1000 && !gw_grpc_call_enter(&accounts, c, is_stream)) n++;
    return n;
}

static void a_client_is_one_whatever_connection(void **state)
{
    (void)state;
    struct gw_grpc_client *again = gw_grpc_client_join(&accounts, "user 7");
    assert_ptr_equal(again, one);
    gw_grpc_client_leave(&accounts, again);
}

static void calls_and_streams_have_limits(void **state)
{
    (void)state;
    assert_int_equal(calls(one, 1), STREAMS / 4);
    assert_int_equal(calls(one, 0), EACH - STREAMS / 4);
    assert_int_equal(calls(other, 0), EACH);
    assert_int_equal(calls(gw_grpc_client_join(&accounts, "192.0.2.8"), 0), CALLS - 2 * EACH);
}

static struct gw_grpc_waiter waiter(struct gw_grpc_client *c, uint64_t bytes)
{
    return (struct gw_grpc_waiter){.client = c, .bytes = bytes};
}

static void one_client_leaves_a_quarter_of_the_memory(void **state)
{
    struct gw_grpc_waiter a = waiter(one, 3000), b = waiter(one, 1), c = waiter(other, 1000);
    (void)state;
    assert_true(gw_grpc_place_take(&accounts, &a));
    assert_false(gw_grpc_place_take(&accounts, &b));
    assert_true(gw_grpc_place_take(&accounts, &c)); /* it does not wait for a client with too much */
    assert_false(gw_grpc_place_grow(&accounts, other, 1));
    assert_null(gw_grpc_place_next(&accounts));
    gw_grpc_place_give(&accounts, one, 3000);
    assert_ptr_equal(gw_grpc_place_next(&accounts), &b);
    assert_null(gw_grpc_place_next(&accounts));
    assert_int_equal(accounts.bytes, 1001);
}

static void small_messages_do_not_overtake_a_large_one(void **state)
{
    struct gw_grpc_waiter a = waiter(one, 3000), large = waiter(other, 2000), small = waiter(other, 10);
    (void)state;
    assert_true(gw_grpc_place_take(&accounts, &a));
    assert_false(gw_grpc_place_take(&accounts, &large));
    assert_false(gw_grpc_place_take(&accounts, &small));
    assert_null(gw_grpc_place_next(&accounts));
    gw_grpc_place_give(&accounts, one, 3000);
    assert_ptr_equal(gw_grpc_place_next(&accounts), &large);
    assert_ptr_equal(gw_grpc_place_next(&accounts), &small);
    assert_null(gw_grpc_place_next(&accounts));
}

static void one_that_has_gone_waits_no_more(void **state)
{
    struct gw_grpc_waiter a = waiter(one, 3000), b = waiter(one, 2000), c = waiter(one, 3000);
    (void)state;
    assert_true(gw_grpc_place_take(&accounts, &a));
    assert_false(gw_grpc_place_take(&accounts, &b));
    assert_false(gw_grpc_place_take(&accounts, &c));
    assert_true(gw_grpc_place_withdraw(&accounts, &b));
    assert_false(gw_grpc_place_withdraw(&accounts, &b));
    gw_grpc_place_give(&accounts, one, 3000);
    assert_ptr_equal(gw_grpc_place_next(&accounts), &c);
    assert_false(gw_grpc_place_withdraw(&accounts, &c)); /* it has its place */
}

/* A new connection brings no new credit, and another client has its own. */
static void work_for_nothing_is_paid_for(void **state)
{
    uint32_t n = 0;
    (void)state;
    while (gw_grpc_client_pay(&accounts, one, 1000)) assert_true(++n < 1000);
    assert_in_range(n, 19, 100);
    gw_grpc_client_leave(&accounts, one);
    one = gw_grpc_client_join(&accounts, "user 7");
    assert_false(gw_grpc_client_pay(&accounts, one, 10000));
    assert_true(gw_grpc_client_pay(&accounts, other, 10000));
    gw_grpc_client_pay(&accounts, one, -500); /* it does something useful */
    assert_true(gw_grpc_client_pay(&accounts, one, 400));
}

#ifdef GW_ASSERTS

static void end_no_call(void *client)
{
    gw_grpc_call_leave(&accounts, client, 0);
}

static void give_what_was_not_taken(void *client)
{
    gw_grpc_place_give(&accounts, client, 1);
}

static void what_was_not_had_is_not_given_back(void **state)
{
    (void)state;
    assert_true(dies_of(end_no_call, one, "grpc/account.c:", "a->calls > 0"));
    assert_true(dies_of(give_what_was_not_taken, one, "grpc/account.c:", "c->bytes >= bytes"));
}

#else

static void what_was_not_had_is_not_given_back(void **state)
{
    (void)state;
    skip(); /* this build checks nothing */
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_client_is_one_whatever_connection, begin, end),
        cmocka_unit_test_setup_teardown(calls_and_streams_have_limits, begin, end),
        cmocka_unit_test_setup_teardown(one_client_leaves_a_quarter_of_the_memory, begin, end),
        cmocka_unit_test_setup_teardown(small_messages_do_not_overtake_a_large_one, begin, end),
        cmocka_unit_test_setup_teardown(one_that_has_gone_waits_no_more, begin, end),
        cmocka_unit_test_setup_teardown(work_for_nothing_is_paid_for, begin, end),
        cmocka_unit_test_setup_teardown(what_was_not_had_is_not_given_back, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
