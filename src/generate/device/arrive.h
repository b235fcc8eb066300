/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop learns here of sessions that open, close and break, and of requests that arrive.
 *
 * The kernel reads a request from its slot once, since the client can write there at any time. One thread
 * takes the header, then all threads copy what follows it.
 */
#ifndef GW_GENERATE_DEVICE_ARRIVE_H
#define GW_GENERATE_DEVICE_ARRIVE_H

#include "src/generate/device/events.h"

#define GEN_POLL 8u /* completions taken at once */

/* Between two looks at the board: on a GPU a trip over the bus; on CPU threads wake_fd tells of changes. */
#define GEN_LOOK_CPU_NS 200000000u
#define GEN_LOOK_GPU_NS 50000u
#define GEN_SOON_NS     2000000u /* the same on CPU threads, while some request waits for time to pass */

/* ---- sessions ---- */

/* The session's word has changed: it opens, or is to be let go of. */
GW_DEV void gen_session_act(const struct gen_args *a, uint32_t i)
{
    struct gen_notice *n = &a->notice[i];
    struct gen_session *s = &a->session[i];
    uint32_t word = gw_ld_acquire_u32(&n->word); /* acquire: the fields below are read after it */
    if (word == s->word) return;
    gen_session_forget(a, i);
    s->word = word;
    s->open = (word & 3) == GEN_SESSION_OPEN;
    if (s->open) {
        s->slots = gw_ld_relaxed_u32(&n->slots);
        s->ring = gw_ld_relaxed_u32(&n->ring);
        s->event_rkey = gw_ld_relaxed_u32(&n->event_rkey);
        s->event_addr = gw_ld_relaxed_u64(&n->event_addr);
        s->event_stride = gw_ld_relaxed_u64(&n->event_stride);
        s->posted = s->acked = s->activity = 0;
        for (uint32_t k = 0; k <= GEN_PRIORITIES; k++) s->given[k] = 0;
    }
    gw_st_release_u32(&n->seen, word); /* release: the host acts when everything above is done */
}

/* The host asks whether the client lives. A write of no bytes finds out: its NIC acknowledges it, or the
 * queue pair fails. A session that never had a request sends nothing. */
GW_DEV void gen_session_hear(const struct gen_args *a, uint32_t i)
{
    struct gen_notice *n = &a->notice[i];
    struct gen_session *s = &a->session[i];
    uint32_t ask = gw_ld_relaxed_u32(&n->ask);
    if (ask == s->heard) return;
    s->heard = ask;
    if (s->open && s->activity && gen_session_has_room(a, s)) {
        int err = gw_post_op(s->qp, gw_put_op(s->out_addr, s->out_lkey, s->event_addr, s->event_rkey, 0),
                             GW_SIGNALED, gen_id(i, s->word, s->posted + 1));
        if (!err) s->posted++;
        if (err && err != -EAGAIN) gen_session_broken(a, i);
    }
    gw_st_release_u32(&n->heard, ask); /* release: the activity so far is seen with it */
}

/* Takes what the host has told. */
GW_DEV void gen_look(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    w->looked = gw_clock_ns();
    w->closing = gw_ld_relaxed_u32(&a->board->closing);
    uint32_t changes = gw_ld_acquire_u32(&a->board->changes); /* acquire: what it counts is there */
    if (changes == w->changes) return;
    GW_NO_UNROLL_
    for (; w->changes != changes; w->changes++) {
        uint32_t i = gw_ld_relaxed_u32(&a->change[w->changes & a->change_mask]);
        if (i >= a->sessions) continue;
        gen_session_act(a, i);
        gen_session_hear(a, i);
    }
    /* Release: the host writes to those places again, but only after they have been read. */
    gw_st_release_u32(&a->board->taken, changes);
}

/* ---- headers ---- */

GW_DEV bool gen_is_number(float x)
{
    return x - x == 0; /* neither is of infinities */
}

/* Is what the client asks of sampling within bounds? */
GW_DEV bool gen_sampling_is_sound(const struct gen_request *q)
{
    return gen_is_number(q->temperature) && q->temperature >= 0 && q->top_p > 0 && q->top_p <= 1 &&
           q->min_p >= 0 && q->min_p < 1 && gen_is_number(q->repetition) && q->repetition > 0 &&
           gen_is_number(q->presence) && gen_is_number(q->frequency);
}

/* 0, or why the request is GEN_INVALID. */
GW_DEV uint32_t gen_request_check(const struct gen_args *a, const struct gen_session *s,
                                  const struct gen_request *q, uint32_t slot, uint32_t length)
{
    uint64_t bytes = sizeof(*q) + 4 * ((uint64_t)q->prompt + q->stops) + 8 * (uint64_t)q->biases;
    if (q->magic != GEN_MAGIC || q->version != GEN_VERSION || q->slot != slot || !q->id ||
        q->flags & ~GEN_FLAGS || !q->prompt || q->stops > GEN_MAX_STOPS || q->biases > GEN_MAX_BIAS ||
        q->tops > GEN_MAX_TOPS || !q->max_tokens || q->max_tokens > s->ring)
        return GEN_BAD_HEADER;
    if ((uint64_t)q->prompt + q->max_tokens > a->context) return GEN_TOO_LONG;
    if (length != bytes) return GEN_BAD_HEADER;
    return gen_sampling_is_sound(q) ? 0 : GEN_BAD_SAMPLING;
}

GW_DEV void gen_job_fill(struct gen_job *j, const struct gen_request *q)
{
    j->salt = q->salt;
    j->seed = q->seed;
    j->first_ns = q->first_ns;
    j->each_ns = q->each_ns;
    j->prompt = q->prompt;
    j->max_tokens = q->max_tokens;
    j->min_tokens = q->min_tokens;
    j->priority = !q->priority ? GEN_PRIORITY : q->priority < GEN_PRIORITIES ? q->priority : GEN_PRIORITIES;
    j->flags = q->flags;
    j->tops = q->tops;
    j->stops = q->stops;
    j->biases = q->biases;
    j->temperature = q->temperature;
    j->top_p = q->top_p;
    j->min_p = q->min_p;
    j->repetition = q->repetition;
    j->presence = q->presence;
    j->frequency = q->frequency;
    j->top_k = q->top_k;
}

/* A message of that length came to a slot that the session has. */
GW_DEV void gen_request_take(const struct gen_args *a, uint32_t session, uint32_t slot, uint32_t length)
{
    struct gen_work *w = a->work;
    const uint8_t *at = gen_slot_at(a, session, slot);
    struct gen_request q;
    uint64_t word[sizeof(q) / 8];
    if (a->slot[(uint64_t)session * a->slots + slot] || gen_is_full(&a->session[session], slot)) {
        gen_session_broken(a, session); /* the slot was not the client's */
        return;
    }
    uint32_t job = gen_job_new(a, session, slot);
    if (job == GEN_NONE) {
        gen_full(a, session, slot);
        return;
    }
    /* All loads at once: a GPU would wait for each of them alone. */
    for (uint32_t i = 0; i < sizeof(q) / 8; i++) word[i] = gw_ld_relaxed_u64(at + 8 * i);
    memcpy(&q, word, sizeof(q));
    struct gen_job *j = &a->job[job];
    j->id = q.id;
    j->arrived = j->token_at = gw_clock_ns();
    uint32_t why = gen_request_check(a, &a->session[session], &q, slot, length);
    if (why) {
        gen_job_end(a, job, GEN_INVALID, why);
        return;
    }
    gen_job_fill(j, &q);
    w->take[w->takes++] = job;
}

/* ---- completions ---- */

GW_DEV void gen_completed(const struct gen_args *a, const struct ibv_wc *wc)
{
    uint32_t i = gen_id_session(wc->wr_id);
    struct gen_session *s = &a->session[i];
    /* This may be the first request since the host opened the session. Or the session's last client, which
     * was closed or has failed, has left it. */
    if (!gen_id_is(wc->wr_id, s->word)) gen_session_act(a, i);
    if (!s->open || !gen_id_is(wc->wr_id, s->word)) return;
    if (wc->status != IBV_WC_SUCCESS) {
        gen_session_broken(a, i);
        return;
    }
    if (!(wc->opcode & IBV_WC_RECV)) { /* events have left: their queue space is free again */
        s->acked = gen_id_events(wc->wr_id);
        gen_session_flush(a, i);
        return;
    }
    if (gw_recv_empty(s->qp, 1, gen_id(i, s->word, 0))) {
        gen_session_broken(a, i);
        return;
    }
    gen_session_active(a, i);
    /* A message that brought no immediate names no slot, and there is no one to answer. */
    uint32_t slot = wc->wc_flags & IBV_WC_WITH_IMM ? gw_wc_imm(wc) : GEN_NONE;
    if (slot < s->slots && slot < a->slots) gen_request_take(a, i, slot, wc->byte_len);
}

/* Takes the completions that are there, but for those that would bring more requests than are copied at once.
 * Clients that flood the queue do not keep the lanes waiting. */
GW_DEV void gen_drain(const struct gen_args *a)
{
    struct ibv_wc wc[GEN_POLL];
    int n = 1;
    GW_NO_UNROLL_
    for (uint32_t round = 0; round < 4 * GEN_TAKE / GEN_POLL && n > 0; round++) {
        if (a->work->takes + GEN_POLL > GEN_TAKE) return;
        n = gw_poll_cq(a->cq, GEN_POLL, wc);
        for (int i = 0; i < n; i++) gen_completed(a, &wc[i]);
    }
}

/* Waits for completions until the host, or the time, may bring something new. */
GW_DEV void gen_await(const struct gen_args *a)
{
    const struct gen_work *w = a->work;
    struct ibv_wc wc[GEN_POLL];
    bool soon = w->waiting || w->running || w->first_stalled;
    uint64_t look = a->wake_fd < 0 ? GEN_LOOK_GPU_NS : soon ? GEN_SOON_NS : GEN_LOOK_CPU_NS;
    int n = gw_wait_cq(a->cq, GEN_POLL, wc, gw_clock_ns() + look, &a->ctl->shared->stop, a->wake_fd);
    for (int i = 0; i < n; i++) gen_completed(a, &wc[i]);
}

/* ---- what follows the header ---- */

GW_DEV void gen_job_refuse(struct gen_job *j, uint32_t detail)
{
    /* Several threads may find something: any of their reasons holds. */
    gw_st_relaxed_u32_gpu(&j->verdict, GEN_INVALID);
    gw_st_relaxed_u32_gpu(&j->detail, detail);
}

/* This thread's share of copying a request. */
GW_DEV void gen_request_copy(const struct gen_args *a, uint32_t job)
{
    struct gen_job *j = &a->job[job];
    if (j->state != GEN_JOB_FRESH) return; /* its session has broken since */
    const uint8_t *from = gen_slot_at(a, j->session, j->slot) + sizeof(struct gen_request);
    uint32_t *token = gen_job_token(a, job);
    struct gen_top *bias = a->bias + (uint64_t)job * GEN_MAX_BIAS;
    uint32_t bad = 0;
    for (uint32_t i = gw_thread_idx(); i < j->prompt; i += gw_block_dim()) {
        token[i] = gw_ld_relaxed_u32(from + 4 * (uint64_t)i);
        if (token[i] >= a->vocab) bad = GEN_BAD_TOKEN;
    }
    from += 4 * (uint64_t)j->prompt;
    for (uint32_t i = gw_thread_idx(); i < j->stops; i += gw_block_dim()) {
        j->stop[i] = gw_ld_relaxed_u32(from + 4 * i);
        if (j->stop[i] >= a->vocab) bad = GEN_BAD_TOKEN;
    }
    from += 4 * j->stops;
    for (uint32_t i = gw_thread_idx(); i < j->biases; i += gw_block_dim()) {
        uint32_t bits = gw_ld_relaxed_u32(from + 8 * i + 4);
        bias[i].token = gw_ld_relaxed_u32(from + 8 * i);
        memcpy(&bias[i].logprob, &bits, 4);
        if (bias[i].token >= a->vocab) bad = GEN_BAD_TOKEN;
        if (!gen_is_number(bias[i].logprob)) bad = GEN_BAD_SAMPLING;
    }
    if (bad) gen_job_refuse(j, bad);
}

/* The requests are copied: they wait. One thread. */
GW_DEV void gen_taken(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    GW_NO_UNROLL_
    for (uint32_t i = 0; i < w->takes; i++) {
        uint32_t job = w->take[i];
        struct gen_job *j = &a->job[job];
        if (j->state != GEN_JOB_FRESH) continue;
        w->stats.prompt_tokens += j->verdict ? 0 : j->prompt;
        if (j->verdict) {
            uint32_t verdict = j->verdict;
            j->verdict = 0;
            gen_job_end(a, job, (enum gen_status)verdict, j->detail);
        } else if (w->closing) {
            gen_job_end(a, job, GEN_CLOSING, 0);
        } else if (gen_pages_for(j->prompt + 1) > (a->fixed ? a->lane_pages : a->pages)) {
            gen_job_end(a, job, GEN_FULL, 0);
        } else {
            gen_job_charge(a, j);
            gen_queue_push(a, job);
        }
    }
    w->takes = 0;
}

#endif
