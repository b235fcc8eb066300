/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a step: what was sampled goes to the requests, and to their clients. All threads of the block.
 * First each lane is one thread's, then each session is; what lanes and sessions share is the first thread's
 * alone, at last.
 */
#ifndef GW_GENERATE_DEVICE_FINISH_H
#define GW_GENERATE_DEVICE_FINISH_H

#include "src/generate/device/events.h"

/* How the request stands with the token that was just taken. */
GW_DEV enum gen_status gen_token_status(const struct gen_args *a, const struct gen_job *j, uint32_t token)
{
    for (uint32_t i = 0; i < j->stops; i++)
        if (j->stop[i] == token) return GEN_STOPPED;
    return j->made == j->max_tokens || j->prompt + j->made == a->context ? GEN_LENGTH : GEN_GOING;
}

/* Lane number i among the wanted rows gets its token. One thread for each. */
GW_DEV void gen_lane_take(const struct gen_args *a, uint32_t i, uint64_t now)
{
    struct gen_lane *l = &a->lane[a->work->out[i]];
    uint32_t job = l->job - 1;
    struct gen_job *j = &a->job[job];
    const struct gen_sample *s = &a->sample[i];
    struct gen_event *e = &j->event;
    if (a->step->failed || s->failed) {
        gen_event_make(j, GEN_FAILED, 0);
        l->indexed = GEN_NO_LANE; /* no other request may use what it has computed */
        return;
    }
    if (now > gen_job_due(j)) {
        gen_event_make(j, GEN_LATE, 0);
        return;
    }
    gen_job_token(a, job)[j->prompt + j->made++] = s->token;
    gen_event_make(j, gen_token_status(a, j, s->token), 0);
    e->token = s->token;
    e->logprob = s->logprob;
    e->tops = s->tops;
    for (uint32_t k = 0; k < s->tops; k++) e->top[k] = s->top[k];
}

/* The thread that posts a session's events. Neighbours go to different warps, because the threads of one
 * post one after the other. */
GW_DEV uint32_t gen_session_owner(uint32_t session)
{
    uint32_t warps = gw_block_dim() / 32;
    return warps > 1 ? session % warps * 32 + session / warps % 32 : session % gw_block_dim();
}

/* Posts the events of this thread's sessions. */
GW_DEV void gen_post_own(const struct gen_args *a)
{
    const struct gen_work *w = a->work;
    for (uint32_t i = 0; i < w->outs; i++) {
        struct gen_job *j = &a->job[a->lane[w->out[i]].job - 1];
        if (gen_session_owner(j->session) != gw_thread_idx()) continue;
        j->result = gen_event_post(a, j->session, j->slot, &j->event);
    }
    for (uint32_t i = 0; i < w->outs; i++) {
        const struct gen_job *j = &a->job[a->lane[w->out[i]].job - 1];
        if (gen_session_owner(j->session) == gw_thread_idx()) gen_session_ring(a, j->session);
    }
}

/* Puts the lane into a list, which several threads do at once. */
GW_DEV void gen_list_lane(uint32_t *list, uint32_t *n, uint32_t lane)
{
    list[gw_add_relaxed_u32_gpu(n, 1)] = lane;
}

/* Counts what most lanes have done: they posted a token and go on. Lists the others. One thread for each
 * lane. */
GW_DEV void gen_lane_settle(const struct gen_args *a, uint32_t lane)
{
    struct gen_work *w = a->work;
    struct gen_job *j = &a->job[a->lane[lane].job - 1];
    if (j->result != GEN_POSTED || j->event.status != GEN_GOING) {
        gen_list_lane(w->odd, &w->odds, lane);
        return;
    }
    j->events++;
    gen_event_count(a, j);
}

/* The lane has computed rows. One thread for each lane. */
GW_DEV void gen_lane_advance(const struct gen_args *a, const struct gen_run *run)
{
    struct gen_work *w = a->work;
    struct gen_lane *l = &a->lane[run->lane];
    l->computed += run->rows;
    if (l->indexed != GEN_NO_LANE && (l->indexed + 1) * GEN_PAGE <= l->computed)
        gen_list_lane(w->fill, &w->fills, run->lane);
}

/* The lane's event was its last, or was not posted. */
GW_DEV void gen_lane_conclude(const struct gen_args *a, uint32_t lane)
{
    if (!a->lane[lane].job) return; /* its session has broken in this turn */
    uint32_t job = a->lane[lane].job - 1;
    struct gen_job *j = &a->job[job];
    if (j->result == GEN_BROKEN) {
        gen_session_broken(a, j->session);
        return;
    }
    bool over = j->event.status != GEN_GOING;
    if (over) {
        gen_job_leave(a, job);
        j->state = GEN_JOB_OVER;
    }
    if (j->result == GEN_NO_ROOM) {
        gen_job_hold(a, job);
        return;
    }
    j->events++;
    gen_event_count(a, j);
    gen_job_free(a, job);
}

/* Changes what all lanes share. One thread. */
GW_DEV void gen_conclude(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    const struct gen_step *step = a->step;
    GW_NO_UNROLL_
    for (uint32_t i = 0; i < w->fills && !step->failed; i++) {
        uint32_t job = a->lane[w->fill[i]].job - 1;
        gen_lane_index(a, w->fill[i], &a->job[job], gen_job_token(a, job));
    }
    GW_NO_UNROLL_
    for (uint32_t i = 0; i < w->odds; i++) gen_lane_conclude(a, w->odd[i]);
    GW_NO_UNROLL_
    for (uint32_t i = 0; step->failed && i < step->runs; i++) { /* those that wanted no row */
        const struct gen_lane *l = &a->lane[step->run[i].lane];
        if (l->job) gen_job_end(a, l->job - 1, GEN_FAILED, 0);
    }
    w->stats.steps++;
    w->outs = w->fills = w->odds = 0;
}

/* A low estimate of how long steps take: it follows shorter ones at once, longer ones slowly. */
GW_DEV void gen_step_time(struct gen_work *w, uint64_t ns)
{
    if (!w->step_ns || ns < w->step_ns)
        w->step_ns = ns;
    else
        w->step_ns += (ns - w->step_ns) / 64;
}

/* Does nothing where no step has run. */
GW_DEV void gen_finish(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    const struct gen_step *step = a->step;
    uint64_t now = gw_clock_ns();
    if (!w->launched) return;
    for (uint32_t i = gw_thread_idx(); i < step->runs; i += gw_block_dim())
        gen_lane_advance(a, &step->run[i]);
    for (uint32_t i = gw_thread_idx(); i < w->outs; i += gw_block_dim()) gen_lane_take(a, i, now);
    gw_syncthreads(); /* a session's thread posts what other threads have made */
    gen_post_own(a);
    gw_syncthreads(); /* all are posted */
    for (uint32_t i = gw_thread_idx(); i < w->outs; i += gw_block_dim()) gen_lane_settle(a, w->out[i]);
    gw_syncthreads(); /* all are listed or done with before the first thread changes lists and lanes */
    if (gw_thread_idx() == 0) {
        gen_step_time(w, now - w->launched);
        gen_conclude(a);
        w->launched = 0;
    }
}

#endif
