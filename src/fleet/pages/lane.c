/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that works through jobs. */
#include "src/fleet/pages/lane.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include <gpuwire/error.h>

struct fleet_lane {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct fleet_job *first, **last;
    bool over;
};

static int64_t lane_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The first job whose time has come, taken out; NULL: there is none, and *at is when there is one, or
 * INT64_MAX. */
static struct fleet_job *lane_take(struct fleet_lane *l, int64_t *at)
{
    int64_t now = lane_now();

    *at = INT64_MAX;
    for (struct fleet_job **p = &l->first; *p; p = &(*p)->next) {
        struct fleet_job *j = *p;
        if (j->earliest_at > now && !l->over) {
            if (j->earliest_at < *at) *at = j->earliest_at;
            continue;
        }
        *p = j->next;
        if (l->last == &j->next) l->last = p;
        return j;
    }
    return NULL;
}

static void lane_sleep(struct fleet_lane *l, int64_t at)
{
    const struct timespec t = {at / 1000000000, at % 1000000000};

    if (at == INT64_MAX)
        pthread_cond_wait(&l->change, &l->lock);
    else
        pthread_cond_timedwait(&l->change, &l->lock, &t);
}

static void *lane_thread(void *arg)
{
    struct fleet_lane *l = (struct fleet_lane *)arg;
    int64_t at;

    pthread_mutex_lock(&l->lock);
    for (;;) {
        struct fleet_job *j = lane_take(l, &at);
        if (!j && l->over) break;
        if (!j) {
            lane_sleep(l, at);
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        j->run(j);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

int fleet_lane_create(const char *name, struct fleet_lane **out)
{
    struct fleet_lane *l = (struct fleet_lane *)calloc(1, sizeof(*l));
    pthread_condattr_t attr;

    *out = NULL;
    if (!l) return -ENOMEM;
    l->last = &l->first;
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&l->change, &attr);
    pthread_condattr_destroy(&attr);
    int err = -pthread_create(&l->thread, NULL, lane_thread, l);
    if (err) {
        pthread_cond_destroy(&l->change);
        pthread_mutex_destroy(&l->lock);
        free(l);
        return gw_error(err, "no thread for %s", name);
    }
    pthread_setname_np(l->thread, name);
    *out = l;
    return 0;
}

void fleet_lane_destroy(struct fleet_lane *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->over = true;
    pthread_cond_signal(&l->change);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->change);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

void fleet_lane_add(struct fleet_lane *l, struct fleet_job *j)
{
    pthread_mutex_lock(&l->lock);
    j->next = NULL;
    *l->last = j;
    l->last = &j->next;
    pthread_cond_signal(&l->change);
    pthread_mutex_unlock(&l->lock);
}
