/* SPDX-License-Identifier: Apache-2.0 */
/* A service and its pool of threads, which make text of tokens. */
#include "src/generate/openai/service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/generate/openai/impl.h"

#define SERVICE_THREADS  2u
#define SERVICE_PATIENCE UINT64_C(5000000000)

static struct gen_choice *service_pop(struct gen_service *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->first && !s->ends) pthread_cond_wait(&s->work, &s->lock);
    struct gen_choice *c = s->first;
    if (c) {
        s->first = c->next;
        if (!s->first) s->end = &s->first;
    }
    pthread_mutex_unlock(&s->lock);
    return c;
}

static void *service_run(void *arg)
{
    struct gen_service *s = arg;
    for (struct gen_choice *c; (c = service_pop(s));) gen_choice_work(c);
    return NULL;
}

void gen_service_push(struct gen_service *s, struct gen_choice *c)
{
    c->next = NULL;
    pthread_mutex_lock(&s->lock);
    *s->end = c;
    s->end = &c->next;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

static int service_start(struct gen_service *s, uint32_t threads)
{
    for (; s->threads < threads; s->threads++)
        if (pthread_create(&s->thread[s->threads], NULL, service_run, s))
            return gw_error(-EAGAIN, "no thread for the pool that makes text");
    return 0;
}

int gen_service_open(const struct gen_service_opts *opts, struct gen_service **out)
{
    uint32_t threads = opts->threads ? opts->threads : SERVICE_THREADS;
    struct gen_service *s = calloc(1, sizeof(*s) + threads * sizeof(s->thread[0]));
    char *name = strdup(opts->name);
    if (!s || !name) {
        free(s);
        free(name);
        return gw_error(-ENOMEM, "no memory for a service");
    }
    s->opts = *opts;
    s->opts.name = s->name = name;
    if (!s->opts.patience_ns) s->opts.patience_ns = SERVICE_PATIENCE;
    s->end = &s->first;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    int err = service_start(s, threads);
    if (err)
        gen_service_close(s);
    else
        *out = s;
    return err;
}

void gen_service_close(struct gen_service *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->ends = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    for (uint32_t i = 0; i < s->threads; i++) pthread_join(s->thread[i], NULL);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s->name);
    free(s);
}

void gen_service_drain(struct gen_service *s)
{
    __atomic_store_n(&s->draining, 1, __ATOMIC_RELAXED); /* it stands alone */
}

bool gen_service_draining(const struct gen_service *s)
{
    return __atomic_load_n(&s->draining, __ATOMIC_RELAXED); /* it stands alone */
}

uint32_t gen_service_answers(const struct gen_service *s)
{
    return __atomic_load_n(&s->answers, __ATOMIC_RELAXED); /* it stands alone */
}

const struct gen_service_opts *gen_service_of(const struct gen_service *s)
{
    return &s->opts;
}

/* ---- counts */

uint64_t gen_length_end(uint32_t bucket)
{
    static const uint64_t step[] = {1, 2, 5};
    uint64_t end = step[bucket % 3];
    for (uint32_t i = 0; i < bucket / 3; i++) end *= 10;
    return end;
}

static void service_add(uint64_t *number, uint64_t more)
{
    __atomic_add_fetch(number, more, __ATOMIC_RELAXED); /* it stands alone */
}

static void service_count_length(struct gen_lengths *l, uint32_t tokens)
{
    uint32_t i = 0;
    while (i < GEN_LENGTHS - 1 && tokens > gen_length_end(i)) i++;
    service_add(&l->count[i], 1);
    service_add(&l->sum, tokens);
}

void gen_service_count(struct gen_service *s, uint32_t prompt, uint32_t made, bool text_stop)
{
    service_count_length(&s->stats.prompts, prompt);
    service_count_length(&s->stats.made, made);
    service_add(&s->stats.text_stops, text_stop);
}

void gen_service_stats(const struct gen_service *s, struct gen_service_stats *out)
{
    const uint64_t *from = (const uint64_t *)&s->stats;
    uint64_t *to = (uint64_t *)out;
    for (size_t i = 0; i < sizeof(*out) / sizeof(*to); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED); /* it stands alone */
}
