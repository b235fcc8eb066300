/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real engine on CPU threads, or on a GPU: models of a repository in one loop, loaded and evicted while
 * others answer. What it answers is what a plan alone answers, and what it must not answer it refuses.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/fleet/plan/plan.h"
#include "src/fleet/real/real.h"
#include "src/server/wire/layout.h"
#include "tests/model/pack.h"

enum { MODELS = 4, X = 37, Y = 10, Z = 64, MAX_ROWS = 4, OUT_FLOATS = 2 * MAX_ROWS * (Y + Z) + 64 };

static bool on_gpu;
static char folder[64], models[96], kept[96];
static struct gw_exec *exec, *own_exec;
static struct gw_device *dev, *own_dev;
static struct fleet_engine *engine;
static const uint8_t me[FLEET_ID] = {1, 2, 3}, other[FLEET_ID] = {4, 5, 6};
static struct gw_layout in_layout, out_layout;

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- a thing that is waited for: the first field is what the engine has */

struct wait {
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool over;
};

static struct wait wait_new(void)
{
    return (struct wait){PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
}

static void wait_end(struct wait *w)
{
    pthread_mutex_lock(&w->lock);
    w->over = true;
    pthread_cond_signal(&w->change);
    pthread_mutex_unlock(&w->lock);
}

static void wait_for(struct wait *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->over) pthread_cond_wait(&w->change, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

struct moving {
    struct fleet_move move;
    struct wait wait;
};

static void moving_done(struct fleet_move *m)
{
    wait_end(&((struct moving *)m)->wait);
}

static void moves(uint32_t model, uint32_t kind, uint32_t outcome)
{
    struct moving m = {.move = {.done = moving_done, .kind = kind, .model = model, .latest_at = INT64_MAX},
                       .wait = wait_new()};

    engine->ops->move(engine, &m.move);
    wait_for(&m.wait);
    if (m.move.result.outcome != outcome)
        fail_msg("move %u of %u: %u, not %u: %s", kind, model, m.move.result.outcome, outcome,
                 m.move.result.why);
    assert_int_equal(m.move.result.model, model);
}

struct calling {
    struct fleet_call call;
    struct wait wait;
    float input[MAX_ROWS * (X + 16)];
};

static void calling_done(struct fleet_call *c)
{
    wait_end(&((struct calling *)c)->wait);
}

static void calling_start(struct calling *c, uint32_t lease, uint64_t key, uint32_t rows, float seed)
{
    *c = (struct calling){.call = {.done = calling_done}, .wait = wait_new()};
    for (uint32_t i = 0; i < rows * X; i++) c->input[i] = seed + (float)(i % 7) / 7;
    c->call.request = (struct fleet_request){
        .lease = lease, .rows = rows, .key = key, .id = 77, .bytes = gw_layout_bytes(&in_layout, rows)};
    memcpy(c->call.client, me, FLEET_ID);
    c->call.input = c->input;
    c->call.arrived_at = now();
}

static uint32_t calling_end(struct calling *c)
{
    engine->ops->submit(engine, &c->call);
    wait_for(&c->wait);
    assert_int_equal(c->call.answer.id, 77);
    return c->call.answer.status;
}

/* What a plan alone makes of it. */
static struct gw_model *alone_model;
static struct gw_plan *alone[MAX_ROWS + 1];

static void right(struct calling *c)
{
    static _Alignas(64) char want[OUT_FLOATS * 4];
    uint32_t rows = c->call.request.rows;
    void *out[2] = {want, want + gw_layout_offset(&out_layout, 1, rows)};
    _Alignas(64) float in[MAX_ROWS * (X + 16)];
    float *got = (float *)c->call.output, *is = (float *)want;

    memcpy(in, c->input, sizeof(in));
    memset(want, 0, sizeof(want));
    assert_int_equal(c->call.answer.bytes, gw_layout_bytes(&out_layout, rows));
    assert_int_equal(gw_plan_run(alone[rows], (const void *[]){in}, out), 0);
    for (uint32_t t = 0; t < 2; t++)
        for (uint64_t i = gw_layout_offset(&out_layout, t, rows) / 4, n = 0;
             n < gw_layout_tensor_bytes(&out_layout, t, rows) / 4; n++, i++)
            if (got[i] - is[i] > 1e-4f || is[i] - got[i] > 1e-4f)
                fail_msg("element %u: %f, not %f", (unsigned)i, (double)got[i], (double)is[i]);
}

static void answers(uint32_t lease, uint64_t key, uint32_t rows, uint32_t status)
{
    struct calling c;

    calling_start(&c, lease, key, rows, (float)rows);
    uint32_t got = calling_end(&c);
    if (got != status) fail_msg("status %u, not %u", got, status);
    if (!status) right(&c);
    if (status) assert_null(c.call.output);
    engine->ops->release(engine, &c.call);
}

static void lease(uint32_t number, uint32_t model, uint64_t key, int64_t until_at)
{
    struct fleet_lease l = {.lease = number, .model = model, .key = key, .slots = 8, .rate = 0};

    memcpy(l.client, me, FLEET_ID);
    assert_int_equal(engine->ops->lease(engine, &l, until_at), 0);
}

/* ---- what can happen ---- */

static void test_facts(void **state)
{
    struct fleet_hello_worker f;
    struct fleet_has_model m, n;
    char json[512];

    (void)state;
    engine->ops->facts(engine, &f);
    assert_int_equal(f.models, MODELS);
    assert_int_equal(f.emulated, 0);
    assert_int_equal(f.gpu_pages, 8);
    assert_int_equal(f.leases, 16);
    engine->ops->model(engine, 1, &m);
    engine->ops->model(engine, 2, &n);
    assert_string_equal(m.name, "mlp-1");
    assert_int_equal(m.version, 3);
    assert_int_equal(m.where, FLEET_HOST);
    assert_int_equal(m.max_batch, MAX_ROWS);
    assert_true(m.pages >= 1 && m.load_ns > 0 && m.disk_ns > 0);
    for (int i = 0; i < 3; i++) assert_true(m.exec_ns[i] > 0);
    assert_int_equal(m.exec_ns[3], 0);
    assert_int_equal(m.request_bytes, X * 4);
    assert_memory_equal(m.digest, n.digest, sizeof(m.digest)); /* the same file */
    assert_int_equal(engine->ops->find(engine, "mlp-2"), 2);
    assert_int_equal(engine->ops->find(engine, "mlp-20"), -ENOENT);
    assert_int_equal(engine->ops->find(engine, "broken"), -ENOENT);
    int bytes = engine->ops->describe(engine, 0, json, sizeof(json) - 1);
    assert_true(bytes > 0 && bytes < (int)sizeof(json));
    json[bytes] = '\0';
    assert_non_null(strstr(json, "\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[-1,37]"));
    assert_int_equal(engine->ops->describe(engine, 0, json, 5), bytes);
    assert_int_equal(engine->ops->describe(engine, MODELS, json, 5), -ENOENT);
    assert_int_equal(engine->ops->largest(engine), gw_layout_bytes(&in_layout, MAX_ROWS));
}

static void test_serves(void **state)
{
    (void)state;
    answers(3, 9, 1, GW_SERVE_NO_LEASE);
    lease(3, 0, 9, now() + 60000000000);
    answers(3, 9, 1, GW_SERVE_NOT_THERE);
    moves(0, FLEET_LOAD, FLEET_DONE);
    answers(3, 9, 1, GW_SERVE_OK);
    answers(3, 9, 4, GW_SERVE_OK);
    answers(3, 9, 5, GW_SERVE_BAD_REQUEST);
    answers(3, 9, 0, GW_SERVE_BAD_REQUEST);
    answers(3, 8, 1, GW_SERVE_NO_LEASE);
    answers(4, 9, 1, GW_SERVE_NO_LEASE);
    answers(16, 9, 1, GW_SERVE_NO_LEASE);
    moves(0, FLEET_EVICT, FLEET_DONE);
    answers(3, 9, 1, GW_SERVE_NOT_THERE);
    moves(0, FLEET_LOAD, FLEET_DONE);
    answers(3, 9, 1, GW_SERVE_OK);
    lease(3, 0, 0, 0);
    answers(3, 9, 1, GW_SERVE_NO_LEASE);
    moves(0, FLEET_DROP, FLEET_DONE);
    moves(MODELS, FLEET_LOAD, FLEET_NO_MODEL);
    moves(0, FLEET_GRANT, FLEET_BAD);
}

static void test_foreign(void **state)
{
    struct calling c;

    (void)state;
    lease(5, 1, 11, now() + 60000000000);
    moves(1, FLEET_LOAD, FLEET_DONE);
    calling_start(&c, 5, 11, 1, 0);
    memcpy(c.call.client, other, FLEET_ID);
    assert_int_equal(calling_end(&c), GW_SERVE_NO_LEASE);
    engine->ops->release(engine, &c.call);
    calling_start(&c, 5, 11, 1, 0);
    c.call.request.bytes--;
    assert_int_equal(calling_end(&c), GW_SERVE_BAD_REQUEST);
    engine->ops->release(engine, &c.call);
    answers(5, 11, 1, GW_SERVE_OK);
    lease(5, 1, 11, now() + 20000000); /* it ends by itself */
    usleep(60000);
    answers(5, 11, 1, GW_SERVE_NO_LEASE);
    lease(5, 1, 0, 0);
    struct fleet_lease odd = {.lease = 16, .model = 1, .key = 1, .slots = 1};
    assert_int_equal(engine->ops->lease(engine, &odd, now() + 1000000000), -EINVAL);
    odd.lease = 1;
    odd.model = MODELS;
    assert_int_equal(engine->ops->lease(engine, &odd, now() + 1000000000), -EINVAL);
    moves(1, FLEET_EVICT, FLEET_DONE);
}

/* ---- the repository ---- */

static void copy(const char *from, const char *to)
{
    char bytes[65536];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0600);
    ssize_t n = read(in, bytes, sizeof(bytes));

    if (n <= 0 || write(out, bytes, (size_t)n) != n) exit(1);
    close(in);
    close(out);
}

static void add_model(const char *name, const char *version, const char *file)
{
    char path[512], from[1024];

    snprintf(path, sizeof(path), "%s/%s", models, name);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/%s/%s", models, name, version);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/%s/%s/model.onnx", models, name, version);
    pack_path(from, sizeof(from), 0, file);
    copy(from, path);
}

/* A model of its own, which is measured: the file with a text in it. */
static void add_other(const char *name, char text)
{
    const char extra[] = {0x32, 1, text}; /* ModelProto.doc_string */
    char path[512], hidden[512];

    add_model(".hidden", "3", "mlp.onnx");
    snprintf(hidden, sizeof(hidden), "%s/.hidden", models);
    snprintf(path, sizeof(path), "%s/.hidden/3/model.onnx", models);
    int fd = open(path, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, extra, sizeof(extra)), sizeof(extra));
    close(fd);
    snprintf(path, sizeof(path), "%s/%s", models, name);
    assert_int_equal(rename(hidden, path), 0);
}

/* Two models take turns on the pages of one, while a third answers: there is always a request of it. */
struct beside {
    struct calling c;
    uint64_t n;
    bool under_way;
};

static void beside_look(struct beside *b)
{
    pthread_mutex_lock(&b->c.wait.lock);
    bool over = b->c.wait.over;
    pthread_mutex_unlock(&b->c.wait.lock);
    if (b->under_way && !over) return;
    if (b->under_way) {
        assert_int_equal(b->c.call.answer.status, GW_SERVE_OK);
        right(&b->c);
        engine->ops->release(engine, &b->c.call);
        b->n++;
    }
    calling_start(&b->c, 7, 70, 1 + b->n % MAX_ROWS, (float)(b->n % 11));
    engine->ops->submit(engine, &b->c.call);
    b->under_way = true;
}

/* As moves(), beside the other model. */
static void moves_beside(struct beside *b, uint32_t model, uint32_t kind)
{
    struct moving m = {.move = {.done = moving_done, .kind = kind, .model = model, .latest_at = INT64_MAX},
                       .wait = wait_new()};

    engine->ops->move(engine, &m.move);
    for (bool over = false; !over; usleep(50)) {
        beside_look(b);
        pthread_mutex_lock(&m.wait.lock);
        over = m.wait.over;
        pthread_mutex_unlock(&m.wait.lock);
    }
    if (m.move.result.outcome != FLEET_DONE) fail_msg("%s", m.move.result.why);
}

static void test_cycles(void **state)
{
    struct beside b = {.c = {.wait = wait_new()}};

    (void)state;
    for (uint32_t i = 0; i < 3; i++) lease(7 + i, i, 70 + i, now() + 600000000000);
    moves(0, FLEET_LOAD, FLEET_DONE);
    for (int round = 0; round < 500; round++) {
        uint32_t i = 1 + round % 2;
        moves_beside(&b, i, FLEET_LOAD);
        answers(7 + i, 70 + i, 1 + round % MAX_ROWS, GW_SERVE_OK);
        moves_beside(&b, i, round % 40 ? FLEET_EVICT : FLEET_DROP);
        answers(7 + i, 70 + i, 1, GW_SERVE_NOT_THERE);
    }
    wait_for(&b.c.wait);
    engine->ops->release(engine, &b.c.call);
    printf("measured: %llu answers of another model during 500 loads and evictions\n",
           (unsigned long long)b.n);
    assert_true(b.n > 0);
    struct fleet_telemetry t = {0};
    struct fleet_telemetry_model m[MODELS];
    uint32_t told = engine->ops->telemetry(engine, &t, m, MODELS);
    assert_true(told >= 3);
    assert_true(t.answered >= b.n + 500 && t.refused >= 500);
    assert_true(m[0].requests >= b.n && m[0].p99_ns[0] > 0);
    for (int i = 0; i < 1000 && !engine->ops->idle(engine); i++) usleep(1000);
    assert_true(engine->ops->idle(engine));
    for (uint32_t i = 0; i < 3; i++) lease(7 + i, i, 0, 0);
    moves(0, FLEET_EVICT, FLEET_DONE);
}

/* A model comes while others are served, and another version of one that is there. */
static int64_t find_soon(struct beside *b, const char *name, int64_t not_this)
{
    for (int i = 0; i < 20000000; i++) {
        beside_look(b);
        int64_t model = engine->ops->find(engine, name);
        if (model >= 0 && model != not_this) return model;
        if (i % 64 == 63) sched_yield();
    }
    fail_msg("%s is not served", name);
    return -1;
}

static void test_new(void **state)
{
    struct fleet_hello_worker f;
    struct fleet_has_model m;
    struct beside b = {.c = {.wait = wait_new()}};

    (void)state;
    lease(7, 0, 70, now() + 600000000000);
    moves(0, FLEET_LOAD, FLEET_DONE);
    add_model("late", "3", "mlp.onnx");
    int64_t late = find_soon(&b, "late", -1);
    engine->ops->facts(engine, &f);
    assert_int_equal(f.models, MODELS + 1);
    engine->ops->model(engine, (uint32_t)late, &m);
    assert_int_equal(m.where, UINT32_MAX);
    add_model("mlp-3", "4", "mlp.onnx");
    int64_t fresh = find_soon(&b, "mlp-3", 3);
    engine->ops->model(engine, (uint32_t)fresh, &m);
    assert_int_equal(m.version, 4);
    for (char c = 'a'; c < 'c'; c++) { /* they are planned and measured while others are served */
        char name[] = {'o', 't', 'h', 'e', 'r', '-', c, '\0'};
        add_other(name, c);
        find_soon(&b, name, -1);
    }
    lease(12, (uint32_t)late, 3, now() + 60000000000);
    answers(12, 3, 1, GW_SERVE_NOT_THERE);
    moves((uint32_t)late, FLEET_LOAD, FLEET_DONE);
    answers(12, 3, 3, GW_SERVE_OK);
    assert_int_equal(engine->ops->find(engine, "mlp-2"), 2);
    wait_for(&b.c.wait);
    engine->ops->release(engine, &b.c.call);
}

/* A recalled call ends, whatever way. */
static void test_recall(void **state)
{
    struct calling c;

    (void)state;
    lease(2, 3, 5, now() + 60000000000);
    moves(3, FLEET_LOAD, FLEET_DONE);
    for (int i = 0; i < 50; i++) {
        calling_start(&c, 2, 5, 1, 0);
        engine->ops->submit(engine, &c.call);
        engine->ops->recall(engine, &c.call);
        wait_for(&c.wait);
        assert_true(c.call.answer.status == GW_SERVE_OK || c.call.answer.status == GW_SERVE_RECALLED);
        engine->ops->release(engine, &c.call);
    }
    moves(3, FLEET_EVICT, FLEET_DONE);
}

/* A session that goes nowhere is refused, with a reason. */
struct opening {
    struct fleet_session session;
    struct wait wait;
};

static void opening_done(struct fleet_session *s)
{
    wait_end(&((struct opening *)s)->wait);
}

static void test_sessions(void **state)
{
    struct opening o = {.session = {.done = opening_done}, .wait = wait_new()};

    (void)state;
    memcpy(o.session.client, me, FLEET_ID);
    o.session.open = (struct fleet_open){.slots = 1, .mtu = 1000000};
    engine->ops->open(engine, &o.session);
    wait_for(&o.wait);
    assert_true(o.session.err < 0);
    assert_true(o.session.why[0]);
}

static int begin(void)
{
    struct gw_exec_opts lanes = {.lanes = 1};
    int err;

    snprintf(folder, sizeof(folder), "/tmp/gpuwire-test-real-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(models, sizeof(models), "%s/models", folder);
    snprintf(kept, sizeof(kept), "%s/kept", folder);
    mkdir(models, 0700);
    mkdir(kept, 0700);
    for (int i = 0; i < MODELS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "mlp-%d", i);
        add_model(name, "3", "mlp.onnx");
    }
    add_model("broken", "3", "refused.bin");
    err = gw_exec_create(on_gpu ? "gpu" : "cpu", on_gpu ? NULL : &lanes, &exec);
    if (!err) err = gw_exec_create("cpu", NULL, &own_exec);
    if (!err) err = gw_device_open("softnic", exec, &dev);
    if (!err) err = gw_device_open("softnic", own_exec, &own_dev);
    if (err) printf("%s\n", gw_last_error());
    return err;
}

static void says(void *ctx, const char *line)
{
    (void)ctx;
    printf("%s\n", line);
}

static int setup(void **state)
{
    (void)state;
    if (begin()) return -1;
    const struct fleet_real_opts o = {.exec = exec,
                                      .dev = dev,
                                      .own_dev = own_dev,
                                      .models = models,
                                      .folder = kept,
                                      .gpu_pages = 8,
                                      .host_pages = 16,
                                      .page = on_gpu ? 2 << 20 : 16384, /* what a GPU maps at least */
                                      .sessions = 2,
                                      .slots = 8,
                                      .calls = 16,
                                      .leases = 16,
                                      .max_models = 8,
                                      .scan_ns = 20000000,
                                      .max_batch = MAX_ROWS,
                                      .say = says};
    char path[1024];
    pack_path(path, sizeof(path), 0, "mlp.onnx");
    int err = gw_model_open(path, &alone_model, NULL, 0);
    for (uint32_t i = 1; !err && i <= MAX_ROWS; i++)
        err = gw_plan_create(alone_model, &(struct gw_plan_options){.rows = i}, &alone[i], NULL, 0);
    if (!err) err = gw_layout_of_model(alone_model, 0, MAX_ROWS, &in_layout);
    if (!err) err = gw_layout_of_model(alone_model, 1, MAX_ROWS, &out_layout);
    if (!err) err = fleet_real_create(&o, &engine);
    if (err) printf("%s\n", gw_last_error());
    return err;
}

static int teardown(void **state)
{
    char command[96];

    (void)state;
    engine->ops->stop(engine);
    engine->ops->destroy(engine);
    for (uint32_t i = 1; i <= MAX_ROWS; i++) gw_plan_free(alone[i]);
    gw_model_close(alone_model);
    gw_device_close(own_dev);
    gw_device_close(dev);
    gw_exec_destroy(own_exec);
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    return gw_exec_destroy(exec) || system(command);
}

int main(int argc, char **argv)
{
    char why[256];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),  cmocka_unit_test(test_serves),   cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_cycles), cmocka_unit_test(test_sessions), cmocka_unit_test(test_recall),
        cmocka_unit_test(test_new),
    };

    setenv("GPUWIRE_PLAN_CACHE", "off", 0); /* a test leaves no files */
    on_gpu = argc > 1 && !strcmp(argv[1], "gpu");
    if (argc > 1 && !on_gpu) {
        fprintf(stderr, "usage: test_fleet_real [gpu]\n");
        return 2;
    }
    if (on_gpu && !gw_exec_gpu_available(why, sizeof(why))) {
        printf("skipped: %s\n", why);
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
