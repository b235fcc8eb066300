/* SPDX-License-Identifier: Apache-2.0 */
/* Two NICs of a host in one subnet. A connection leaves by the NIC of its queue pair. It outlives a link that
 * is down for seconds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <unistd.h>

#include <cmocka.h>

#include <gpuwire/connect.h>

#include "tests/verbs/link.h"
#include "tests/verbs/side.h"

static struct side first, second;
static char address[2][48];

struct acceptor {
    struct side *side;
    struct gw_listener *l;
    struct gw_link *link;
    int result;
};

static void *accept_one(void *arg)
{
    struct acceptor *a = arg;
    struct gw_request *r;

    a->result = gw_cm_next(a->l, -1, gw_deadline(LIMIT), &r);
    if (!a->result) a->result = gw_cm_accept(r, a->side->qp, NULL, NULL, -1, gw_deadline(LIMIT), &a->link);
    return NULL;
}

/* `from` connects to the address of `to`'s NIC. */
static void connects(struct side *from, struct side *to, const char *where)
{
    struct acceptor a = {.side = to};
    struct gw_link *link = NULL;
    pthread_t thread;
    int err;

    assert_int_equal(gw_cm_listen(to->dev, NULL, 0, &a.l), 0);
    assert_int_equal(pthread_create(&thread, NULL, accept_one, &a), 0);
    err = gw_cm_connect(from->qp, where, gw_cm_port(a.l), NULL, NULL, -1, gw_deadline(LIMIT), NULL, &link);
    if (err) fail_msg("%s", gw_last_error());
    pthread_join(thread, NULL);
    assert_int_equal(a.result, 0);
    assert_int_equal(one_puts(from, to, where), 0);
    assert_int_equal(one_puts(to, from, "and back"), 0);
    gw_cm_close(link);
    gw_cm_close(a.link);
    gw_cm_unlisten(a.l);
    assert_int_equal(gw_qp_reset(from->qp, GW_RESET_QUIET, 0), 0);
    assert_int_equal(gw_qp_reset(to->qp, GW_RESET_QUIET, 0), 0);
}

static void each_connects_from_its_own_address(void **state)
{
    (void)state;
    connects(&second, &first, address[0]);
    connects(&first, &second, address[1]);
}

/* The program does not say how long to wait for answers. */
static void a_link_that_is_down_for_5_s_costs_no_connection(void **state)
{
    uint64_t start;

    (void)state;
    assert_int_equal(join_sides(&first, &second, NULL), 0);
    assert_int_equal(one_puts(&first, &second, "before"), 0);
    start = gw_clock_ns();
    link_set("down=0+5s");
    assert_int_equal(one_puts(&first, &second, "across"), 0);
    assert_true(gw_clock_ns() - start >= 4900000000u);
    link_set("none");
    assert_int_equal(gw_qp_reset(first.qp, GW_RESET_QUIET, 0), 0);
    assert_int_equal(gw_qp_reset(second.qp, GW_RESET_QUIET, 0), 0);
}

static int set_up(void **state)
{
    char nics[160];

    (void)state;
    /* Addresses of this run's own, on which no other processes are. Packets take the wire. */
    for (int i = 0; i < 2; i++)
        snprintf(address[i], sizeof(address[i]), "127.%d.%d.%d", 20 + getpid() / 250 % 200,
                 1 + getpid() % 250, 9 + i);
    snprintf(nics, sizeof(nics), "addr=%s,local=off;addr=%s,local=off", address[0], address[1]);
    setenv("GPUWIRE_NIC", nics, 1);
    return open_side(&first, "softnic") || open_side(&second, "mlx5_1");
}

static int tear_down(void **state)
{
    (void)state;
    return close_side(&second) || close_side(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_connects_from_its_own_address),
        cmocka_unit_test(a_link_that_is_down_for_5_s_costs_no_connection),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
