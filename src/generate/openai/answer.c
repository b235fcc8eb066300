/* SPDX-License-Identifier: Apache-2.0 */
/* An answer: the streams of one request, from their submission until the last piece of each is taken. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/generate/openai/impl.h"

/* ---- events, on the source's thread */

static void answer_event(void *ctx, const struct gen_event *e)
{
    struct gen_choice *c = ctx;
    struct gen_answer *a = c->answer;
    struct gen_service *s = a->service;
    struct gen_token one = {e->token, e->logprob, e->tops < GEN_MAX_TOPS + 4 ? e->tops : GEN_MAX_TOPS + 4};
    bool push = false;
    pthread_mutex_lock(&a->lock);
    if (!a->closed && !c->over && !c->came.last) {
        c->came.cached = e->cached;
        if (e->token != GEN_NO_TOKEN) gen_tokens_add(&c->came, &one, e->top);
        if (e->status != GEN_GOING) {
            c->came.last = e->status;
            c->came.detail = e->detail;
        }
        push = !c->queued;
        c->queued = true;
        a->working += push;
    }
    pthread_mutex_unlock(&a->lock);
    /* `working` keeps the answer: its end waits until the pool has had the choice. */
    if (push) gen_service_push(s, c);
}

/* ---- making one */

static struct gen_answer *answer_make(struct gen_service *s, const struct gen_ask *ask)
{
    uint32_t n = ask->prompts * ask->n;
    struct gen_answer *a = calloc(1, sizeof(*a) + n * sizeof(a->choice[0]) + ask->prompts * sizeof(uint32_t));
    if (!a) return NULL;
    a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (a->fd < 0) {
        free(a);
        return NULL;
    }
    a->service = s;
    a->choices = a->left = n;
    a->dirty_end = &a->dirty;
    a->n = ask->n;
    a->prompt_tokens = (uint32_t *)&a->choice[n];
    for (uint32_t i = 0; i < ask->prompts; i++) a->prompt_tokens[i] = (uint32_t)ask->prompt[i].count;
    a->keep_stop = ask->keep_stop;
    a->control = ask->control;
    a->logprobs = ask->logprobs;
    a->min_tokens = ask->request.min_tokens;
    for (uint32_t i = 0; i < n; i++) {
        a->choice[i].answer = a;
        a->choice[i].index = i;
        a->choice[i].end = (struct gen_piece){.choice = i, .stopped_by = -1, .stop_token = GEN_NO_TOKEN};
    }
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->idle, NULL);
    __atomic_add_fetch(&s->answers, 1, __ATOMIC_RELAXED); /* it stands alone */
    return a;
}

static int answer_open_stops(struct gen_answer *a, const struct gen_ask *ask)
{
    int err = 0;
    for (uint32_t i = 0; !err && ask->stop_texts && i < a->choices; i++)
        err = gen_stop_open(ask->stop_text, ask->stop_bytes, ask->stop_texts, &a->choice[i].stop);
    return err;
}

/* The model's own tokens that end a turn, then the ask's. How many; -E2BIG. */
static int answer_stop_tokens(struct gen_answer *a, const struct gen_ask *ask, uint32_t to[GEN_MAX_STOPS])
{
    const uint32_t *own = NULL;
    size_t n = ask->ignore_eos ? 0 : gen_tokenizer_eos(a->service->opts.tokenizer, &own);
    if (n + ask->stops > GEN_MAX_STOPS)
        return gw_error(-E2BIG, "stop_token_ids: must be at most %zu: the model itself has %zu",
                        n < GEN_MAX_STOPS ? GEN_MAX_STOPS - n : 0, n);
    if (n) memcpy(to, own, n * sizeof(*to));
    if (ask->stops) memcpy(to + n, ask->stop, ask->stops * sizeof(*to));
    a->eos_stops = (uint32_t)n;
    return (int)(n + ask->stops);
}

static uint64_t answer_seed(const struct gen_ask *ask, uint32_t which)
{
    uint64_t seed = 0;
    if (ask->seeded) return ask->request.seed + which;
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) seed = gw_deadline(which); /* better than none */
    return seed;
}

static int answer_submit(struct gen_answer *a, const struct gen_ask *ask, uint32_t i,
                         struct gen_source_ask *to)
{
    struct gen_choice *c = &a->choice[i];
    const struct gen_source *source = a->service->opts.source;
    struct gen_stream *stream;
    const struct gen_ids *prompt = &ask->prompt[i / ask->n];
    to->prompt = prompt->at;
    to->request.prompt = (uint32_t)prompt->count;
    to->request.seed = answer_seed(ask, i % ask->n);
    to->event = answer_event;
    to->ctx = c;
    int err = source->ops->submit(source->own, to, &stream);
    if (err) return err;
    pthread_mutex_lock(&a->lock);
    c->stream = stream;
    bool over = c->over;
    pthread_mutex_unlock(&a->lock);
    /* Its text may have ended it before the pool knew the stream. */
    if (over) source->ops->cancel(stream);
    return 0;
}

int gen_answer_begin(struct gen_service *s, const struct gen_ask *ask, struct gen_answer **out)
{
    uint32_t stop[GEN_MAX_STOPS];
    if (gen_service_draining(s)) return gw_error(-ESHUTDOWN, "the server is about to end");
    struct gen_answer *a = answer_make(s, ask);
    if (!a)
        return gw_error(errno == EMFILE ? -EMFILE : -ENOMEM, "no memory, or no descriptor, for an answer");
    int stops = answer_stop_tokens(a, ask, stop);
    int err = stops < 0 ? stops : answer_open_stops(a, ask);
    struct gen_source_ask to = {.request = ask->request,
                                .stop = stop,
                                .bias = ask->bias,
                                .who = ask->who,
                                .deadline_ns = gw_deadline(s->opts.patience_ns)};
    to.request.stops = stops < 0 ? 0 : (uint32_t)stops;
    to.request.biases = ask->biases;
    for (uint32_t i = 0; !err && i < a->choices; i++) err = answer_submit(a, ask, i, &to);
    if (err)
        gen_answer_free(a);
    else
        *out = a;
    return err;
}

/* ---- taking pieces */

int gen_answer_fd(const struct gen_answer *a)
{
    return a->fd;
}

static void answer_unlist(struct gen_answer *a, struct gen_choice *c)
{
    a->dirty = c->next_dirty;
    if (!a->dirty) a->dirty_end = &a->dirty;
    c->dirty = false;
}

int gen_answer_take(struct gen_answer *a, struct gen_piece *out)
{
    uint64_t count;
    pthread_mutex_lock(&a->lock);
    struct gen_choice *c = a->dirty;
    int got = c ? 1 : a->left ? 0 : -ENODATA;
    if (c) {
        answer_unlist(a, c);
        *out = c->end;
        out->text = c->text.at;
        out->bytes = c->text.bytes;
        out->token = c->shown.at;
        out->tokens = c->shown.count;
        out->top = c->shown.top;
        c->text = (struct gw_text){0};
        c->shown = (struct gen_tokens){0};
        a->left -= c->over;
    } else if (read(a->fd, &count, sizeof(count)) < 0) {
        /* It was not set: what comes from now on sets it, as the lock is held. */
    }
    pthread_mutex_unlock(&a->lock);
    return got;
}

void gen_piece_free(struct gen_piece *p)
{
    free(p->text);
    free(p->token);
    free(p->top);
    *p = (struct gen_piece){0};
}

/* ---- the end */

static void choice_free(struct gen_choice *c)
{
    gen_stop_close(c->stop);
    gen_tokens_free(&c->came);
    gen_tokens_free(&c->shown);
    free(c->text.at);
}

void gen_answer_free(struct gen_answer *a)
{
    if (!a) return;
    struct gen_service *s = a->service;
    pthread_mutex_lock(&a->lock);
    a->closed = true;
    while (a->working) pthread_cond_wait(&a->idle, &a->lock);
    pthread_mutex_unlock(&a->lock);
    for (uint32_t i = 0; i < a->choices; i++) {
        struct gen_choice *c = &a->choice[i];
        s->opts.source->ops->release(c->stream);
        if (c->stream) gen_service_count(s, a->prompt_tokens[i / a->n], c->end.made, c->by_text);
        choice_free(c);
    }
    close(a->fd);
    pthread_cond_destroy(&a->idle);
    pthread_mutex_destroy(&a->lock);
    free(a);
    __atomic_sub_fetch(&s->answers, 1, __ATOMIC_RELAXED); /* it stands alone */
}
