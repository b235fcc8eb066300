/* SPDX-License-Identifier: Apache-2.0 */
/* A worker and a real etcd: the worker finds the leader there, and its entry comes back when etcd has lost
 * it. While etcd is away, the worker goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <gpuwire/error.h>

#include "src/fleet/control/control.h"
#include "src/fleet/worker/emulated.h"
#include "src/fleet/worker/enrol.h"
#include "tests/fleet/etcd/rig.h"
#include "tests/fleet/worker_profile.h"

enum { PATIENCE_MS = 30000 };

static struct rig rig;
static struct fleet_zoo *zoo;
static struct fleet_agent *agent;
static struct fleet_enrol *entry;
static struct fleet_control *control[2];
static struct fleet_registry *registry[2];
static int lines, put;

static void say(void *ctx, const char *line)
{
    (void)ctx;
    lines++;
    put += !!strstr(line, "is in the registry");
    if (getenv("GW_TEST_SAY")) fprintf(stderr, "%s\n", line);
}

/* ---- controllers that etcd elects */

static void leads(void *ctx, uint64_t term)
{
    fleet_control_lead(*(struct fleet_control **)ctx, term);
}

static void lost(void *ctx, uint64_t term, const char *why)
{
    (void)term;
    fleet_control_yield(*(struct fleet_control **)ctx, why);
}

static void start_control(int i)
{
    static const struct fleet_registry_handler handler = {.leads = leads, .lost = lost};
    struct fleet_registry_leader me = {.id = {(uint8_t)(1 + i)}, .name = "c"};
    struct fleet_control_opts o = {.loop = rig.loop,
                                   .fleet = "f",
                                   .name = "c",
                                   .id = me.id,
                                   .listen = "127.0.0.1:0",
                                   .settle_ns = 100 * MS};
    struct fleet_registry_opts r = {.etcd = rig.urls, .fleet = "f"};
    if (fleet_control_open(&o, &control[i])) fail_msg("%s", gw_last_error());
    snprintf(me.address, sizeof(me.address), "127.0.0.1:%u", fleet_control_port(control[i]));
    if (fleet_registry_open(rig.loop, &r, &handler, &control[i], &registry[i]))
        fail_msg("%s", gw_last_error());
    assert_int_equal(fleet_registry_campaign(registry[i], &me), 0);
}

static void stop_control(int i)
{
    fleet_registry_close(registry[i]);
    fleet_control_close(control[i]);
    registry[i] = NULL;
    control[i] = NULL;
}

/* ---- the worker */

static void start_worker(void)
{
    struct fleet_emulated_opts e = {
        .loop = rig.loop, .zoo = zoo, .gpu_pages = 8, .host_pages = 64, .slots = 64, .leases = 64};
    struct fleet_engine *engine;
    assert_int_equal(fleet_emulated_create(&e, &engine), 0);
    struct fleet_agent_opts a = {
        .loop = rig.loop, .engine = engine, .fleet = "f", .name = "w1", .listen = "127.0.0.1:0", .say = say};
    if (fleet_agent_create(&a, &agent)) fail_msg("%s", gw_last_error());
    const struct fleet_registry_opts r = {.etcd = rig.urls, .fleet = "f", .worker_ttl_s = 2};
    const struct fleet_enrol_opts o = {
        .loop = rig.loop, .agent = agent, .name = "w1", .registry = &r, .say = say};
    if (fleet_enrol_open(&o, &entry)) fail_msg("%s", gw_last_error());
}

static bool has_leader(void *ctx)
{
    struct fleet_agent_view v;
    char address[FLEET_ADDRESS];
    int i = *(int *)ctx;
    fleet_agent_view(agent, &v);
    snprintf(address, sizeof(address), "127.0.0.1:%u", fleet_control_port(control[i]));
    return !strcmp(v.leader, address) && v.term;
}

static bool is_put(void *ctx)
{
    return put >= *(int *)ctx;
}

static bool in_etcd(void)
{
    char out[8192];
    assert_int_equal(rig_ctl(&rig, "get --prefix gpuwire/f/workers/w1", out, sizeof(out)), 0);
    return strstr(out, "workers/w1") != NULL;
}

static void test_finds_the_leader(void **state)
{
    (void)state;
    int first = 0, second = 1, once = 1;
    start_worker();
    assert_true(rig_until(&rig, is_put, &once, PATIENCE_MS));
    assert_true(in_etcd());
    start_control(0);
    assert_true(rig_until(&rig, has_leader, &first, PATIENCE_MS));
    start_control(1);
    rig_run(&rig, 200);
    stop_control(0);
    assert_true(rig_until(&rig, has_leader, &second, PATIENCE_MS));
    struct fleet_agent_view v;
    fleet_agent_view(agent, &v);
    assert_int_equal(v.term, fleet_registry_term(registry[1]));
}

/* Someone takes its entry away: it is put again. */
static void test_registers_again(void **state)
{
    (void)state;
    char out[1024];
    int more = put + 1;
    assert_int_equal(rig_ctl(&rig, "del gpuwire/f/workers/w1", out, sizeof(out)), 0);
    assert_true(rig_until(&rig, is_put, &more, PATIENCE_MS));
    assert_true(in_etcd());
}

/* etcd is away for longer than the entry's lease. The worker stays with its leader, and both are there again
 * when etcd is. */
static void test_etcd_goes(void **state)
{
    (void)state;
    int second = 1, before = lines;
    rig_kill(&rig, 0);
    rig_run(&rig, 3000);
    assert_true(lines > before); /* a line says so */
    struct fleet_agent_view v;
    fleet_agent_view(agent, &v);
    assert_int_equal(v.facts.models, 4);
    assert_int_equal(rig_start(&rig, 0), 0);
    for (int i = 0; i < 100 && !(in_etcd() && has_leader(&second)); i++) rig_run(&rig, 100);
    assert_true(in_etcd());
    assert_true(has_leader(&second));
}

static void test_takes_its_entry_back(void **state)
{
    (void)state;
    fleet_enrol_close(entry);
    entry = NULL;
    for (int i = 0; i < 50 && in_etcd(); i++) rig_run(&rig, 100);
    assert_false(in_etcd());
}

static int open_all(void **state)
{
    (void)state;
    return fleet_zoo_create(4, &rig_profile, &zoo) || rig_open(&rig, 1);
}

static int close_all(void **state)
{
    (void)state;
    fleet_enrol_close(entry);
    fleet_agent_destroy(agent);
    for (int i = 0; i < 2; i++) stop_control(i);
    rig_run(&rig, 1);
    rig_close(&rig);
    fleet_zoo_destroy(zoo);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_the_leader),
        cmocka_unit_test(test_registers_again),
        cmocka_unit_test(test_etcd_goes),
        cmocka_unit_test(test_takes_its_entry_back),
    };
    if (!rig_has_etcd()) return 77;
    return cmocka_run_group_tests(tests, open_all, close_all);
}
