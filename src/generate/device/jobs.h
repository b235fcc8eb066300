/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and lanes: how they are taken and given back. One thread. */
#ifndef GW_GENERATE_DEVICE_JOBS_H
#define GW_GENERATE_DEVICE_JOBS_H

#include "src/generate/device/pages.h"
#include "src/generate/device/queue.h"

#define GEN_NONE UINT32_MAX

GW_DEV uint32_t *gen_job_token(const struct gen_args *a, uint32_t job)
{
    return a->token + (uint64_t)job * a->context;
}

GW_DEV uint32_t *gen_job_slot(const struct gen_args *a, const struct gen_job *j)
{
    return &a->slot[(uint64_t)j->session * a->slots + j->slot];
}

/* Where the client wrote the request. */
GW_DEV const uint8_t *gen_slot_at(const struct gen_args *a, uint32_t session, uint32_t slot)
{
    return a->session[session].in + slot * a->in_stride;
}

/* A job for that slot, which has none; GEN_NONE: all are in use. */
GW_DEV uint32_t gen_job_new(const struct gen_args *a, uint32_t session, uint32_t slot)
{
    struct gen_work *w = a->work;
    struct gen_session *s = &a->session[session];
    uint32_t n = w->free_job - 1;
    if (w->free_job)
        w->free_job = a->job[n].next;
    else if (w->fresh_jobs < a->requests)
        n = w->fresh_jobs++;
    else
        return GEN_NONE;
    struct gen_job *j = &a->job[n];
    memset(j, 0, sizeof(*j));
    j->state = GEN_JOB_FRESH;
    j->session = session;
    j->slot = slot;
    j->order = w->order++;
    j->next = s->jobs;
    if (s->jobs) a->job[s->jobs - 1].prev = n + 1;
    s->jobs = n + 1;
    *gen_job_slot(a, j) = n + 1;
    return n;
}

/* ---- lanes ---- */

/* A free lane for the job; there is one. It has no pages, and is not yet among those that run. */
GW_DEV uint32_t gen_lane_new(const struct gen_args *a, uint32_t job)
{
    struct gen_work *w = a->work;
    uint32_t n = w->free_lane - 1;
    if (w->free_lane)
        w->free_lane = a->lane[n].next;
    else
        n = w->fresh_lanes++;
    GW_ASSERT(n < a->lanes);
    struct gen_lane *l = &a->lane[n];
    memset(l, 0, sizeof(*l));
    l->job = job + 1;
    if (a->fixed || a->job[job].flags & GEN_NO_SHARE) l->indexed = GEN_NO_LANE;
    return n;
}

GW_DEV void gen_lane_free(const struct gen_args *a, uint32_t lane)
{
    struct gen_work *w = a->work;
    gen_lane_shrink(a, lane);
    a->lane[lane].job = 0;
    a->lane[lane].next = w->free_lane;
    w->free_lane = lane + 1;
}

GW_DEV void gen_lane_run(const struct gen_args *a, uint32_t lane)
{
    struct gen_work *w = a->work;
    struct gen_job *j = &a->job[a->lane[lane].job - 1];
    j->state = GEN_JOB_RUNNING;
    j->lane = lane;
    a->lane[lane].at = w->running;
    w->run[w->running++] = lane;
}

/* The job leaves its lane, or the queue. Its state is then the caller's to set. */
GW_DEV void gen_job_leave(const struct gen_args *a, uint32_t job)
{
    struct gen_work *w = a->work;
    struct gen_job *j = &a->job[job];
    if (j->state == GEN_JOB_WAITING) gen_queue_remove(a, job);
    if (j->state != GEN_JOB_RUNNING) return;
    uint32_t at = a->lane[j->lane].at, last = w->run[--w->running];
    w->run[at] = last;
    a->lane[last].at = at;
    gen_lane_free(a, j->lane);
}

/* ---- the end ---- */

/* The job no longer has an event that waits for room. */
GW_DEV void gen_job_unhold(const struct gen_args *a, uint32_t job)
{
    struct gen_job *j = &a->job[job];
    struct gen_session *s = &a->session[j->session];
    if (j->held_prev)
        a->job[j->held_prev - 1].held_next = j->held_next;
    else
        s->first_held = j->held_next;
    if (j->held_next)
        a->job[j->held_next - 1].held_prev = j->held_prev;
    else
        s->last_held = j->held_prev;
    j->held = 0;
}

/* The job is over, whatever it was. */
GW_DEV void gen_job_free(const struct gen_args *a, uint32_t job)
{
    struct gen_work *w = a->work;
    struct gen_job *j = &a->job[job];
    struct gen_session *s = &a->session[j->session];
    GW_ASSERT(j->state != GEN_JOB_FREE);
    gen_job_leave(a, job);
    if (j->held) gen_job_unhold(a, job);
    if (j->charged) gen_job_refund(a, j);
    *gen_job_slot(a, j) = 0;
    if (j->prev)
        a->job[j->prev - 1].next = j->next;
    else
        s->jobs = j->next;
    if (j->next) a->job[j->next - 1].prev = j->prev;
    j->state = GEN_JOB_FREE;
    j->next = w->free_job;
    w->free_job = job + 1;
}

#endif
