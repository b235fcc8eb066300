/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts for every page, lane and request of the scheduler. */
#include <stdlib.h>

#include "src/generate/device/device.h"

/* ---- pages ---- */

struct tally {
    uint32_t *refs;  /* of each page: lanes whose table names it */
    uint32_t *place; /* of each page: its place among the kept ones, from 1 */
    uint32_t held, kept, found, shared;
};

static const uint32_t *gen_sound_table(const struct gen_args *a, uint32_t lane)
{
    return a->step->page + (uint64_t)lane * a->lane_pages;
}

static const uint32_t *gen_sound_token(const struct gen_args *a, uint32_t job)
{
    return a->token + (uint64_t)job * a->context;
}

/* A lane's pages are enough for what it has computed. Those that can be found hold its tokens. */
static const char *gen_sound_lane_pages(const struct gen_args *a, uint32_t lane, struct tally *t)
{
    const struct gen_lane *l = &a->lane[lane];
    const uint32_t *table = gen_sound_table(a, lane), *token = gen_sound_token(a, l->job - 1);
    if (l->pages > a->lane_pages || l->computed > l->pages * GEN_PAGE) return "a lane has too few pages";
    for (uint32_t i = 0; i < l->pages; i++) {
        if (table[i] >= a->pages) return "a lane names no page";
        t->refs[table[i]]++;
    }
    if (l->indexed == GEN_NO_LANE) return NULL;
    if (l->indexed * GEN_PAGE > l->computed) return "a lane shares what it has not computed";
    for (uint32_t i = 0; i < l->indexed; i++) {
        const struct gen_page *p = &a->page[table[i]];
        if (!p->found || p->before != (i ? table[i - 1] + 1 : 0)) return "a lane's page cannot be found";
        if (memcmp(p->token, token + i * GEN_PAGE, sizeof(p->token))) return "a page holds other tokens";
    }
    return NULL;
}

/* Kept pages are those that no lane has and that can be found. */
static const char *gen_sound_kept(const struct gen_args *a, struct tally *t)
{
    const struct gen_work *w = a->work;
    uint32_t before = 0;
    for (uint32_t n = w->first_kept; n; n = a->page[n - 1].next) {
        const struct gen_page *p = &a->page[n - 1];
        if (++t->kept > a->pages) return "the list of kept pages has no end";
        if (p->refs || !p->found || p->prev != before) return "a page is wrongly kept";
        t->place[n - 1] = t->kept;
        before = n;
    }
    return before == w->last_kept ? NULL : "the last kept page is another one";
}

static const char *gen_sound_page(const struct gen_args *a, uint32_t n, struct tally *t)
{
    const struct gen_page *p = &a->page[n];
    if (p->refs != t->refs[n]) return "a page is held by more or fewer lanes than it says";
    t->held += p->refs > 0;
    t->shared += p->refs > 1;
    t->found += p->found;
    if (p->found && !p->refs && !t->place[n]) return "a page that can be found is neither held nor kept";
    if (!p->found || !p->before) return NULL;
    const struct gen_page *before = &a->page[p->before - 1];
    if (!before->found || before->refs < p->refs) return "a page is there without the one before it";
    if (!before->refs && t->place[p->before - 1] < t->place[n])
        return "a page would go after the one before it";
    return NULL;
}

static const char *gen_sound_index(const struct gen_args *a, const struct tally *t)
{
    uint32_t there = 0, free = 0;
    for (uint64_t b = 0; b <= a->bucket_mask; b++)
        for (uint32_t n = a->bucket[b]; n; n = a->page[n - 1].chain) {
            if (++there > a->pages || !a->page[n - 1].found)
                return "a bucket has a page that is not in the index";
            if ((a->page[n - 1].hash & a->bucket_mask) != b) return "a page is in another one's bucket";
        }
    if (there != t->found) return "pages are missing in the index";
    for (uint32_t n = a->work->free_page; n; n = a->page[n - 1].chain) {
        if (++free > a->pages || a->page[n - 1].refs || a->page[n - 1].found) return "a page is wrongly free";
    }
    return t->held + t->kept + free + (a->pages - a->work->fresh_pages) == a->pages
               ? NULL
               : "the pages that are held, kept and free are not all";
}

static const char *gen_sound_pages(const struct gen_args *a, struct tally *t)
{
    const struct gen_work *w = a->work;
    const char *what = NULL;
    for (uint32_t i = 0; !what && i < w->running; i++) what = gen_sound_lane_pages(a, w->run[i], t);
    if (a->fixed || what) return what;
    what = gen_sound_kept(a, t);
    for (uint32_t n = 0; !what && n < a->pages; n++) what = gen_sound_page(a, n, t);
    if (!what) what = gen_sound_index(a, t);
    if (what) return what;
    if (w->held_pages != t->held || w->kept_pages != t->kept) return "the counts of pages are wrong";
    return w->stats.pages_shared == t->shared ? NULL : "the count of shared pages is wrong";
}

/* ---- requests ---- */

static const char *gen_sound_lanes(const struct gen_args *a)
{
    const struct gen_work *w = a->work;
    uint32_t free = 0;
    for (uint32_t i = 0; i < w->running; i++) {
        const struct gen_lane *l = &a->lane[w->run[i]];
        if (l->at != i || !l->job) return "a lane runs without a request";
        const struct gen_job *j = &a->job[l->job - 1];
        if (j->state != GEN_JOB_RUNNING || j->lane != w->run[i]) return "a lane's request is elsewhere";
        if (l->computed > j->prompt + j->made) return "a lane has computed more than there is";
    }
    for (uint32_t n = w->free_lane; n; n = a->lane[n - 1].next)
        if (++free > a->lanes || a->lane[n - 1].job) return "a lane is wrongly free";
    return w->running + free == w->fresh_lanes ? NULL : "lanes are missing";
}

static const char *gen_sound_heap(const struct gen_args *a)
{
    for (uint32_t i = 0; i < a->work->waiting; i++) {
        const struct gen_key *k = &a->heap[i], *up = &a->heap[i ? (i - 1) / 2 : 0];
        if (a->job[k->job].state != GEN_JOB_WAITING || a->job[k->job].at != i)
            return "the queue has a request that does not wait";
        if (k->rank < up->rank || (k->rank == up->rank && k->deadline < up->deadline))
            return "the queue is out of order";
    }
    return NULL;
}

static const char *gen_sound_session(const struct gen_args *a, uint32_t i, uint32_t *jobs)
{
    const struct gen_session *s = &a->session[i];
    uint32_t held = 0, own = 0, before = 0;
    for (uint32_t n = s->jobs; n; n = a->job[n - 1].next) {
        const struct gen_job *j = &a->job[n - 1];
        if (++own > a->requests || j->session != i || j->prev != before || !s->open)
            return "a session has another one's request";
        if (a->slot[(uint64_t)i * a->slots + j->slot] != n) return "a slot names another request";
        held += j->held;
        before = n;
    }
    for (uint32_t n = s->first_held; n; n = a->job[n - 1].held_next)
        if (!a->job[n - 1].held || !held--) return "an event waits that is not there";
    if (held) return "an event is lost";
    if (!s->stalled != !(s->first_held || s->fulls)) return "a session waits for nothing, or is forgotten";
    *jobs += own;
    return NULL;
}

static const char *gen_sound_jobs(const struct gen_args *a)
{
    const struct gen_work *w = a->work;
    uint32_t jobs = 0, state[GEN_JOB_OVER + 1] = {0};
    const char *what = gen_sound_lanes(a);
    if (!what) what = gen_sound_heap(a);
    for (uint32_t i = 0; !what && i < a->sessions; i++) what = gen_sound_session(a, i, &jobs);
    if (what) return what;
    for (uint32_t i = 0; i < w->fresh_jobs; i++) {
        const struct gen_job *j = &a->job[i];
        state[j->state]++;
        if (j->state == GEN_JOB_HELD && !j->held) return "a request waits for an event that does not";
    }
    if (state[GEN_JOB_RUNNING] != w->running || state[GEN_JOB_WAITING] != w->waiting)
        return "requests run or wait that no one knows of";
    return jobs + state[GEN_JOB_FREE] == w->fresh_jobs ? NULL : "requests are missing";
}

const char *gen_sound(const struct gen_args *a)
{
    struct tally t = {.refs = calloc(a->pages, sizeof(uint32_t)),
                      .place = calloc(a->pages, sizeof(uint32_t))};
    const char *what = t.refs && t.place ? gen_sound_jobs(a) : "no memory";
    if (!what) what = gen_sound_pages(a, &t);
    free(t.refs);
    free(t.place);
    return what;
}
