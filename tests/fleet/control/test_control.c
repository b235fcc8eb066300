/* SPDX-License-Identifier: Apache-2.0 */
/* The controller with workers and clients of the rig: grants, renewals, recovery, and peers that lie. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <cmocka.h>

#include "src/fleet/wire/loop.h"
#include "tests/fleet/control/rig.h"

static struct fleet_control *control;
static char said[1 << 16];
static int audited;

static void say(void *ctx, const char *line)
{
    size_t n = strlen(said);
    (void)ctx;
    if (getenv("GW_TEST_SAYS")) fprintf(stderr, "%s\n", line);
    if (n + strlen(line) + 2 < sizeof(said)) sprintf(said + n, "%s\n", line);
}

static void audit(void *ctx, json_t *line)
{
    (void)ctx;
    assert_non_null(json_object_get(line, "action"));
    audited++;
}

static void open_control(uint64_t term, bool dry_run, int64_t valid_ns)
{
    static const uint8_t id[FLEET_ID] = "this controller";
    struct fleet_tuning t;
    fleet_tuning_default(&t);
    t.valid_ns = valid_ns;
    struct fleet_control_opts o = {.loop = rig_loop,
                                   .fleet = "test",
                                   .name = "c1",
                                   .id = id,
                                   .listen = rig_address[0] ? rig_address : "127.0.0.1:0",
                                   .limits = {8, 64, 256},
                                   .tuning = &t,
                                   .settle_ns = 50 * MS,
                                   .dry_run = dry_run,
                                   .say = say,
                                   .audit = audit};
    assert_int_equal(fleet_control_open(&o, &control), 0);
    snprintf(rig_address, sizeof(rig_address), "127.0.0.1:%u", fleet_control_port(control));
    if (term) fleet_control_lead(control, term);
}

static int begin(void **state)
{
    (void)state;
    said[0] = 0;
    rig_address[0] = 0;
    audited = 0;
    if (fleet_loop_create(&rig_loop)) return -1;
    open_control(7, false, 10000 * MS);
    return 0;
}

static int end(void **state)
{
    (void)state;
    fleet_control_close(control);
    fleet_loop_destroy(rig_loop);
    return 0;
}

static json_int_t table_number(const char *name)
{
    json_t *t = fleet_control_table(control);
    assert_non_null(t);
    json_int_t n = json_integer_value(json_object_get(t, name));
    json_decref(t);
    return n;
}

/* A worker w1 with that many models, and a client that has its lease of the first. */
static void lease_m0(struct rig_worker *w, uint32_t models, struct rig_client *c)
{
    rig_worker_dial(w, "w1", models);
    rig_client_dial(c, "m0", 10);
    RIG_UNTIL(c->held == 1);
}

/* ---- what works */

static void test_a_model_is_loaded_and_granted(void **state)
{
    static struct rig_worker w;
    static struct rig_client c;
    (void)state;
    rig_worker_dial(&w, "w1", 3);
    rig_client_dial(&c, "m1", 10);
    c.waiting = 1;
    RIG_UNTIL(c.held == 1);
    assert_int_equal(w.where[1], FLEET_GPU);
    assert_string_equal(c.last.worker, "w1");
    assert_string_equal(c.last.model, "m1");
    assert_memory_equal(c.last.worker_id, w.id, FLEET_ID);
    assert_true(w.lease[c.last.lease].key == c.last.key);
    assert_memory_equal(w.lease[c.last.lease].client, c.id, FLEET_ID);
    assert_int_equal(table_number("leases"), 1);
    assert_int_equal(table_number("clients"), 1);
    assert_true(audited > 2);
    struct gw_text text = {0};
    fleet_control_metrics(control, &text);
    assert_false(text.broken);
    assert_non_null(strstr(text.at, "gpuwire_fleet_leases 1\n"));
    assert_non_null(strstr(text.at, "model=\"m1\",version=\"1\""));
    free(text.at);
    /* One that goes gives its leases back. */
    fleet_conn_close(c.conn, 0, NULL);
    fleet_timer_clear(rig_loop, &c.timer);
    RIG_UNTIL(w.leases == 0);
    assert_int_equal(table_number("clients"), 0);
}

static void test_unknown_models(void **state)
{
    static struct rig_worker w;
    static struct rig_client c;
    (void)state;
    rig_worker_dial(&w, "w1", 3);
    rig_client_dial(&c, "m7", 10);
    RIG_UNTIL(c.nothing > 0);
    assert_int_equal(c.error, -ENOENT);
}

/* Models that people name: one is loaded without a client, and clients of one that no worker has wait. */
static void test_named_models(void **state)
{
    static struct rig_worker w, more;
    static struct rig_client c, other;
    struct fleet_control_wish wish[] = {{.name = "m0", .replicas = 1}, {.name = "m7"}};
    (void)state;
    assert_int_equal(fleet_control_wishes(control, wish, 2), 0);
    rig_worker_dial(&w, "w1", 3);
    RIG_UNTIL(w.where[0] == FLEET_GPU);
    assert_int_equal(w.loads, 1);
    RIG_UNTIL(strstr(said, "of the models of --models are on no worker: ") && strstr(said, "m7\n"));
    rig_client_dial(&c, "m7", 10);
    rig_client_dial(&other, "m8", 10);
    RIG_UNTIL(c.nothing && other.nothing);
    assert_int_equal(c.error, -EAGAIN);
    assert_int_equal(other.error, -ENOENT);
    json_t *t = fleet_control_models(control);
    assert_int_equal(json_array_size(json_object_get(t, "models")), 4);
    json_decref(t);
    wish[0].name[0] = '\n'; /* refused, and nothing has changed */
    assert_int_equal(fleet_control_wishes(control, wish, 2), -EINVAL);
    rig_worker_dial(&more, "w2", 8);
    RIG_UNTIL(c.held);
    t = fleet_control_table(control);
    assert_int_equal(json_array_size(json_object_get(t, "missing")), 0);
    json_decref(t);
}

/* Leases are renewed at half of their length, while their clients ask. */
static void test_renewal(void **state)
{
    static struct rig_worker w;
    static struct rig_client c;
    (void)state;
    fleet_control_close(control);
    open_control(8, false, 1200 * MS);
    lease_m0(&w, 1, &c);
    uint64_t key = c.last.key;
    uint32_t granted = c.granted;
    for (int i = 0; i < 20; i++) {
        rig_run(100);
        assert_true(w.until[c.last.lease] > fleet_clock_now());
    }
    assert_true(c.granted >= granted + 2 && c.last.key == key && c.revoked == 0);
}

/* Clients share a place by what they offer. */
static void test_shares(void **state)
{
    static struct rig_worker w;
    static struct rig_client c[3];
    (void)state;
    rig_worker_dial(&w, "w1", 1);
    for (int i = 0; i < 3; i++) rig_client_dial(&c[i], "m0", i ? 2 : 20);
    RIG_UNTIL(c[0].held && c[1].held && c[2].held);
    RIG_UNTIL(c[0].last.rate > 3 * c[1].last.rate);
    rig_run(1000);
    float sum = 0;
    for (uint32_t i = 0; i < RIG_LEASES; i++) sum += w.lease[i].key ? w.lease[i].rate : 0;
    json_t *t = fleet_control_table(control);
    const json_t *place =
        json_array_get(json_object_get(json_array_get(json_object_get(t, "models"), 0), "places"), 0);
    assert_true(sum <= 1.26 * json_real_value(json_object_get(place, "rate")));
    json_decref(t);
}

static void test_500_clients(void **state)
{
    enum { N = 500 };
    static struct rig_worker w[2];
    static struct rig_client *c;
    int with = 0;
    (void)state;
    c = calloc(N, sizeof(*c));
    assert_non_null(c);
    rig_worker_dial(&w[0], "w1", 4);
    rig_worker_dial(&w[1], "w2", 4);
    char model[8] = "m0";
    for (int i = 0; i < N; i++) {
        model[1] = (char)('0' + i % 4);
        rig_client_dial(&c[i], model, 1);
    }
    for (int turn = 0; turn < 100 && with < N; turn++) {
        rig_run(50);
        with = 0;
        for (int i = 0; i < N; i++) with += c[i].held > 0;
    }
    assert_int_equal(with, N);
    for (int i = 0; i < N; i++) fleet_timer_clear(rig_loop, &c[i].timer);
    for (int i = 0; i < N; i++) fleet_conn_close(c[i].conn, 0, NULL);
    RIG_UNTIL(table_number("clients") == 0);
    assert_int_equal(table_number("leases"), 0);
    free(c);
}

/* More is asked for than a worker can do: the slack class is shed. */
static void test_sheds(void **state)
{
    static struct rig_worker w;
    static struct rig_client tight, slack;
    (void)state;
    rig_worker_dial(&w, "w1", 1);
    rig_client_dial(&tight, "m0", 10);
    rig_client_dial(&slack, "m0", 1000);
    tight.deadline_ns = 5 * MS;
    slack.deadline_ns = 200 * MS;
    RIG_UNTIL(slack.sheds && slack.admitted < 255);
}

static void test_drain(void **state)
{
    static struct rig_worker w[2];
    static struct rig_client c;
    (void)state;
    rig_worker_dial(&w[0], "w1", 1);
    rig_client_dial(&c, "m0", 10);
    RIG_UNTIL(c.held == 1);
    rig_worker_dial(&w[1], "w2", 1);
    rig_run(300);
    assert_int_equal(fleet_control_drain(control, "w1", true), 0);
    RIG_UNTIL(w[0].leases == 0 && w[1].leases > 0);
    assert_int_equal(fleet_control_drain(control, "", true), -EINVAL);
    assert_int_equal(fleet_control_drain(control, "w1", false), 0);
}

static void test_dry_run(void **state)
{
    static struct rig_worker w;
    static struct rig_client c;
    (void)state;
    fleet_control_close(control);
    open_control(9, true, 10000 * MS);
    rig_worker_dial(&w, "w1", 2);
    rig_client_dial(&c, "m1", 10);
    RIG_UNTIL(strstr(said, "would LOAD m1 on w1"));
    rig_run(300);
    assert_int_equal(w.loads + c.held, 0);
    json_t *plan = fleet_control_plan(control);
    assert_true(json_array_size(json_object_get(plan, "actions")) > 0);
    json_decref(plan);
}

/* ---- leaders */

static void test_who_does_not_lead_sends_away(void **state)
{
    static struct rig_worker w;
    static struct rig_client c;
    (void)state;
    fleet_control_close(control);
    open_control(0, false, 10000 * MS);
    fleet_control_elsewhere(control, "10.1.2.3:7400");
    rig_worker_dial(&w, "w1", 1);
    rig_client_dial(&c, "m0", 10);
    RIG_UNTIL(!strcmp(w.leader, "10.1.2.3:7400") && !strcmp(c.leader, "10.1.2.3:7400"));
    assert_int_equal(c.welcomes, 0);
}

/* A new leader learns from the workers what is granted. It grants nothing that conflicts, and the lease goes
 * on with its key. */
static void test_a_new_leader(void **state)
{
    static struct rig_worker w;
    static struct rig_client c, other;
    (void)state;
    lease_m0(&w, 2, &c);
    uint64_t key = c.last.key;
    uint32_t number = c.last.lease, granted = c.granted;
    fleet_control_close(control);
    RIG_UNTIL(w.cut && c.cut);
    open_control(20, false, 10000 * MS);
    rig_worker_again(&w);
    rig_client_dial(&other, "m0", 10);
    RIG_UNTIL(other.held == 1);
    assert_int_equal(w.term, 20);
    assert_true(other.last.lease != number);
    assert_true(w.lease[number].key == key);
    rig_client_again(&c);
    RIG_UNTIL(c.granted > granted);
    assert_true(c.last.key == key && c.last.lease == number && c.revoked == 0);
    assert_int_equal(w.loads, 1);
}

/* The same controller leads again: its peers come again. */
/* A new leader finds in etcd where models are. Those of a worker that is not here yet are not loaded
 * elsewhere, while etcd has the worker. */
static void test_a_late_worker(void **state)
{
    static struct rig_worker w, late;
    static struct rig_client c;
    (void)state;
    fleet_control_expect(control, "w2", true);
    fleet_control_place(control, "w2", "m1", true);
    fleet_control_place(control, "w2", "m2", true);
    fleet_control_place(control, "w3", "m0", true); /* of a worker that is no more */
    rig_worker_dial(&w, "w1", 3);
    rig_client_dial(&c, "m1", 10);
    c.waiting = 1;
    RIG_UNTIL(c.welcomes);
    rig_run(500);
    assert_int_equal(w.loads, 0);
    rig_worker_dial(&late, "w2", 3);
    late.where[1] = FLEET_GPU;
    RIG_UNTIL(c.held == 1);
    assert_string_equal(c.last.worker, "w2");
    assert_int_equal(late.loads, 0);
    fleet_control_place(control, "w2", "m1", false);
    assert_int_equal(c.held, 1); /* the worker says where it is */
}

/* The same, and it does not come back. */
static void test_a_worker_that_does_not_come(void **state)
{
    static struct rig_worker w;
    static struct rig_client c;
    (void)state;
    fleet_control_expect(control, "w2", true);
    fleet_control_place(control, "w2", "m1", true);
    rig_worker_dial(&w, "w1", 3);
    rig_client_dial(&c, "m1", 10);
    c.waiting = 1;
    rig_run(200);
    assert_int_equal(w.loads, 0);
    fleet_control_expect(control, "w2", false); /* its entry in etcd has ended */
    RIG_UNTIL(c.held == 1);
}

/* What etcd has of a worker's places is made right when the worker is here. */
static char kept[256];

static void keeps(void *ctx, const char *worker, const char *model, bool on_gpu)
{
    (void)ctx;
    sprintf(kept + strlen(kept), "%s%s/%s ", on_gpu ? "+" : "-", worker, model);
}

static void test_places_are_corrected(void **state)
{
    static struct rig_worker w;
    (void)state;
    kept[0] = 0;
    fleet_control_keep(control, &(struct fleet_control_keeper){.place = keeps});
    fleet_control_place(control, "w1", "m0", true);
    fleet_control_place(control, "w1", "m1", true);
    rig_worker_dial(&w, "w1", 3);
    w.where[1] = w.where[2] = FLEET_GPU;
    RIG_UNTIL(strlen(kept) > 10);
    if (strcmp(kept, "+w1/m2 -w1/m0 ") != 0) fail_msg("%s", kept);
    fleet_control_keep(control, &(struct fleet_control_keeper){0});
}

static void test_yield(void **state)
{
    static struct rig_worker w;
    static struct rig_client c;
    (void)state;
    lease_m0(&w, 2, &c);
    fleet_control_yield(control, "the test says so");
    RIG_UNTIL(w.cut && c.cut);
    assert_int_equal(w.leases, 1); /* it goes on */
    assert_int_equal(table_number("leases"), 0);
    fleet_control_lead(control, 30);
    rig_worker_again(&w);
    rig_client_again(&c);
    RIG_UNTIL(c.welcomes == 2 && table_number("leases") == 1);
}

/* A worker that has seen a larger term refuses all: this controller knows then that it has no say there. */
static void test_two_leaders(void **state)
{
    static struct rig_worker w;
    static struct rig_client c;
    (void)state;
    rig_worker_dial(&w, "w1", 2);
    w.obeys_another = true;
    rig_client_dial(&c, "m0", 10);
    RIG_UNTIL(w.cut == 1);
    assert_non_null(strstr(w.why, "larger term"));
    assert_int_equal(c.granted, 0);
    w.where[0] = FLEET_GPU; /* the same with a LEASE */
    rig_worker_again(&w);
    RIG_UNTIL(w.cut == 2);
    assert_int_equal(c.granted, 0);
}

static void test_frozen(void **state)
{
    static struct rig_worker w;
    static struct rig_client c, other;
    (void)state;
    fleet_control_close(control);
    open_control(8, false, 1200 * MS);
    lease_m0(&w, 2, &c);
    fleet_control_freeze(control, true);
    rig_client_dial(&other, "m0", 10);
    for (int i = 0; i < 15; i++) {
        rig_run(100);
        assert_true(w.until[c.last.lease] > fleet_clock_now());
    }
    assert_int_equal(other.granted, 0);
    assert_int_equal(other.error, -EAGAIN);
    fleet_control_freeze(control, false);
    RIG_UNTIL(other.held == 1);
}

/* ---- faults and lies */

static void test_a_model_that_does_not_load(void **state)
{
    static struct rig_worker w[2];
    static struct rig_client c;
    (void)state;
    rig_worker_dial(&w[0], "w1", 1);
    w[0].fails = 1000;
    rig_client_dial(&c, "m0", 10);
    c.waiting = 1;
    RIG_UNTIL(w[0].loads > 0 && strstr(said, "LOAD of m0 failed: the rig says no"));
    rig_run(200);
    assert_true(w[0].loads < 4); /* it waits before it tries again */
    rig_worker_dial(&w[1], "w2", 1);
    RIG_UNTIL(c.held == 1);
    assert_string_equal(c.last.worker, "w2");
}

static void test_a_worker_goes(void **state)
{
    static struct rig_worker w[2];
    static struct rig_client c;
    (void)state;
    rig_worker_dial(&w[0], "w1", 1);
    rig_client_dial(&c, "m0", 10);
    RIG_UNTIL(c.held == 1);
    fleet_conn_close(w[0].conn, 0, NULL);
    rig_worker_dial(&w[1], "w2", 1);
    RIG_UNTIL(c.held == 2);
    assert_string_equal(c.last.worker, "w2");
    assert_non_null(strstr(said, "worker w1 is gone"));
}

static void test_the_same_name_again(void **state)
{
    static struct rig_worker w, twin, again;
    (void)state;
    rig_worker_dial(&w, "w1", 1);
    RIG_UNTIL(strstr(said, "worker w1 at"));
    rig_worker_dial(&twin, "w1", 1); /* another life of that name */
    RIG_UNTIL(twin.cut);
    assert_non_null(strstr(twin.why, "another worker of this name"));
    assert_int_equal(w.cut, 0);
    again = w; /* the same life on another connection */
    rig_worker_again(&again);
    RIG_UNTIL(w.cut && again.term);
    rig_run(50);
    assert_int_equal(again.cut, 0);
}

static void tell(struct rig_worker *w, const struct fleet_telemetry *t, const struct fleet_telemetry_model *m,
                 uint32_t bytes)
{
    assert_int_equal(fleet_send(w->conn, FLEET_TELEMETRY, 0, t, sizeof(*t), m, bytes, NULL), 0);
}

static void test_lies_in_telemetry(void **state)
{
    static struct rig_worker w;
    const struct fleet_telemetry good = {.answered = 10, .late = 1};
    const struct fleet_telemetry_model model = {.model = 0, .requests = 10};
    const uint32_t n = sizeof(model);
    (void)state;
    for (int lie = 0; lie < 9; lie++) {
        struct fleet_telemetry t = good;
        struct fleet_telemetry_model m = model;
        uint32_t bytes = n;
        t.models = 1;
        if (lie == 1) t.late = 0;
        if (lie == 2) t.answered = 5;
        if (lie == 3) t.seq = 1;
        if (lie == 4) t.models = UINT32_MAX;
        if (lie == 5) m.p99_ns[2] = -1;
        if (lie == 6) m.model = 1;
        if (lie == 7) m.requests = 2;
        if (lie == 8) bytes = n - 8;
        rig_worker_dial(&w, "w1", 1);
        RIG_UNTIL(w.term);
        rig_run(20);
        struct fleet_telemetry first = good;
        first.models = 1;
        tell(&w, &first, &model, n);
        rig_run(20);
        assert_int_equal(w.cut, 0);
        tell(&w, &t, &m, bytes);
        if (lie) {
            RIG_UNTIL(w.cut);
            assert_non_null(strstr(w.why, "telemetry"));
        } else {
            rig_run(50);
            assert_int_equal(w.cut, 0);
            fleet_conn_close(w.conn, 0, NULL);
            rig_run(50);
        }
    }
}

/* More pages than it has: it gets nothing new. A p99 of nearly nothing changes little. */
static void test_odd_telemetry(void **state)
{
    static struct rig_worker w;
    static struct rig_client c;
    struct fleet_telemetry t = {.models = 1};
    struct fleet_telemetry_model m = {.p99_ns = {1, 0, 0, 0, 0}};
    (void)state;
    lease_m0(&w, 2, &c);
    for (int i = 0; i < 100; i++) tell(&w, &t, &m, sizeof(m));
    rig_run(50);
    json_t *table = fleet_control_table(control);
    const json_t *model = json_array_get(json_object_get(table, "models"), 0);
    assert_true(json_integer_value(json_object_get(model, "p99_us")) >= 250);
    json_decref(table);
    t.gpu_used = 1000;
    tell(&w, &t, &m, sizeof(m));
    RIG_UNTIL(strstr(said, "worker w1 drains: it says that it uses more pages than it has"));
    assert_int_equal(w.cut, 0);
}

static void odd_worker(struct rig_worker *w, const char *name)
{
    *w = (struct rig_worker){.gpu_pages = 40, .pages = 10, .exec_ns = MS};
    strcpy(w->name, name);
    memset(w->id, 5, FLEET_ID);
    rig_worker_again(w);
}

static void test_odd_workers(void **state)
{
    static struct rig_worker w;
    (void)state;
    odd_worker(&w, ""); /* no name */
    RIG_UNTIL(w.cut);
    rig_worker_dial(&w, "w1", 5);
    for (int i = 0; i < 5; i++) w.where[i] = FLEET_GPU; /* 50 pages of 40 */
    RIG_UNTIL(w.cut);
    assert_non_null(strstr(w.why, "more pages"));
    rig_worker_dial(&w, "w1", 2);
    w.where[1] = 77;
    RIG_UNTIL(w.cut);
    rig_worker_dial(&w, "w1", 2);
    w.exec_ns = -5; /* its models are left out */
    RIG_UNTIL(strstr(said, "model 1 is left out"));
    RIG_UNTIL(w.conn && w.term);
    struct fleet_result r = {.outcome = 99, .model = 1234567};
    for (uint64_t i = 0; i < 100; i++) fleet_send(w.conn, FLEET_RESULT, i + 1, &r, sizeof(r), NULL, 0, NULL);
    rig_run(50);
    assert_int_equal(w.cut, 0); /* answers to nothing */
    fleet_send(w.conn, FLEET_DEMAND, 0, NULL, 0, NULL, 0, NULL);
    RIG_UNTIL(w.cut);
}

/* Leases that cannot be: they end, and nothing else does. */
static void test_odd_leases_are_held(void **state)
{
    static struct rig_worker w;
    static struct rig_client c;
    (void)state;
    rig_worker_dial(&w, "w1", 2);
    w.where[0] = FLEET_GPU;
    for (uint32_t i = 0; i < 4; i++) {
        w.lease[i] = (struct fleet_lease){
            .lease = i, .model = i % 2, .key = 9 + i, .slots = 4, .rate = 5, .left_ns = 1};
        memset(w.lease[i].client, 3, FLEET_ID);
        w.until[i] = fleet_clock_now() + 5000 * MS;
    }
    w.lease[2].slots = 0;
    rig_client_dial(&c, "m0", 10);
    RIG_UNTIL(c.held == 1);
    assert_int_equal(w.lease[0].key, 9);
    for (uint64_t i = 1; i < 4; i++) assert_true(w.lease[i].key != 9 + i);
}

static void test_odd_clients(void **state)
{
    static struct rig_worker w;
    static struct rig_client c;
    struct fleet_demand_message d = {.model = "m0", .since_ns = 1, .offered = 5};
    (void)state;
    rig_worker_dial(&w, "w1", 1);
    for (int odd = 0; odd < 5; odd++) {
        struct fleet_demand_message bad = d;
        if (odd == 0) bad.since_ns = -1;
        if (odd == 1) memset(bad.model, 'x', sizeof(bad.model));
        if (odd == 2) strcpy(bad.model, "m\x1b[2J");
        if (odd == 3) bad.offered = UINT64_MAX;
        rig_client_dial(&c, "m0", 10);
        c.quiet = true;
        RIG_UNTIL(c.welcomes);
        assert_int_equal(fleet_send(c.conn, FLEET_DEMAND, 0, &bad, odd == 4 ? 9 : sizeof(bad), NULL, 0, NULL),
                         0);
        RIG_UNTIL(c.cut);
    }
}

/* One client's flood does not keep another one from its lease. */
static void test_a_flood_of_demand(void **state)
{
    static struct rig_worker w;
    static struct rig_client flood, c;
    struct fleet_demand_message d = {.since_ns = 1};
    (void)state;
    rig_worker_dial(&w, "w1", 2);
    rig_client_dial(&flood, "m0", 10);
    RIG_UNTIL(flood.welcomes);
    rig_client_dial(&c, "m1", 10);
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < 500 && flood.conn; k++) {
            snprintf(d.model, sizeof(d.model), "m%d", k % 3 ? k : 0);
            d.offered = (uint64_t)k * 1000000;
            fleet_send(flood.conn, FLEET_DEMAND, 0, &d, sizeof(d), NULL, 0, NULL);
        }
        rig_run(2);
    }
    RIG_UNTIL(c.held == 1);
    assert_int_equal(c.cut, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_model_is_loaded_and_granted),
        TEST(test_unknown_models),
        TEST(test_named_models),
        TEST(test_renewal),
        TEST(test_shares),
        TEST(test_500_clients),
        TEST(test_sheds),
        TEST(test_drain),
        TEST(test_dry_run),
        TEST(test_who_does_not_lead_sends_away),
        TEST(test_a_new_leader),
        TEST(test_a_late_worker),
        TEST(test_a_worker_that_does_not_come),
        TEST(test_places_are_corrected),
        TEST(test_yield),
        TEST(test_two_leaders),
        TEST(test_frozen),
        TEST(test_a_model_that_does_not_load),
        TEST(test_a_worker_goes),
        TEST(test_the_same_name_again),
        TEST(test_lies_in_telemetry),
        TEST(test_odd_telemetry),
        TEST(test_odd_workers),
        TEST(test_odd_leases_are_held),
        TEST(test_odd_clients),
        TEST(test_a_flood_of_demand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
