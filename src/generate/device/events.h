/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events to clients: each is posted, or waits until the client's NIC has acknowledged earlier ones. One
 * thread, but for gen_event_post, which is one thread's for each session.
 */
#ifndef GW_GENERATE_DEVICE_EVENTS_H
#define GW_GENERATE_DEVICE_EVENTS_H

#include <gpuwire/group.h>

#include "src/generate/device/jobs.h"

/* ---- counting ---- */

/* Relaxed: several threads count at once, and the block's barriers order what they count. */
GW_DEV void gen_count(uint64_t *counter, uint64_t n)
{
    gw_add_relaxed_u64_gpu(counter, n);
}

GW_DEV void gen_count_time(struct gen_histogram *h, uint64_t ns)
{
    uint32_t i = 0;
    while (i < GEN_BUCKETS - 1 && ns >= GEN_BUCKET_NS << i) i++;
    gen_count(&h->count[i], 1);
    gen_count(&h->sum_ns, ns);
    gen_count(&h->n, 1);
}

/* The job's event was posted. One thread for each job. */
GW_DEV void gen_event_count(const struct gen_args *a, struct gen_job *j)
{
    struct gen_source_stats *t = &a->work->stats;
    uint64_t now = j->event.posted;
    if (j->event.token != GEN_NO_TOKEN) {
        gen_count_time(j->events == 1 ? &t->first : &t->between, now - j->token_at);
        j->token_at = now;
        gen_count(&t->tokens, 1);
    }
    if (j->event.status == GEN_GOING) return;
    gen_count(&t->ended[j->event.status], 1);
    gen_count_time(&t->whole, now - j->arrived);
}

/* Tells the host that the session is in use: it closes those that are not. */
GW_DEV void gen_session_active(const struct gen_args *a, uint32_t i)
{
    gw_st_relaxed_u32(&a->notice[i].activity, ++a->session[i].activity); /* a number by itself */
}

/* ---- sessions whose events wait ---- */

GW_DEV void gen_stall_begin(const struct gen_args *a, uint32_t i, uint64_t now)
{
    struct gen_work *w = a->work;
    struct gen_session *s = &a->session[i];
    s->stalled = now;
    s->stall_next = 0;
    s->stall_prev = w->last_stalled;
    if (w->last_stalled)
        a->session[w->last_stalled - 1].stall_next = i + 1;
    else
        w->first_stalled = i + 1;
    w->last_stalled = i + 1;
}

GW_DEV void gen_stall_end(const struct gen_args *a, uint32_t i)
{
    struct gen_work *w = a->work;
    struct gen_session *s = &a->session[i];
    if (!s->stalled) return;
    s->stalled = 0;
    if (s->stall_prev)
        a->session[s->stall_prev - 1].stall_next = s->stall_next;
    else
        w->first_stalled = s->stall_next;
    if (s->stall_next)
        a->session[s->stall_next - 1].stall_prev = s->stall_prev;
    else
        w->last_stalled = s->stall_prev;
}

/* The job's event waits, and with it the job. */
GW_DEV void gen_job_hold(const struct gen_args *a, uint32_t job)
{
    struct gen_job *j = &a->job[job];
    struct gen_session *s = &a->session[j->session];
    j->held = 1;
    j->held_next = 0;
    j->held_prev = s->last_held;
    if (s->last_held)
        a->job[s->last_held - 1].held_next = job + 1;
    else
        s->first_held = job + 1;
    s->last_held = job + 1;
    if (!s->stalled) gen_stall_begin(a, j->session, gw_clock_ns());
}

/* ---- the end of a session ---- */

/* Its requests end without an event. */
GW_DEV void gen_session_forget(const struct gen_args *a, uint32_t i)
{
    struct gen_session *s = &a->session[i];
    GW_NO_UNROLL_
    while (s->jobs) gen_job_free(a, s->jobs - 1);
    for (uint32_t k = 0; k < GEN_MAX_SLOTS / 32; k++) s->full[k] = 0;
    s->fulls = 0;
    gen_stall_end(a, i);
}

/* Its queue pair has failed, or the client breaks the rules: nothing more is done for it. The host finds out
 * how from gw_qp_fault, and closes it. */
GW_DEV void gen_session_broken(const struct gen_args *a, uint32_t i)
{
    if (!a->session[i].open) return;
    a->session[i].open = 0;
    gen_session_forget(a, i);
    gw_st_relaxed_u32(&a->notice[i].lost, a->session[i].word);
    /* Release: the host that sees the count sees the word, and the queue pair's fault. */
    gw_st_release_u32(&a->board->broken, gw_ld_relaxed_u32(&a->board->broken) + 1);
}

/* ---- posting ---- */

GW_DEV bool gen_session_has_room(const struct gen_args *a, const struct gen_session *s)
{
    return s->posted - s->acked < a->depth;
}

/* Posts *e as event number e->number of the slot, but for the doorbell: gen_session_ring must follow. One
 * thread for each session. */
GW_DEV enum gen_posted gen_event_post(const struct gen_args *a, uint32_t session, uint32_t slot,
                                      struct gen_event *e)
{
    struct gen_session *s = &a->session[session];
    if (!gen_session_has_room(a, s)) return GEN_NO_ROOM;
    uint32_t at = s->posted % a->depth, bytes = 64 + e->tops * (uint32_t)sizeof(struct gen_top);
    /* Queue space comes back with signalled completions. Half a queue apart, one is always under way before
     * it is full. */
    uint32_t interval = a->depth > 1 ? a->depth / 2 : 1;
    uint32_t flags = (s->posted + 1) % interval == 0 ? GW_SIGNALED | GW_DEFER : GW_DEFER;
    uint64_t to = s->event_addr + slot * s->event_stride + e->number % s->ring * sizeof(struct gen_event);
    e->posted = gw_clock_ns();
    gw_copy_share(&s->out[at], e, bytes, 0, 1);
    int err = gw_post_op(s->qp,
                         gw_put_imm_op(s->out_addr + at * sizeof(struct gen_event), s->out_lkey, to,
                                       s->event_rkey, bytes, slot),
                         flags, gen_id(session, s->word, s->posted + 1));
    if (err == -EAGAIN) return GEN_NO_ROOM;
    if (err) return GEN_BROKEN;
    s->posted++;
    s->unrung = 1;
    return GEN_POSTED;
}

/* Rings for the events that were posted: once for all of a step, since each ring is a trip to the NIC. The
 * same thread. */
GW_DEV void gen_session_ring(const struct gen_args *a, uint32_t i)
{
    struct gen_session *s = &a->session[i];
    if (!s->unrung) return;
    s->unrung = 0;
    gw_ring(s->qp);
    gen_session_active(a, i);
}

/* Makes the job's next event, of no token. */
GW_DEV void gen_event_make(struct gen_job *j, enum gen_status status, uint32_t detail)
{
    struct gen_event *e = &j->event;
    e->id = j->id;
    e->number = j->events;
    e->token = GEN_NO_TOKEN;
    e->status = (uint16_t)status;
    e->detail = (uint16_t)detail;
    e->logprob = 0;
    e->tops = 0;
    e->cached = j->cached;
    e->arrived = j->arrived;
    e->admitted = j->admitted;
    e->reserved = 0;
}

/* Ends a request, with an event of no token. If an earlier event waits for room, this one comes after it. */
GW_DEV void gen_job_end(const struct gen_args *a, uint32_t job, enum gen_status status, uint32_t detail)
{
    struct gen_job *j = &a->job[job];
    gen_job_leave(a, job);
    if (j->held) {
        if (j->state == GEN_JOB_OVER) return;
        j->state = GEN_JOB_HELD;
        j->verdict = status;
        j->detail = detail;
        return;
    }
    j->state = GEN_JOB_OVER;
    gen_event_make(j, status, detail);
    enum gen_posted how = gen_event_post(a, j->session, j->slot, &j->event);
    gen_session_ring(a, j->session);
    if (how == GEN_BROKEN) {
        gen_session_broken(a, j->session);
    } else if (how == GEN_NO_ROOM) {
        gen_job_hold(a, job);
    } else {
        j->events++;
        gen_event_count(a, j);
        gen_job_free(a, job);
    }
}

/* The job's event that waited was posted. */
GW_DEV void gen_job_told(const struct gen_args *a, uint32_t job)
{
    struct gen_job *j = &a->job[job];
    gen_job_unhold(a, job);
    j->events++;
    gen_event_count(a, j);
    if (j->state == GEN_JOB_OVER)
        gen_job_free(a, job);
    else if (j->state == GEN_JOB_HELD && j->verdict)
        gen_job_end(a, job, (enum gen_status)j->verdict, j->detail);
    else if (j->state == GEN_JOB_HELD)
        gen_queue_push(a, job);
}

/* ---- requests that found no free job ---- */

GW_DEV enum gen_posted gen_full_post(const struct gen_args *a, uint32_t session, uint32_t slot)
{
    struct gen_job j;
    memset(&j, 0, sizeof(j));
    j.id = gw_ld_relaxed_u64(gen_slot_at(a, session, slot) + offsetof(struct gen_request, id));
    j.arrived = gw_clock_ns();
    gen_event_make(&j, GEN_FULL, 0);
    enum gen_posted how = gen_event_post(a, session, slot, &j.event);
    gen_session_ring(a, session);
    if (how == GEN_POSTED) a->work->stats.ended[GEN_FULL]++;
    return how;
}

/* The slot's request finds the queue full. */
GW_DEV void gen_full(const struct gen_args *a, uint32_t session, uint32_t slot)
{
    struct gen_session *s = &a->session[session];
    enum gen_posted how = gen_full_post(a, session, slot);
    if (how == GEN_BROKEN) gen_session_broken(a, session);
    if (how != GEN_NO_ROOM) return;
    s->full[slot / 32] |= 1u << slot % 32;
    s->fulls++;
    if (!s->stalled) gen_stall_begin(a, session, gw_clock_ns());
}

GW_DEV bool gen_is_full(const struct gen_session *s, uint32_t slot)
{
    return s->full[slot / 32] >> slot % 32 & 1;
}

GW_DEV enum gen_posted gen_flush_full(const struct gen_args *a, uint32_t i)
{
    struct gen_session *s = &a->session[i];
    GW_NO_UNROLL_
    for (uint32_t slot = 0; s->fulls && slot < s->slots; slot++) {
        if (!gen_is_full(s, slot)) continue;
        enum gen_posted how = gen_full_post(a, i, slot);
        if (how != GEN_POSTED) return how;
        s->full[slot / 32] &= ~(1u << slot % 32);
        s->fulls--;
    }
    return GEN_POSTED;
}

/* ---- when there is room again ---- */

/* Posts what waits, as far as there is room. */
GW_DEV void gen_session_flush(const struct gen_args *a, uint32_t i)
{
    struct gen_session *s = &a->session[i];
    enum gen_posted how = GEN_POSTED;
    uint32_t before = s->posted;
    GW_NO_UNROLL_
    while (s->first_held && how == GEN_POSTED) {
        uint32_t job = s->first_held - 1;
        how = gen_event_post(a, i, a->job[job].slot, &a->job[job].event);
        if (how == GEN_POSTED) gen_job_told(a, job);
    }
    gen_session_ring(a, i);
    if (how == GEN_POSTED) how = gen_flush_full(a, i);
    if (how == GEN_BROKEN) {
        gen_session_broken(a, i);
        return;
    }
    if (s->posted == before) return;
    gen_stall_end(a, i);
    if (s->first_held || s->fulls) gen_stall_begin(a, i, gw_clock_ns()); /* it makes progress */
}

/* Sessions whose clients have taken nothing for too long end. */
GW_DEV void gen_stall_watch(const struct gen_args *a, uint64_t now)
{
    struct gen_work *w = a->work;
    GW_NO_UNROLL_
    while (w->first_stalled && now - a->session[w->first_stalled - 1].stalled > GEN_STALL_NS)
        gen_session_broken(a, w->first_stalled - 1);
}

#endif
