/* SPDX-License-Identifier: Apache-2.0 */
/* The inference client at the door of a fleet. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <gpuwire/client.h>
#include <gpuwire/exec.h>

#include "src/server/wire/wire.h"
#include "tests/fleet/client/fake.h"

#define MS UINT64_C(1000000)

static struct fake f;
static char server[200];

static int begin(void **state)
{
    (void)state;
    fake_begin(&f);
    snprintf(server, sizeof server, "fleet://%s,%s/", f.controller[0].address, f.controller[1].address);
    return 0;
}

static int end(void **state)
{
    (void)state;
    fake_end(&f);
    return 0;
}

static struct gw_client *open_client(uint32_t slots)
{
    const struct gw_client_opts opts = {.server = server, .model = "mirror", .slots = slots, .rows = 8};
    struct gw_client *c = NULL;
    int err = gw_client_open(&opts, &c);
    if (err) fail_msg("%s", gw_last_error());
    return c;
}

static void fill(struct gw_client *c, uint32_t slot, uint32_t rows, float value)
{
    float *to = gw_client_slot_input(c, slot, 0, rows);
    for (uint32_t i = 0; i < rows * 4; i++) to[i] = value + (float)i;
}

/* The URL names the fleet; who asks the wrong one learns that. */
static void test_names_the_fleet(void **state)
{
    char other[sizeof server + 16];
    struct gw_client_opts opts = {.server = other, .model = "mirror", .timeout_ns = 300 * MS};
    struct gw_client *c = NULL;
    (void)state;
    fake_grant(&f, 0, 8, 1e6f);
    snprintf(other, sizeof other, "%sother", server);
    assert_true(gw_client_open(&opts, &c) < 0);
    if (!strstr(gw_last_error(), "it belongs to another fleet")) fail_msg("%s", gw_last_error());
    snprintf(other, sizeof other, "%sa/b", server);
    assert_int_equal(gw_client_open(&opts, &c), -EINVAL);
    snprintf(other, sizeof other, "%sdefault", server);
    opts.timeout_ns = 0;
    assert_int_equal(gw_client_open(&opts, &c), 0);
    gw_client_close(c);
}

static void test_answers(void **state)
{
    struct gw_client_reply r;
    (void)state;
    fake_grant(&f, 0, 8, 1e6f);
    struct gw_client *c = open_client(4);
    assert_string_equal(gw_client_door(c), "fleet");
    assert_int_equal(gw_client_slots(c), 4);
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t rows = 1 + i % 8;
        struct gw_client_request q = {.id = 100 + i, .rows = rows, .budget_ns = 5000 * MS};
        fill(c, i % 4, rows, (float)i);
        assert_int_equal(gw_client_submit(c, i % 4, &q), 0);
        assert_int_equal(gw_client_submit(c, i % 4, &q), -EBUSY);
        assert_int_equal(gw_client_wait(c, gw_deadline(10000 * MS), &r), 0);
        assert_int_equal(r.error, 0);
        assert_int_equal(r.id, 100 + i);
        assert_int_equal(r.out[0].bytes, rows * 16);
        for (uint32_t k = 0; k < rows * 4; k++)
            assert_true(((const float *)r.out[0].data)[k] == (float)(i + k));
        assert_true(r.times.total > 0);
    }
    float elsewhere[4] = {7, 8, 9, 10};
    const void *in[] = {elsewhere};
    struct gw_client_request q = {.id = 1};
    assert_int_equal(gw_client_register(c, elsewhere, sizeof elsewhere), 0);
    assert_int_equal(gw_client_submit_from(c, 0, &q, in), 0);
    assert_int_equal(gw_client_wait(c, gw_deadline(10000 * MS), &r), 0);
    assert_memory_equal(r.out[0].data, elsewhere, sizeof elsewhere);
    gw_client_close(c);
}

static void test_refusals(void **state)
{
    struct gw_client_reply r;
    struct gw_client_request q = {.id = 5};
    (void)state;
    fake_grant(&f, 0, 8, 1e6f);
    struct gw_client *c = open_client(4);
    f.worker[0].status = GW_SERVE_OVER_BUDGET;
    f.worker[0].retry_ns = (long long)(9 * MS);
    fill(c, 0, 1, 1);
    assert_int_equal(gw_client_submit(c, 0, &q), 0);
    assert_int_equal(gw_client_wait(c, gw_deadline(10000 * MS), &r), 0);
    assert_int_equal(r.error, -EBUSY);
    assert_int_equal(r.retry_ns, 9 * MS);
    assert_non_null(strstr(r.why, "budget"));
    f.worker[0].status = GW_SERVE_LATE;
    assert_int_equal(gw_client_submit(c, 1, &q), 0);
    assert_int_equal(gw_client_wait(c, gw_deadline(10000 * MS), &r), 0);
    assert_int_equal(r.error, -ETIME);
    f.worker[0].lie = FAKE_MUTE;
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(gw_client_submit(c, i, &q), 0);
    assert_int_equal(gw_client_wait(c, gw_deadline(20 * MS), &r), -ETIMEDOUT);
    gw_client_close(c); /* with four under way */
}

static int opens(const char *url, const char *model, const char *version)
{
    const struct gw_client_opts opts = {
        .server = url, .model = model, .version = version, .timeout_ns = 500 * MS};
    struct gw_client *c = NULL;
    int err = gw_client_open(&opts, &c);
    if (!err) gw_client_close(c);
    return err;
}

static void test_opening(void **state)
{
    (void)state;
    assert_int_equal(opens("fleet://", "mirror", NULL), -EINVAL);
    assert_int_equal(opens("fleet://host", "mirror", NULL), -EINVAL);
    assert_int_equal(opens("fleet://host:1,", "mirror", NULL), -EINVAL);
    assert_int_equal(opens("fleet://host:1/a/b", "mirror", NULL), -EINVAL);
    assert_int_equal(opens("fleet://ho st:1", "mirror", NULL), -EINVAL);
    assert_int_equal(opens(server, "mirror", "one"), -EINVAL);
    assert_int_equal(opens("fleet://127.0.0.1:1", "mirror", NULL), -ETIMEDOUT);
    assert_int_equal(opens(server, "mirror", NULL), -ETIMEDOUT); /* there is no lease to be had */
    f.controller[0].mood = f.controller[1].mood = FAKE_NO_MODEL;
    assert_int_equal(opens(server, "mirror", NULL), -ENOENT);
    f.controller[0].mood = f.controller[1].mood = FAKE_LEADS;
    fake_grant(&f, 0, 8, 1e6f);
    assert_int_equal(opens(server, "mirror", "1"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_names_the_fleet, begin, end),
        cmocka_unit_test_setup_teardown(test_answers, begin, end),
        cmocka_unit_test_setup_teardown(test_refusals, begin, end),
        cmocka_unit_test_setup_teardown(test_opening, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
