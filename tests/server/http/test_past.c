/* SPDX-License-Identifier: Apache-2.0 */
/* The models' last ten minutes: what each slot has, models that come, go and are loaded again, and slots
 * without a look. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "src/server/device/cost.h"
#include "src/server/http/past.h"

static struct gw_past past;

/* The model's counts at the end of slot `slot`. */
static void look(uint64_t slot, const char *name, const struct gw_infer_stats *s)
{
    assert_true(gw_past_begin(&past, slot * GW_PAST_NS));
    if (s) gw_past_add(&past, name, 1, s);
    gw_past_end(&past, slot * GW_PAST_NS);
    assert_false(gw_past_begin(&past, slot * GW_PAST_NS + GW_PAST_NS / 2));
}

/* `back` slots before the last one; -1: null. */
static int64_t value_at(const json_t *model, const char *list, size_t back)
{
    const json_t *all = json_object_get(model, list);
    assert_int_equal(json_array_size(all), GW_PAST_SLOTS);
    const json_t *v = json_array_get(all, GW_PAST_SLOTS - 1 - back);
    return json_is_null(v) ? -1 : json_integer_value(v);
}

static json_t *only_model(json_t *j)
{
    assert_int_equal(json_array_size(json_object_get(j, "models")), 1);
    return json_array_get(json_object_get(j, "models"), 0);
}

static void slots_have_what_happened(void **state)
{
    struct gw_infer_stats s = {.successes = 1000, .queue_ns = 5000, .latency = {[10] = 1000}};
    (void)state;
    gw_past_open(&past);
    look(2, "m", &s); /* nothing says when this was */
    s.successes += 100;
    s.latency[20] += 90;
    s.latency[40] += 10;
    s.failures = 3;
    s.late = 2;
    s.refused = 1;
    s.queue_ns += 100 * 700;
    look(3, "m", &s);
    look(4, "m", &s);
    json_t *j = gw_past_json(&past, 4 * GW_PAST_NS + 3000000), *m = only_model(j);
    assert_int_equal(json_integer_value(json_object_get(j, "every_ms")), 5000);
    assert_int_equal(json_integer_value(json_object_get(j, "age_ms")), 3);
    assert_string_equal(json_string_value(json_object_get(m, "name")), "m");
    assert_string_equal(json_string_value(json_object_get(m, "version")), "1");
    assert_int_equal(value_at(m, "success", 1), 100);
    assert_int_equal(value_at(m, "failed", 1), 3);
    assert_int_equal(value_at(m, "late", 1), 2);
    assert_int_equal(value_at(m, "refused", 1), 1);
    assert_int_equal(value_at(m, "median_ns", 1), gw_serve_bucket_end(20));
    assert_int_equal(value_at(m, "p99_ns", 1), gw_serve_bucket_end(40));
    assert_int_equal(value_at(m, "queue_ns", 1), 700);
    /* Nothing was asked: there is no latency. */
    assert_int_equal(value_at(m, "success", 0), 0);
    assert_int_equal(value_at(m, "p99_ns", 0), -1);
    assert_int_equal(value_at(m, "success", 2), -1);
    json_decref(j);
    gw_past_close(&past);
}

static void models_come_and_go(void **state)
{
    struct gw_infer_stats s = {.successes = 50};
    (void)state;
    gw_past_open(&past);
    json_t *j = gw_past_json(&past, 0);
    assert_int_equal(json_array_size(json_object_get(j, "models")), 0);
    json_decref(j);
    look(10, "m", &s);
    s.successes = 60;
    look(11, "m", &s);
    s.successes = 7; /* loaded again */
    look(15, "m", &s);
    j = gw_past_json(&past, 15 * GW_PAST_NS);
    json_t *m = only_model(j);
    assert_int_equal(value_at(m, "success", 0), 7);
    for (size_t i = 1; i < 4; i++) assert_int_equal(value_at(m, "success", i), -1);
    assert_int_equal(value_at(m, "success", 4), 10);
    json_decref(j);
    look(16, "other", &s);
    j = gw_past_json(&past, 16 * GW_PAST_NS);
    assert_string_equal(json_string_value(json_object_get(only_model(j), "name")), "other");
    json_decref(j);
    /* However many there are. */
    assert_true(gw_past_begin(&past, 17 * GW_PAST_NS));
    for (unsigned i = 0; i < 2 * GW_SERVER_MODELS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "m%u", i);
        gw_past_add(&past, name, 1, &s);
    }
    gw_past_end(&past, 17 * GW_PAST_NS);
    j = gw_past_json(&past, 17 * GW_PAST_NS);
    assert_int_equal(json_array_size(json_object_get(j, "models")), 2 * GW_SERVER_MODELS);
    json_decref(j);
    gw_past_close(&past);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(slots_have_what_happened),
                                       cmocka_unit_test(models_come_and_go)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
