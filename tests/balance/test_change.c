/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of the balancer's model: each is made beside what runs, and comes into force as a whole or not at
 * all. An object that cannot run is refused alone. */
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
#include "src/balance/control/config.h"
#include "src/balance/control/health.h"
#include "src/balance/control/json.h"
#include "src/balance/control/probe.h"
#include "src/balance/control/probe_impl.h"
#include "src/balance/control/translate.h"

static int parse(const char *text, struct gw_bal_config *c)
{
    char *mine = strdup(text);
    int error = gw_bal_config_parse("f.conf", mine, c);
    free(mine);
    return error;
}

static void take(const char *text, struct gw_bal_config *c)
{
    if (parse(text, c)) fail_msg("%s", gw_last_error());
}

static int reload(struct gw_bal_model *m, const char *text)
{
    struct gw_bal_config next;
    take(text, &next);
    int error = gw_bal_reconcile(m, &next.model);
    gw_bal_config_free(&next);
    return error;
}

/* The state that must be the same when nothing has changed. */
static char *text_of(const struct gw_bal_model *m)
{
    json_t *j = gw_bal_model_json(m);
    char *text = json_dumps(j, JSON_INDENT(1));
    json_decref(j);
    assert_non_null(text);
    return text;
}

static struct gw_bal_worker *worker(const struct gw_bal_model *m, const char *service, const char *name)
{
    struct gw_bal_service *s = gw_bal_find_service(m, service);
    assert_non_null(s);
    return gw_bal_find_worker(s, name);
}

static void add_by_api(struct gw_bal_model *m, const char *service, const char *name, uint8_t last,
                       uint16_t port)
{
    struct gw_bal_worker w = {.weight = 1, .origin = GW_BAL_OF_API, .port = port};
    snprintf(w.name, sizeof(w.name), "%s", name);
    w.addr = (struct gw_bal_addr){.family = 4, .bytes = {10, 0, 0, last}};
    if (gw_bal_add_worker(m, gw_bal_find_service(m, service), &w, NULL)) fail_msg("%s", gw_last_error());
}

/* ---- a file that is read again ---- */

static const char two_services[] =
    "virtual_server 10.0.0.1 80 {\n name s1\n NO_CHECK\n real_server 10.0.0.11 80 { name blue\n }\n}\n"
    "virtual_server 10.0.0.2 80 {\n name s2\n lb_algo rr\n NO_CHECK\n real_server 10.0.0.21 80 { name w\n "
    "}\n}\n";

static void a_name_moves_with_its_meaning(void **state)
{
    struct gw_bal_config c;
    (void)state;
    take(two_services, &c);
    uint32_t was = worker(&c.model, "s1", "blue")->id;
    assert_int_equal(reload(&c.model, "virtual_server 10.0.0.1 80 {\n name s1\n NO_CHECK\n"
                                      " real_server 10.0.0.12 80 { name blue\n }\n}\n"
                                      "virtual_server 10.0.0.2 80 {\n name s2\n lb_algo mh\n NO_CHECK\n"
                                      " real_server 10.0.0.21 80 { name w\n }\n}\n"),
                     0);
    struct gw_bal_worker *blue = worker(&c.model, "s1", "blue"), *old = worker(&c.model, "s1", "10.0.0.11");
    assert_int_equal(blue->addr.bytes[3], 12);
    assert_int_equal(gw_bal_state_of(blue), GW_BAL_UP);
    assert_int_equal(old->id, was); /* its connections go on */
    assert_true(old->leave);
    assert_string_not_equal(old->name, "blue");
    assert_int_equal(gw_bal_find_service(&c.model, "s2")->sched, GW_BAL_MH);
    /* And back, while the first one still leaves; then two of them change places. */
    assert_int_equal(reload(&c.model, two_services), 0);
    assert_int_equal(worker(&c.model, "s1", "blue")->id, was);
    assert_int_equal(reload(&c.model, "virtual_server 10.0.0.2 80 {\n name s1\n NO_CHECK\n}\n"
                                      "virtual_server 10.0.0.1 80 {\n name s2\n NO_CHECK\n"
                                      " real_server 10.0.0.11 80 { name w\n }\n}\n"),
                     0);
    assert_int_equal(gw_bal_find_service(&c.model, "s1")->addr.bytes[3], 2);
    assert_int_equal(worker(&c.model, "s2", "w")->id, was);
    gw_bal_config_free(&c);
}

/* Each of these files is valid by itself, and cannot run beside what the API has added. */
static void a_reload_that_fails_changes_nothing(void **state)
{
    static const struct {
        const char *text, *says;
    } files[] = {
        {"virtual_server 10.0.0.1 80 {\n name s1\n lb_kind DR\n NO_CHECK\n}\n"
         "virtual_server 10.0.0.3 80 {\n name s3\n}\n",
         "service s1: worker extra: port 8080: DR changes no ports"},
        {"virtual_server 10.0.0.1 80 {\n name s1\n lb_kind NAT\n NO_CHECK\n"
         " real_server 10.0.0.13 80 { name extra\n }\n}\n",
         "worker extra: service s1 has two of this name"},
        {"virtual_server 10.0.0.1 80 {\n name s1\n lb_kind NAT\n}\nvirtual_server 10.0.0.77 80 {\n name "
         "x\n}\n",
         "service s1: worker extra: its address is that of another service here"},
        {"virtual_server 10.0.0.1 80 {\n name s1\n lb_kind NAT\n}\nvirtual_server 10.0.0.4 80 {\n name "
         "apis\n}\n",
         "service apis: two services have this name"},
    };
    struct gw_bal_config c;
    struct gw_bal_service more = {.origin = GW_BAL_OF_API, .name = "apis", .port = 90};
    (void)state;
    take("virtual_server 10.0.0.1 80 {\n name s1\n lb_kind NAT\n NO_CHECK\n"
         " real_server 10.0.0.11 80 { name blue\n }\n}\n"
         "virtual_server 10.0.0.2 80 {\n name s2\n lb_algo rr\n}\n",
         &c);
    add_by_api(&c.model, "s1", "extra", 77, 8080);
    more.addr = (struct gw_bal_addr){.family = 4, .bytes = {10, 0, 0, 5}};
    assert_int_equal(gw_bal_add_service(&c.model, &more, NULL), 0);
    char *before = text_of(&c.model);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        assert_int_not_equal(reload(&c.model, files[i].text), 0);
        if (!strstr(gw_last_error(), files[i].says))
            fail_msg("said \"%s\", not \"%s\"", gw_last_error(), files[i].says);
        char *after = text_of(&c.model);
        assert_string_equal(before, after);
        free(after);
    }
    free(before);
    /* At a start the file counts, and what does not fit beside it is refused alone. */
    struct gw_bal_config next;
    take(files[0].text, &next);
    assert_int_equal(gw_bal_begin(&c.model, &next.model), 0);
    assert_int_equal(gw_bal_state_of(worker(&c.model, "s1", "extra")), GW_BAL_REFUSED);
    assert_string_equal(gw_bal_find_service(&c.model, "s3")->refused, "");
    gw_bal_config_free(&next);
    gw_bal_config_free(&c);
}

static void a_check_that_goes_brings_the_worker_up(void **state)
{
    static const char checked[] =
        "virtual_server 10.0.0.1 80 {\n name s\n real_server 10.0.0.9 80 { name a\n }\n}\n";
    struct gw_bal_config c;
    (void)state;
    take(checked, &c);
    assert_int_equal(gw_bal_state_of(worker(&c.model, "s", "a")), GW_BAL_DOWN);
    uint64_t version = c.model.version;
    assert_int_equal(reload(&c.model, "virtual_server 10.0.0.1 80 {\n name s\n"
                                      " real_server 10.0.0.9 80 { name a\n NO_CHECK\n }\n}\n"),
                     0);
    assert_int_equal(gw_bal_state_of(worker(&c.model, "s", "a")), GW_BAL_UP);
    assert_true(c.model.version > version);
    assert_int_equal(reload(&c.model, checked), 0);
    assert_int_equal(gw_bal_state_of(worker(&c.model, "s", "a")), GW_BAL_UP); /* until a check fails */
    gw_bal_config_free(&c);
}

static void a_drain_is_saved(void **state)
{
    struct gw_bal_config c, again;
    (void)state;
    take(two_services, &c);
    gw_bal_drain(&c.model, worker(&c.model, "s1", "blue"), true);
    char *text = gw_bal_config_write(&c.model);
    take(text, &again);
    assert_true(worker(&again.model, "s1", "blue")->drain);
    assert_false(worker(&again.model, "s2", "w")->drain);
    /* The API's drain stays when the file is read again; the file's goes when the file says so. */
    assert_int_equal(reload(&c.model, two_services), 0);
    assert_true(worker(&c.model, "s1", "blue")->drain);
    assert_int_equal(reload(&again.model, two_services), 0);
    assert_false(worker(&again.model, "s1", "blue")->drain);
    free(text);
    gw_bal_config_free(&again);
    gw_bal_config_free(&c);
}

/* ---- what cannot run ---- */

#define PORT "interface eth0 {\n address 10.0.0.5/24\n address fd00::5/64\n gateway 10.0.0.254\n}\n"

static void check_refuses_what_cannot_run(void **state)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {PORT "virtual_server 10.0.0.5 80 {\n}\n", "the balancer itself has this address"},
        {PORT "virtual_server fd00::5 80 {\n}\n", "the balancer itself has this address"},
        {"virtual_server 10.0.0.5 80 {\n}\n" PORT, "the balancer itself has this address"},
        {PORT "virtual_server 10.0.0.100 80 {\n real_server 10.0.0.5 80 { }\n}\n",
         "service tcp-10.0.0.100-80: worker 10.0.0.5-80: the balancer itself has this address"},
        {PORT "virtual_server 10.0.0.254 80 {\n}\n", "its address is the gateway's"},
        {PORT "virtual_server 10.0.0.100 80 {\n real_server 127.0.0.1 80 { }\n}\n", "loopback"},
        {PORT "virtual_server 10.0.0.100 80 {\n real_server 10.0.0.255 80 { }\n}\n", "broadcast address"},
        {PORT "virtual_server 10.0.0.100 80 {\n real_server 10.0.0.101 80 { }\n}\n"
              "virtual_server 10.0.0.101 90 {\n}\n",
         "its address is that of another service here"},
        {"virtual_server 224.0.0.5 80 {\n}\n", "none that clients can reach"},
        {"virtual_server ff02::5 80 {\n}\n", "none that clients can reach"},
        {"virtual_server 0.0.0.0 80 {\n}\n", "none that clients can reach"},
        {"virtual_server 255.255.255.255 80 {\n}\n", "none that clients can reach"},
        {"virtual_server 10.0.0.1 80 {\n real_server 0.0.0.0 80 { }\n}\n", "none that a host can have"},
        {"virtual_server 10.0.0.1 80 {\n real_server 239.1.1.1 80 { }\n}\n", "none that a host can have"},
        {"virtual_server 10.0.0.1 0 {\n real_server 10.0.0.2 80 { }\n}\n", "port 80: DR changes no ports"},
        {"global_defs {\n timeouts {\n established 86400\n syn 0.5\n }\n}\n",
         "timeouts: established may be 8000 times syn at most, 4000 s"},
        {"global_defs {\n timeouts {\n established 86400\n }\n}\n",
         "timeouts: established may be 8000 times fragment at most, 40000 s"},
        {"interface eth0 {\n address 224.0.0.1/24\n}\n", "none that a host can have"},
        {"interface eth0 {\n address 10.0.0.5/24\n gateway fd00::1\n}\n", "no IPv6 address"},
        {"interface eth0 {\n address 10.0.0.5/24\n gateway 10.0.0.5\n}\n", "another host's address"},
        {"interface eth0 {\n address fd00::5/64\n}\n"
         "virtual_server 10.0.0.100 80 {\n lb_kind TUN\n real_server 10.0.0.2 80 { }\n}\n",
         "a tunnel needs an IPv4 address of the balancer"},
    };
    struct gw_bal_config c;
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (!parse(wrong[i].text, &c)) fail_msg("this was taken:\n%s", wrong[i].text);
        if (!strstr(gw_last_error(), wrong[i].says))
            fail_msg("said \"%s\", not \"%s\"", gw_last_error(), wrong[i].says);
        gw_bal_config_free(&c);
    }
    take(PORT "virtual_server 10.0.0.100 80 {\n real_server 10.0.0.2 80 { }\n}\n", &c);
    gw_bal_config_free(&c);
}

/* The data plane's own answer to a file that the control plane has taken. */
static void both_planes_say_the_same(void **state)
{
    struct gw_bal_config c;
    struct bal_attr attr;
    struct bal *bal;
    char why[256] = "";
    (void)state;
    take(PORT "virtual_server 10.0.0.100 80 {\n lb_kind TUN\n real_server 10.0.0.2 80 { }\n}\n"
              "virtual_server fd00::100 4791 {\n protocol roce\n real_server fd00::2 { }\n}\n",
         &c);
    gw_bal_translate_attr(&c.global, &attr);
    assert_int_equal(bal_create(&attr, &bal), 0);
    struct bal_config *config = calloc(1, sizeof(*config));
    gw_bal_translate(&c.model, &c.global, false, config);
    if (bal_publish(bal, config, why, sizeof(why))) fail_msg("%s", why);
    free(config);
    bal_destroy(bal);
    gw_bal_config_free(&c);
}

/* ---- what others say ---- */

static void a_workers_words_are_only_shown(void **state)
{
    static const char *const said[] = {"HTTP/1.1 5\"3 x\r\n", "HTTP/1.1 \xff\xfe\x80 x\r\n",
                                       "HTTP/1.1 \x01\x1b[ x\r\n", "HTTP/1.1 5\\3 x\r\n",
                                       "HTTP/1.1 \"\"\" x\r\n"};
    struct gw_bal_config c;
    (void)state;
    take("virtual_server 10.0.0.1 80 {\n name s\n HTTP_GET { }\n real_server 10.0.0.9 80 { name evil\n }\n"
         " real_server 10.0.0.8 80 { name good\n }\n}\n",
         &c);
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        struct gw_bal_model again = {0};
        char why[128];
        struct gw_bal_worker *evil = worker(&c.model, "s", "evil");
        assert_int_equal(gw_bal_http_status(said[i], (unsigned)strlen(said[i]), 0, why, sizeof(why)), -1);
        gw_bal_health_done(&c.model, evil->service, evil, why, 1);
        json_t *j = gw_bal_model_json(&c.model);
        assert_non_null(j);
        assert_int_equal(gw_bal_model_from(j, &again, 0), 0);
        assert_int_equal(again.lost, 0);
        assert_string_equal(worker(&again, "s", "evil")->health.why, evil->health.why);
        assert_non_null(worker(&again, "s", "good"));
        json_decref(j);
        gw_bal_model_free(&again);
    }
    gw_bal_config_free(&c);
}

/* A state with bad objects in it gives all the others; a control plane that starts needs them. */
static void a_bad_object_is_lost_alone(void **state)
{
    struct gw_bal_config c;
    struct gw_bal_model again = {0};
    (void)state;
    take(two_services, &c);
    json_t *j = gw_bal_model_json(&c.model);
    json_t *services = json_object_get(j, "services");
    json_object_set_new(json_array_get(json_object_get(json_array_get(services, 0), "workers"), 0), "weight",
                        json_integer(-4));
    json_array_append_new(services, json_pack("{s:s}", "name", "nonsense"));
    json_array_append_new(services, json_string("no object"));
    assert_int_equal(gw_bal_model_from(j, &again, 0), 0);
    assert_int_equal(again.lost, 3);
    assert_null(worker(&again, "s1", "blue"));
    assert_non_null(worker(&again, "s2", "w"));
    json_decref(j);
    gw_bal_model_free(&again);
    gw_bal_config_free(&c);
}

/* One that registered itself is heard of late after a start of the control plane: it has patience again. */
static void a_start_is_patient(void **state)
{
    struct gw_bal_config c;
    struct gw_bal_model again = {0};
    const uint64_t s = 1000000000, now = 5000 * s;
    (void)state;
    take(two_services, &c);
    struct gw_bal_worker *w = worker(&c.model, "s1", "blue");
    w->origin = GW_BAL_OF_ITSELF;
    w->telemetry = (struct gw_bal_telemetry){.at_ns = 17, .beat_ns = s};
    json_t *j = gw_bal_model_json(&c.model);
    assert_int_equal(gw_bal_model_from(j, &again, now), 0);
    gw_bal_tend(&again, 0, now + 4 * s);
    w = worker(&again, "s1", "blue");
    assert_int_equal(gw_bal_state_of(w), GW_BAL_UP);
    assert_false(w->leave);
    gw_bal_tend(&again, 0, now + 6 * s);
    assert_true(worker(&again, "s1", "blue")->leave); /* it is not there any more */
    json_decref(j);
    gw_bal_model_free(&again);
    gw_bal_config_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_moves_with_its_meaning),
        cmocka_unit_test(a_reload_that_fails_changes_nothing),
        cmocka_unit_test(a_check_that_goes_brings_the_worker_up),
        cmocka_unit_test(a_drain_is_saved),
        cmocka_unit_test(check_refuses_what_cannot_run),
        cmocka_unit_test(both_planes_say_the_same),
        cmocka_unit_test(a_workers_words_are_only_shown),
        cmocka_unit_test(a_bad_object_is_lost_alone),
        cmocka_unit_test(a_start_is_patient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
