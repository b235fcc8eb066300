/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One turn of the scheduler, between two steps of the network, by one block. It finishes the last step. It
 * takes what has arrived and decides who runs. Then it makes the next step, or waits.
 *
 * The order of things in memory: a request's completion is polled with acquire semantics. So header and
 * tokens, which the NIC placed before it, are read after it. The first thread changes lists; the block's
 * barriers order that before and after what all threads do. A stage boundary orders the step before the
 * network, and what was sampled before the next turn.
 */
#ifndef GW_GENERATE_DEVICE_TURN_H
#define GW_GENERATE_DEVICE_TURN_H

#include "src/generate/device/arrive.h"
#include "src/generate/device/compose.h"
#include "src/generate/device/finish.h"
#include "src/generate/device/schedule.h"

/* Takes what has come; waits for it, if told to. One thread. */
GW_DEV void gen_receive(const struct gen_args *a, bool wait)
{
    const struct gen_work *w = a->work;
    if (wait) gen_await(a);
    gen_drain(a);
    /* On CPU threads the board is at hand. */
    if (wait || !GW_ON_GPU || gw_clock_ns() - w->looked > GEN_LOOK_GPU_NS) gen_look(a);
}

/* Counts what the host may see. One thread. */
GW_DEV void gen_stand(const struct gen_args *a)
{
    const struct gen_work *w = a->work;
    struct gen_source_stats *t = &a->work->stats;
    t->running = w->running;
    t->waiting = w->waiting;
    t->pages = a->pages;
    t->pages_used = a->fixed ? (uint64_t)w->running * a->lane_pages : w->held_pages;
}

/* Decides who runs. One thread. */
GW_DEV void gen_decide(const struct gen_args *a)
{
    gen_taken(a);
    gen_judge(a);
    gen_stall_watch(a, gw_clock_ns());
    gen_admit_all(a);
    gen_grow_all(a);
}

/* Stores the counts that have changed. Each is a word by itself; no other depends on it. All threads. */
GW_DEV void gen_publish(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    const uint64_t *from = (const uint64_t *)&w->stats;
    uint64_t *told = (uint64_t *)&w->told, *to = (uint64_t *)&a->board->stats;
    for (uint32_t i = gw_thread_idx(); i < sizeof(w->stats) / sizeof(*from); i += gw_block_dim()) {
        if (from[i] == told[i]) continue;
        told[i] = from[i];
        gw_st_relaxed_u64(&to[i], from[i]);
    }
}

/* Goes on when requests are copied. One thread. */
GW_DEV void gen_go_on(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    struct gen_step *step = a->step;
    step->rows = step->runs = step->outs = step->failed = w->outs = w->shorts = 0;
    w->leaves = gw_loop_ending(a->ctl) != 0; /* then no variant runs any more */
    if (!w->leaves) gen_decide(a);
}

/* The step is made, or there is none. One thread. */
GW_DEV void gen_made(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    w->idle = !a->step->rows && !w->leaves && !gw_loop_stopping(a->ctl);
    if (a->step->rows) {
        gen_pick(a);
        w->launched = gw_clock_ns();
    }
    gen_stand(a);
}

/* Makes the next step. All threads. */
GW_DEV void gen_next(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    bool first = gw_thread_idx() == 0;
    if (!w->leaves) gen_count_shorts(a);
    gw_syncthreads(); /* all are counted */
    if (w->shorts && w->shorts == w->running && w->running <= a->step->max_rows)
        gen_compose_plain(a);
    else if (first && !w->leaves)
        gen_compose(a);
    if (first) gen_made(a);
}

GW_DEV void gen_turn_all(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    bool first = gw_thread_idx() == 0;
    gen_finish(a);
    if (first) w->idle = 0;
    for (;;) {
        if (first) gen_receive(a, w->idle);
        gw_syncthreads(); /* the list of requests to copy is there */
        for (uint32_t i = 0; i < w->takes; i++) gen_request_copy(a, w->take[i]);
        gen_watch(a);
        gw_syncthreads(); /* all is copied and looked at */
        if (first) gen_go_on(a);
        gw_syncthreads(); /* all see who runs */
        gen_next(a);
        gw_syncthreads(); /* all see the step */
        gen_publish(a);
        if (!w->idle) break;
        gw_syncthreads(); /* all have read `idle`, and published, before it changes */
    }
    gen_write_rows(a);
}

#endif
