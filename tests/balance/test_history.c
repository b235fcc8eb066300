/* SPDX-License-Identifier: Apache-2.0 */
/* The last ten minutes of services and workers: what is kept and forgotten, how much memory that takes, and
 * what the API tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <gpuwire/error.h>

#include "src/balance/control/api.h"

#define EVERY GW_BAL_HISTORY_NS
#define SLOTS GW_BAL_HISTORY_SLOTS

static struct gw_bal_service *add_service(struct gw_bal_model *m, unsigned n)
{
    struct gw_bal_service s = {.addr = {.family = 4, .bytes = {10, 1, (uint8_t)(n >> 8), (uint8_t)n}},
                               .port = 80,
                               .check = {.kind = GW_BAL_NO_CHECK}},
                          *mine;
    snprintf(s.name, sizeof(s.name), "s%u", n);
    assert_int_equal(gw_bal_put_service(m, &s, GW_BAL_ANY_ID, &mine), 0);
    return mine;
}

static struct gw_bal_worker *add_worker(struct gw_bal_model *m, struct gw_bal_service *s, unsigned n)
{
    struct gw_bal_worker w = {.weight = 1,
                              .addr = {.family = 4, .bytes = {10, 2, (uint8_t)(n >> 8), (uint8_t)n}}},
                         *mine;
    snprintf(w.name, sizeof(w.name), "w%u", n);
    assert_int_equal(gw_bal_put_worker(m, s, &w, GW_BAL_ANY_ID, &mine), 0);
    return mine;
}

static void count(struct gw_bal_worker *w, uint64_t live, uint64_t opened, uint64_t packets, uint64_t bytes)
{
    w->counts = (struct gw_bal_counts){.live = live, .opened = opened, .packets = packets, .bytes = bytes};
}

/* The value `back` slots before the last one; -1: null. */
static int64_t value_at(const json_t *j, const char *name, size_t back)
{
    const json_t *all = json_object_get(j, name);
    assert_int_equal(json_array_size(all), SLOTS);
    const json_t *v = json_array_get(all, SLOTS - 1 - back);
    return json_is_null(v) ? -1 : json_integer_value(v);
}

/* Each slot has what happened in it, and a service what its workers did. */
static void test_values(void **state)
{
    struct gw_bal_model m = {0};
    struct gw_bal_history *h = calloc(1, sizeof(*h));
    (void)state;
    struct gw_bal_service *s = add_service(&m, 1);
    struct gw_bal_worker *a = add_worker(&m, s, 1), *b = add_worker(&m, s, 2);
    /* A data plane that was there before has counted, and nothing says when. */
    count(a, 5, 1000, 9000, 1 << 20);
    gw_bal_history_take(h, &m, 3 * EVERY);
    count(a, 7, 1010, 9100, (1 << 20) + 500);
    count(b, 1, 2, 3, 4);
    gw_bal_history_take(h, &m, 3 * EVERY + EVERY / 2); /* the same slot */
    gw_bal_history_take(h, &m, 4 * EVERY);
    json_t *j = gw_bal_history_service_json(h, s, 4 * EVERY + 2000000), *w;
    assert_int_equal(json_integer_value(json_object_get(j, "every_ms")), 5000);
    assert_int_equal(json_integer_value(json_object_get(j, "age_ms")), 2);
    assert_int_equal(value_at(j, "opened", 1), 0);
    assert_int_equal(value_at(j, "live", 1), 5);
    assert_int_equal(value_at(j, "live", 0), 8);
    assert_int_equal(value_at(j, "opened", 0), 12);
    assert_int_equal(value_at(j, "packets", 0), 103);
    assert_int_equal(value_at(j, "bytes", 0), 504);
    assert_int_equal(value_at(j, "live", 2), -1); /* before the control plane began */
    w = json_array_get(json_object_get(j, "workers"), 0);
    assert_string_equal(json_string_value(json_object_get(w, "name")), "w1");
    assert_int_equal(value_at(w, "opened", 0), 10);
    json_decref(j);
    j = gw_bal_history_json(h, 4 * EVERY);
    assert_int_equal(value_at(j, "opened", 0), 12);
    json_decref(j);
    gw_bal_history_free(h);
    gw_bal_model_free(&m);
}

/* No counts came for a while; then the data plane is another one, which counts from 0. */
static void test_gaps(void **state)
{
    struct gw_bal_model m = {0};
    struct gw_bal_history *h = calloc(1, sizeof(*h));
    (void)state;
    struct gw_bal_service *s = add_service(&m, 1);
    struct gw_bal_worker *a = add_worker(&m, s, 1);
    gw_bal_history_take(h, &m, 1000 * EVERY);
    count(a, 1, 100, 0, 0);
    gw_bal_history_take(h, &m, 1001 * EVERY);
    count(a, 1, 140, 0, 0);
    gw_bal_history_take(h, &m, 1005 * EVERY);
    count(a, 1, 6, 0, 0);
    gw_bal_history_take(h, &m, 1006 * EVERY);
    json_t *j = gw_bal_history_service_json(h, s, 1006 * EVERY);
    const int64_t opened[] = {6, 10, -1, -1, -1, 100, 0, -1};
    for (size_t i = 0; i < sizeof(opened) / sizeof(opened[0]); i++)
        assert_int_equal(value_at(j, "opened", i), opened[i]);
    json_decref(j);
    /* Longer than all that is kept. */
    gw_bal_history_take(h, &m, 2000 * EVERY);
    j = gw_bal_history_service_json(h, s, 2000 * EVERY);
    assert_int_equal(value_at(j, "opened", 0), 0);
    for (size_t i = 1; i < SLOTS; i++) assert_int_equal(value_at(j, "opened", i), -1);
    json_decref(j);
    gw_bal_history_free(h);
    gw_bal_model_free(&m);
}

/* Ten thousand services, and more workers with connections than there is room for. */
static void test_bound(void **state)
{
    struct gw_bal_model m = {0};
    struct gw_bal_history *h = calloc(1, sizeof(*h));
    struct gw_bal_worker *w = NULL;
    (void)state;
    for (unsigned i = 0; i < 10000; i++) {
        struct gw_bal_service *s = add_service(&m, i);
        if (i < GW_BAL_WORKERS) count(w = add_worker(&m, s, i), 1, 1, 1, 1);
    }
    for (uint64_t n = 1; n < 4; n++) gw_bal_history_take(h, &m, n * EVERY);
    assert_int_equal(h->traces, GW_BAL_TRACES);
    assert_true(sizeof(*h) + h->traces * sizeof(struct gw_bal_trace) < 9 << 20);
    json_t *j = gw_bal_history_service_json(h, m.services, 3 * EVERY);
    assert_true(json_is_true(json_object_get(j, "kept")));
    json_decref(j);
    j = gw_bal_history_service_json(h, w->service, 3 * EVERY);
    assert_true(json_is_false(json_object_get(j, "kept")));
    assert_null(json_object_get(j, "live"));
    json_decref(j);
    j = gw_bal_history_json(h, 3 * EVERY); /* all together are told in any case */
    assert_int_equal(value_at(j, "live", 0), GW_BAL_WORKERS);
    json_decref(j);
    /* A service that goes makes room, and so does one that was idle for ten minutes. */
    gw_bal_remove_service(&m, m.services);
    gw_bal_history_take(h, &m, 4 * EVERY);
    assert_int_equal(h->traces, GW_BAL_TRACES - 2);
    for (struct gw_bal_service *s = m.services; s; s = s->next)
        if (s->workers && s->workers != w) s->workers->counts.live = 0;
    for (uint64_t n = 5; n < 5 + SLOTS; n++) gw_bal_history_take(h, &m, n * EVERY);
    assert_int_equal(h->traces, 2);
    gw_bal_history_free(h);
    gw_bal_model_free(&m);
}

/* Another worker has the id of one that has gone: it has no part in what that one did. */
static void test_id(void **state)
{
    struct gw_bal_model m = {0};
    struct gw_bal_history *h = calloc(1, sizeof(*h));
    (void)state;
    struct gw_bal_service *s = add_service(&m, 1);
    struct gw_bal_worker *a = add_worker(&m, s, 1), *other, like = *a;
    gw_bal_history_take(h, &m, 1 * EVERY);
    count(a, 0, 50, 50, 50);
    gw_bal_history_take(h, &m, 2 * EVERY);
    gw_bal_leave(&m, s, a, true);
    gw_bal_history_take(h, &m, 3 * EVERY);
    assert_int_equal(gw_bal_put_worker(&m, s, &like, like.id, &other), 0);
    count(other, 0, 70, 70, 70);
    gw_bal_history_take(h, &m, 4 * EVERY);
    json_t *j = gw_bal_history_service_json(h, s, 4 * EVERY);
    const json_t *one = json_array_get(json_object_get(j, "workers"), 0);
    assert_int_equal(value_at(one, "opened", 0), 70);
    assert_int_equal(value_at(one, "opened", 2), 0);
    json_decref(j);
    gw_bal_history_free(h);
    gw_bal_model_free(&m);
}

static json_t *get(struct gw_bal_core *core, const char *path, unsigned status)
{
    json_t *reply = NULL;
    assert_int_equal(gw_bal_api_call(core, "GET", path, NULL, &reply), status);
    return reply;
}

static void test_api(void **state)
{
    struct gw_bal_core core;
    json_t *reply = NULL;
    (void)state;
    assert_int_equal(gw_bal_core_init(&core), 0);
    struct gw_bal_service *s = add_service(&core.model, 1);
    struct gw_bal_worker *w = add_worker(&core.model, s, 1);
    json_t *j = get(&core, "/v1/history", 200);
    assert_int_equal(json_integer_value(json_object_get(j, "every_ms")), 5000);
    assert_null(json_object_get(j, "live")); /* no data plane has told anything yet */
    json_decref(j);
    count(w, 3, 3, 30, 300);
    gw_bal_history_take(core.history, &core.model, 7 * EVERY);
    j = get(&core, "/v1/history", 200);
    assert_int_equal(value_at(j, "live", 0), 3);
    json_decref(j);
    j = get(&core, "/v1/services/s1/history", 200);
    assert_int_equal(value_at(json_array_get(json_object_get(j, "workers"), 0), "live", 0), 3);
    json_decref(j);
    json_decref(get(&core, "/v1/services/none/history", 404));
    assert_int_equal(gw_bal_api_call(&core, "POST", "/v1/services/s1/history", NULL, &reply), 405);
    json_decref(reply);
    gw_bal_core_free(&core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_gaps),
                                       cmocka_unit_test(test_bound), cmocka_unit_test(test_id),
                                       cmocka_unit_test(test_api)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
