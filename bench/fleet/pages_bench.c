/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to load a model's weights beside a loop that serves another model.
 *
 *     pages_bench MODEL.onnx [--exec cpu|gpu] [--mib N] [--rounds N] [--delay US] [--piece KIB]...
 *
 * The served model answers requests all the time, one after the other. The other model has N MiB of weights
 * (98: those of resnet50 in fp32). First nothing moves. Then the weights are loaded and evicted, again and
 * again. Then as many bytes are copied plainly from pinned host memory, as often. In the end all bytes are
 * compared. Writes lines of comma-separated values: what, value, unit.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#include "src/fleet/pages/pages.h"
#include "src/server/worker/call.h"
#include "src/server/worker/worker.h"

#define WAIT_NS 60000000000u
#define QUIET_S 2
enum { MAX_TIMES = 1 << 20, SPARE_PAGES = 2 };

static struct gw_exec *exec, *own_exec;
static struct gw_device *dev, *own_dev;
static struct gw_worker *worker;
static uint32_t pages;

static void must(int err, const char *what)
{
    if (!err) return;
    fprintf(stderr, "pages_bench: %s: %s\n", what, gw_last_error());
    exit(1);
}

static int64_t bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int bench_compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static double percentile(int64_t *times, size_t n, double part)
{
    qsort(times, n, sizeof(times[0]), bench_compare);
    return n ? (double)times[(size_t)((double)(n - 1) * part)] / 1e3 : 0;
}

/* ---- the model that is served ---- */

struct asker {
    int64_t *times;
    size_t n;
    uint64_t failed;
    bool stop;
};

static void ask_once(struct asker *a)
{
    const struct gw_call_ask ask = {.rows = 1};
    int64_t start = bench_now();
    struct gw_call *call;

    must(gw_call_take(gw_worker_calls(worker), "bench", gw_deadline(WAIT_NS), &call), "take a call");
    must(gw_call_submit(call, &ask), "submit a call");
    must(gw_call_wait(call, gw_deadline(WAIT_NS)), "wait for a call");
    a->failed += call->error != 0;
    gw_call_give(call);
    if (a->n < MAX_TIMES) a->times[a->n++] = bench_now() - start;
}

static void *asker_thread(void *arg)
{
    struct asker *a = arg;

    while (!__atomic_load_n(&a->stop, __ATOMIC_RELAXED)) ask_once(a);
    return NULL;
}

static void serve(const char *name, const char *model)
{
    struct gw_exec_opts lanes = {.lanes = 1};
    struct gw_repository_entry entry = {.name = (char *)"served", .version = 1, .path = (char *)model};
    bool gpu = strcmp(name, "cpu") != 0;

    must(gw_exec_create(name, gpu ? NULL : &lanes, &exec), "executor");
    must(gw_exec_create("cpu", NULL, &own_exec), "executor");
    must(gw_device_open("softnic", exec, &dev), "device");
    must(gw_device_open("softnic", own_exec, &own_dev), "device");
    const struct gw_worker_opts o = {.exec = exec,
                                     .dev = dev,
                                     .sessions = 1,
                                     .slots = 4,
                                     .threads = 1,
                                     .memory = 1u << 30,
                                     .own_sessions = 1,
                                     .own_dev = own_dev};
    must(gw_worker_create(&entry, &o, &worker), "model");
}

/* ---- the one whose weights come and go ---- */

struct waited {
    struct fleet_pages_move move; /* first */
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool over;
};

static void waited_done(struct fleet_pages_move *m)
{
    struct waited *w = (struct waited *)m;

    pthread_mutex_lock(&w->lock);
    w->over = true;
    pthread_cond_signal(&w->change);
    pthread_mutex_unlock(&w->lock);
}

/* What the move took. */
static int64_t bench_move(struct fleet_weights *weights, enum fleet_weights_move kind)
{
    struct waited w = {.move = {.done = waited_done, .kind = kind, .latest_at = INT64_MAX},
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .change = PTHREAD_COND_INITIALIZER};

    fleet_weights_move(weights, &w.move);
    pthread_mutex_lock(&w.lock);
    while (!w.over) pthread_cond_wait(&w.change, &w.lock);
    pthread_mutex_unlock(&w.lock);
    if (w.move.result.outcome != FLEET_DONE) {
        fprintf(stderr, "pages_bench: a move failed: %s\n", w.move.result.why);
        exit(1);
    }
    return w.move.result.ended_at - w.move.result.began_at;
}

/* Pinned host memory with the weights, and memory of the executor's for the plain copy. */
struct plain {
    struct gw_mem host, device;
    char *back;
    size_t bytes;
};

static void fill(struct plain *p, size_t bytes)
{
    uint64_t x = 88172645463325252u;

    p->bytes = bytes;
    p->back = malloc(bytes);
    must(gw_mem_alloc(exec, GW_MEM_HOST, bytes, &p->host), "pinned memory");
    must(gw_mem_alloc(exec, GW_MEM_DEVICE, bytes, &p->device), "device memory");
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy((char *)p->host.host + i, &x, 8);
    }
}

static struct fleet_weights *weights_new(struct fleet_pages *all, const struct plain *p)
{
    struct fleet_weights *w;

    must(fleet_weights_create(all, "moved", NULL, &w), "addresses");
    const struct gw_range *r = fleet_weights_range(w);
    must(r->back(r->ctx, p->bytes), "pages");
    must(gw_copy_in(exec, r->at, p->host.host, p->bytes), "copy");
    must(fleet_weights_seal(w, p->bytes), "weights");
    bench_move(w, FLEET_TO_HOST);
    return w;
}

static void compare(struct fleet_weights *w, struct plain *p)
{
    must(gw_copy_out(exec, p->back, fleet_weights_range(w)->at, p->bytes), "copy back");
    if (!memcmp(p->back, p->host.host, p->bytes)) return;
    fprintf(stderr, "pages_bench: other bytes came than were sent\n");
    exit(1);
}

/* ---- both together ---- */

struct bench {
    const char *model, *exec, *folder;
    long mib, rounds, delay_us;
    long piece[8]; /* KiB; 0: the default */
    int pieces;
};

/* How many requests there were. */
static size_t ask_end(struct asker *a, pthread_t thread)
{
    __atomic_store_n(&a->stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    return a->n;
}

static size_t ask_for(struct asker *a, pthread_t *thread, int seconds)
{
    a->n = 0;
    __atomic_store_n(&a->stop, false, __ATOMIC_RELAXED);
    pthread_create(thread, NULL, asker_thread, a);
    if (!seconds) return 0;
    sleep((unsigned)seconds);
    return ask_end(a, *thread);
}

static void rounds(const struct bench *b, struct fleet_weights *w, struct plain *p)
{
    int64_t *load = calloc((size_t)b->rounds, sizeof(*load)),
            *copy = calloc((size_t)b->rounds, sizeof(*copy)),
            *evict = calloc((size_t)b->rounds, sizeof(*evict));
    struct asker a = {.times = calloc(MAX_TIMES, sizeof(*a.times))};
    pthread_t thread;

    ask_for(&a, &thread, 1); /* warm */
    size_t n = ask_for(&a, &thread, QUIET_S);
    double quiet = percentile(a.times, n, .99), half = percentile(a.times, n, .5);
    ask_for(&a, &thread, 0);
    for (long i = 0; i < b->rounds; i++) {
        load[i] = bench_move(w, FLEET_TO_GPU);
        evict[i] = bench_move(w, FLEET_OFF_GPU);
    }
    size_t moved = ask_end(&a, thread);
    double moving = percentile(a.times, moved, .99);
    ask_for(&a, &thread, 0); /* a plain copy holds up the other model, so those requests do not count */
    for (long i = 0; i < b->rounds; i++) {
        int64_t start = bench_now();
        must(gw_copy_in(exec, p->device.dev, p->host.host, p->bytes), "plain copy");
        copy[i] = bench_now() - start;
    }
    double copying = percentile(a.times, ask_end(&a, thread), .99);
    bench_move(w, FLEET_TO_GPU);
    compare(w, p);
    bench_move(w, FLEET_OFF_GPU);
    double loads = percentile(load, (size_t)b->rounds, .5), copies = percentile(copy, (size_t)b->rounds, .5);
    printf("weights,%ld,MiB\npages,%u,1\nrounds,%ld,1\n", b->mib, pages, b->rounds);
    printf("load p50,%.1f,us\nplain copy p50,%.1f,us\nratio,%.3f,1\n", loads, copies, loads / copies);
    printf("evict p50,%.1f,us\n", percentile(evict, (size_t)b->rounds, .5));
    printf("other model p50 quiet,%.1f,us\nother model p99 quiet,%.1f,us\n", half, quiet);
    printf("other model p99 while weights move,%.1f,us\nratio of p99,%.3f,1\n", moving, moving / quiet);
    printf("other model p99 beside plain copies,%.1f,us\n", copying);
    printf("other model's requests,%zu,1\nfailed,%llu,1\n", n + moved, (unsigned long long)a.failed);
    free(load);
    free(copy);
    free(evict);
    free(a.times);
    if (a.failed) exit(1);
}

/* With pieces of one size. The loop has not begun, or is stopped. */
static void piece_run(const struct bench *b, struct plain *p, long piece)
{
    struct fleet_pages *all;
    uint64_t ns;
    const struct fleet_pages_opts o = {.exec = exec,
                                       .gpu_pages = pages + SPARE_PAGES,
                                       .host_pages = pages,
                                       .delay_ns = b->delay_us * 1000,
                                       .piece = (uint32_t)piece << 10,
                                       .folder = b->folder};

    must(fleet_pages_create(&o, &all), "pages");
    struct fleet_weights *w = weights_new(all, p);
    must(gw_worker_start(worker), "start");
    if (piece) printf("piece,%ld,KiB\n", piece);
    rounds(b, w, p);
    must(gw_worker_stop(worker, gw_deadline(WAIT_NS), &ns), "stop");
    fleet_pages_destroy(all);
}

static void bench_run(const struct bench *b)
{
    struct plain p;

    serve(b->exec, b->model);
    fill(&p, (size_t)b->mib << 20);
    pages = (uint32_t)((b->mib + 15) / 16);
    for (int i = 0; i < (b->pieces ? b->pieces : 1); i++) piece_run(b, &p, b->piece[i]);
    gw_calls_close(gw_worker_calls(worker), gw_deadline(WAIT_NS));
    must(gw_worker_destroy(worker), "end");
    gw_mem_free(&p.host);
    gw_mem_free(&p.device);
    free(p.back);
    gw_device_close(own_dev);
    gw_device_close(dev);
    gw_exec_destroy(own_exec);
    gw_exec_destroy(exec);
}

static long number(const char *text, long most)
{
    char *end;
    long n = strtol(text ? text : "", &end, 10);

    if (text && *text && !*end && n > 0 && n <= most) return n;
    fprintf(stderr, "pages_bench: '%s': a number from 1 to %ld\n", text ? text : "", most);
    exit(2);
}

int main(int argc, char **argv)
{
    struct bench b = {.exec = "cpu", .mib = 98, .rounds = 50};
    char folder[] = "/tmp/gw-pages-bench-XXXXXX", command[64];

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--exec") && i + 1 < argc)
            b.exec = argv[++i];
        else if (!strcmp(argv[i], "--mib"))
            b.mib = number(argv[++i], 65536);
        else if (!strcmp(argv[i], "--rounds"))
            b.rounds = number(argv[++i], 100000);
        else if (!strcmp(argv[i], "--piece") && b.pieces < 8)
            b.piece[b.pieces++] = number(argv[++i], 1 << 20);
        else if (!strcmp(argv[i], "--delay"))
            b.delay_us = number(argv[++i], 1000000);
        else
            b.model = argv[i];
    }
    if (!b.model) {
        fprintf(stderr, "usage: pages_bench MODEL.onnx [--exec cpu|gpu] [--mib N] [--rounds N] [--delay US] "
                        "[--piece KIB]...\n");
        return 2;
    }
    if (!strcmp(b.exec, "gpu") && !gw_exec_gpu_available(command, sizeof(command))) {
        fprintf(stderr, "pages_bench: skipped: %s\n", command);
        return 77;
    }
    b.folder = mkdtemp(folder);
    if (!b.folder) return 1;
    bench_run(&b);
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    return system(command) != 0;
}
