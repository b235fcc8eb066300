/* SPDX-License-Identifier: Apache-2.0 */
/* `gpuwire nic` makes rates of a NIC's counters: a person reads the rates at which packets pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/cli/nic_print.h"

static json_t *nic(unsigned long long requests, unsigned long long copied, unsigned long long fetched)
{
    json_t *o = json_pack("{s:i, s:s, s:{s:i, s:i, s:I, s:I, s:I, s:I}}", "pid", 7, "program", "a",
                          "counters", "tx_packets", 0, "rx_packets", 0, "direct_requests",
                          (json_int_t)requests, "direct_bytes", (json_int_t)copied, "rndv_taken",
                          (json_int_t)(fetched / 1000000), "rndv_bytes", (json_int_t)fetched);

    assert_non_null(o);
    return o;
}

/* What is printed of `now`, a second after `before`; NULL: the first time. */
static void print(const json_t *now, const json_t *before, char *text, size_t size)
{
    FILE *f = tmpfile();
    int out = dup(STDOUT_FILENO);
    size_t n;

    assert_non_null(f);
    fflush(stdout);
    assert_true(dup2(fileno(f), STDOUT_FILENO) >= 0);
    gw_nic_print(now, before, 1, 0);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    rewind(f);
    n = fread(text, 1, size - 1, f);
    text[n] = 0;
    fclose(f);
}

static void expect(const char *text, const char *words)
{
    if (!strstr(text, words)) fail_msg("'%s' is not in:\n%s", words, text);
}

static void copies_have_rates(void **state)
{
    json_t *before = nic(1000, 1000000000, 0), *now = nic(5500, 5500000000, 2000000);
    char text[4000];

    (void)state;
    print(now, before, text, sizeof(text));
    expect(text, "\n  one-copy  5500 requests, 5500 MB (4500 requests/s, 36.000 Gbit/s)\n");
    expect(text, "\n  fetched   2 messages, 2000 kB (2 messages/s, 0.016 Gbit/s)\n");
    assert_null(strstr(text, "direct_bytes")); /* once is enough */
    assert_null(strstr(text, "rndv_bytes"));
    print(now, NULL, text, sizeof(text));
    expect(text, "\n  one-copy  5500 requests, 5500 MB\n");
    json_decref(before);
    json_decref(now);
}

static void nothing_is_said_of_ways_not_taken(void **state)
{
    json_t *now = nic(0, 0, 0);
    char text[4000];

    (void)state;
    print(now, NULL, text, sizeof(text));
    expect(text, "\n  sent      0 packets, 0 bytes\n");
    assert_null(strstr(text, "one-copy"));
    assert_null(strstr(text, "fetched"));
    json_decref(now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_have_rates),
        cmocka_unit_test(nothing_is_said_of_ways_not_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
