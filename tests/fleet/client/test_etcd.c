/* SPDX-License-Identifier: Apache-2.0 */
/* A client finds the leader in a real etcd, follows a new one, and goes on while etcd is away. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "src/fleet/registry/registry.h"
#include "tests/fleet/client/asker.h"
#include "tests/fleet/client/fake.h"
#include "tests/fleet/etcd/rig.h"

#define PATIENT (20000 * MS)

static struct fake f;
static struct rig rig;

static bool is_answered(void *ctx)
{
    return ((struct asked *)ctx)->times > 0;
}

/* The registries of this test run while the request is under way. */
static int ask(struct fleet_client_model *m, struct asked *a)
{
    int err = asker_send(m, PATIENT, a);
    if (!err && !rig_until(&rig, is_answered, a, 25000)) return 1;
    return err ? err : asker_wait(a);
}

static struct fleet_registry *lead(int controller)
{
    static const struct fleet_registry_handler nothing;
    const struct fleet_registry_opts opts = {.etcd = rig.urls};
    struct fleet_registry_leader me = {.id = {1}};
    struct fleet_registry *r;
    snprintf(me.name, sizeof me.name, "c%d", controller);
    memcpy(me.address, f.controller[controller].address, sizeof me.address);
    assert_int_equal(fleet_registry_open(rig.loop, &opts, &nothing, NULL, &r), 0);
    assert_int_equal(fleet_registry_campaign(r, &me), 0);
    return r;
}

static void test_follows_the_leader(void **state)
{
    struct fleet_client *c;
    struct fleet_client_model *m;
    struct fleet_client_stats s;
    struct asked a;
    (void)state;
    const struct fleet_client_opts opts = {.etcd = rig.urls};
    assert_int_equal(fleet_client_open(&opts, &c), 0); /* before anyone leads */
    assert_int_equal(fleet_client_model(c, "resnet", 0, &m), 0);
    for (int64_t end = asker_now() + PATIENT; asker_now() < end; asker_sleep(20 * MS)) {
        fleet_client_stats(c, &s);
        if (s.trouble[0]) break;
    }
    assert_non_null(strstr(s.trouble, "knows no leader of the fleet default"));
    struct fleet_registry *one = lead(0), *two = lead(1);
    assert_int_equal(ask(m, &a), 0);
    fleet_client_stats(c, &s);
    int first = strcmp(s.controller, f.controller[0].address) ? 1 : 0;
    assert_string_equal(s.controller, f.controller[first].address);
    assert_string_equal(s.trouble, "");

    f.controller[first].mood = FAKE_SILENT; /* it leads no more, and the other one does */
    fleet_registry_close(first ? two : one);
    for (int i = 0; i < 400; i++) {
        assert_int_equal(ask(m, &a), 0);
        fleet_client_stats(c, &s);
        if (!strcmp(s.controller, f.controller[!first].address)) break;
        rig_run(&rig, 20);
    }
    assert_string_equal(s.controller, f.controller[!first].address);

    rig_kill(&rig, 0); /* what was granted goes on, and so does the leader that is known */
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ask(m, &a), 0);
        rig_run(&rig, 20);
    }
    fleet_client_close(c);
    fleet_registry_close(first ? one : two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_follows_the_leader)};
    if (!rig_has_etcd()) return 77;
    if (rig_open(&rig, 1)) return 1;
    fake_begin(&f);
    fake_grant(&f, 0, 8, 1e6f);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fake_end(&f);
    rig_close(&rig);
    return failed;
}
