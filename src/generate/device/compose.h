/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the next step. First come lanes that need one token computed, which then make their next one. Lanes
 * with more to compute share the rest of the step alike. Of several that compute the same page only the first
 * does; the others get it then. While some lane makes tokens, a step has
 * `mixed_rows` at most, so that these keep coming. One thread decides which lane gets which rows. All threads
 * write them.
 */
#ifndef GW_GENERATE_DEVICE_COMPOSE_H
#define GW_GENERATE_DEVICE_COMPOSE_H

#include "src/generate/device/jobs.h"

/* Tokens of the lane that are not yet computed; 0: it waits for its client, or for another lane. */
GW_DEV uint32_t gen_lane_todo(const struct gen_args *a, uint32_t lane)
{
    const struct gen_lane *l = &a->lane[lane];
    const struct gen_job *j = &a->job[l->job - 1];
    return j->held || l->waits ? 0 : j->prompt + j->made - l->computed;
}

/* Gives the lane that number of the step's next rows. */
GW_DEV void gen_add_run(const struct gen_args *a, uint32_t lane, uint32_t rows)
{
    struct gen_work *w = a->work;
    struct gen_step *step = a->step;
    struct gen_lane *l = &a->lane[lane];
    struct gen_run *run = &step->run[step->runs++];
    run->row = step->rows;
    run->rows = rows;
    run->lane = lane;
    run->position = l->computed;
    step->rows += rows;
    if (rows < gen_lane_todo(a, lane)) return;
    step->out[w->outs] = step->rows - 1;
    w->out[w->outs++] = lane;
    step->outs = w->outs;
}

/* ---- equal prompts that are computed at the same time ---- */

/* The lane gets pages that others have computed since it got its own. It computes one token at least, to go
 * on from. */
GW_DEV void gen_catch_up(const struct gen_args *a, uint32_t lane)
{
    struct gen_lane *l = &a->lane[lane];
    struct gen_job *j = &a->job[l->job - 1];
    uint32_t before = l->computed;
    gen_lane_match(a, lane, j, gen_job_token(a, l->job - 1), j->prompt + j->made - 1);
    if (j->made) return;
    j->cached += l->computed - before;
    a->work->stats.prompt_cached += l->computed - before;
}

/* Does a lane whose request came before compute the lane's next page? */
GW_DEV bool gen_lane_waits(const struct gen_args *a, uint32_t lane)
{
    const struct gen_work *w = a->work;
    const struct gen_lane *l = &a->lane[lane];
    if (!l->ahead || l->computed % GEN_PAGE) return false;
    for (uint32_t i = 0; i < w->running; i++) {
        const struct gen_lane *o = &a->lane[w->run[i]];
        if (o->ahead == l->ahead && o->indexed == l->indexed && gen_lane_todo(a, w->run[i]) > 1 &&
            gen_order_before(a->job[o->job - 1].order, a->job[l->job - 1].order))
            return true;
    }
    return false;
}

/* Lanes that have much to compute take what others have, and wait for what others compute right now. */
GW_DEV void gen_join(const struct gen_args *a)
{
    const struct gen_work *w = a->work;
    for (uint32_t i = 0; i < w->running; i++) {
        a->lane[w->run[i]].waits = 0;
        if (gen_lane_todo(a, w->run[i]) > 1) gen_catch_up(a, w->run[i]);
    }
    for (uint32_t i = 0; i < w->running; i++)
        if (gen_lane_todo(a, w->run[i]) > 1) a->lane[w->run[i]].waits = gen_lane_waits(a, w->run[i]);
}

/* ---- the step ---- */

/* Counts the lanes of each kind. */
GW_DEV void gen_count_lanes(const struct gen_args *a, uint32_t *short_ones, uint32_t *long_ones)
{
    const struct gen_work *w = a->work;
    *short_ones = *long_ones = 0;
    for (uint32_t i = 0; i < w->running; i++) {
        uint32_t todo = gen_lane_todo(a, w->run[i]);
        *short_ones += todo == 1;
        *long_ones += todo > 1;
    }
}

/* The lanes that need one row get it. Where the step has fewer rows than lanes (`few`), each lane gets one,
 * in turn. */
GW_DEV void gen_compose_short(const struct gen_args *a, bool few)
{
    struct gen_work *w = a->work;
    uint32_t i;
    GW_NO_UNROLL_
    for (i = 0; i < w->running && a->step->rows < a->step->max_rows; i++) {
        uint32_t lane = w->run[(w->turn_first + i) % w->running], todo = gen_lane_todo(a, lane);
        if (todo == 1 || (few && todo)) gen_add_run(a, lane, 1);
    }
    w->turn_first = few ? (w->turn_first + i) % w->running : 0;
}

/* The other lanes share what is left of `most` rows. */
GW_DEV void gen_compose_long(const struct gen_args *a, uint32_t lanes, uint32_t most)
{
    const struct gen_work *w = a->work;
    GW_NO_UNROLL_
    for (uint32_t i = 0; i < w->running && lanes; i++) {
        uint32_t left = most > a->step->rows ? most - a->step->rows : 0, lane = w->run[i];
        uint32_t todo = gen_lane_todo(a, lane), share = (left + lanes - 1) / lanes;
        if (todo < 2) continue;
        lanes--;
        if (share > todo) share = todo;
        if (share) gen_add_run(a, lane, share);
    }
}

/* How many rows the step may have, when `rows` are for lanes that make tokens. It leaves some for the
 * others. */
GW_DEV uint32_t gen_most_rows(const struct gen_args *a, uint32_t rows, uint32_t long_ones)
{
    uint32_t max = a->step->max_rows, most = rows ? a->mixed_rows : max;
    if (most < rows + max / 4) most = rows + max / 4;
    if (most < rows + long_ones) most = rows + long_ones;
    return most < max ? most : max;
}

/* Decides about the next step. One thread. */
GW_DEV void gen_compose(const struct gen_args *a)
{
    struct gen_step *step = a->step;
    uint32_t short_ones, long_ones;
    gen_join(a);
    gen_count_lanes(a, &short_ones, &long_ones);
    if (!short_ones && !long_ones) return;
    gen_compose_short(a, short_ones + long_ones > step->max_rows);
    if (step->rows < step->max_rows) gen_compose_long(a, long_ones, gen_most_rows(a, step->rows, long_ones));
}

/* The usual step: all lanes make tokens, and have a row each. All threads. */
GW_DEV void gen_compose_plain(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    struct gen_step *step = a->step;
    for (uint32_t i = gw_thread_idx(); i < w->running; i += gw_block_dim()) {
        struct gen_run run = {i, 1, w->run[i], a->lane[w->run[i]].computed};
        step->run[i] = run;
        step->out[i] = i;
        w->out[i] = w->run[i];
    }
    if (gw_thread_idx() == 0) step->rows = step->runs = step->outs = w->outs = w->running;
}

/* Counts the lanes that need one row. All threads; it was 0. */
GW_DEV void gen_count_shorts(const struct gen_args *a)
{
    struct gen_work *w = a->work;
    for (uint32_t i = gw_thread_idx(); i < w->running; i += gw_block_dim())
        if (gen_lane_todo(a, w->run[i]) == 1) gw_add_relaxed_u32_gpu(&w->shorts, 1);
}

/* Picks the size of the step. One thread. */
GW_DEV void gen_pick(const struct gen_args *a)
{
    struct gen_step *step = a->step;
    uint32_t i = 0;
    while (i + 1 < a->sizes && a->size[i] < step->rows) i++;
    step->size = a->size[i];
    if (a->picks) gw_loop_pick(a->ctl, i + 1);
}

/* Row r of the step. */
GW_DEV void gen_write_row(const struct gen_args *a, const struct gen_run *run, const uint32_t *token,
                          uint32_t i)
{
    struct gen_step *step = a->step;
    uint32_t r = run->row + i;
    step->token[r] = token[run->position + i];
    step->position[r] = run->position + i;
    step->lane[r] = run->lane;
}

/* Writes the rows. All threads: a short run is one thread's, long ones are everyone's. */
GW_DEV void gen_write_rows(const struct gen_args *a)
{
    struct gen_step *step = a->step;
    uint32_t me = gw_thread_idx(), all = gw_block_dim();
    for (uint32_t i = 0; i < step->runs; i++) {
        const struct gen_run *run = &step->run[i];
        const uint32_t *token = gen_job_token(a, a->lane[run->lane].job - 1);
        if (run->rows == 1 && i % all != me) continue;
        for (uint32_t k = run->rows == 1 ? 0 : me; k < run->rows; k += all) gen_write_row(a, run, token, k);
    }
    for (uint32_t r = step->rows + me; r < step->size; r += all) {
        step->token[r] = step->position[r] = 0;
        step->lane[r] = GEN_NO_LANE;
    }
}

#endif
