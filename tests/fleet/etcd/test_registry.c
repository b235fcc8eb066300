/* SPDX-License-Identifier: Apache-2.0 */
/* The registry against a real etcd: what controllers write and see, workers' entries, entries that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/fleet/plan/plan.h"
#include "src/fleet/registry/entry.h"
#include "src/fleet/registry/registry.h"
#include "tests/fleet/etcd/rig.h"

enum { PATIENCE_MS = 30000, PLACES = 10000 };

static struct rig rig;

/* ---- one who listens */

struct ear {
    struct fleet_registry *registry;
    int workers, models, places, drains; /* that are there */
    int synced, leads, lost, troubles, ups, downs, registered;
    bool has_leader, is_registered, resigns;
    uint64_t term;
    struct fleet_registry_leader leader;
    struct fleet_registry_worker worker;
    struct fleet_registry_model model;
    struct fleet_registry_place place;
    struct fleet_registry_drain drain;
    char line[512];
};

static void ear_state(void *ctx, bool up, const char *line)
{
    struct ear *e = ctx;
    e->ups += up;
    e->downs += !up;
    snprintf(e->line, sizeof(e->line), "%s", line);
}
static void ear_trouble(void *ctx, const char *line)
{
    struct ear *e = ctx;
    e->troubles++;
    snprintf(e->line, sizeof(e->line), "%s", line);
}
static void ear_worker(void *ctx, const struct fleet_registry_worker *w, bool gone)
{
    struct ear *e = ctx;
    bool is_same = !gone && !strcmp(e->worker.name, w->name);
    e->workers += gone ? -1 : !is_same;
    e->worker = gone ? (struct fleet_registry_worker){0} : *w;
}
static void ear_model(void *ctx, const struct fleet_registry_model *m, bool gone)
{
    struct ear *e = ctx;
    e->models += gone ? -1 : 1;
    e->model = *m;
}
static void ear_place(void *ctx, const struct fleet_registry_place *p, bool gone)
{
    struct ear *e = ctx;
    e->places += gone ? -1 : 1;
    e->place = *p;
}
static void ear_drain(void *ctx, const struct fleet_registry_drain *d, bool gone)
{
    struct ear *e = ctx;
    e->drains += gone ? -1 : 1;
    e->drain = *d;
}
static void ear_synced(void *ctx)
{
    ((struct ear *)ctx)->synced++;
}
static void ear_leader(void *ctx, const struct fleet_registry_leader *l)
{
    struct ear *e = ctx;
    e->has_leader = l != NULL;
    if (l) e->leader = *l;
}
static void ear_leads(void *ctx, uint64_t term)
{
    struct ear *e = ctx;
    e->leads++;
    e->term = term;
    if (e->resigns) fleet_registry_resign(e->registry);
}
static void ear_lost(void *ctx, uint64_t term, const char *why)
{
    struct ear *e = ctx;
    assert_int_equal(term, e->term);
    assert_true(*why);
    e->lost++;
}
static void ear_registered(void *ctx, bool is)
{
    struct ear *e = ctx;
    e->is_registered = is;
    e->registered += is;
}

static const struct fleet_registry_handler all = {ear_state, ear_trouble, ear_worker,    ear_model,
                                                  ear_place, ear_drain,   ear_synced,    ear_leader,
                                                  ear_leads, ear_lost,    ear_registered};
static const struct fleet_registry_handler of_worker = {
    .state = ear_state, .trouble = ear_trouble, .leader = ear_leader, .registered = ear_registered};

static void ear_open(struct ear *e, const struct fleet_registry_handler *h, const char *fleet)
{
    const struct fleet_registry_opts opts = {.etcd = rig.urls, .fleet = fleet, .worker_ttl_s = 2};
    *e = (struct ear){0};
    assert_int_equal(fleet_registry_open(rig.loop, &opts, h, e, &e->registry), 0);
}

static void ear_close(struct ear *e)
{
    fleet_registry_close(e->registry);
}

static void lead(struct ear *e, const char *name)
{
    struct fleet_registry_leader me = {.id = {1, 2, 3}};
    snprintf(me.name, sizeof(me.name), "%s", name);
    snprintf(me.address, sizeof(me.address), "127.0.0.1:7000");
    assert_int_equal(fleet_registry_campaign(e->registry, &me), 0);
}

#define UNTIL(name, condition)                                                                               \
    static bool name(void *ctx)                                                                              \
    {                                                                                                        \
        const struct ear *e = ctx;                                                                           \
        return condition;                                                                                    \
    }
UNTIL(ear_is_synced, e->synced > 0)
UNTIL(ear_is_synced_again, e->synced > 1)
UNTIL(ear_leads_now, e->leads > 0)
UNTIL(ear_sees_leader, e->has_leader)
UNTIL(ear_sees_none, !e->has_leader)
UNTIL(ear_sees_one_each, e->models == 1 && e->places == 1 && e->drains == 1)
UNTIL(ear_sees_nothing, !e->models && !e->places && !e->drains && !e->workers)
UNTIL(ear_is_there, e->is_registered)
UNTIL(ear_is_there_again, e->registered > 1 && e->is_registered)
UNTIL(ear_sees_worker, e->workers == 1)
UNTIL(ear_sees_no_worker, e->workers == 0)
UNTIL(ear_has_trouble, e->troubles > 0)
UNTIL(ear_sees_all_places, e->places == PLACES)
UNTIL(ear_is_down, e->downs > 0)
UNTIL(ear_was_up_twice, e->ups > 1)
#define WAIT(e, f) assert_true(rig_until(&rig, f, e, PATIENCE_MS))

struct tally {
    int n, failed, last;
};
static void tally(void *ctx, int err)
{
    struct tally *t = ctx;
    t->n++;
    t->failed += err != 0;
    t->last = err;
}

static void compact_all(void)
{
    char out[4096], compact[64];
    assert_int_equal(rig_ctl(&rig, "get x -w fields", out, sizeof(out)), 0);
    const char *at = strstr(out, "\"Revision\" : ");
    assert_non_null(at);
    snprintf(compact, sizeof(compact), "compact %lld", atoll(at + 13));
    assert_int_equal(rig_ctl(&rig, compact, out, sizeof(out)), 0);
}

/* ---- controllers */

static const struct fleet_registry_model model = {.name = "résnet/50 %\"",
                                                  .version = 3,
                                                  .pages = 7,
                                                  .min_replicas = 1,
                                                  .max_batch = 16,
                                                  .request_bytes = 602112,
                                                  .answer_bytes = 4000,
                                                  .digest = {0xde, 0xad}};
static const struct fleet_registry_place place = {
    .worker = "gpu 1/a", .model = "résnet/50 %\"", .where = FLEET_GPU};
static const struct fleet_registry_drain drain = {.worker = "gpu 1/a", .why = "its fan is \"broken\""};

static void test_leader(void **state)
{
    (void)state;
    struct ear a, b, w;
    struct tally t = {0};
    ear_open(&a, &all, NULL);
    assert_int_equal(fleet_registry_put_model(a.registry, &model, tally, &t), -EPERM);
    lead(&a, "one");
    WAIT(&a, ear_leads_now);
    WAIT(&a, ear_sees_leader);
    assert_int_equal(a.leader.term, a.term);
    assert_int_equal(fleet_registry_term(a.registry), a.term);
    assert_string_equal(a.leader.name, "one");
    ear_open(&b, &all, NULL);
    lead(&b, "two");
    assert_int_equal(fleet_registry_put_model(a.registry, &model, tally, &t), 0);
    assert_int_equal(fleet_registry_put_place(a.registry, &place, tally, &t), 0);
    assert_int_equal(fleet_registry_put_drain(a.registry, &drain, tally, &t), 0);
    WAIT(&a, ear_sees_one_each);
    WAIT(&b, ear_sees_one_each);
    assert_memory_equal(&b.model, &model, sizeof(model));
    assert_memory_equal(&b.place, &place, sizeof(place));
    assert_memory_equal(&b.drain, &drain, sizeof(drain));
    assert_int_equal(fleet_registry_put_place(b.registry, &place, tally, &t), -EPERM);
    /* Names that are none. */
    struct fleet_registry_model bad = model;
    snprintf(bad.name, sizeof(bad.name), "a\nb");
    assert_int_equal(fleet_registry_put_model(a.registry, &bad, tally, &t), -EINVAL);
    *bad.name = 0;
    assert_int_equal(fleet_registry_put_model(a.registry, &bad, tally, &t), -EINVAL);
    /* One who only wants to know who leads. */
    ear_open(&w, &of_worker, NULL);
    WAIT(&w, ear_sees_leader);
    /* Given up, another leads at once, and all is still there. */
    uint64_t began = gw_deadline(0), term = a.term;
    ear_close(&a);
    WAIT(&b, ear_leads_now);
    print_message("the next one leads after %.0f ms\n", (double)(gw_deadline(0) - began) / 1e6);
    assert_true(gw_deadline(0) - began < 1500000000);
    assert_true(b.term > term);
    assert_int_equal(fleet_registry_drop_model(b.registry, model.name, tally, &t), 0);
    assert_int_equal(fleet_registry_drop_place(b.registry, place.worker, place.model, tally, &t), 0);
    assert_int_equal(fleet_registry_drop_drain(b.registry, drain.worker, tally, &t), 0);
    WAIT(&b, ear_sees_nothing);
    assert_int_equal(t.n, 6);
    assert_int_equal(t.failed, 0);
    fleet_registry_resign(b.registry);
    assert_int_equal(fleet_registry_term(b.registry), 0);
    WAIT(&w, ear_sees_none);
    ear_close(&b);
    ear_close(&w);
}

static void test_resign(void **state)
{
    (void)state;
    struct ear a;
    ear_open(&a, &all, "r");
    a.resigns = true;
    lead(&a, "one");
    WAIT(&a, ear_leads_now);
    rig_run(&rig, 300);
    assert_int_equal(a.leads, 1);
    assert_int_equal(a.lost, 0);
    assert_false(a.has_leader);
    a.resigns = false;
    a.leads = 0;
    lead(&a, "one");
    assert_int_equal(fleet_registry_campaign(a.registry, &(struct fleet_registry_leader){0}), -EALREADY);
    WAIT(&a, ear_leads_now);
    ear_close(&a);
}

/* An old leader, which does not know it. Its key is deleted behind its back. */
static void test_stale(void **state)
{
    (void)state;
    struct ear a;
    struct tally t = {0};
    ear_open(&a, &all, "s");
    lead(&a, "one");
    WAIT(&a, ear_leads_now);
    assert_int_equal(rig_ctl(&rig, "del gpuwire/s/leader", NULL, 0), 0);
    /* The loop has not run since. */
    assert_int_equal(fleet_registry_put_model(a.registry, &model, tally, &t), 0);
    for (int i = 0; i < 200 && !t.n; i++) rig_run(&rig, 10);
    assert_int_equal(t.last, -ESTALE);
    assert_int_equal(a.models, 0);
    assert_true(rig_until(&rig, ear_leads_now, &a, PATIENCE_MS));
    for (int i = 0; i < 200 && a.leads < 2; i++) rig_run(&rig, 10);
    assert_int_equal(a.leads, 2);
    assert_int_equal(a.lost, 1);
    ear_close(&a);
}

static void test_many(void **state)
{
    (void)state;
    struct ear a, b;
    struct tally t = {0};
    ear_open(&a, &all, "many");
    lead(&a, "one");
    WAIT(&a, ear_leads_now);
    uint64_t began = gw_deadline(0);
    for (int i = 0; i < PLACES; i++) {
        struct fleet_registry_place p = {.where = FLEET_GPU};
        snprintf(p.worker, sizeof(p.worker), "w%d", i % 100);
        snprintf(p.model, sizeof(p.model), "m%d", i);
        assert_int_equal(fleet_registry_put_place(a.registry, &p, tally, &t), 0);
    }
    WAIT(&a, ear_sees_all_places);
    print_message("%d places written in %.0f ms\n", PLACES, (double)(gw_deadline(0) - began) / 1e6);
    began = gw_deadline(0);
    ear_open(&b, &all, "many");
    WAIT(&b, ear_is_synced);
    print_message("%d places read in %.0f ms\n", PLACES, (double)(gw_deadline(0) - began) / 1e6);
    assert_int_equal(b.places, PLACES);
    assert_int_equal(t.failed, 0);

    /* What goes while no registry is connected, and is compacted away, is told when all is read again. */
    char out[4096];
    rig_kill(&rig, 0);
    assert_int_equal(rig_start(&rig, 0), 0);
    for (int i = 0; i < 400 && rig_ctl(&rig, "del --prefix gpuwire/many/places/", out, sizeof(out)); i++)
        usleep(50000);
    assert_int_equal(rig_ctl(&rig, "put x y", out, sizeof(out)), 0);
    compact_all();
    WAIT(&b, ear_is_synced_again);
    assert_int_equal(b.places, 0);
    ear_close(&b);
    ear_close(&a);
}

/* ---- workers */

static const struct fleet_registry_worker worker = {.id = {7},
                                                    .name = "gpu 1/ä",
                                                    .address = "[::1]:9000",
                                                    .gpu_pages = 5000,
                                                    .host_pages = 10000,
                                                    .slots = 4096,
                                                    .emulated = true};

static void test_worker(void **state)
{
    (void)state;
    struct ear c, w, other;
    struct fleet_registry_worker second = worker;
    ear_open(&c, &all, NULL);
    ear_open(&w, &of_worker, NULL);
    assert_int_equal(fleet_registry_register(w.registry, &worker), 0);
    WAIT(&w, ear_is_there);
    WAIT(&c, ear_sees_worker);
    assert_memory_equal(&c.worker, &worker, sizeof(worker));
    /* Changed. */
    second.slots = 5;
    assert_int_equal(fleet_registry_register(w.registry, &second), 0);
    for (int i = 0; i < 500 && c.worker.slots != 5; i++) rig_run(&rig, 10);
    assert_int_equal(c.worker.slots, 5);
    /* Deleted by hand, it is put again. */
    w.registered = 1;
    assert_int_equal(rig_ctl(&rig, "del --prefix gpuwire/default/workers/", NULL, 0), 0);
    WAIT(&w, ear_is_there_again);
    /* Its lease is taken away. */
    char out[4096], revoke[64];
    assert_int_equal(rig_ctl(&rig, "lease list", out, sizeof(out)), 0);
    w.registered = 1;
    for (char *id = strtok(out, "\n"); id; id = strtok(NULL, "\n")) {
        if (strspn(id, "0123456789abcdef") != strlen(id)) continue;
        snprintf(revoke, sizeof(revoke), "lease revoke %s", id);
        char said[512];
        rig_ctl(&rig, revoke, said, sizeof(said));
    }
    WAIT(&w, ear_is_there_again);
    WAIT(&c, ear_sees_worker);
    /* Another life of the same name waits until this one is gone. */
    second = worker;
    second.id[0] = 8;
    ear_open(&other, &of_worker, NULL);
    assert_int_equal(fleet_registry_register(other.registry, &second), 0);
    WAIT(&other, ear_has_trouble);
    assert_non_null(strstr(other.line, "another worker is registered as gpu 1/ä"));
    assert_false(other.is_registered);
    fleet_registry_unregister(w.registry);
    WAIT(&other, ear_is_there);
    for (int i = 0; i < 500 && c.worker.id[0] != 8; i++) rig_run(&rig, 10);
    assert_int_equal(c.worker.id[0], 8);
    assert_int_equal(other.troubles, 1);
    ear_close(&other);
    WAIT(&c, ear_sees_no_worker);
    ear_close(&w);
    ear_close(&c);
}

/* etcd is away for longer than leases last. */
static void test_away(void **state)
{
    (void)state;
    struct ear c, w;
    ear_open(&c, &all, "away");
    ear_open(&w, &of_worker, "away");
    assert_int_equal(fleet_registry_register(w.registry, &worker), 0);
    lead(&c, "one");
    WAIT(&w, ear_is_there);
    WAIT(&c, ear_leads_now);
    WAIT(&c, ear_sees_worker);
    rig_kill(&rig, 0);
    WAIT(&c, ear_is_down);
    print_message("  %s\n", c.line);
    rig_run(&rig, 1500);
    assert_int_equal(c.lost, 1);
    assert_int_equal(fleet_registry_term(c.registry), 0);
    assert_false(fleet_registry_is_up(c.registry));
    assert_int_equal(fleet_registry_put_model(c.registry, &model, NULL, NULL), -EPERM);
    assert_int_equal(c.downs, 1);
    c.leads = 0;
    assert_int_equal(rig_start(&rig, 0), 0);
    WAIT(&c, ear_leads_now);
    WAIT(&c, ear_was_up_twice);
    WAIT(&w, ear_was_up_twice);
    rig_run(&rig, 600);
    assert_true(w.is_registered);
    assert_int_equal(c.workers, 1);
    ear_close(&w);
    ear_close(&c);
}

/* etcd's quota is used up: it gives no leases, and says so; mended, all resumes. */
static void test_full(void **state)
{
    (void)state;
    struct rig mine = rig, full = {.more = {"--quota-backend-bytes", "100000"}};
    struct ear w, c;
    char out[512];
    assert_int_equal(rig_open(&full, 1), 0);
    for (int i = 0; i < 40; i++) {
        char command[128];
        snprintf(command, sizeof(command), "put big$(seq -s a %d %d | cut -c -50000) x", i, i + 10000);
        rig_ctl(&full, command, out, sizeof(out));
        if (strstr(out, "space")) break;
    }
    assert_non_null(strstr(out, "space"));
    rig = full;
    ear_open(&w, &of_worker, "full");
    ear_open(&c, &all, "full");
    assert_int_equal(fleet_registry_register(w.registry, &worker), 0);
    lead(&c, "one");
    WAIT(&w, ear_has_trouble);
    WAIT(&c, ear_has_trouble);
    assert_non_null(strstr(w.line, "worker gpu 1/ä is not registered"));
    assert_non_null(strstr(w.line, "space exceeded"));
    assert_non_null(strstr(c.line, "this controller cannot lead"));
    rig_run(&rig, 1500);
    assert_int_equal(w.troubles + c.troubles, 2);
    /* As etcd's manual says: make room, then take the alarm away. */
    assert_int_equal(rig_ctl(&rig, "del big --prefix", NULL, 0), 0);
    compact_all();
    assert_int_equal(rig_ctl(&rig, "defrag", NULL, 0), 0);
    assert_int_equal(rig_ctl(&rig, "alarm disarm", NULL, 0), 0);
    WAIT(&w, ear_is_there);
    WAIT(&c, ear_leads_now);
    ear_close(&w);
    ear_close(&c);
    full = rig;
    rig = mine;
    rig_close(&full);
}

/* ---- entries that lie */

static void test_bad_entries(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "workers/x '{{'",
        "workers/x '[]'",
        "workers/x '{\"id\":\"00\",\"address\":\"a\"}'",
        "workers/x '{\"id\":\"07000000000000000000000000000000\",\"address\":\"a\\u0007\"}'",
        "workers/x '{\"id\":\"07000000000000000000000000000000\",\"address\":\"a:1\",\"slots\":-1}'",
        "workers/x '{\"id\":\"07000000000000000000000000000000\",\"address\":\"a:1\",\"slots\":1e3}'",
        "workers/a%2Fb/c '{}'",
        "workers/%41 '{}'",
        "workers/%0a '{}'",
        "workers/%ZZ '{}'",
        "places/nomodel '{\"where\":\"gpu\"}'",
        "places/a/b '{\"where\":\"moon\"}'",
        "models/m '{\"digest\":\"zz\"}'",
        "leader '{\"id\":7}'",
        "drain/d '{\"why\":{}}'",
    };
    struct ear c;
    char command[256];
    ear_open(&c, &all, "bad");
    WAIT(&c, ear_is_synced);
    int n = sizeof(bad) / sizeof(bad[0]);
    for (int i = 0; i < n; i++) {
        snprintf(command, sizeof(command), "put -- gpuwire/bad/%s", bad[i]);
        assert_int_equal(rig_ctl(&rig, command, NULL, 0), 0);
    }
    for (int i = 0; i < 500 && c.troubles < n; i++) rig_run(&rig, 10);
    assert_int_equal(c.troubles, n);
    assert_int_equal(c.workers + c.models + c.places + c.drains, 0);
    assert_false(c.has_leader);
    /* What a later version may put is no trouble; a candidate waits for a leader that is none. */
    assert_int_equal(rig_ctl(&rig, "put -- gpuwire/bad/later/x y", NULL, 0), 0);
    rig_run(&rig, 200);
    assert_int_equal(c.troubles, n);
    ear_close(&c);
}

/* Any bytes: nothing is read that is not there. */
static void test_any_bytes(void **state)
{
    (void)state;
    static const char good[] =
        "{\"id\":\"07000000000000000000000000000000\",\"address\":\"a:1\",\"name\":\"n\","
        "\"slots\":5,\"where\":\"gpu\",\"digest\":\"00\",\"why\":\"w\"}";
    uint32_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        size_t n = sizeof(good) - 1;
        char *text = malloc(n);
        memcpy(text, good, n);
        for (int k = 0; k < 3; k++) {
            seed = seed * 1664525 + 1013904223;
            text[(seed >> 8) % n] = (char)(seed >> 24);
        }
        seed = seed * 1664525 + 1013904223;
        struct fleet_etcd_bytes value = {text, i % 4 ? n : (seed >> 8) % n};
        struct fleet_registry_leader l;
        struct fleet_registry_worker w;
        struct fleet_registry_model m;
        struct fleet_registry_place p;
        struct fleet_registry_drain d;
        struct fleet_entry_name name;
        if (!fleet_entry_get_worker(value, &w)) assert_true(fleet_text_ok(w.address, sizeof(w.address)));
        if (!fleet_entry_get_leader(value, &l)) assert_true(fleet_text_ok(l.name, sizeof(l.name)));
        fleet_entry_get_model(value, &m);
        fleet_entry_get_place(value, &p);
        fleet_entry_get_drain(value, &d);
        fleet_entry_parse_key("", value, &name);
        free(text);
    }
}

static void test_options(void **state)
{
    (void)state;
    struct fleet_registry *r = NULL;
    static const struct fleet_registry_opts bad[] = {
        {.etcd = "localhost"}, {.fleet = ""}, {.fleet = "a\tb"}, {.leader_ttl_s = 100000}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(fleet_registry_open(rig.loop, &bad[i], &all, NULL, &r), -EINVAL);
        assert_null(r);
    }
    fleet_registry_close(NULL);
}

static int set_up(void **state)
{
    (void)state;
    return rig_open(&rig, 1);
}

static int tear_down(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_options),     cmocka_unit_test(test_any_bytes),
                                       cmocka_unit_test(test_leader),      cmocka_unit_test(test_resign),
                                       cmocka_unit_test(test_stale),       cmocka_unit_test(test_worker),
                                       cmocka_unit_test(test_away),        cmocka_unit_test(test_full),
                                       cmocka_unit_test(test_bad_entries), cmocka_unit_test(test_many)};
    if (!rig_has_etcd()) return 77;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
