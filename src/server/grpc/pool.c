/* SPDX-License-Identifier: Apache-2.0 */
/* Threads for gRPC calls that wait. */
#include "src/server/grpc/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <gpuwire/detail/held.h>

#define STACK (512u << 10)

struct gw_grpc_pool {
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct gw_grpc_job *head, **tail;
    uint32_t most, each, threads, idle, waiting;
    int ending;
    pthread_t thread[];
};

static struct gw_grpc_job *grpc_pool_take_out(struct gw_grpc_pool *p, struct gw_grpc_job **at)
{
    GW_ASSERT_HELD(&p->lock);
    struct gw_grpc_job *job = *at;
    if (!job) return NULL;
    *at = job->next;
    if (!*at) p->tail = at;
    GW_ASSERT(p->waiting > 0);
    p->waiting--;
    return job;
}

/* The first job whose client may have another thread. */
static struct gw_grpc_job *grpc_pool_take(struct gw_grpc_pool *p)
{
    GW_ASSERT_HELD(&p->lock);
    struct gw_grpc_job **at = &p->head;
    while (*at && *(*at)->running >= p->each) at = &(*at)->next;
    struct gw_grpc_job *job = grpc_pool_take_out(p, at);
    if (job) ++*job->running;
    return job;
}

static void *grpc_pool_work(void *arg)
{
    struct gw_grpc_pool *p = arg;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        struct gw_grpc_job *job = grpc_pool_take(p);
        if (!job) {
            if (p->ending) break;
            p->idle++;
            pthread_cond_wait(&p->news, &p->lock);
            p->idle--;
            continue;
        }
        pthread_mutex_unlock(&p->lock);
        job->run(job);
        pthread_mutex_lock(&p->lock);
        GW_ASSERT(*job->running > 0 && p->idle <= p->threads);
        --*job->running;
        pthread_mutex_unlock(&p->lock);
        job->leave(job);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* One more thread, when all are at work. */
static void grpc_pool_grow(struct gw_grpc_pool *p)
{
    GW_ASSERT_HELD(&p->lock);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    if (!pthread_create(&p->thread[p->threads], &attr, grpc_pool_work, p)) {
        pthread_setname_np(p->thread[p->threads], "gw-grpc-work");
        p->threads++;
    }
    pthread_attr_destroy(&attr);
}

int gw_grpc_pool_create(uint32_t threads, struct gw_grpc_pool **out)
{
    struct gw_grpc_pool *p = calloc(1, sizeof(*p) + threads * sizeof(p->thread[0]));
    if (!p) return -ENOMEM;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->news, NULL);
    p->tail = &p->head;
    p->most = threads;
    p->each = threads - threads / 4;
    *out = p;
    return 0;
}

int gw_grpc_pool_add(struct gw_grpc_pool *p, struct gw_grpc_job *job)
{
    int err = 0;
    job->next = NULL;
    pthread_mutex_lock(&p->lock);
    *p->tail = job;
    p->tail = &job->next;
    if (p->waiting++ >= p->idle && p->threads < p->most) grpc_pool_grow(p);
    if (!p->threads) {
        p->head = NULL;
        p->tail = &p->head;
        p->waiting = 0;
        err = -EAGAIN;
    }
    pthread_cond_signal(&p->news);
    pthread_mutex_unlock(&p->lock);
    return err;
}

int gw_grpc_pool_cancel(struct gw_grpc_pool *p, struct gw_grpc_job *job)
{
    pthread_mutex_lock(&p->lock);
    struct gw_grpc_job **at = &p->head;
    while (*at && *at != job) at = &(*at)->next;
    int waited = grpc_pool_take_out(p, at) != NULL;
    pthread_mutex_unlock(&p->lock);
    return waited;
}

int gw_grpc_pool_is_busy(struct gw_grpc_pool *p)
{
    pthread_mutex_lock(&p->lock);
    int busy = p->head != NULL || p->idle < p->threads;
    pthread_mutex_unlock(&p->lock);
    return busy;
}

void gw_grpc_pool_free(struct gw_grpc_pool *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->ending = 1;
    pthread_cond_broadcast(&p->news);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->threads; i++) pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->news);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
