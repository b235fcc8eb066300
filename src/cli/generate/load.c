/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire generate load: streams of tokens by RDMA, and when each token came. */
#include "src/cli/generate/load.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/cli/cli.h"
#include "src/cli/load/arrivals.h"
#include "src/cli/options.h"
#include "src/door/secret.h"
#include "src/generate/client/remote.h"

#define PATIENCE_NS UINT64_C(30000000000) /* for the streams that are under way at the end */
#define SLOT_NS     UINT64_C(1000000000)  /* for a slot */

struct loading;

/* One stream; its callback runs on the client's one thread. */
struct loaded {
    struct loading *all;
    struct loaded *next; /* of those that are free */
    struct gen_stream *stream;
    uint64_t begun, last; /* when it was to be sent; when its last token came */
    uint32_t *prompt;
};

struct loading {
    const struct gw_cli_generate_load *opts;
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gen_remote *remote;
    struct gen_client *client;
    struct gen_source source;
    struct gen_source_shape shape;
    struct loaded *stream;
    struct gw_cli_generate_result *result;
    uint64_t from, until; /* when it is measured */
    uint64_t random;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct loaded *free; /* under `lock` */
    uint32_t running;
};

/* ---- events ---- */

static void load_measure(struct loading *all, struct loaded *s, uint64_t now, const struct gen_event *e)
{
    struct gw_cli_generate_result *r = all->result;
    bool counts = s->begun >= all->from && s->begun < all->until;
    if (e->token != GEN_NO_TOKEN) {
        r->tokens += now >= all->from && now < all->until;
        if (counts) gw_histogram_add(e->number ? &r->between : &r->first, (int64_t)(now - s->last));
        if (counts && !e->number) r->cached += e->cached;
        s->last = now;
    }
    if (e->status == GEN_GOING || !counts) return;
    r->begun++;
    r->ended[e->status]++;
    gw_histogram_add(&r->whole, (int64_t)(now - s->begun));
}

static void load_event(void *ctx, const struct gen_event *e)
{
    struct loaded *s = ctx;
    struct loading *all = s->all;
    load_measure(all, s, gw_deadline(0), e);
    if (e->status == GEN_GOING) return;
    all->source.ops->release(s->stream);
    pthread_mutex_lock(&all->lock);
    s->next = all->free;
    all->free = s;
    all->running--;
    pthread_cond_signal(&all->ended);
    pthread_mutex_unlock(&all->lock);
}

/* ---- streams ---- */

/* xorshift64*: prompts need no better one. */
static uint32_t load_random(struct loading *all, uint32_t below)
{
    all->random ^= all->random >> 12;
    all->random ^= all->random << 25;
    all->random ^= all->random >> 27;
    return (uint32_t)((all->random * 2685821657736338717u) >> 33) % below;
}

static uint32_t load_make_prompt(struct loading *all, struct loaded *s)
{
    const struct gw_cli_generate_load *o = all->opts;
    uint32_t n = o->prompt - o->spread + load_random(all, 2 * o->spread + 1);
    for (uint32_t i = 0; i < n; i++)
        s->prompt[i] = i < o->shared ? i % all->shape.vocab : load_random(all, all->shape.vocab);
    return n;
}

/* A callback comes before its slot is free, so a stream that follows another one may wait for that. */
static int load_begin(struct loading *all, struct loaded *s, uint64_t when)
{
    const struct gen_source_ask ask = {.request = {.prompt = load_make_prompt(all, s),
                                                   .max_tokens = all->opts->tokens,
                                                   .top_p = 1,
                                                   .repetition = 1},
                                       .prompt = s->prompt,
                                       .deadline_ns = gw_deadline(SLOT_NS),
                                       .event = load_event,
                                       .ctx = s};
    s->begun = s->last = when;
    pthread_mutex_lock(&all->lock);
    all->running++;
    pthread_mutex_unlock(&all->lock);
    int err = all->source.ops->submit(all->source.own, &ask, &s->stream);
    if (!err) return 0;
    pthread_mutex_lock(&all->lock);
    all->running--;
    s->next = all->free;
    all->free = s;
    pthread_mutex_unlock(&all->lock);
    if (err != -ETIMEDOUT) return err;
    all->result->refused += when >= all->from && when < all->until;
    return 0;
}

/* A stream that is free, waiting for it until then; NULL: none is. */
static struct loaded *load_take(struct loading *all, uint64_t until)
{
    struct timespec end = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    pthread_mutex_lock(&all->lock);
    while (!all->free && !pthread_cond_timedwait(&all->ended, &all->lock, &end)) continue;
    struct loaded *s = all->free;
    if (s) all->free = s->next;
    pthread_mutex_unlock(&all->lock);
    return s;
}

static void load_sleep(uint64_t until)
{
    struct timespec end = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    while (!gw_interrupted() && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        continue;
}

/* A stream begins when another one has ended. */
static int load_in_turn(struct loading *all)
{
    int err = 0;
    while (!err && !gw_interrupted() && gw_deadline(0) < all->until) {
        struct loaded *s = load_take(all, all->until);
        if (s) err = load_begin(all, s, gw_deadline(0));
    }
    return err;
}

/* Streams begin by chance, whatever the others do. The time counts from when one was to begin. */
static int load_by_chance(struct loading *all)
{
    struct gw_arrivals arrivals = {0};
    int err = 0;
    gw_arrivals_begin(&arrivals, gw_deadline(0), all->opts->rate, all->opts->seed, 0);
    for (;;) {
        uint64_t when = gw_arrivals_take(&arrivals);
        if (when >= all->until) return err;
        load_sleep(when);
        struct loaded *s = load_take(all, 0);
        if (s) err = load_begin(all, s, when);
        if (!s) all->result->refused += when >= all->from;
        if (err || gw_interrupted()) return err;
    }
}

/* ---- beginning and end ---- */

static double load_cpu(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static int load_make_streams(struct loading *all)
{
    const struct gw_cli_generate_load *o = all->opts;
    all->stream = calloc(o->streams, sizeof(*all->stream));
    for (uint32_t i = 0; all->stream && i < o->streams; i++) {
        struct loaded *s = &all->stream[i];
        s->all = all;
        s->prompt = calloc((size_t)o->prompt + o->spread, sizeof(*s->prompt));
        if (!s->prompt) return gw_error_errno(-ENOMEM, "streams");
        s->next = all->free;
        all->free = s;
    }
    return all->stream ? 0 : gw_error_errno(-ENOMEM, "streams");
}

static int load_connect(struct loading *all)
{
    const struct gw_cli_generate_load *o = all->opts;
    struct gen_remote_opts remote = {.url = o->server, .model = o->model, .ca_file = o->ca_file};
    struct gen_client_opts client = {0};
    char *token = NULL;
    int err = o->token_file ? gw_secret_read("--token-file", o->token_file, &token) : 0;
    if (token) token[strcspn(token, "\r\n")] = 0;
    remote.token = token;
    if (!err) err = gen_remote_open(&remote, &all->remote);
    gw_secret_forget(token);
    if (!err) err = gw_exec_create("cpu", NULL, &all->exec);
    if (!err) err = gw_device_open(NULL, all->exec, &all->dev);
    if (err) return err;
    gen_remote_shape(all->remote, &client.shape, &client.slots);
    all->shape = client.shape;
    if (o->tokens < client.shape.max_tokens) client.shape.max_tokens = o->tokens;
    if (o->streams < client.slots) client.slots = o->streams;
    client.name = gen_remote_model(all->remote);
    client.dev = all->dev;
    client.link = gen_remote_link(all->remote);
    client.sessions = (o->streams + client.slots - 1) / client.slots;
    client.share = client.sessions * client.slots;
    err = gen_client_create(&client, &all->client);
    all->source = gen_client_source(all->client);
    return err;
}

static void load_free(struct loading *all)
{
    gen_client_destroy(all->client);
    gen_remote_close(all->remote);
    if (all->dev) gw_device_close(all->dev);
    gw_exec_destroy(all->exec);
    for (uint32_t i = 0; all->stream && i < all->opts->streams; i++) free(all->stream[i].prompt);
    free(all->stream);
    pthread_mutex_destroy(&all->lock);
    pthread_cond_destroy(&all->ended);
}

static int load_and_measure(struct loading *all)
{
    const struct gw_cli_generate_load *o = all->opts;
    struct gw_cli_generate_result *r = all->result;
    double own = load_cpu(), before = -1, after = -1;
    all->from = gw_deadline((uint64_t)(o->warmup * 1e9));
    all->until = all->from + (uint64_t)(o->seconds * 1e9);
    gen_remote_cpu(all->remote, &before);
    uint64_t begun = gw_deadline(0);
    int err = o->rate > 0 ? load_by_chance(all) : load_in_turn(all);
    uint64_t now = gw_deadline(0);
    gen_remote_cpu(all->remote, &after);
    double part = now > all->from && now > begun ? (double)(now - all->from) / (double)(now - begun) : 1;
    r->seconds = (double)((now < all->until ? now : all->until) - all->from) / 1e9;
    r->server_cpu_s = before >= 0 && after >= 0 ? (after - before) * part : -1;
    r->own_cpu_s = (load_cpu() - own) * part;
    gen_client_close(all->client, gw_deadline(PATIENCE_NS));
    return err;
}

int gw_cli_generate_load(int argc, char **argv)
{
    static struct gw_cli_generate_result result;
    struct gw_cli_generate_load opts;
    int done = gw_cli_generate_load_args(argc, argv, &opts);
    if (done >= 0) return done;
    struct loading all = {.opts = &opts, .result = &result, .random = opts.seed + 0x9e3779b97f4a7c15u};
    pthread_condattr_t monotonic;
    gw_catch_signals();
    pthread_mutex_init(&all.lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&all.ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int err = load_connect(&all);
    if (!err) err = load_make_streams(&all);
    if (!err) err = load_and_measure(&all);
    if (err)
        gw_failed("generate load");
    else
        gw_cli_generate_print(&opts, gen_remote_model(all.remote), &result);
    load_free(&all);
    return gw_exit_code(err != 0);
}
