/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emulated_batch.c: which requests run next, together, and for how long. The rules are the device's
 * (src/server/device/schedule.h), but for its guesses: the profile is what a batch takes, so that no request
 * is run to find out. Every 16th batch begins with the oldest request.
 */
#include "src/fleet/worker/emulated_impl.h"

#include <gpuwire/detail/assert.h>

enum { BATCH_FAIR = 16 };

#define BATCH_LAG INT64_C(20000000) /* a timer that comes later than this delays the GPU too */

/* ---- batches */

/* The place whose request comes next, and that request's place in its heap. */
static struct emulated_place *batch_first(const struct emulated *e, uint32_t *at)
{
    struct emulated_place *best = NULL;
    bool oldest = e->batches % BATCH_FAIR == BATCH_FAIR - 1;
    *at = 0;
    for (uint32_t i = 0; i < e->nbusy; i++) {
        struct emulated_place *p = e->busy[i];
        for (uint32_t k = 0; k < (oldest ? p->n : 1); k++) {
            const struct emulated_entry *b = best ? &best->heap[*at] : NULL;
            if (b && (oldest ? b->order < p->heap[k].order : emulated_before(b, &p->heap[k]))) continue;
            best = p;
            *at = k;
        }
    }
    return best;
}

/* Whether the request at place `at` is not for the model any more; then it is answered. */
static bool batch_turned_away(struct emulated *e, struct emulated_place *p, uint32_t at)
{
    const struct emulated_entry *x = &p->heap[at];
    const struct fleet_request *r = &x->call->request;
    enum gw_serve_status status = GW_SERVE_OK;
    int64_t now = fleet_loop_now(e->o.loop);
    if (x->call->state)
        status = GW_SERVE_RECALLED;
    else if (e->lease[r->lease].lease.key != r->key)
        status = GW_SERVE_NO_LEASE;
    else if (x->deadline_at != INT64_MAX &&
             now + fleet_profile_exec(&e->o.zoo->profile, r->rows) > x->deadline_at)
        status = GW_SERVE_LATE;
    if (status == GW_SERVE_OK) return false;
    struct fleet_call *c = emulated_take(e, p, at).call;
    p->refused++;
    emulated_tell(e, p);
    emulated_answer_admitted(e, c, status, 0);
    return true;
}

/* Fills the batch from one place, in its order, as far as it fits and no deadline breaks. */
static void batch_fill(struct emulated *e, struct emulated_place *p, uint32_t at)
{
    int64_t now = fleet_loop_now(e->o.loop), deadline = INT64_MAX;
    uint32_t most = emulated_most(p);
    for (; p->n; at = 0) {
        if (batch_turned_away(e, p, at)) continue;
        const struct emulated_entry *x = &p->heap[at];
        uint32_t rows = e->rows + x->call->request.rows;
        int64_t first = x->deadline_at < deadline ? x->deadline_at : deadline;
        if (e->nbatch && (rows > most || rows > FLEET_MAX_BATCH ||
                          (first != INT64_MAX && now + fleet_profile_exec(&e->o.zoo->profile, rows) > first)))
            return;
        deadline = first;
        e->batch[e->nbatch++] = emulated_take(e, p, at);
        e->rows = rows;
        if (e->nbatch == FLEET_MAX_BATCH) return;
    }
}

static int64_t batch_duration(struct emulated *e)
{
    const struct fleet_profile *f = &e->o.zoo->profile;
    double p99 = (double)fleet_profile_exec(f, e->rows), part = (double)f->spread_ns / (double)f->exec_ns[4];
    double took = p99 * (1 - part + part / 2.326 * sim_normal(&e->random));
    if (e->o.slow > 0) took *= e->o.slow;
    return took < 1 ? 1 : (int64_t)took;
}

static void batch_ended(void *ctx)
{
    struct emulated *e = ctx;
    struct emulated_place *p = e->running;
    for (uint32_t i = 0; i < e->nbatch; i++) {
        struct fleet_call *c = e->batch[i].call;
        c->answer.started_at = e->began_at;
        c->answer.done_at = e->ends_at;
        c->answer.batch = e->rows;
        emulated_answer_admitted(e, c, GW_SERVE_OK, 0);
    }
    e->nbatch = 0;
    e->rows = 0;
    e->running = NULL;
    if (p->leaves) emulated_left(e, p);
    emulated_look(e);
}

/* The GPU goes on at the moment when it became free, though the timer came a little later. So the
 * emulator's own delays do not add up. */
static int64_t batch_begin_at(const struct emulated *e)
{
    int64_t now = fleet_loop_now(e->o.loop);
    if (now - e->ends_at > BATCH_LAG) return now;
    for (uint32_t i = 0; i < e->nbatch; i++)
        if (e->batch[i].call->arrived_at > e->ends_at) return now;
    return e->ends_at;
}

void emulated_look(struct emulated *e)
{
    uint32_t at;
    if (e->running) return;
    for (struct emulated_place *p; !e->nbatch && (p = batch_first(e, &at));) {
        batch_fill(e, p, at);
        if (e->nbatch) e->running = p;
    }
    if (!e->running) return;
    GW_ASSERT(e->running->where == FLEET_GPU);
    e->batches++;
    e->began_at = batch_begin_at(e);
    e->ends_at = e->began_at + batch_duration(e);
    fleet_timer_set(e->o.loop, &e->batch_timer, e->ends_at, batch_ended, e);
}
