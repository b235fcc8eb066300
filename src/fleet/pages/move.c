/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves of weights. Each model does one at a time, in the order in which they were asked for. A move from
 * disk is a job for the thread that reads, then one for the thread that copies. While a page is copied
 * another thread maps the next ones.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/fleet/pages/pages_impl.h"
#include "src/fleet/plan/plan.h"

static int64_t move_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void set_where(struct fleet_weights *w, uint32_t where)
{
    pthread_mutex_lock(&w->pages->lock);
    w->where = where;
    pthread_mutex_unlock(&w->pages->lock);
}

static bool take_pages(struct fleet_weights *w, struct fleet_free *from, uint32_t *of)
{
    pthread_mutex_lock(&w->pages->lock);
    bool got = fleet_free_take(from, w->n, of);
    pthread_mutex_unlock(&w->pages->lock);
    return got;
}

/* The pages are free, and the weights are where they were before. */
static void give_pages(struct fleet_weights *w, struct fleet_free *to, const uint32_t *of, uint32_t where)
{
    pthread_mutex_lock(&w->pages->lock);
    fleet_free_give(to, w->n, of);
    w->where = where;
    pthread_mutex_unlock(&w->pages->lock);
}

static int move_failed(struct fleet_result *r, uint32_t outcome, const char *why)
{
    r->outcome = outcome;
    snprintf(r->why, sizeof(r->why), "%s", why);
    return -1;
}

static bool move_refused(struct fleet_result *r, uint32_t outcome, const char *why)
{
    move_failed(r, outcome, why);
    return false;
}

static char *host_page(const struct fleet_weights *w, uint32_t i)
{
    return (char *)w->pages->host.host + w->host[i] * w->pages->page;
}

/* ---- from disk to host memory ---- */

static int read_pages(struct fleet_weights *w)
{
    struct gwm_key key = gwm_key_of(NULL, 0);
    int fd, err = w->key.bytes ? fleet_image_open(&w->key, w->pages->folder, &fd) : 0;

    if (err || !w->key.bytes) return err;
    for (uint32_t i = 0; i < w->n && !err; i++) {
        size_t part = fleet_weights_part(w, i);
        err = fleet_image_read(fd, host_page(w, i), part);
        if (!err) gwm_key_more(&key, host_page(w, i), part);
    }
    close(fd);
    if (!err && (key.a != w->key.a || key.b != w->key.b))
        err = gw_error(-EBADMSG, "its file of weights is damaged");
    return err;
}

static int to_host(struct fleet_weights *w, struct fleet_result *r)
{
    struct fleet_pages *p = w->pages;

    if (!take_pages(w, &p->free_host, w->host))
        return move_failed(r, FLEET_NO_ROOM, "no free pages of host memory");
    int err = read_pages(w);
    if (!err) {
        set_where(w, FLEET_HOST);
        return 0;
    }
    give_pages(w, &p->free_host, w->host, FLEET_ON_DISK);
    return move_failed(r, err == -ENOENT ? FLEET_NO_MODEL : FLEET_BROKEN, gw_last_error());
}

/* ---- to the GPU, and away ---- */

/* The pages of one LOAD, while they appear. */
struct mapping {
    struct fleet_job job;
    struct fleet_weights *w;
    pthread_mutex_t lock;
    pthread_cond_t change;
    uint32_t mapped;
    bool over;
    int err;
    char why[FLEET_WHY];
};

static void map_pages(struct fleet_job *j)
{
    struct mapping *g = (struct mapping *)j;
    const struct fleet_weights *w = g->w;
    struct fleet_place_memory *m = w->pages->gpu;
    int err = 0;

    for (uint32_t i = 0; i < w->n && !err; i++) {
        err = m->ops->map(m, w->at + i * w->pages->page, w->gpu[i]);
        pthread_mutex_lock(&g->lock);
        g->err = err;
        g->mapped += !err;
        if (err) snprintf(g->why, sizeof(g->why), "%s", gw_last_error());
        g->over = err || g->mapped == w->n;
        pthread_cond_signal(&g->change);
        pthread_mutex_unlock(&g->lock); /* after the last page *g is gone */
    }
}

/* Waits for page i, or (i as many as there are) for the end. */
static bool map_wait(struct mapping *g, uint32_t i)
{
    pthread_mutex_lock(&g->lock);
    while (g->mapped <= i && !g->over) pthread_cond_wait(&g->change, &g->lock);
    bool is = g->mapped > i;
    pthread_mutex_unlock(&g->lock);
    return is;
}

static int copy_pages(struct fleet_weights *w)
{
    struct fleet_place_memory *m = w->pages->gpu;
    struct mapping g = {.job = {.run = map_pages},
                        .w = w,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .change = PTHREAD_COND_INITIALIZER};
    int err = 0, late;

    fleet_lane_add(w->pages->map, &g.job);
    for (uint32_t i = 0; i < w->n && !err && map_wait(&g, i); i++)
        err = m->ops->copy(m, w->at + i * w->pages->page, host_page(w, i), fleet_weights_part(w, i));
    late = m->ops->wait(m);
    err = err ? err : late;
    map_wait(&g, w->n);
    if (!err && g.err) err = gw_error(g.err, "%s", g.why);
    if (err && g.mapped) m->ops->unmap(m, w->at, g.mapped * w->pages->page);
    return err;
}

static int to_gpu(struct fleet_weights *w, struct fleet_result *r)
{
    struct fleet_pages *p = w->pages;

    if (!take_pages(w, &p->free_gpu, w->gpu))
        return move_failed(r, FLEET_NO_ROOM, "no free pages on the GPU");
    set_where(w, FLEET_LOADING);
    if (copy_pages(w)) {
        give_pages(w, &p->free_gpu, w->gpu, FLEET_HOST);
        return move_failed(r, FLEET_BROKEN, gw_last_error());
    }
    set_where(w, FLEET_GPU);
    if (p->opts.arrived) p->opts.arrived(p->opts.ctx, w->user);
    return 0;
}

static int off_gpu(struct fleet_weights *w, struct fleet_result *r)
{
    struct fleet_pages *p = w->pages;

    set_where(w, FLEET_LEAVING);
    int err = p->opts.leave ? p->opts.leave(p->opts.ctx, w->user) : 0;
    if (err) {
        set_where(w, FLEET_GPU);
        return move_failed(r, FLEET_BROKEN, gw_last_error());
    }
    err = p->gpu->ops->unmap(p->gpu, w->at, w->n * p->page);
    give_pages(w, &p->free_gpu, w->gpu, FLEET_HOST);
    return err ? move_failed(r, FLEET_BROKEN, gw_last_error()) : 0;
}

/* ---- the moves of one model ---- */

static void run_on_disk(struct fleet_job *j);
static void run_on_bus(struct fleet_job *j);

static struct fleet_weights *weights_of(struct fleet_job *j)
{
    return (struct fleet_weights *)((char *)j - offsetof(struct fleet_weights, job));
}

/* Gives the first move to a thread. Under the lock. */
static void move_start(struct fleet_weights *w)
{
    const struct fleet_pages_move *m = w->first;
    bool reads = w->where == FLEET_ON_DISK && w->n && (m->kind == FLEET_TO_GPU || m->kind == FLEET_TO_HOST);

    w->job = (struct fleet_job){.run = reads ? run_on_disk : run_on_bus, .earliest_at = m->earliest_at};
    fleet_lane_add(reads ? w->pages->disk : w->pages->bus, &w->job);
}

/* The first move is over. When all is over, so are those that wait. */
static void move_end(struct fleet_weights *w)
{
    struct fleet_pages *p = w->pages;
    struct fleet_pages_move *m = w->first, *left = NULL;

    m->result.ended_at = move_now();
    pthread_mutex_lock(&p->lock);
    m->result.where = w->where;
    w->first = m->next;
    if (p->over) {
        left = w->first;
        w->first = NULL;
    }
    if (!w->first) w->last = &w->first;
    if (w->first) move_start(w);
    pthread_mutex_unlock(&p->lock);
    m->done(m);
    for (m = left; m; m = left) {
        left = m->next;
        move_failed(&m->result, FLEET_BROKEN, "the worker ends");
        m->done(m);
    }
}

/* May the first move begin? If not it has failed. */
static bool move_begins(struct fleet_weights *w)
{
    struct fleet_result *r = &w->first->result;

    *r = (struct fleet_result){.outcome = FLEET_DONE, .began_at = move_now()};
    pthread_mutex_lock(&w->pages->lock);
    bool over = w->pages->over;
    pthread_mutex_unlock(&w->pages->lock);
    if (over) return move_refused(r, FLEET_BROKEN, "the worker ends");
    if (!w->n) return move_refused(r, FLEET_NO_MODEL, "the model has no plans here");
    if (r->began_at > w->first->latest_at)
        return move_refused(r, FLEET_TOO_LATE, "other moves were before it");
    return true;
}

static void run_on_disk(struct fleet_job *j)
{
    struct fleet_weights *w = weights_of(j);
    int err = move_begins(w) ? to_host(w, &w->first->result) : -1;

    if (err || w->first->kind == FLEET_TO_HOST) {
        move_end(w);
        return;
    }
    w->job = (struct fleet_job){.run = run_on_bus};
    fleet_lane_add(w->pages->bus, &w->job);
}

static void run_on_bus(struct fleet_job *j)
{
    struct fleet_weights *w = weights_of(j);
    struct fleet_pages_move *m = w->first;
    bool begun = m->result.began_at; /* it has been read from disk */

    if (!begun && !move_begins(w)) {
        move_end(w);
        return;
    }
    bool there = w->where == FLEET_GPU; /* nothing else moves it */
    int err = 0;
    if (m->kind == FLEET_TO_GPU && !there) err = to_gpu(w, &m->result);
    if ((m->kind == FLEET_OFF_GPU || m->kind == FLEET_TO_DISK) && there) err = off_gpu(w, &m->result);
    if (!err && m->kind == FLEET_TO_DISK && w->where == FLEET_HOST)
        give_pages(w, &w->pages->free_host, w->host, FLEET_ON_DISK);
    move_end(w);
}

void fleet_weights_move(struct fleet_weights *w, struct fleet_pages_move *m)
{
    struct fleet_pages *p = w->pages;

    m->next = NULL;
    m->result = (struct fleet_result){0};
    pthread_mutex_lock(&p->lock);
    bool alone = !w->first;
    *w->last = m;
    w->last = &m->next;
    if (alone) move_start(w);
    pthread_mutex_unlock(&p->lock);
}
