/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that takes no frames: while it may run it is waited for; one that stands still, or takes nothing for
 * very long, is given up. Time is the test's own. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "softnic/local/share.h"
#include "tests/local/hosts.h"

enum { ENOUGH = SN_SHARE_FRAMES - SN_TX_FRAMES };
static const uint64_t ms = 1000000, start = 12345;

static bool room(struct sn_local *h, uint64_t now)
{
    return ops->room(h, gid, QPN_B, now);
}

/* Frames with numbers, until there is no room and the NIC has handed over what it may have made before. */
static void fill_up(struct sn_local *h, uint64_t now)
{
    uint8_t fill = 0;

    for (int i = 0; i < ENOUGH; i++) {
        assert_true(room(h, now));
        assert_true(send_frame(h, B, fill++, 64));
    }
    assert_false(room(h, now));
    for (int i = 0; i < SN_TX_FRAMES; i++) assert_true(send_frame(h, B, fill++, 64));
    assert_int_equal(sn_local_lost(h), 0);
}

static int take_all(struct sn_local *h, uint8_t first)
{
    struct sn_frame f[SN_LOCAL_RX];
    int n, all = 0;

    while ((n = sn_local_recv(h, f, SN_LOCAL_RX)) > 0)
        for (int i = 0; i < n; i++, all++) assert_int_equal(f[i].data[63], (uint8_t)(first + all));
    return all;
}

/* Others may have the processors for long: nothing is lost. */
static void who_runs_is_waited_for(void **state)
{
    struct sn_local *a = open_host(A, true), *b = open_host(B, true);
    struct sn_frame f[SN_LOCAL_RX];

    (void)state;
    meet(a, b);
    fill_up(a, start);
    for (uint64_t later = 0; later <= 990; later++) assert_false(room(a, start + later * ms));
    hear_first(b);
    assert_int_equal(sn_local_recv(b, f, 1), 1);
    /* It has taken something: the time starts again. */
    assert_false(room(a, start + 995 * ms));
    assert_false(room(a, start + 1900 * ms));
    assert_int_equal(take_all(b, 1), SN_SHARE_FRAMES - 1);
    assert_true(room(a, start + 1901 * ms));
    assert_int_equal(sn_local_lost(a), 0);
    sn_local_close(a);
    sn_local_close(b);
}

/* But not forever. */
static void who_takes_nothing_is_given_up(void **state)
{
    struct sn_local *a = open_host(A, true), *b = open_host(B, true);
    struct sn_frame f[SN_LOCAL_RX];

    (void)state;
    meet(a, b);
    fill_up(a, start);
    assert_false(room(a, start + 999 * ms));
    assert_true(room(a, start + 1001 * ms));
    for (int i = 0; i < 3; i++) assert_true(send_frame(a, B, 99, 64));
    assert_int_equal(sn_local_lost(a), 3);
    assert_true(room(a, start + 1002 * ms));
    hear_first(b);
    assert_int_equal(sn_local_recv(b, f, 1), 1);
    assert_false(room(a, start + 1003 * ms));
    assert_int_equal(take_all(b, 1), SN_SHARE_FRAMES - 1);
    assert_true(room(a, start + 1003 * ms));
    sn_local_close(a);
    sn_local_close(b);
}

static void who_was_stopped_is_given_up_soon(void **state)
{
    static uint8_t mem[64];
    struct sn_local *a;
    int ready[2], status;
    char byte;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = start_owner(mem, sizeof(mem), ready);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    a = open_host(A, true);
    find_owner(a);
    fill_up(a, start);
    assert_false(room(a, start + 11 * ms)); /* it runs, or sleeps */
    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    assert_false(room(a, start + 12 * ms)); /* it was looked at just now */
    assert_true(room(a, start + 21 * ms));
    assert_true(send_frame(a, B, 99, 64));
    assert_int_equal(sn_local_lost(a), 1);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(room(a, start + 22 * ms));
    serve(a, NULL);
    assert_true(room(a, start + 23 * ms)); /* over the wire, then */
    sn_local_close(a);
    close(ready[0]);
    close(ready[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_runs_is_waited_for),
        cmocka_unit_test(who_takes_nothing_is_given_up),
        cmocka_unit_test(who_was_stopped_is_given_up_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
