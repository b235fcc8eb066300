/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls a web page of another site may have made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "src/door/origin.h"

static const struct {
    const char *host, *origin;
    int foreign;
} calls[] = {
    {NULL, NULL, 0}, /* no browser */
    {"127.0.0.1:9091", NULL, 0},
    {"10.0.0.5", NULL, 0},
    {"[::1]:9091", NULL, 0},
    {"[fd00::5]", NULL, 0},
    {"localhost:9091", NULL, 0},
    {"LocalHost", NULL, 0},
    {"door.example:80", NULL, 0}, /* a name that the door was told */
    {"evil.example:9091", NULL, 1},
    {"localhost.evil.example", NULL, 1},
    {"127.0.0.1.evil.example", NULL, 1},
    {"door.example.evil", NULL, 1},
    {"localhost:9091.evil.example", NULL, 1},
    {"localhost:9091@evil.example", NULL, 1},
    {"[::1].evil.example", NULL, 1},
    {"[::1", NULL, 1},
    {"[localhost", NULL, 1},
    {"", NULL, 1},
    {":9091", NULL, 1},
    {"127.0.0.1:9091", "http://127.0.0.1:9091", 0},
    {"127.0.0.1:9091", "https://127.0.0.1:9091", 0},
    {"localhost", "http://localhost", 0},
    {"127.0.0.1:9091", "http://evil.example", 1},
    {"127.0.0.1:9091", "http://127.0.0.1:8080", 1}, /* another program's page */
    {"127.0.0.1:9091", "http://127.0.0.1", 1},
    {"127.0.0.1:9091", "http://localhost:9091", 1},
    {"127.0.0.1:9091", "null", 1},
    {"127.0.0.1:9091", "", 1},
    {"127.0.0.1:9091", "127.0.0.1:9091", 1},
    {NULL, "http://127.0.0.1:9091", 1},
};

static void test_foreign(void **state)
{
    static const char names[] = "door.example";
    char own[256] = "";
    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if ((gw_http_foreign(calls[i].host, calls[i].origin, names) != NULL) != calls[i].foreign)
            fail_msg("Host %s, Origin %s", calls[i].host, calls[i].origin);
    gethostname(own, sizeof(own) - 1);
    if (own[0]) assert_null(gw_http_foreign(own, NULL, NULL));
    assert_non_null(gw_http_foreign("door.example", NULL, NULL));
}

static void test_json_type(void **state)
{
    (void)state;
    assert_true(gw_http_is_json("application/json"));
    assert_true(gw_http_is_json("Application/JSON; charset=utf-8"));
    assert_false(gw_http_is_json(NULL));
    assert_false(gw_http_is_json("text/plain"));
    assert_false(gw_http_is_json("application/jsonx"));
    assert_false(gw_http_is_json("application/x-www-form-urlencoded"));
    assert_false(gw_http_is_json("text/plain; application/json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_json_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
