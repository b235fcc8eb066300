/* SPDX-License-Identifier: Apache-2.0 */
/* One thread that makes a token for each request in turn. Its lock is held while events are told. */
#include "tests/generate/fake_source.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

struct gen_stream {
    struct gen_stream *next, **link;
    struct fake_source *fake;
    struct gen_request request;
    uint32_t stop[GEN_MAX_STOPS];
    struct gen_top *bias;
    void (*event)(void *ctx, const struct gen_event *e);
    void *ctx;
    uint64_t hash, arrived, latest;
    uint32_t number, cached;
    bool over, cancelled;
};

struct fake_source {
    struct fake_source_opts opts;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct gen_stream *first;
    uint32_t streams, going;
    enum gen_status fate;
    bool ends;
    struct gen_source_stats stats;
    struct gen_request latest;
};

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void count_time(struct gen_histogram *h, uint64_t ns)
{
    uint32_t i = 0;
    while (i < GEN_BUCKETS - 1 && ns >= GEN_BUCKET_NS << i) i++;
    h->count[i]++;
    h->sum_ns += ns;
    h->n++;
}

static bool is_stop(const struct gen_stream *s, uint32_t token)
{
    for (uint32_t i = 0; i < s->request.stops; i++)
        if (s->stop[i] == token) return s->number + 1 > s->request.min_tokens;
    return false;
}

static uint32_t draw(const struct gen_stream *s, uint32_t rank)
{
    const struct fake_source_opts *o = &s->fake->opts;
    uint64_t seed = s->request.temperature > 0 ? s->request.seed : 0;
    uint64_t h = mixed(s->hash + mixed(seed) + s->number * UINT64_C(0x9e3779b97f4a7c15));
    for (uint32_t i = 0; !rank && i < s->request.biases; i++)
        if (s->bias[i].logprob >= 100) return s->bias[i].token;
    if (!rank && o->end_every && h % o->end_every == 0 && is_stop(s, o->end)) return o->end;
    return o->letter[(h / 7 + rank) % o->letters];
}

/* The stream's next event. */
static void tell(struct gen_stream *s, uint64_t now)
{
    struct fake_source *f = s->fake;
    struct gen_event e = {
        .id = 1, .number = s->number, .token = GEN_NO_TOKEN, .cached = s->cached, .posted = now};
    if (s->cancelled)
        e.status = GEN_CANCELLED;
    else if (f->fate != GEN_GOING)
        e.status = f->fate;
    else if (s->request.first_ns && !s->number && now - s->arrived > s->request.first_ns)
        e.status = GEN_LATE;
    if (e.status == GEN_GOING) {
        e.token = draw(s, 0);
        e.logprob = -0.5f;
        e.tops = s->request.tops;
        for (uint32_t i = 0; i < e.tops; i++) e.top[i] = (struct gen_top){draw(s, i), -0.5f - (float)i};
        s->number++;
        e.status = is_stop(s, e.token)                  ? GEN_STOPPED
                   : s->number == s->request.max_tokens ? GEN_LENGTH
                                                        : GEN_GOING;
        f->stats.tokens++;
        count_time(s->number == 1 ? &f->stats.first : &f->stats.between, now - s->latest);
        s->latest = now;
    }
    s->over = e.status != GEN_GOING;
    if (s->over) {
        f->going--;
        f->stats.ended[e.status]++;
        count_time(&f->stats.whole, now - s->arrived);
    }
    s->event(s->ctx, &e);
}

static void nap(struct fake_source *f)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + f->opts.token_ns;
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    while (!f->ends && pthread_cond_timedwait(&f->changed, &f->lock, &until) != ETIMEDOUT) continue;
}

static void *run(void *arg)
{
    struct fake_source *f = arg;
    pthread_mutex_lock(&f->lock);
    while (!f->ends) {
        if (!f->going)
            pthread_cond_wait(&f->changed, &f->lock);
        else if (f->opts.token_ns)
            nap(f);
        uint64_t now = gw_deadline(0);
        for (struct gen_stream *s = f->first; s; s = s->next)
            if (!s->over) tell(s, now);
        f->stats.steps++;
        pthread_cond_broadcast(&f->changed);
        /* Others want the lock, too. */
        pthread_mutex_unlock(&f->lock);
        pthread_mutex_lock(&f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* ---- the source */

static void fake_shape(void *own, struct gen_source_shape *out)
{
    *out = ((struct fake_source *)own)->opts.shape;
}

static struct gen_stream *make_stream(struct fake_source *f, const struct gen_source_ask *ask)
{
    struct gen_stream *s = calloc(1, sizeof(*s));
    s->bias = calloc(ask->request.biases + 1, sizeof(*s->bias));
    s->fake = f;
    s->request = ask->request;
    if (ask->request.stops) memcpy(s->stop, ask->stop, ask->request.stops * sizeof(*s->stop));
    if (ask->request.biases) memcpy(s->bias, ask->bias, ask->request.biases * sizeof(*s->bias));
    s->event = ask->event;
    s->ctx = ask->ctx;
    s->cached = ask->request.prompt / 16 * 16;
    s->arrived = s->latest = gw_deadline(0);
    for (uint32_t i = 0; i < ask->request.prompt; i++) s->hash = mixed(s->hash + ask->prompt[i] + 1);
    return s;
}

static int fake_submit(void *own, const struct gen_source_ask *ask, struct gen_stream **out)
{
    struct fake_source *f = own;
    const struct gen_request *r = &ask->request;
    struct timespec until = {(time_t)(ask->deadline_ns / 1000000000u),
                             (long)(ask->deadline_ns % 1000000000u)};
    if (!r->prompt || !r->max_tokens || r->max_tokens > f->opts.shape.max_tokens ||
        r->stops > GEN_MAX_STOPS || r->prompt + (uint64_t)r->max_tokens > f->opts.shape.context)
        return gw_error(-EINVAL, "the request is out of the source's bounds");
    pthread_mutex_lock(&f->lock);
    int err = 0;
    while (!err && f->going == f->opts.slots) err = pthread_cond_timedwait(&f->changed, &f->lock, &until);
    if (!err) {
        struct gen_stream *s = make_stream(f, ask);
        s->next = f->first;
        s->link = &f->first;
        if (s->next) s->next->link = &s->next;
        f->first = s;
        f->streams++;
        f->going++;
        f->latest = *r;
        f->stats.prompt_tokens += r->prompt;
        f->stats.prompt_cached += s->cached;
        *out = s;
        pthread_cond_broadcast(&f->changed);
    }
    pthread_mutex_unlock(&f->lock);
    return err ? -ETIMEDOUT : 0;
}

static void fake_cancel(struct gen_stream *s)
{
    pthread_mutex_lock(&s->fake->lock);
    s->cancelled = true;
    pthread_mutex_unlock(&s->fake->lock);
}

static void fake_release(struct gen_stream *s)
{
    if (!s) return;
    struct fake_source *f = s->fake;
    pthread_mutex_lock(&f->lock);
    if (!s->over) {
        f->going--;
        f->stats.ended[GEN_CANCELLED]++;
    }
    *s->link = s->next;
    if (s->next) s->next->link = s->link;
    f->streams--;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    free(s->bias);
    free(s);
}

static void fake_stats(void *own, struct gen_source_stats *out)
{
    struct fake_source *f = own;
    pthread_mutex_lock(&f->lock);
    *out = f->stats;
    out->running = f->going;
    out->pages = 100;
    out->pages_used = f->going < 100 ? f->going : 100;
    pthread_mutex_unlock(&f->lock);
}

struct gen_source fake_source_of(struct fake_source *f)
{
    static const struct gen_source_ops ops = {fake_shape, fake_submit, fake_cancel, fake_release, fake_stats};
    return (struct gen_source){&ops, f};
}

/* ---- the tests' own */

struct fake_source *fake_source_open(const struct fake_source_opts *opts)
{
    pthread_condattr_t attr;
    struct fake_source *f = calloc(1, sizeof(*f));
    if (!f) return NULL;
    f->opts = *opts;
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&f->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (!pthread_create(&f->thread, NULL, run, f)) return f;
    free(f);
    return NULL;
}

void fake_source_close(struct fake_source *f)
{
    pthread_mutex_lock(&f->lock);
    f->ends = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

void fake_source_fail(struct fake_source *f, enum gen_status status)
{
    pthread_mutex_lock(&f->lock);
    f->fate = status;
    pthread_mutex_unlock(&f->lock);
}

uint32_t fake_source_streams(struct fake_source *f)
{
    pthread_mutex_lock(&f->lock);
    uint32_t n = f->streams;
    pthread_mutex_unlock(&f->lock);
    return n;
}

struct gen_request fake_source_latest(struct fake_source *f)
{
    pthread_mutex_lock(&f->lock);
    struct gen_request r = f->latest;
    pthread_mutex_unlock(&f->lock);
    return r;
}
