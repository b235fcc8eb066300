/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights in pages, on CPU threads: what models answer does not depend on which pages their weights lie in,
 * nor on how often they were away. And what cannot be moved is refused with a reason.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/fleet/pages/pages.h"
#include "src/fleet/plan/plan.h"
#include "tests/model/pack.h"
#include "tests/rnd.h"

enum { PAGE = 16384 };

static struct gw_exec *exec;
static char folder[64];
static struct pack goldens;

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- moves that are waited for ---- */

struct waited {
    struct fleet_pages_move move;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool over;
};

static void waited_done(struct fleet_pages_move *m)
{
    struct waited *w = m->ctx;

    pthread_mutex_lock(&w->lock);
    w->over = true;
    pthread_cond_signal(&w->change);
    pthread_mutex_unlock(&w->lock);
}

static void waited_start(struct waited *w, struct fleet_weights *weights, enum fleet_weights_move kind)
{
    *w = (struct waited){
        .move = {.done = waited_done, .kind = kind, .latest_at = INT64_MAX, .ctx = w},
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .change = PTHREAD_COND_INITIALIZER,
    };
    fleet_weights_move(weights, &w->move);
}

static struct fleet_result waited_end(struct waited *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->over) pthread_cond_wait(&w->change, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return w->move.result;
}

static struct fleet_result move(struct fleet_weights *weights, enum fleet_weights_move kind)
{
    struct waited w;

    waited_start(&w, weights, kind);
    return waited_end(&w);
}

static void moves(struct fleet_weights *w, enum fleet_weights_move kind, uint32_t outcome, uint32_t where)
{
    struct fleet_result r = move(w, kind);

    if (r.outcome != outcome || r.where != where)
        fail_msg("move %d: outcome %u at %u, not %u at %u: %s", kind, r.outcome, r.where, outcome, where,
                 r.why);
    assert_true(r.outcome == FLEET_DONE ? !r.why[0] : r.why[0]);
    assert_true(r.began_at && r.ended_at >= r.began_at);
    assert_int_equal(fleet_weights_where(w), where);
}

/* ---- models whose weights are in pages ---- */

struct model {
    struct gw_model *model;
    struct gw_plan *plan[2]; /* for one row, and for `rows` */
    uint32_t rows;
    struct gw_weights *shared;
    struct fleet_weights *weights;
};

/* "mlp.onnx", which takes batches, or a network of convolutions, which does not. */
static void model_read(struct model *m, const char *name)
{
    char path[1024], text[128], why[GW_MODEL_ERR] = "";
    size_t len;
    int err;

    pack_path(path, sizeof(path), 0, name);
    goldens.at = 0;
    if (!access(path, R_OK)) {
        err = gw_model_open(path, &m->model, why, sizeof(why));
    } else {
        for (pack_text(&goldens, text, sizeof(text)); strcmp(text, name);
             pack_text(&goldens, text, sizeof(text))) {
            pack_blob(&goldens, &len);
            pack_skip_tensors(&goldens);
        }
        const void *bytes = pack_blob(&goldens, &len);
        err = gw_model_open_bytes(bytes, len, name, &m->model, why, sizeof(why));
    }
    if (err) fail_msg("%s", why);
}

static void model_open(struct model *m, struct fleet_pages *pages, const char *name)
{
    char why[GW_MODEL_ERR] = "";
    struct gw_plan_options o = {0};

    memset(m, 0, sizeof(*m));
    model_read(m, name);
    m->rows = gw_model_input(m->model, 0)->batched ? 4 : 1;
    assert_int_equal(fleet_weights_create(pages, name, m, &m->weights), 0);
    assert_int_equal(gw_weights_create(fleet_weights_range(m->weights), &m->shared), 0);
    o.weights = m->shared;
    for (int i = 0; i < 2; i++) {
        o.rows = i ? m->rows : 1;
        if (gw_plan_create(m->model, &o, &m->plan[i], why, sizeof(why))) fail_msg("%s", why);
    }
    if (fleet_weights_seal(m->weights, gw_weights_bytes(m->shared))) fail_msg("%s", gw_last_error());
}

static void model_close(struct model *m)
{
    for (int i = 0; i < 2; i++) gw_plan_free(m->plan[i]);
    gw_weights_free(m->shared);
    gw_model_close(m->model);
}

/* Of all rows' inputs, or outputs, one tensor after the other. */
static size_t tensor_bytes(const struct model *m, int output)
{
    size_t sum = 0;

    for (uint32_t i = 0; i < (output ? gw_model_outputs(m->model) : gw_model_inputs(m->model)); i++) {
        const struct gw_tensor_info *t = output ? gw_model_output(m->model, i) : gw_model_input(m->model, i);
        sum += (m->rows * t->bytes + 63) / 64 * 64;
    }
    return sum;
}

/* All rows by one plan, or one row by the other: `out` has room for all. */
static void model_run(const struct model *m, int all, const void *in, char *out)
{
    void *at[GW_MODEL_MAX_IO];

    memset(out, 0, tensor_bytes(m, 1));
    for (uint32_t i = 0; i < gw_model_outputs(m->model); i++) {
        at[i] = out;
        out += (m->rows * gw_model_output(m->model, i)->bytes + 63) / 64 * 64;
    }
    assert_int_equal(gw_plan_run(m->plan[all], (const void *[]){in}, at), 0);
}

static void *floats_new(size_t bytes, struct rnd *r)
{
    float *x = aligned_alloc(64, (bytes + 63) / 64 * 64);

    for (size_t i = 0; i < bytes / sizeof(*x); i++) x[i] = r ? (float)rnd_below(r, 1000) / 500 - 1 : 0;
    return x;
}

static struct fleet_pages *pages_new(struct fleet_pages_opts o)
{
    struct fleet_pages *p;

    o.exec = exec;
    o.folder = folder;
    if (!o.page) o.page = PAGE;
    if (fleet_pages_create(&o, &p)) fail_msg("%s", gw_last_error());
    return p;
}

static void used(const struct fleet_pages *p, uint32_t gpu, uint32_t host)
{
    uint32_t g, h;

    fleet_pages_used(p, &g, &h);
    assert_int_equal(g, gpu);
    assert_int_equal(h, host);
}

/* ---- what can happen ---- */

static void test_life(void **state)
{
    struct fleet_pages *p = pages_new((struct fleet_pages_opts){.gpu_pages = 8, .host_pages = 8});
    struct model m;

    (void)state;
    model_open(&m, p, "mlp.onnx");
    struct fleet_weights *w = m.weights;
    uint32_t n = fleet_weights_pages(w);
    assert_true(n >= 2 && n <= 8);
    used(p, 0, 0);
    assert_int_equal(fleet_weights_where(w), FLEET_ON_DISK);
    moves(w, FLEET_OFF_GPU, FLEET_DONE, FLEET_ON_DISK);
    moves(w, FLEET_TO_DISK, FLEET_DONE, FLEET_ON_DISK);
    moves(w, FLEET_TO_HOST, FLEET_DONE, FLEET_HOST);
    used(p, 0, n);
    moves(w, FLEET_TO_GPU, FLEET_DONE, FLEET_GPU);
    moves(w, FLEET_TO_GPU, FLEET_DONE, FLEET_GPU);
    moves(w, FLEET_TO_HOST, FLEET_DONE, FLEET_GPU);
    used(p, n, n);
    moves(w, FLEET_OFF_GPU, FLEET_DONE, FLEET_HOST);
    moves(w, FLEET_TO_DISK, FLEET_DONE, FLEET_ON_DISK);
    used(p, 0, 0);
    moves(w, FLEET_TO_GPU, FLEET_DONE, FLEET_GPU);
    moves(w, FLEET_TO_DISK, FLEET_DONE, FLEET_ON_DISK);
    used(p, 0, 0);
    model_close(&m);
    fleet_pages_destroy(p);
}

/* Two models come and go a thousand times, at pages that chance picks, while a third one answers. */
struct beside {
    const struct model *m;
    const void *in, *want;
    size_t bytes;
    bool stop;
    uint64_t runs, wrong;
};

static void *beside_thread(void *arg)
{
    struct beside *b = arg;
    void *out = floats_new(b->bytes, NULL);

    while (!__atomic_load_n(&b->stop, __ATOMIC_RELAXED)) {
        model_run(b->m, 1, b->in, out);
        b->wrong += memcmp(out, b->want, b->bytes) != 0;
        b->runs++;
    }
    free(out);
    return NULL;
}

static void test_thousand(void **state)
{
    struct fleet_pages *p = pages_new((struct fleet_pages_opts){.gpu_pages = 24, .host_pages = 24});
    struct rnd r = {11};
    struct model m[3];
    struct waited w[2];
    pthread_t thread;

    (void)state;
    printf("seed 11\n");
    for (int i = 0; i < 3; i++) model_open(&m[i], p, i == 1 ? "net resnet" : "mlp.onnx");
    void *in[3], *want[3], *out = floats_new(1 << 16, NULL);
    for (int i = 0; i < 3; i++) {
        in[i] = floats_new(tensor_bytes(&m[i], 0), &r);
        want[i] = floats_new(tensor_bytes(&m[i], 1), NULL);
        moves(m[i].weights, FLEET_TO_GPU, FLEET_DONE, FLEET_GPU);
        model_run(&m[i], 1, in[i], want[i]);
    }
    struct beside b = {.m = &m[2], .in = in[2], .want = want[2], .bytes = tensor_bytes(&m[2], 1)};
    pthread_create(&thread, NULL, beside_thread, &b);
    for (int round = 0; round < 1000; round++) {
        enum fleet_weights_move away = round % 50 ? FLEET_OFF_GPU : FLEET_TO_DISK;
        uint32_t first = rnd_below(&r, 2); /* so they get each other's pages */
        for (uint32_t i = 0; i < 2; i++) waited_start(&w[i], m[i ^ first].weights, away);
        for (uint32_t i = 0; i < 2; i++) assert_int_equal(waited_end(&w[i]).outcome, FLEET_DONE);
        first = rnd_below(&r, 2);
        for (uint32_t i = 0; i < 2; i++) waited_start(&w[i], m[i ^ first].weights, FLEET_TO_GPU);
        for (uint32_t i = 0; i < 2; i++) assert_int_equal(waited_end(&w[i]).outcome, FLEET_DONE);
        for (uint32_t i = 0; i < 2; i++) {
            model_run(&m[i], 1, in[i], out);
            assert_memory_equal(out, want[i], tensor_bytes(&m[i], 1));
            model_run(&m[i], 0, in[i], out);
        }
    }
    __atomic_store_n(&b.stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    assert_true(b.runs > 0);
    assert_int_equal(b.wrong, 0);
    for (int i = 0; i < 3; i++) {
        free(in[i]);
        free(want[i]);
        model_close(&m[i]);
    }
    free(out);
    fleet_pages_destroy(p);
}

static void test_no_room(void **state)
{
    struct fleet_pages *p = pages_new((struct fleet_pages_opts){.gpu_pages = 3, .host_pages = 6});
    struct model a, b, c;

    (void)state;
    model_open(&a, p, "mlp.onnx");
    model_open(&b, p, "mlp.onnx");
    model_open(&c, p, "mlp.onnx");
    uint32_t n = fleet_weights_pages(a.weights);
    assert_true(n >= 2 && n <= 3);
    moves(a.weights, FLEET_TO_GPU, FLEET_DONE, FLEET_GPU);
    moves(b.weights, FLEET_TO_GPU, FLEET_NO_ROOM, FLEET_HOST); /* as far as it could go */
    moves(a.weights, FLEET_OFF_GPU, FLEET_DONE, FLEET_HOST);
    moves(b.weights, FLEET_TO_GPU, FLEET_DONE, FLEET_GPU);
    if (3 * n > 6) moves(c.weights, FLEET_TO_GPU, FLEET_NO_ROOM, FLEET_ON_DISK);
    model_close(&a);
    model_close(&b);
    model_close(&c);
    fleet_pages_destroy(p);
}

/* More than the arena has: the plan says so, and the next model is not disturbed. */
static void test_too_large(void **state)
{
    struct fleet_pages *p =
        pages_new((struct fleet_pages_opts){.gpu_pages = 2, .host_pages = 4, .page = 4096});
    struct gw_plan_options o = {0};
    struct fleet_weights *w;
    struct gw_model *model;
    struct gw_plan *plan;
    char path[1024], why[GW_MODEL_ERR];

    (void)state;
    pack_path(path, sizeof(path), 0, "mlp.onnx");
    assert_int_equal(gw_model_open(path, &model, why, sizeof(why)), 0);
    assert_int_equal(fleet_weights_create(p, "large", NULL, &w), 0);
    assert_int_equal(gw_weights_create(fleet_weights_range(w), &o.weights), 0);
    assert_int_equal(gw_plan_create(model, &o, &plan, why, sizeof(why)), -E2BIG);
    assert_int_equal(fleet_weights_seal(w, 1 << 20), -EFBIG);
    moves(w, FLEET_TO_GPU, FLEET_NO_MODEL, FLEET_ON_DISK);
    used(p, 0, 0);
    gw_weights_free(o.weights);
    gw_model_close(model);
    fleet_pages_destroy(p);
}

/* Does f with each file of weights. */
static int each_file(void (*f)(const char *path))
{
    char path[512];
    struct dirent *e;
    DIR *d = opendir(folder);
    int n = 0;

    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        f(path);
        n++;
    }
    if (d) closedir(d);
    return n;
}

static void file_remove(const char *path)
{
    assert_int_equal(unlink(path), 0);
}

static void file_change(const char *path)
{
    int fd = open(path, O_WRONLY);

    assert_int_equal(pwrite(fd, "odd", 3, 5000), 3);
    close(fd);
}

static void file_shorten(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 1), 0);
}

static void file_pipe(const char *path)
{
    file_remove(path);
    assert_int_equal(mkfifo(path, 0600), 0);
}

/* Its file vanished, or holds something else: no wrong weights get to the GPU, and what is there stays. */
static void test_files(void **state)
{
    static const struct {
        void (*f)(const char *path);
        uint32_t outcome;
    } odd[] = {{file_change, FLEET_BROKEN},
               {file_shorten, FLEET_BROKEN},
               {file_pipe, FLEET_BROKEN},
               {file_remove, FLEET_NO_MODEL}};
    struct fleet_pages *p = pages_new((struct fleet_pages_opts){.gpu_pages = 8, .host_pages = 8});
    struct model m, again;

    (void)state;
    each_file(file_remove);
    model_open(&m, p, "mlp.onnx");
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        moves(m.weights, FLEET_TO_HOST, FLEET_DONE, FLEET_HOST);
        assert_int_equal(each_file(odd[i].f), 1);
        moves(m.weights, FLEET_TO_GPU, FLEET_DONE, FLEET_GPU); /* host memory has them still */
        moves(m.weights, FLEET_TO_DISK, FLEET_DONE, FLEET_ON_DISK);
        moves(m.weights, FLEET_TO_GPU, odd[i].outcome, FLEET_ON_DISK);
        used(p, 0, 0);
        if (i + 1 < sizeof(odd) / sizeof(odd[0])) each_file(file_remove);
        model_open(&again, p, "mlp.onnx"); /* puts it there again */
        model_close(&again);
        moves(m.weights, FLEET_TO_GPU, FLEET_DONE, FLEET_GPU);
        moves(m.weights, FLEET_TO_DISK, FLEET_DONE, FLEET_ON_DISK);
    }
    model_close(&m);
    fleet_pages_destroy(p);
}

static void test_windows(void **state)
{
    struct fleet_pages *p =
        pages_new((struct fleet_pages_opts){.gpu_pages = 8, .host_pages = 8, .delay_ns = 20000000});
    struct waited slow, late, early;
    struct model a, b;

    (void)state;
    model_open(&a, p, "mlp.onnx");
    model_open(&b, p, "net resnet");
    moves(a.weights, FLEET_TO_HOST, FLEET_DONE, FLEET_HOST);
    moves(b.weights, FLEET_TO_HOST, FLEET_DONE, FLEET_HOST);
    int64_t start = now();
    waited_start(&slow, a.weights, FLEET_TO_GPU); /* 20 ms a page at least */
    late = (struct waited){
        .move = {.done = waited_done, .kind = FLEET_TO_GPU, .latest_at = start + 1000000, .ctx = &late},
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .change = PTHREAD_COND_INITIALIZER,
    };
    fleet_weights_move(b.weights, &late.move);
    assert_int_equal(waited_end(&late).outcome, FLEET_TOO_LATE);
    assert_int_equal(fleet_weights_where(b.weights), FLEET_HOST);
    assert_int_equal(waited_end(&slow).outcome, FLEET_DONE);
    assert_true(slow.move.result.ended_at - start >= (int64_t)fleet_weights_pages(a.weights) * 20000000);
    early = late;
    early.over = false;
    early.move.ctx = &early;
    early.move.earliest_at = now() + 30000000;
    early.move.latest_at = INT64_MAX;
    int64_t earliest = early.move.earliest_at;
    fleet_weights_move(b.weights, &early.move);
    moves(a.weights, FLEET_OFF_GPU, FLEET_DONE, FLEET_HOST); /* passes it */
    assert_int_equal(waited_end(&early).outcome, FLEET_DONE);
    assert_true(early.move.result.began_at >= earliest);
    model_close(&a);
    model_close(&b);
    fleet_pages_destroy(p);
}

/* 300 models on ten pages, in an order that chance picks: never a page too many, and each answers right. */
static void test_many(void **state)
{
    struct fleet_pages *p =
        pages_new((struct fleet_pages_opts){.gpu_pages = 10, .host_pages = 600, .page = 65536});
    struct model *m = calloc(300, sizeof(*m));
    struct rnd r = {5};
    uint32_t on[10], n = 0, gpu, host;

    (void)state;
    printf("seed 5\n");
    for (int i = 0; i < 300; i++) model_open(&m[i], p, i % 2 ? "net resnet" : "mlp.onnx");
    assert_int_equal(fleet_weights_pages(m[0].weights), 1);
    void *in = floats_new(1 << 16, &r), *out = floats_new(1 << 16, NULL), *want[2];
    for (int i = 0; i < 2; i++) {
        want[i] = floats_new(1 << 16, NULL);
        moves(m[i].weights, FLEET_TO_GPU, FLEET_DONE, FLEET_GPU);
        model_run(&m[i], 1, in, want[i]);
        moves(m[i].weights, FLEET_OFF_GPU, FLEET_DONE, FLEET_HOST);
    }
    for (int round = 0; round < 2000; round++) {
        uint32_t k = rnd_below(&r, 300);
        if (fleet_weights_where(m[k].weights) == FLEET_GPU) continue;
        if (n == 10) {
            uint32_t i = rnd_below(&r, 10);
            moves(m[k].weights, FLEET_TO_GPU, FLEET_NO_ROOM, FLEET_HOST);
            moves(m[on[i]].weights, FLEET_OFF_GPU, FLEET_DONE, FLEET_HOST);
            on[i] = on[--n];
        }
        moves(m[k].weights, FLEET_TO_GPU, FLEET_DONE, FLEET_GPU);
        on[n++] = k;
        fleet_pages_used(p, &gpu, &host);
        assert_int_equal(gpu, n);
        model_run(&m[k], 1, in, out);
        assert_memory_equal(out, want[k % 2], tensor_bytes(&m[k], 1));
    }
    for (int i = 0; i < 300; i++) model_close(&m[i]);
    for (int i = 0; i < 2; i++) free(want[i]);
    free(in);
    free(out);
    free(m);
    fleet_pages_destroy(p);
}

/* A new model's plans are made while the arena is full; at first they are made in the arena. */
static void test_new_model(void **state)
{
    struct fleet_pages *p = pages_new((struct fleet_pages_opts){.gpu_pages = 3, .host_pages = 9});
    struct fleet_weights *probe;
    struct model a, b;

    (void)state;
    model_open(&a, p, "mlp.onnx");
    moves(a.weights, FLEET_TO_GPU, FLEET_DONE, FLEET_GPU); /* a load is measured */
    moves(a.weights, FLEET_TO_DISK, FLEET_DONE, FLEET_ON_DISK);
    assert_int_equal(fleet_weights_create(p, "probe", NULL, &probe), 0);
    const struct gw_range *range = fleet_weights_range(probe);
    assert_int_equal(range->back(range->ctx, 2 * PAGE), 0);
    used(p, 2, 0);
    assert_int_equal(fleet_weights_seal(probe, 0), 0);
    used(p, 0, 0);
    moves(a.weights, FLEET_TO_GPU, FLEET_DONE, FLEET_GPU);
    fleet_pages_serve(p);
    for (int i = 0; i < 20; i++) {
        model_open(&b, p, "net resnet");
        used(p, fleet_weights_pages(a.weights), fleet_weights_pages(a.weights));
        model_close(&b);
    }
    model_close(&a);
    fleet_pages_destroy(p);
}

/* A model without constants has a page all the same, and no file. */
static void test_nothing(void **state)
{
    struct fleet_pages *p = pages_new((struct fleet_pages_opts){.gpu_pages = 1, .host_pages = 1});
    struct fleet_weights *w;

    (void)state;
    each_file(file_remove);
    assert_int_equal(fleet_weights_create(p, "nothing", NULL, &w), 0);
    assert_int_equal(fleet_weights_seal(w, 0), 0);
    assert_int_equal(each_file(file_remove), 0);
    assert_int_equal(fleet_weights_pages(w), 1);
    moves(w, FLEET_TO_GPU, FLEET_DONE, FLEET_GPU);
    used(p, 1, 1);
    moves(w, FLEET_TO_DISK, FLEET_DONE, FLEET_ON_DISK);
    used(p, 0, 0);
    fleet_pages_destroy(p);
}

/* The device does not let a model go: it stays, and its pages too. */
static int leave_says;

static int says_leave(void *ctx, void *user)
{
    (void)ctx;
    (void)user;
    return leave_says ? gw_error(leave_says, "the device does not answer") : 0;
}

static void test_stays(void **state)
{
    struct fleet_pages *p =
        pages_new((struct fleet_pages_opts){.gpu_pages = 8, .host_pages = 8, .leave = says_leave});
    struct model m;

    (void)state;
    model_open(&m, p, "mlp.onnx");
    moves(m.weights, FLEET_TO_GPU, FLEET_DONE, FLEET_GPU);
    leave_says = -ETIMEDOUT;
    moves(m.weights, FLEET_OFF_GPU, FLEET_BROKEN, FLEET_GPU);
    moves(m.weights, FLEET_TO_DISK, FLEET_BROKEN, FLEET_GPU);
    used(p, fleet_weights_pages(m.weights), fleet_weights_pages(m.weights));
    leave_says = 0;
    moves(m.weights, FLEET_OFF_GPU, FLEET_DONE, FLEET_HOST);
    model_close(&m);
    fleet_pages_destroy(p);
}

/* The disk is full: nothing is left there, and the model's pages are free. */
static void test_disk_full(void **state)
{
    struct fleet_pages *p = pages_new((struct fleet_pages_opts){.gpu_pages = 8, .host_pages = 8});
    const struct rlimit little = {PAGE, RLIM_INFINITY};
    struct rlimit before;
    struct fleet_weights *w;

    (void)state;
    each_file(file_remove);
    assert_int_equal(fleet_weights_create(p, "unlucky", NULL, &w), 0);
    const struct gw_range *r = fleet_weights_range(w);
    assert_int_equal(r->back(r->ctx, 3 * PAGE), 0);
    memset(r->at, 1, 3 * PAGE);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    int err = fleet_weights_seal(w, 3 * PAGE);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(err, -EFBIG); /* as this limit has it; a disk has ENOSPC */
    assert_int_equal(each_file(file_remove), 0);
    used(p, 0, 0);
    moves(w, FLEET_TO_GPU, FLEET_NO_MODEL, FLEET_ON_DISK);
    fleet_pages_destroy(p);
}

/* Four threads move what they like, where they like. */
enum { STORM_MODELS = 12, STORM_MOVES = 400 };
static struct fleet_weights *storm_of[STORM_MODELS];

static void *storm_thread(void *arg)
{
    struct rnd r = {(uint64_t)(uintptr_t)arg};

    for (int i = 0; i < STORM_MOVES; i++) {
        struct fleet_result got =
            move(storm_of[rnd_below(&r, STORM_MODELS)], (enum fleet_weights_move)rnd_below(&r, 4));
        if (got.outcome != FLEET_DONE && got.outcome != FLEET_NO_ROOM) return "a move failed";
    }
    return NULL;
}

static void test_storm(void **state)
{
    struct fleet_pages *p = pages_new((struct fleet_pages_opts){.gpu_pages = 7, .host_pages = 15});
    pthread_t thread[4];
    char *content = malloc(3 * PAGE);

    (void)state;
    for (int i = 0; i < STORM_MODELS; i++) {
        assert_int_equal(fleet_weights_create(p, "storm", NULL, &storm_of[i]), 0);
        const struct gw_range *r = fleet_weights_range(storm_of[i]);
        size_t bytes = (size_t)(1 + i % 3) * PAGE - 100;
        assert_int_equal(r->back(r->ctx, bytes), 0);
        memset(r->at, 'a' + i, bytes);
        assert_int_equal(fleet_weights_seal(storm_of[i], bytes), 0);
    }
    for (uintptr_t i = 0; i < 4; i++) pthread_create(&thread[i], NULL, storm_thread, (void *)(i + 1));
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        assert_null(wrong);
    }
    for (int i = 0; i < STORM_MODELS; i++) moves(storm_of[i], FLEET_TO_DISK, FLEET_DONE, FLEET_ON_DISK);
    used(p, 0, 0);
    for (int i = 0; i < STORM_MODELS; i++) { /* and each still has its own */
        size_t bytes = (size_t)(1 + i % 3) * PAGE - 100;
        moves(storm_of[i], FLEET_TO_GPU, FLEET_DONE, FLEET_GPU);
        memset(content, 'a' + i, bytes);
        assert_memory_equal(fleet_weights_range(storm_of[i])->at, content, bytes);
        moves(storm_of[i], FLEET_TO_DISK, FLEET_DONE, FLEET_ON_DISK);
    }
    free(content);
    fleet_pages_destroy(p);
}

/* The end comes while moves wait: each is told, once. */
static void test_end(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct fleet_pages *p =
            pages_new((struct fleet_pages_opts){.gpu_pages = 8, .host_pages = 8, .delay_ns = 1000000});
        struct waited w[2][6];
        struct model m[2];
        for (int i = 0; i < 2; i++) model_open(&m[i], p, i ? "net resnet" : "mlp.onnx");
        for (int k = 0; k < 6; k++)
            for (int i = 0; i < 2; i++)
                waited_start(&w[i][k], m[i].weights, k % 2 ? FLEET_TO_DISK : FLEET_TO_GPU);
        usleep((useconds_t)round * 500);
        for (int i = 0; i < 2; i++) model_close(&m[i]);
        fleet_pages_destroy(p);
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 6; k++) {
                uint32_t outcome = waited_end(&w[i][k]).outcome;
                assert_true(outcome == FLEET_DONE || outcome == FLEET_BROKEN);
            }
    }
}

static void test_refuses(void **state)
{
    struct fleet_pages_opts o = {.exec = exec, .gpu_pages = 1, .host_pages = 1, .folder = "/nowhere/at/all"};
    struct fleet_pages *p;

    (void)state;
    assert_int_equal(fleet_pages_create(&o, &p), -ENOENT);
    o.folder = folder;
    o.gpu_pages = 0;
    assert_int_equal(fleet_pages_create(&o, &p), -EINVAL);
    o.gpu_pages = 1u << 30; /* of 16 MiB */
    assert_int_equal(fleet_pages_create(&o, &p), -ENOMEM);
    assert_non_null(strstr(gw_last_error(), "pages of 16384 KiB do not fit"));
}

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gpuwire-test-pages-XXXXXX");
    if (pack_open(&goldens, "goldens.bin")) return -1;
    return !mkdtemp(folder) || gw_exec_create("cpu", NULL, &exec);
}

static int teardown(void **state)
{
    (void)state;
    each_file(file_remove);
    pack_close(&goldens);
    return rmdir(folder) || gw_exec_destroy(exec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),      cmocka_unit_test(test_thousand),  cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_too_large), cmocka_unit_test(test_files),     cmocka_unit_test(test_windows),
        cmocka_unit_test(test_many),      cmocka_unit_test(test_new_model), cmocka_unit_test(test_stays),
        cmocka_unit_test(test_end),       cmocka_unit_test(test_refuses),   cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_disk_full), cmocka_unit_test(test_storm),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
