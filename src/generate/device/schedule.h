/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives lanes and pages to requests, and takes them back. One thread, but for gen_watch.
 *
 * - The first request of the queue gets a lane when there are pages for all its tokens, and one more for each
 *   lane that runs. None overtakes it.
 * - A lane grows page by page. When none is left, a request goes back to the queue: the one of the lowest
 *   priority, of equal ones the youngest. It later computes its tokens again. The oldest one of the highest
 *   priority is never chosen while others run. So it ends, whatever happens.
 * - A request of a higher priority takes the lane of a lower one.
 * - A request whose client takes no events for a while gives way to all.
 */
#ifndef GW_GENERATE_DEVICE_SCHEDULE_H
#define GW_GENERATE_DEVICE_SCHEDULE_H

#include "src/generate/device/events.h"

#define GEN_PATIENCE_NS 50000000u /* how long a client may take no events before its lanes give way */

/* ---- cancellations and deadlines ---- */

/* The status that ends the job now; GEN_GOING: none. Any thread. */
GW_DEV enum gen_status gen_job_verdict(const struct gen_args *a, const struct gen_job *j, uint64_t now)
{
    const struct gen_work *w = a->work;
    uint64_t taken =
        gw_ld_relaxed_u64(gen_slot_at(a, j->session, j->slot) + offsetof(struct gen_request, taken));
    if (taken == j->id) return GEN_CANCELLED;
    if (w->closing > 1 || (w->closing && j->state != GEN_JOB_RUNNING)) return GEN_CLOSING;
    /* One that waits needs a step at least. */
    if (j->state == GEN_JOB_WAITING) now += w->step_ns;
    /* While its last event waits, no token is due. */
    return !j->held && now > gen_job_due(j) ? GEN_LATE : GEN_GOING;
}

GW_DEV uint32_t gen_watched(const struct gen_args *a, uint32_t i)
{
    const struct gen_work *w = a->work;
    return i < w->running ? a->lane[w->run[i]].job - 1 : (w->watch + i - w->running) % w->fresh_jobs;
}

/* Does the lane need one page more? */
GW_DEV bool gen_lane_grows(const struct gen_args *a, uint32_t lane)
{
    const struct gen_lane *l = &a->lane[lane];
    const struct gen_job *j = &a->job[l->job - 1];
    return !a->fixed && !j->held && j->prompt + j->made > l->pages * GEN_PAGE;
}

/* Looks at the jobs that run, and at some of the others, in turn. All threads. */
GW_DEV void gen_watch(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    uint32_t n = w->running + (w->fresh_jobs < GEN_WATCH ? w->fresh_jobs : GEN_WATCH);
    uint64_t now = gw_clock_ns();
    for (uint32_t i = gw_thread_idx(); i < n; i += gw_block_dim()) {
        struct gen_job *j = &a->job[gen_watched(a, i)];
        if (i < w->running && gen_lane_grows(a, w->run[i])) gw_st_relaxed_u32_gpu(&w->grows, 1);
        if (j->state != GEN_JOB_WAITING && j->state != GEN_JOB_HELD && j->state != GEN_JOB_RUNNING) continue;
        enum gen_status verdict = gen_job_verdict(a, j, now);
        if (verdict == GEN_GOING) continue;
        /* Another thread may look at the same job, and find the same. */
        gw_st_relaxed_u32_gpu(&j->verdict, verdict);
        gw_st_relaxed_u32_gpu(&w->verdicts, 1);
    }
}

GW_DEV void gen_judge_job(const struct gen_args *a, uint32_t job)
{
    struct gen_job *j = &a->job[job];
    uint32_t verdict = j->verdict;
    if (!verdict || j->state == GEN_JOB_OVER || j->state == GEN_JOB_FREE) return;
    j->verdict = 0;
    gen_job_end(a, job, (enum gen_status)verdict, 0);
}

/* Ends what the watch has found. */
GW_DEV void gen_judge(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    uint32_t n = w->fresh_jobs < GEN_WATCH ? w->fresh_jobs : GEN_WATCH;
    GW_NO_UNROLL_
    for (uint32_t i = 0; w->verdicts && i < n; i++) gen_judge_job(a, (w->watch + i) % w->fresh_jobs);
    /* From the last one on: only lanes that were looked at come to the place of one that goes. */
    GW_NO_UNROLL_
    for (uint32_t i = w->verdicts ? w->running : 0; i--;)
        if (i < w->running) gen_judge_job(a, a->lane[w->run[i]].job - 1);
    w->verdicts = 0;
    w->watch = w->fresh_jobs ? (w->watch + n) % w->fresh_jobs : 0;
}

/* ---- who gives way ---- */

/* Does the lane's client take no events? */
GW_DEV bool gen_lane_rests(const struct gen_args *a, const struct gen_job *j, uint64_t now)
{
    const struct gen_session *s = &a->session[j->session];
    return j->held && s->stalled && now - s->stalled > GEN_PATIENCE_NS;
}

/* The lane that gives way first; some lane runs. */
GW_DEV uint32_t gen_worst(const struct gen_args *a, uint64_t now)
{
    const struct gen_work *w = a->work;
    uint32_t worst = w->run[0];
    const struct gen_job *x = &a->job[a->lane[worst].job - 1];
    bool rests = gen_lane_rests(a, x, now);
    GW_NO_UNROLL_
    for (uint32_t i = 1; i < w->running; i++) {
        const struct gen_job *j = &a->job[a->lane[w->run[i]].job - 1];
        bool r = gen_lane_rests(a, j, now);
        bool worse = r != rests                   ? r
                     : j->priority != x->priority ? j->priority > x->priority
                                                  : gen_order_before(x->order, j->order);
        if (!worse) continue;
        worst = w->run[i];
        x = j;
        rests = r;
    }
    return worst;
}

/* The lane's request goes back to the queue. */
GW_DEV void gen_preempt(const struct gen_args *a, uint32_t lane)
{
    uint32_t job = a->lane[lane].job - 1;
    struct gen_job *j = &a->job[job];
    gen_job_leave(a, job);
    a->work->stats.preempted++;
    j->lacks = 0;
    if (j->held)
        j->state = GEN_JOB_HELD;
    else
        gen_queue_push(a, job);
}

/* Makes room for the first request of the queue: true if some lane has given way. */
GW_DEV bool gen_make_way(const struct gen_args *a, const struct gen_job *j, uint64_t now)
{
    if (!a->work->running) return false;
    uint32_t lane = gen_worst(a, now);
    const struct gen_job *x = &a->job[a->lane[lane].job - 1];
    if (x->priority <= j->priority && !gen_lane_rests(a, x, now)) return false;
    gen_preempt(a, lane);
    return true;
}

/* ---- lanes ---- */

GW_DEV void gen_admitted(const struct gen_args *a, uint32_t lane)
{
    struct gen_work *w = a->work;
    struct gen_job *j = &a->job[a->lane[lane].job - 1];
    uint32_t there = a->lane[lane].computed;
    gen_lane_run(a, lane);
    if (j->admitted) return;
    j->admitted = gw_clock_ns();
    j->cached = there < j->prompt ? there : j->prompt;
    w->stats.prompt_cached += j->cached;
    gen_count_time(&w->stats.queued, j->admitted - j->arrived);
    gen_job_served(a, j);
}

/* Gives the waiting job a lane. False: there is none, or there are too few pages. */
GW_DEV bool gen_admit(const struct gen_args *a, uint32_t job)
{
    const struct gen_work *w = a->work;
    struct gen_job *j = &a->job[job];
    uint32_t length = j->prompt + j->made, reserve = w->running;
    uint32_t pages = a->fixed ? a->lane_pages : gen_pages_for(length + 1);
    if (w->running == a->lanes) return false;
    if (!a->fixed && reserve && gen_pages_left(a) < j->lacks) return false;
    uint32_t lane = gen_lane_new(a, job);
    gen_lane_match(a, lane, j, gen_job_token(a, job), length - 1); /* one token is computed, to go on from */
    uint32_t more = pages - a->lane[lane].pages;
    if (!a->fixed && gen_pages_left(a) < more + reserve) {
        gen_lane_free(a, lane);
        j->lacks = more + reserve;
        if (w->running) return false;
        gen_job_end(a, job, GEN_FULL, 0); /* it does not even fit alone */
        return true;
    }
    gen_queue_remove(a, job);
    gen_lane_grow(a, lane, pages);
    gen_admitted(a, lane);
    return true;
}

GW_DEV void gen_admit_all(const struct gen_args *a)
{
    const struct gen_work *w = a->work;
    uint64_t now = gw_clock_ns();
    GW_NO_UNROLL_
    while (w->waiting) {
        uint32_t job = a->heap[0].job;
        if (now + w->step_ns > gen_job_due(&a->job[job]))
            gen_job_end(a, job, GEN_LATE, 0);
        else if (!gen_admit(a, job) && !gen_make_way(a, &a->job[job], now))
            return;
    }
}

/* ---- growth ---- */

/* Gives the lane one page more. False: it runs no more. *others: whether some other one does not. */
GW_DEV bool gen_grow(const struct gen_args *a, uint32_t lane, bool *others)
{
    const struct gen_work *w = a->work;
    uint64_t now = gw_clock_ns();
    GW_NO_UNROLL_
    while (!gen_pages_left(a)) {
        uint32_t worst = gen_worst(a, now);
        if (worst == lane && w->running == 1) {
            gen_job_end(a, a->lane[lane].job - 1, GEN_FULL, 0);
            return false;
        }
        gen_preempt(a, worst);
        if (worst == lane) return false;
        *others = true;
    }
    gen_lane_grow(a, lane, a->lane[lane].pages + 1);
    return true;
}

/* Each lane has a page for its next token, or runs no more. */
GW_DEV void gen_grow_all(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    uint32_t i = 0;
    GW_NO_UNROLL_
    while (w->grows && i < w->running) {
        uint32_t lane = w->run[i];
        bool others = false;
        if (!gen_lane_grows(a, lane) || gen_grow(a, lane, &others)) i++;
        if (others) i = 0; /* the order of lanes has changed */
    }
    w->grows = 0;
}

#endif
