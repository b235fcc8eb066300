/* SPDX-License-Identifier: Apache-2.0 */
/* The balancer's control plane: the file, the model, health by a clock of the test's, JSON and the API. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <gpuwire/error.h>

#include "src/balance/control/api.h"
#include "src/balance/control/config.h"
#include "src/balance/control/drain.h"
#include "src/balance/control/health.h"
#include "src/balance/control/json.h"
#include "src/balance/control/probe.h"
#include "src/balance/control/probe_impl.h"
#include "src/balance/control/seed.h"
#include "src/balance/control/translate.h"

#define S 1000000000ull

static const char whole_file[] =
    "# a comment\n"
    "global_defs {\n    api 127.0.0.1 0\n    cores 2 3\n    timeouts { established 600 }\n}\n"
    "interface eth1 { driver af_xdp\n address 10.0.0.5/24\n address fd00::5/64\n gateway 10.0.0.1 }\n"
    "virtual_server 10.0.0.100 80 {\n"
    "    name web\n    protocol TCP\n    lb_algo wrr\n    lb_kind DR\n    delay_loop 5\n"
    "    HTTP_GET { url { path /health\n status_code 204 } rise 1 }\n"
    "    real_server 10.0.0.11 80 { weight 3 }\n"
    "    real_server 10.0.0.12 { name two\n TCP_CHECK { connect_port 81\n connect_timeout 0.5\n fall 7 } }\n"
    "}\n"
    "virtual_server fd00::100 53 { protocol udp\n lb_kind NAT\n NO_CHECK\n}\n";

static int parse(const char *text, struct gw_bal_config *c)
{
    char *mine = strdup(text);
    int error = gw_bal_config_parse("f.conf", mine, c);
    free(mine);
    return error;
}

/* ---- the file ---- */

static void test_file(void **state)
{
    struct gw_bal_config c;
    (void)state;
    if (parse(whole_file, &c)) fail_msg("%s", gw_last_error());
    assert_int_equal(c.global.cores, 2);
    assert_int_equal(c.global.core[1], 3);
    assert_int_equal(c.global.timeout_ns[GW_BAL_T_ESTABLISHED], 600 * S);
    assert_string_equal(c.global.port[0].driver, "af_xdp");
    assert_int_equal(c.global.port[0].prefix6, 64);
    struct gw_bal_service *web = gw_bal_find_service(&c.model, "web");
    assert_non_null(web);
    assert_ptr_equal(web, gw_bal_find_service(&c.model, "10.0.0.100:80/tcp"));
    assert_ptr_equal(web, gw_bal_find_service(&c.model, "10.0.0.100:80"));
    assert_int_equal(web->sched, GW_BAL_WRR);
    struct gw_bal_worker *one = gw_bal_find_worker(web, "10.0.0.11"), *two = gw_bal_find_worker(web, "two");
    assert_int_equal(one->weight, 3);
    assert_string_equal(one->name, "10.0.0.11-80");
    assert_int_equal(gw_bal_check_of(web, one)->kind, GW_BAL_HTTP_GET);
    assert_string_equal(gw_bal_check_of(web, one)->path, "/health");
    assert_int_equal(gw_bal_check_of(web, one)->interval_ns, 5 * S);
    assert_int_equal(gw_bal_check_of(web, one)->status[0].from, 204);
    assert_int_equal(gw_bal_check_of(web, two)->kind, GW_BAL_TCP_CHECK);
    assert_int_equal(gw_bal_check_of(web, two)->port, 81);
    assert_int_equal(gw_bal_check_of(web, two)->fall, 7);
    assert_int_equal(gw_bal_check_of(web, two)->rise, 1); /* the service's */
    struct gw_bal_service *dns = gw_bal_find_service(&c.model, "[fd00::100]:53");
    assert_int_equal(dns->forward, GW_BAL_NAT);
    assert_int_equal(dns->check.kind, GW_BAL_NO_CHECK);
    assert_string_equal(dns->name, "udp-fd00::100-53");
    gw_bal_config_free(&c);
}

/* The output of save reads back into the same. */
static void test_file_round(void **state)
{
    struct gw_bal_config c, again;
    (void)state;
    assert_int_equal(parse("virtual_server 10.0.0.9 80 {\n name a\n lb_algo mh\n jet\n delay_loop 0.5\n"
                           " real_server 10.0.0.1 80 { weight 9\n HTTP_GET { url { path \"/x\"\n virtualhost "
                           "h.example\n } } }\n"
                           " real_server 10.0.0.2 80 { NO_CHECK\n }\n}\n"
                           "virtual_server fd00::9 4791 {\n protocol roce\n RDMA_CHECK { model m\n }\n}\n",
                           &c),
                     0);
    char *text = gw_bal_config_write(&c.model);
    if (parse(text, &again)) fail_msg("%s in\n%s", gw_last_error(), text);
    char *once_more = gw_bal_config_write(&again.model);
    assert_string_equal(text, once_more);
    assert_non_null(strstr(text, "virtualhost \"h.example\""));
    assert_non_null(strstr(text, "delay_loop 0.5"));
    free(text);
    free(once_more);
    gw_bal_config_free(&c);
    gw_bal_config_free(&again);
}

static void test_file_mistakes(void **state)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"virtual_server 10.0.0.1 80 {\n  lb_alg wrr\n}\n",
         "f.conf:2: lb_alg: virtual_server has no such keyword; did you mean lb_algo?"},
        {"virtual_server 10.0.0.1 80 {\n\n  lb_algo wrrr\n}\n",
         "f.conf:3: lb_algo: wrrr: it must be one of rr, wrr,"},
        {"virtual_server 10.0.0.1 80 {\n",
         "f.conf:1: virtual_server: the block does not end; a } is missing"},
        {"}\n", "f.conf:1: } without a block"},
        {"virtual_server 10.0.0.256 80 { }\n",
         "f.conf:1: virtual_server: 10.0.0.256: it must be a numeric IPv4 or IPv6"},
        {"virtual_server 10.0.0.1 80\n", "it needs a block { … }"},
        {"virtual_server 10.0.0.1 80 {\n real_server 10.0.0.2 81 {\n }\n}\n",
         "f.conf:2: worker 10.0.0.2: port 81: DR changes no ports; give the service's, 80, or use NAT"},
        {"virtual_server 10.0.0.1 80 {\n real_server fd00::1 80 { }\n}\n", "it is IPv6 and the service IPv4"},
        {"virtual_server 10.0.0.1 80 {\n real_server 10.0.0.1 80 { }\n}\n", "it has the service's address"},
        {"virtual_server 10.0.0.1 80 {\n real_server 10.0.0.2 80 { }\n real_server 10.0.0.2 80 { }\n}\n",
         "f.conf:3: worker 10.0.0.2-80"},
        {"virtual_server 10.0.0.1 80 { }\nvirtual_server 10.0.0.1 80 { }\n",
         "f.conf:2: service tcp-10.0.0.1-80: there is one"},
        {"virtual_server 10.0.0.1 80 {\n sorry_server 10.0.0.3 80\n sorry_server 10.0.0.4 80\n}\n",
         "f.conf:3: sorry_server: a service has one sorry server"},
        {"virtual_server 10.0.0.1 80 {\n protocol roce\n}\n", "the port of RoCE is 4791"},
        {"virtual_server 10.0.0.1 80 {\n name \"a b\"\n}\n", "letters, digits"},
        {"virtual_server 10.0.0.1 80 {\n name \"a\n}\n", "f.conf:2: the quote does not end on this line"},
        {"virtual_server 10.0.0.1 80 {\n real_server 10.0.0.2 80 { weight 65536\n }\n}\n",
         "weight: 65536: it must be a number from 0 to 65535"},
        {"virtual_server 10.0.0.1 80 {\n delay_loop soon\n}\n",
         "delay_loop: soon: it must be seconds, from 0.01 to 86400"},
        {"global_defs {\n tls_cert /x\n}\n", "tls_cert and tls_key go together"},
        {"global_defs {\n cores 1 1\n}\n", "core 1 is named twice"},
        {"interface eth0 {\n address 10.0.0.1\n}\n", "it must be ADDRESS/BITS"},
        {"device 0000:01:00.0 {\n driver tap\n}\n", "a device's name says its driver already"},
        {"virtual_server 10.0.0.1 0 {\n lb_kind NAT\n}\n", "NAT wants a port"},
        {"{\n", "f.conf:1: { stands alone"},
        {"virtual_server 10.0.0.1 80 {\n weight 1\n lb_algo x\n}\n}\n",
         "f.conf:2: weight: virtual_server has no such keyword; docs/balance.md lists them; there are 2 "
         "more"},
        {"include /etc/passwd\n", "only a file can include others"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct gw_bal_config c;
        if (!parse(wrong[i].text, &c)) fail_msg("this was taken:\n%s", wrong[i].text);
        if (!strstr(gw_last_error(), wrong[i].says))
            fail_msg("said \"%s\", not \"%s\"", gw_last_error(), wrong[i].says);
        gw_bal_config_free(&c);
    }
}

/* ---- workers come and go ---- */

static struct gw_bal_service *a_service(struct gw_bal_config *c)
{
    assert_int_equal(parse("virtual_server 10.0.0.9 80 {\n name s\n"
                           " real_server 10.0.0.1 80 { }\n real_server 10.0.0.2 80 { }\n}\n",
                           c),
                     0);
    return c->model.services;
}

static void test_drain(void **state)
{
    struct gw_bal_config c;
    (void)state;
    struct gw_bal_service *s = a_service(&c);
    struct gw_bal_worker *w = s->workers, *kept = w->next;
    w->health.up = kept->health.up = 1;
    assert_int_equal(gw_bal_state_of(w), GW_BAL_UP);
    w->counts.live = 2;
    gw_bal_leave(&c.model, s, w, false);
    assert_int_equal(gw_bal_state_of(w), GW_BAL_DRAINING);
    uint64_t version = c.model.version;
    gw_bal_tend(&c.model, version, 0);
    assert_ptr_equal(s->workers, w); /* it has flows */
    w->counts.live = 0;
    gw_bal_tend(&c.model, version - 1, 0);
    assert_ptr_equal(s->workers, w); /* the cores do not know yet that it leaves */
    gw_bal_tend(&c.model, version, 0);
    assert_ptr_equal(s->workers, w); /* the counts are older than that */
    w->counted = version;
    gw_bal_tend(&c.model, version, 0);
    assert_ptr_equal(s->workers, kept); /* gone */
    /* One that drains alone stays, and says that it is drained. */
    gw_bal_drain(&c.model, kept, true);
    kept->counted = c.model.version;
    gw_bal_tend(&c.model, c.model.version, 0);
    assert_ptr_equal(s->workers, kept);
    assert_int_equal(gw_bal_state_of(kept), GW_BAL_DRAINED);
    gw_bal_drain(&c.model, kept, false);
    assert_int_equal(gw_bal_state_of(kept), GW_BAL_UP);
    gw_bal_config_free(&c);
}

/* A UDP client never has to pause, so a drain has a limit. Then the data plane takes the worker as down. */
static void test_drain_limit(void **state)
{
    struct gw_bal_config c;
    struct bal_worker at_work;
    struct gw_bal_model again = {0};
    (void)state;
    assert_int_equal(
        parse(
            "virtual_server 10.0.0.9 53 {\n protocol udp\n real_server 10.0.0.1 53 {\n}\n}\n"
            "virtual_server 10.0.0.9 54 {\n drain_limit 20\n real_server 10.0.0.1 54 {\n}\n}\n"
            "virtual_server 10.0.0.9 55 {\n protocol udp\n drain_limit 0\n real_server 10.0.0.1 55 {\n}\n}\n"
            "virtual_server 10.0.0.9 56 {\n real_server 10.0.0.1 56 {\n}\n}\n",
            &c),
        0);
    const uint64_t limits[] = {300 * S, 20 * S, GW_BAL_DRAIN_ALWAYS, GW_BAL_DRAIN_ALWAYS};
    int i = 0;
    for (struct gw_bal_service *s = c.model.services; s; s = s->next, i++) {
        struct gw_bal_worker *w = s->workers;
        w->health.up = w->health.known = 1;
        w->counts.live = 1;
        gw_bal_drain(&c.model, w, true);
        gw_bal_tend(&c.model, c.model.version, 100 * S);
        assert_int_equal(gw_bal_drain_limit(w), limits[i]);
        gw_bal_to_worker(s, w, NULL, &at_work);
        assert_int_equal(at_work.state, BAL_DRAINING);
    }
    char *text = gw_bal_config_write(&c.model);
    assert_non_null(strstr(text, "drain_limit 20\n"));
    assert_non_null(strstr(text, "drain_limit 0\n"));
    free(text);
    gw_bal_tend(&c.model, c.model.version, 120 * S - 1);
    struct gw_bal_service *s = c.model.services->next;
    gw_bal_to_worker(s, s->workers, NULL, &at_work);
    assert_int_equal(at_work.state, BAL_DRAINING);
    /* A control plane that starts again goes on with the same end. */
    json_t *j = gw_bal_model_json(&c.model);
    if (gw_bal_model_from(j, &again, 0)) fail_msg("%s", gw_last_error());
    json_decref(j);
    uint64_t version = again.version;
    gw_bal_tend(&again, version, 120 * S);
    assert_true(again.version > version);
    s = again.services->next;
    gw_bal_to_worker(s, s->workers, NULL, &at_work);
    assert_int_equal(at_work.state, BAL_DOWN);
    assert_int_equal(gw_bal_state_of(s->workers), GW_BAL_DRAINING); /* the cores do not know yet */
    gw_bal_tend(&again, again.version, 121 * S);
    assert_int_equal(gw_bal_state_of(s->workers), GW_BAL_DRAINED);
    gw_bal_to_worker(again.services, again.services->workers, NULL, &at_work);
    assert_int_equal(at_work.state, BAL_DRAINING);
    gw_bal_tend(&again, again.version, 400 * S);
    gw_bal_to_worker(again.services, again.services->workers, NULL, &at_work);
    assert_int_equal(at_work.state, BAL_DOWN);
    gw_bal_to_worker(s->next, s->next->workers, NULL, &at_work);
    assert_int_equal(at_work.state, BAL_DRAINING);
    /* The data plane makes its own model of what it is told. */
    struct gw_bal_model there = {0};
    j = gw_bal_model_json(&again);
    if (gw_bal_model_from(j, &there, 0)) fail_msg("%s", gw_last_error());
    json_decref(j);
    gw_bal_to_worker(there.services, there.services->workers, NULL, &at_work);
    assert_int_equal(at_work.state, BAL_DOWN);
    gw_bal_model_free(&there);
    /* More time, and none: it is the administrator who says. */
    gw_bal_limit_drain(&again, s->workers, 50 * S, 400 * S);
    gw_bal_to_worker(s, s->workers, NULL, &at_work);
    assert_int_equal(at_work.state, BAL_DRAINING);
    gw_bal_drain(&again, s->workers, false);
    gw_bal_tend(&again, again.version, 500 * S);
    assert_int_equal(gw_bal_state_of(s->workers), GW_BAL_UP);
    gw_bal_drain(&again, s->workers, true);
    gw_bal_tend(&again, again.version, 519 * S);
    assert_int_equal(gw_bal_state_of(s->workers), GW_BAL_DRAINING);
    /* One that leaves is gone then, with what it has. */
    gw_bal_leave(&again, s, s->workers, false);
    gw_bal_tend(&again, again.version, 540 * S);
    gw_bal_tend(&again, again.version, 540 * S);
    assert_null(s->workers);
    gw_bal_model_free(&again);
    gw_bal_config_free(&c);
}

static json_t *member(json_t *worker, const char *object, const char *name)
{
    return json_object_get(json_object_get(worker, object), name);
}

/* Since when a worker has its state, and how many connections its drain began with, is told, also to the next
 * control plane. */
static void test_since(void **state)
{
    struct gw_bal_config c;
    struct gw_bal_model again = {0};
    (void)state;
    struct gw_bal_service *s = a_service(&c);
    struct gw_bal_worker *w = s->workers;
    w->health.up = w->health.known = 1;
    w->counts.live = 7;
    gw_bal_tend(&c.model, 0, 10 * S);
    assert_int_equal(w->since_ns, 10 * S);
    gw_bal_tend(&c.model, 0, 11 * S);
    assert_int_equal(w->since_ns, 10 * S); /* nothing has changed */
    gw_bal_drain(&c.model, w, true);
    gw_bal_tend(&c.model, 0, 20 * S);
    w->counts.live = 0;
    w->counted = c.model.version;
    gw_bal_tend(&c.model, c.model.version, 30 * S);
    assert_int_equal(gw_bal_state_of(w), GW_BAL_DRAINED);
    assert_int_equal(w->since_ns, 30 * S);
    assert_int_equal(w->drain_from, 7);
    json_t *j = gw_bal_worker_json(s, w);
    assert_int_equal(json_integer_value(member(j, "flows", "drain_from")), 7);
    assert_int_equal(json_integer_value(member(j, "health", "since_ns")), 30 * S);
    assert_true(json_is_integer(member(j, "health", "state_ms")));
    assert_null(member(j, "health", "last_ms")); /* it was not checked yet */
    json_decref(j);
    gw_bal_health_done(&c.model, s, w, "no answer", 31 * S);
    j = gw_bal_worker_json(s, w);
    assert_true(json_is_integer(member(j, "health", "last_ms")));
    json_decref(j);
    j = gw_bal_model_json(&c.model);
    if (gw_bal_model_from(j, &again, 0)) fail_msg("%s", gw_last_error());
    json_decref(j);
    assert_int_equal(again.services->workers->since_ns, 30 * S);
    assert_int_equal(again.services->workers->drain_from, 7);
    gw_bal_drain(&c.model, w, false);
    gw_bal_tend(&c.model, 0, 40 * S);
    assert_int_equal(w->drain_from, 0);
    gw_bal_model_free(&again);
    gw_bal_config_free(&c);
}

/* No id is given twice while its worker is there. */
static void write_secret(const char *path, const char *secret)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", secret);
    fclose(f);
    chmod(path, 0600);
}

/* Balancers of one key choose alike, others do not, and one without a key does as it did before. */
static void test_seed(void **state)
{
    char dir[] = "/tmp/gpuwire-seed.XXXXXX", path[64];
    static struct gw_bal_global g;
    uint64_t seed[6];
    (void)state;
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/key%d", dir, i);
        write_secret(path, i ? "another secret word" : "sixteen characters");
        snprintf(g.sync_key_file, sizeof(g.sync_key_file), "%s", path);
        assert_int_equal(gw_bal_seed(&g, &seed[i]), 0);
    }
    snprintf(g.seed_file, sizeof(g.seed_file), "%s/key0", dir);
    assert_int_equal(gw_bal_seed(&g, &seed[2]), 0);
    assert_true(seed[0] == seed[2] && seed[0] != seed[1]);
    memset(&g, 0, sizeof(g));
    for (int i = 0; i < 3; i++) {
        snprintf(g.run_dir, sizeof(g.run_dir), "%s/run%d", dir, i / 2);
        assert_int_equal(gw_bal_seed(&g, &seed[3 + i]), 0);
    }
    assert_true(seed[3] == seed[4] && seed[4] != seed[5]);
    snprintf(path, sizeof(path), "rm -r %s", dir);
    assert_int_equal(system(path), 0);
}

static void test_ids(void **state)
{
    struct gw_bal_config c;
    (void)state;
    struct gw_bal_service *s = a_service(&c);
    uint32_t first = s->workers->id;
    for (unsigned i = 0; i < 3 * GW_BAL_WORKERS; i++) {
        struct gw_bal_worker w = {.weight = 1, .addr = {.family = 4, .bytes = {10, 9, 9, 9}}}, *mine;
        assert_int_equal(gw_bal_add_worker(&c.model, s, &w, &mine), 0);
        assert_int_not_equal(mine->id, first);
        gw_bal_leave(&c.model, s, mine, true);
    }
    gw_bal_config_free(&c);
}

static void test_reload(void **state)
{
    struct gw_bal_config c, next;
    struct gw_bal_worker other = {
        .weight = 1, .origin = GW_BAL_OF_API, .addr = {.family = 4, .bytes = {10, 0, 0, 7}}};
    (void)state;
    struct gw_bal_service *s = a_service(&c);
    assert_int_equal(gw_bal_add_worker(&c.model, s, &other, NULL), 0);
    struct gw_bal_worker *one = s->workers, *two = one->next;
    uint32_t id = two->id;
    two->health.up = two->health.known = 1;
    assert_int_equal(
        parse("virtual_server 10.0.0.9 80 {\n name t\n lb_algo mh\n real_server 10.0.0.2 80 { weight 5\n }\n"
              " real_server 10.0.0.3 80 { }\n}\nvirtual_server 10.0.0.8 80 { }\n",
              &next),
        0);
    assert_int_equal(gw_bal_reconcile(&c.model, &next.model), 0);
    s = c.model.services; /* a new model, made beside the old one */
    one = gw_bal_find_worker(s, "10.0.0.1");
    two = gw_bal_find_worker(s, "10.0.0.2");
    assert_string_equal(s->name, "t");
    assert_int_equal(s->sched, GW_BAL_MH);
    assert_true(one->leave); /* the file has it no more */
    assert_int_equal(two->id, id);
    assert_int_equal(two->weight, 5);
    assert_true(two->health.up);
    assert_false(two->leave);
    assert_false(gw_bal_find_worker(s, "10.0.0.7")->leave); /* the API's */
    assert_non_null(gw_bal_find_worker(s, "10.0.0.3"));
    assert_non_null(gw_bal_find_service(&c.model, "10.0.0.8:80"));
    /* Back to the first file: the worker that was leaving stays. */
    gw_bal_config_free(&next);
    a_service(&next);
    assert_int_equal(gw_bal_reconcile(&c.model, &next.model), 0);
    one = gw_bal_find_worker(c.model.services, "10.0.0.1");
    assert_false(one->leave);
    assert_null(gw_bal_find_service(&c.model, "10.0.0.8:80"));
    gw_bal_config_free(&next);
    gw_bal_config_free(&c);
}

/* ---- health ---- */

/* The worker whose turn it is, whose check begins; NULL: none. */
static struct gw_bal_worker *due(struct gw_bal_model *m, uint64_t now, uint64_t *next)
{
    struct gw_bal_due_list l = {0};
    assert_int_equal(gw_bal_health_due(m, now, &l, next), 0);
    struct gw_bal_worker *w = l.n ? l.due[0].worker : NULL;
    if (w) w->health.busy = 1;
    gw_bal_due_list_free(&l);
    return w;
}

static void test_health(void **state)
{
    struct gw_bal_config c;
    uint64_t now = 100 * S, next;
    (void)state;
    assert_int_equal(parse("virtual_server 10.0.0.9 80 {\n TCP_CHECK { delay_loop 2\n rise 2\n fall 3\n }\n "
                           "real_server 10.0.0.1 80 { }\n}\n",
                           &c),
                     0);
    struct gw_bal_service *s = c.model.services;
    struct gw_bal_worker *w = due(&c.model, now, &next);
    assert_ptr_equal(w, s->workers);
    assert_int_equal(gw_bal_state_of(w), GW_BAL_DOWN); /* nothing is known: no client is risked */
    assert_null(due(&c.model, now, &next));            /* it is under way */
    uint64_t version = c.model.version;
    assert_int_equal(gw_bal_health_done(&c.model, s, w, NULL, now), 1); /* the first one decides */
    assert_true(c.model.version > version);
    assert_int_equal(gw_bal_state_of(w), GW_BAL_UP);
    assert_null(due(&c.model, now + 2 * S - 1, &next));
    assert_in_range(next, now + 2 * S, now + 22 * S / 10);
    /* Two failures are no more than that; the third one counts. A good one in between starts the count again.
     */
    assert_int_equal(gw_bal_health_done(&c.model, s, w, "no answer", now), 0);
    assert_int_equal(gw_bal_health_done(&c.model, s, w, "no answer", now), 0);
    assert_int_equal(gw_bal_health_done(&c.model, s, w, NULL, now), 0);
    assert_int_equal(gw_bal_health_done(&c.model, s, w, "no answer", now), 0);
    assert_int_equal(gw_bal_health_done(&c.model, s, w, "no answer", now), 0);
    assert_int_equal(gw_bal_state_of(w), GW_BAL_UP);
    assert_int_equal(gw_bal_health_done(&c.model, s, w, "no answer", now), 1);
    assert_int_equal(gw_bal_state_of(w), GW_BAL_DOWN);
    assert_string_equal(w->health.why, "no answer");
    assert_int_equal(gw_bal_health_done(&c.model, s, w, NULL, now), 0);
    assert_int_equal(gw_bal_health_done(&c.model, s, w, NULL, now), 1);
    assert_int_equal(gw_bal_state_of(w), GW_BAL_UP);
    assert_int_equal(w->health.checks, 9);
    assert_int_equal(w->health.failures, 5);
    gw_bal_config_free(&c);
}

/* There is room for ten checks at once. 100 dark workers, each of which takes a whole second, do not keep the
 * healthy one after them from its turn. */
static void test_turns(void **state)
{
    struct gw_bal_config c;
    uint64_t next, last = 0, gap = 0, ends[101] = {0};
    char text[16384], *at = text;
    (void)state;
    at += sprintf(at, "virtual_server 10.0.0.9 80 {\n delay_loop 1\n");
    for (int i = 0; i < 101; i++) at += sprintf(at, "real_server 10.0.1.%d 80 {\n}\n", i + 1);
    strcpy(at, "}\n");
    assert_int_equal(parse(text, &c), 0);
    for (uint64_t now = S; now < 100 * S; now += S / 100) {
        unsigned i = 0, busy = 0;
        for (struct gw_bal_worker *w = c.model.services->workers; w; w = w->next, i++) {
            if (ends[i] && ends[i] <= now) {
                gw_bal_health_done(&c.model, c.model.services, w, i < 100 ? "no answer" : NULL, now);
                ends[i] = 0;
            }
            busy += w->health.busy;
        }
        for (struct gw_bal_worker *w; busy < 10 && (w = due(&c.model, now, &next)); busy++) {
            ends[w->id] = now + (w->id < 100 ? S : S / 100);
            if (w->id != 100) continue;
            if (last && now - last > gap) gap = now - last;
            last = now;
        }
    }
    assert_in_range(gap, S, 12 * S); /* all others once, and its interval */
    assert_true(last > 85 * S);
    gw_bal_config_free(&c);
}

/* A worker that has registered itself and is silent goes down, and comes back with its next word. */
static void test_silence(void **state)
{
    struct gw_bal_config c;
    (void)state;
    struct gw_bal_service *s = a_service(&c);
    struct gw_bal_worker *w = s->workers;
    w->health.up = 1;
    w->telemetry = (struct gw_bal_telemetry){.at_ns = 10 * S, .beat_ns = S};
    gw_bal_tend(&c.model, 0, 15 * S);
    assert_int_equal(gw_bal_state_of(w), GW_BAL_UP);
    uint64_t version = c.model.version;
    gw_bal_tend(&c.model, 0, 16 * S);
    assert_int_equal(gw_bal_state_of(w), GW_BAL_DOWN);
    assert_true(c.model.version > version);
    assert_false(w->leave); /* the file's */
    w->telemetry.at_ns = 16 * S;
    gw_bal_tend(&c.model, 0, 17 * S);
    assert_int_equal(gw_bal_state_of(w), GW_BAL_UP);
    w->origin = GW_BAL_OF_ITSELF;
    gw_bal_tend(&c.model, 0, 30 * S);
    assert_true(w->leave);
    gw_bal_config_free(&c);
}

static void test_http_status(void **state)
{
    char why[64];
    (void)state;
    assert_int_equal(gw_bal_http_status("HTTP/1.1 200 OK\r\n", 17, 0, why, sizeof(why)), 1);
    assert_int_equal(gw_bal_http_status("HTTP/1.1 2", 10, 0, why, sizeof(why)), 0);
    assert_int_equal(gw_bal_http_status("HTTP/1.1 204 x", 14,
                                        (struct gw_bal_range[GW_BAL_RANGES]){{204, 204}}, why, sizeof(why)),
                     1);
    assert_int_equal(gw_bal_http_status("HTTP/1.1 204 x", 14,
                                        (struct gw_bal_range[GW_BAL_RANGES]){{200, 203}, {205, 599}}, why,
                                        sizeof(why)),
                     -1);
    assert_string_equal(why, "HTTP status 204");
    assert_int_equal(gw_bal_http_status("HTTP/1.1 2x4 x", 14, 0, why, sizeof(why)), -1);
    assert_int_equal(gw_bal_http_status("SSH-2.0-OpenSSH\n", 16, 0, why, sizeof(why)), -1);
    assert_int_equal(gw_bal_http_status("\n", 1, 0, why, sizeof(why)), -1);
}

/* ---- JSON and the API ---- */

static void test_state_round(void **state)
{
    struct gw_bal_config c;
    struct gw_bal_model again = {0};
    (void)state;
    struct gw_bal_service *s = a_service(&c);
    s->workers->health.up = s->workers->health.known = 1;
    s->workers->id = 77;
    gw_bal_drain(&c.model, s->workers->next, true);
    json_t *j = gw_bal_model_json(&c.model);
    assert_non_null(j);
    if (gw_bal_model_from(j, &again, 0)) fail_msg("%s", gw_last_error());
    assert_true(again.version > c.model.version);
    assert_int_equal(again.file_hash, c.model.file_hash);
    assert_int_equal(again.services->workers->id, 77);
    assert_int_equal(gw_bal_state_of(again.services->workers), GW_BAL_UP);
    assert_true(again.services->workers->next->drain);
    assert_int_equal(again.services->workers->port, 0);
    char *a = gw_bal_config_write(&c.model), *b = gw_bal_config_write(&again);
    assert_string_equal(a, b);
    free(a);
    free(b);
    json_decref(j);
    gw_bal_model_free(&again);
    gw_bal_config_free(&c);
}

static json_t *ask(struct gw_bal_core *core, const char *method, const char *path, const char *body,
                   unsigned wanted)
{
    json_t *reply = NULL, *j = body ? json_loads(body, 0, NULL) : NULL;
    unsigned status = gw_bal_api_call(core, method, path, j, &reply);
    if (status != wanted) fail_msg("%s %s: %u: %s", method, path, status, json_dumps(reply, JSON_ENCODE_ANY));
    json_decref(j);
    return reply;
}

static void expect(struct gw_bal_core *core, const char *method, const char *path, const char *body,
                   unsigned wanted, const char *says)
{
    json_t *reply = ask(core, method, path, body, wanted);
    char *text = json_dumps(reply, JSON_ENCODE_ANY);
    if (!strstr(text, says)) fail_msg("%s %s: \"%s\" does not say \"%s\"", method, path, text, says);
    free(text);
    json_decref(reply);
}

static void test_api(void **state)
{
    struct gw_bal_core core;
    (void)state;
    assert_int_equal(gw_bal_core_init(&core), 0);
    expect(&core, "GET", "/v1/services", NULL, 200, "[]");
    expect(&core, "POST", "/v1/services",
           "{\"name\": \"web\", \"address\": \"10.0.0.9\", \"port\": 80, \"scheduler\": \"mh\", \"check\": "
           "{\"kind\": \"http\", \"path\": \"/ok\"}}",
           201, "\"scheduler\": \"mh\"");
    expect(&core, "POST", "/v1/services", "{\"address\": \"10.0.0.9\", \"port\": 80}", 409,
           "there already, as web");
    expect(&core, "POST", "/v1/services", "{\"adress\": \"10.0.0.8\"}", 400, "adress: no such member");
    expect(&core, "POST", "/v1/services", "{\"address\": \"10.0.0.8\", \"port\": 70000}", 400,
           "a number from 0 to 65535");
    expect(&core, "POST", "/v1/services", "{\"address\": \"10.0.0.8\", \"check\": {\"path\": \"/a\\nb\"}}",
           400, "printable");
    expect(&core, "POST", "/v1/services", NULL, 400, "must be a JSON object");
    expect(&core, "POST", "/v1/services/web/workers", "{\"address\": \"10.0.0.1\"}", 201,
           "\"state\": \"down\"");
    expect(&core, "POST", "/v1/services/web/workers", "{\"address\": \"10.0.0.1\"}", 409, "already");
    expect(&core, "POST", "/v1/services/web/workers", "{\"address\": \"10.0.0.2\", \"port\": 81}", 400,
           "use NAT");
    expect(&core, "POST", "/v1/services/none/workers", "{\"address\": \"10.0.0.2\"}", 404, "no such service");
    expect(&core, "PATCH", "/v1/services/web/workers/10.0.0.1-80", "{\"weight\": 7}", 200, "\"weight\": 7");
    expect(&core, "PATCH", "/v1/services/web/workers/10.0.0.1-80", "{\"wieght\": 7}", 400, "can be changed");
    expect(&core, "PATCH", "/v1/services/web/workers/10.0.0.1-80", "{\"state\": \"dead\"}", 400,
           "up or draining");
    core.model.services->workers->health.up = 1;
    expect(&core, "PATCH", "/v1/services/web/workers/10.0.0.1-80", "{\"state\": \"draining\"}", 200,
           "\"state\": \"draining\"");
    expect(&core, "PATCH", "/v1/services/web/workers/10.0.0.1-80",
           "{\"state\": \"draining\", \"drain_limit_ms\": 5000}", 200, "\"drain_limit_ms\": 5000");
    expect(&core, "PATCH", "/v1/services/web/workers/10.0.0.1-80", "{\"drain_limit_ms\": -1}", 400,
           "drain_limit_ms");
    expect(&core, "PATCH", "/v1/services/web/workers/10.0.0.1-80",
           "{\"state\": \"up\", \"drain_limit_ms\": 5000}", 400, "goes with a worker that drains");
    expect(&core, "PATCH", "/v1/services/web/workers/10.0.0.1-80", "{\"state\": \"up\"}", 200,
           "\"state\": \"up\"");
    /* A worker that registers itself, and speaks again. */
    expect(&core, "PUT", "/v1/services/web/workers/gpu7",
           "{\"address\": \"10.0.0.7\", \"queue\": 3, \"beat_ms\": 500}", 201, "\"origin\": \"itself\"");
    expect(&core, "PUT", "/v1/services/web/workers/gpu7", "{\"address\": \"10.0.0.7\", \"queue\": 9}", 200,
           "gpu7");
    assert_int_equal(gw_bal_find_worker(core.model.services, "gpu7")->telemetry.queue, 9);
    expect(&core, "PATCH", "/v1/services/web", "{\"scheduler\": \"p2c\"}", 200, "p2c");
    expect(&core, "PATCH", "/v1/services/web", "{\"port\": 81}", 400, "add another service");
    expect(&core, "GET", "/v1/config", NULL, 200, "lb_algo p2c");
    expect(&core, "GET", "/metrics", NULL, 200,
           "gpuwire_balance_worker_queue_depth{service=\\\"web\\\",worker=\\\"gpu7\\\"} 9");
    expect(&core, "GET", "/v1/stats", NULL, 200, "\"attached\": false");
    expect(&core, "GET", "/v1/health", NULL, 503, "{}");
    expect(&core, "DELETE", "/v1/services/web/workers/10.0.0.1-80", NULL, 202, "\"leave\": true");
    expect(&core, "DELETE", "/v1/services/web/workers/gpu7", "{\"now\": true}", 200, "{}");
    assert_null(gw_bal_find_worker(core.model.services, "gpu7"));
    expect(&core, "POST", "/v1/services/web/queue_pairs", "{}", 400, "not roce");
    expect(&core, "DELETE", "/v1/services/web", NULL, 200, "{}");
    expect(&core, "GET", "/v1/services/web", NULL, 404, "no such service");
    expect(&core, "BREW", "/v1/services", NULL, 405, "GET and POST");
    expect(&core, "GET", "/v1/services/a/b/c/d/e", NULL, 404, "no such call");
    gw_bal_core_free(&core);
}

static void test_queue_pairs(void **state)
{
    struct gw_bal_core core;
    (void)state;
    assert_int_equal(gw_bal_core_init(&core), 0);
    json_decref(ask(&core, "POST", "/v1/services",
                    "{\"name\": \"r\", \"address\": \"10.0.0.9\", \"protocol\": \"roce\"}", 201));
    json_decref(
        ask(&core, "POST", "/v1/services/r/workers", "{\"address\": \"10.0.0.1\", \"name\": \"w\"}", 201));
    expect(&core, "POST", "/v1/services/r/queue_pairs",
           "{\"worker\": \"w\", \"client\": \"10.0.0.5\", \"qpn\": 4660}", 202, "{}");
    expect(&core, "POST", "/v1/services/r/queue_pairs",
           "{\"worker\": \"w\", \"client\": \"fd00::5\", \"qpn\": 4660}", 400, "family");
    expect(&core, "POST", "/v1/services/r/queue_pairs",
           "{\"worker\": \"w\", \"client\": \"10.0.0.5\", \"qpn\": 16777216}", 400, "qpn");
    expect(&core, "POST", "/v1/services/r/queue_pairs",
           "{\"worker\": \"x\", \"client\": \"10.0.0.5\", \"qpn\": 4660}", 404, "no such worker");
    assert_int_equal(core.qps_waiting, 1);
    assert_int_equal(core.qps->qpn, 4660);
    gw_bal_core_free(&core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file),          cmocka_unit_test(test_file_round),
        cmocka_unit_test(test_file_mistakes), cmocka_unit_test(test_drain),
        cmocka_unit_test(test_drain_limit),   cmocka_unit_test(test_since),
        cmocka_unit_test(test_seed),          cmocka_unit_test(test_ids),
        cmocka_unit_test(test_reload),        cmocka_unit_test(test_health),
        cmocka_unit_test(test_turns),         cmocka_unit_test(test_silence),
        cmocka_unit_test(test_http_status),   cmocka_unit_test(test_state_round),
        cmocka_unit_test(test_api),           cmocka_unit_test(test_queue_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
