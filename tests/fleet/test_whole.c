/* SPDX-License-Identifier: Apache-2.0 */
/* A whole fleet in one process: controllers, emulated workers and a real client. Workers leave and come, and
 * leaders change, while the client sends. No request may be lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <gpuwire/error.h>

#include "src/fleet/worker/agent.h"
#include "src/fleet/worker/emulated.h"
#include "tests/fleet/whole_rig.h"

enum { WORKERS = 3, MODELS = 6 };

static struct fleet_zoo *zoo;
static struct worker {
    struct fleet_agent *agent; /* NULL: it has gone */
    uint32_t life;
    bool left;
} worker[WORKERS];

static void start_worker(int i)
{
    char name[FLEET_NAME];
    struct worker *w = &worker[i];
    struct fleet_emulated_opts e = {.loop = whole.loop,
                                    .zoo = zoo,
                                    .gpu_pages = 8,
                                    .host_pages = 64,
                                    .slots = 1024,
                                    .leases = 256,
                                    .seed = (uint64_t)i + 1};
    struct fleet_engine *engine;
    assert_int_equal(fleet_emulated_create(&e, &engine), 0);
    snprintf(name, sizeof(name), "w%d-%u", i, w->life++);
    whole_expect(name);
    struct fleet_agent_opts o = {.loop = whole.loop,
                                 .engine = engine,
                                 .fleet = "f",
                                 .name = name,
                                 .listen = "127.0.0.1:0",
                                 .controllers = whole.controllers,
                                 .say = whole_say};
    if (fleet_agent_create(&o, &w->agent)) fail_msg("%s", gw_last_error());
    w->left = false;
}

static int start(void **state)
{
    (void)state;
    assert_int_equal(fleet_zoo_create(MODELS, &rig_profile, &zoo), 0);
    whole_start("m", MODELS, rig_profile.request_bytes);
    for (int i = 0; i < WORKERS; i++) start_worker(i);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (int i = 0; i < WORKERS; i++) fleet_agent_destroy(worker[i].agent);
    memset(worker, 0, sizeof(worker));
    whole_stop();
    fleet_zoo_destroy(zoo);
    return 0;
}

/* ---- tests */

static void test_serves(void **state)
{
    (void)state;
    whole_load(400);
    whole_settle();
}

static void left(void *ctx)
{
    struct worker *w = ctx;
    w->left = true;
}

/* A rolling upgrade: one worker after the other leaves in order, and another one takes its place. */
static void test_rolling_upgrade(void **state)
{
    (void)state;
    whole_load(100);
    for (int i = 0; i < WORKERS; i++) {
        struct worker *w = &worker[i];
        fleet_agent_leave(w->agent, 15 * SECOND, left, w);
        whole_load_until(w->left);
        fleet_agent_destroy(w->agent);
        start_worker(i);
        whole_load(150);
    }
    whole_settle();
}

/* Workers end without a word to anyone who could know before. */
static void test_workers_die(void **state)
{
    (void)state;
    whole_load(100);
    for (int i = 0; i < WORKERS - 1; i++) {
        fleet_agent_destroy(worker[i].agent);
        worker[i].agent = NULL;
        whole_load(150);
    }
    whole_settle();
}

/* The leader goes, and another one leads, with all that workers tell it. */
static void test_leader_changes(void **state)
{
    (void)state;
    whole_load(100);
    fleet_control_close(whole.control[0]);
    whole.control[0] = NULL;
    whole_load(150); /* on the leases that were there */
    fleet_control_lead(whole.control[1], 2);
    struct fleet_agent_view v = {0};
    whole_load_until((fleet_agent_view(worker[0].agent, &v), v.term == 2 && v.leader[0]));
    whole_load(150);
    whole_settle();
}

/* Two lead for a moment. Workers obey the newer one, whatever the older one says. */
static void test_two_leaders(void **state)
{
    (void)state;
    char address[FLEET_ADDRESS];
    whole_load(100);
    whole_settle();
    fleet_control_lead(whole.control[1], 2);
    snprintf(address, sizeof(address), "127.0.0.1:%u", fleet_control_port(whole.control[1]));
    for (int i = 0; i < WORKERS; i++) fleet_agent_leader(worker[i].agent, address, 2);
    for (int i = 0; i < 50; i++) whole_turn();
    fleet_control_yield(whole.control[0], "another one leads");
    fleet_control_elsewhere(whole.control[0], address);
    /* The old one had no workers: a client that asked it then hears that no worker has such a model, and
     * believes it for a second. */
    for (int64_t end = rig_now() + 3 * SECOND / 2; rig_now() < end;) whole_turn();
    whole_load(250);
    whole_settle();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_serves, start, stop),
        cmocka_unit_test_setup_teardown(test_rolling_upgrade, start, stop),
        cmocka_unit_test_setup_teardown(test_workers_die, start, stop),
        cmocka_unit_test_setup_teardown(test_leader_changes, start, stop),
        cmocka_unit_test_setup_teardown(test_two_leaders, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
