/* SPDX-License-Identifier: Apache-2.0 */
/* <gpuwire/generate.h>: streams of a remote generator, whose events wait in a queue. */
#include <gpuwire/generate.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "src/generate/client/client.h"
#include "src/generate/client/remote.h"

#define MAX_TOKENS 4096u
#define BUCKETS    256u

/* A stream, from its submit until its last event was taken. */
struct told {
    struct gw_generate *owner;
    struct gen_stream *stream; /* NULL: submit has not returned */
    uint64_t id;
    struct told *next; /* of its bucket */
};

struct queued {
    struct queued *next;
    struct told *told;
    struct gw_generate_event event;
};

struct gw_generate {
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gen_remote *remote;
    struct gen_client *client;
    struct gen_source source;
    uint32_t slots;
    pthread_mutex_t lock;
    pthread_cond_t came;
    int fd;
    uint64_t ids;
    struct queued *first, **end;
    struct told *bucket[BUCKETS];
    bool lost; /* an event found no memory: its stream ends */
};

/* ---- opening ---- */

static int public_open_client(struct gw_generate *g, const struct gw_generate_opts *o)
{
    struct gen_client_opts opts = {.name = gen_remote_model(g->remote),
                                   .dev = g->dev,
                                   .link = gen_remote_link(g->remote),
                                   .sessions = o->sessions ? o->sessions : 1,
                                   .quiet = true};
    gen_remote_shape(g->remote, &opts.shape, &opts.slots);
    uint32_t most = o->max_tokens ? o->max_tokens : MAX_TOKENS;
    if (opts.shape.max_tokens > most) opts.shape.max_tokens = most;
    if (o->slots && o->slots < opts.slots) opts.slots = o->slots;
    opts.share = opts.sessions * opts.slots; /* there is one user alone */
    g->slots = opts.share;
    int err = gen_client_create(&opts, &g->client);
    if (!err) g->source = gen_client_source(g->client);
    return err;
}

static int public_open(struct gw_generate *g, const struct gw_generate_opts *o)
{
    const struct gen_remote_opts remote = {
        .url = o->server, .model = o->model, .token = o->token, .ca_file = o->ca_file};
    g->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (g->fd < 0) return gw_error_errno(-errno, "generate: cannot make an eventfd");
    int err = gen_remote_open(&remote, &g->remote);
    if (!err) err = gw_exec_create("cpu", NULL, &g->exec);
    if (!err) err = gw_device_open(NULL, g->exec, &g->dev);
    return err ? err : public_open_client(g, o);
}

int gw_generate_open(const struct gw_generate_opts *opts, struct gw_generate **out)
{
    pthread_condattr_t monotonic;
    if (!opts->server) return gw_error(-EINVAL, "generate: a server is missing");
    struct gw_generate *g = calloc(1, sizeof(*g));
    if (!g) return gw_error_errno(-ENOMEM, "generate");
    g->end = &g->first;
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&g->came, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int err = public_open(g, opts);
    if (err)
        gw_generate_close(g);
    else
        *out = g;
    return err;
}

void gw_generate_describe(const struct gw_generate *g, struct gw_generate_model *out)
{
    struct gen_source_shape s;
    g->source.ops->shape(g->source.own, &s);
    *out = (struct gw_generate_model){.vocab = s.vocab,
                                      .context = s.context,
                                      .max_tokens = s.max_tokens,
                                      .slots = g->slots,
                                      .lanes = s.lanes};
    strncpy(out->name, gen_remote_model(g->remote), sizeof(out->name) - 1);
}

/* ---- events ---- */

static void public_copy(struct gw_generate_event *to, const struct gen_event *e, uint64_t stream)
{
    *to = (struct gw_generate_event){.stream = stream,
                                     .number = e->number,
                                     .token = e->token,
                                     .status = e->status,
                                     .logprob = e->logprob,
                                     .cached = e->cached,
                                     .tops = e->tops};
    for (uint32_t i = 0; i < e->tops; i++)
        to->top[i] = (struct gw_generate_top){e->top[i].token, e->top[i].logprob};
}

/* On the client's thread. */
static void public_event(void *ctx, const struct gen_event *e)
{
    struct told *t = ctx;
    struct gw_generate *g = t->owner;
    const uint64_t one = 1;
    struct queued *q = malloc(sizeof(*q));
    pthread_mutex_lock(&g->lock);
    if (q) {
        q->next = NULL;
        q->told = e->status == GEN_GOING ? NULL : t;
        public_copy(&q->event, e, t->id);
        *g->end = q;
        g->end = &q->next;
    }
    g->lost |= !q;
    pthread_cond_broadcast(&g->came);
    pthread_mutex_unlock(&g->lock);
    if (write(g->fd, &one, sizeof(one)) < 0) return; /* it is readable already */
}

static struct told **public_find(struct gw_generate *g, uint64_t id)
{
    struct told **link = &g->bucket[id % BUCKETS];
    while (*link && (*link)->id != id) link = &(*link)->next;
    return link;
}

/* Takes it out of the queue; the stream of a last event is forgotten, and returned to be released. */
static struct told *public_take(struct gw_generate *g, struct gw_generate_event *event)
{
    struct queued *q = g->first;
    struct told *t = q->told;
    uint64_t count;
    *event = q->event;
    g->first = q->next;
    if (!g->first) {
        g->end = &g->first;
        if (read(g->fd, &count, sizeof(count)) < 0) count = 0;
    }
    if (t) *public_find(g, t->id) = t->next;
    free(q);
    return t;
}

int gw_generate_next(struct gw_generate *g, uint64_t deadline_ns, struct gw_generate_event *event)
{
    struct timespec end = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                           .tv_nsec = (long)(deadline_ns % 1000000000u)};
    struct told *over = NULL;
    int err = 0;
    pthread_mutex_lock(&g->lock);
    while (!g->first && !g->lost && !err) {
        if (!deadline_ns)
            err = -EAGAIN;
        else if (pthread_cond_timedwait(&g->came, &g->lock, &end) == ETIMEDOUT)
            err = -ETIMEDOUT;
    }
    if (g->first)
        over = public_take(g, event), err = 0;
    else if (g->lost)
        err = -ENOMEM;
    pthread_mutex_unlock(&g->lock);
    if (over) g->source.ops->release(over->stream);
    free(over);
    return err ? gw_error_errno(err, "generate: no event") : 0;
}

int gw_generate_fd(const struct gw_generate *g)
{
    return g->fd;
}

/* ---- requests ---- */

static void public_ask(const struct gw_generate_request *r, struct gen_source_ask *ask)
{
    ask->request = (struct gen_request){.salt = r->salt,
                                        .seed = r->seed,
                                        .first_ns = r->first_ns,
                                        .each_ns = r->each_ns,
                                        .prompt = r->prompt_tokens,
                                        .stops = r->stops,
                                        .biases = r->biases,
                                        .max_tokens = r->max_tokens,
                                        .min_tokens = r->min_tokens,
                                        .priority = r->priority,
                                        .tops = r->tops,
                                        .temperature = r->temperature,
                                        .top_p = r->top_p ? r->top_p : 1,
                                        .min_p = r->min_p,
                                        .top_k = r->top_k,
                                        .repetition = r->repetition ? r->repetition : 1,
                                        .presence = r->presence,
                                        .frequency = r->frequency};
    ask->prompt = r->prompt;
    ask->stop = r->stop;
    /* Two structs of the same two fields. */
    ask->bias = (const struct gen_top *)r->bias;
}

int gw_generate_submit(struct gw_generate *g, const struct gw_generate_request *request, uint64_t deadline_ns,
                       uint64_t *stream)
{
    struct told *t = calloc(1, sizeof(*t));
    if (!t) return gw_error_errno(-ENOMEM, "generate");
    struct gen_source_ask ask = {.deadline_ns = deadline_ns, .event = public_event, .ctx = t};
    public_ask(request, &ask);
    t->owner = g;
    pthread_mutex_lock(&g->lock);
    t->id = ++g->ids;
    t->next = g->bucket[t->id % BUCKETS];
    g->bucket[t->id % BUCKETS] = t;
    pthread_mutex_unlock(&g->lock);
    *stream = t->id; /* before its events */
    int err = g->source.ops->submit(g->source.own, &ask, &t->stream);
    if (!err) return 0;
    pthread_mutex_lock(&g->lock);
    *public_find(g, t->id) = t->next;
    pthread_mutex_unlock(&g->lock);
    free(t);
    return err;
}

int gw_generate_cancel(struct gw_generate *g, uint64_t stream)
{
    pthread_mutex_lock(&g->lock);
    struct told *t = *public_find(g, stream);
    /* Under the lock, so that its last event is not taken in between. */
    if (t && t->stream) g->source.ops->cancel(t->stream);
    pthread_mutex_unlock(&g->lock);
    return t ? 0 : gw_error(-ENOENT, "generate: stream %llu has ended", (unsigned long long)stream);
}

/* ---- the end ---- */

static void public_release_all(struct gw_generate *g)
{
    for (uint32_t i = 0; i < BUCKETS; i++)
        for (struct told *t = g->bucket[i], *next; t; t = next) {
            next = t->next;
            g->source.ops->release(t->stream);
            free(t);
        }
    for (struct queued *q = g->first, *next; q; q = next) {
        next = q->next;
        free(q);
    }
}

void gw_generate_close(struct gw_generate *g)
{
    if (!g) return;
    public_release_all(g);
    gen_client_destroy(g->client);
    gen_remote_close(g->remote);
    if (g->dev) gw_device_close(g->dev);
    gw_exec_destroy(g->exec);
    if (g->fd >= 0) close(g->fd);
    pthread_cond_destroy(&g->came);
    pthread_mutex_destroy(&g->lock);
    free(g);
}
