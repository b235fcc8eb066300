/* SPDX-License-Identifier: Apache-2.0 */
/* emulated_move.c: LOAD, EVICT and DROP take their time and their pages; one LOAD is copied at a time. */
#include "src/fleet/worker/emulated_impl.h"

#include <gpuwire/detail/assert.h>
#include <stdio.h>

static void emulated_end_move(struct emulated *e, struct fleet_move *m, enum fleet_outcome outcome,
                              const char *why)
{
    struct fleet_result *r = &m->result;
    r->outcome = outcome;
    r->model = m->model;
    r->where = emulated_where(e, m->model);
    r->ended_at = fleet_loop_now(e->o.loop);
    if (!r->began_at) r->began_at = r->ended_at;
    snprintf(r->why, sizeof(r->why), "%s", why);
    m->done(m);
}

/* ---- LOAD */

static struct fleet_move *emulated_take_load(struct emulated *e)
{
    struct fleet_move *m = e->first;
    e->first = m->next;
    if (!e->first) e->last = NULL;
    return m;
}

static void emulated_look_at_loads(struct emulated *e);

static void emulated_loaded(void *ctx)
{
    struct emulated *e = ctx;
    struct fleet_move *m = emulated_take_load(e);
    e->copying = false;
    e->place[m->model]->where = FLEET_GPU;
    emulated_end_move(e, m, FLEET_DONE, "");
    emulated_look_at_loads(e);
}

/* The copy of the first LOAD begins. */
static void emulated_copy(struct emulated *e, struct fleet_move *m, struct emulated_place *p)
{
    const struct fleet_profile *f = &e->o.zoo->profile;
    int64_t now = fleet_loop_now(e->o.loop), took = f->load_ns;
    if (p->where == EMULATED_ON_DISK) {
        e->host_used += f->pages;
        took += f->disk_ns;
    }
    e->gpu_used += f->pages;
    GW_ASSERT(e->gpu_used <= e->o.gpu_pages && e->host_used <= e->o.host_pages);
    p->where = FLEET_LOADING;
    m->result.began_at = now;
    e->copying = true;
    fleet_timer_set(e->o.loop, &e->load_timer, now + took, emulated_loaded, e);
}

/* Looks at the first LOAD: it begins, ends at once, or waits for an EVICT. */
static void emulated_look_at_loads(struct emulated *e)
{
    const struct fleet_profile *f = &e->o.zoo->profile;
    while (e->first && !e->copying) {
        struct fleet_move *m = e->first;
        struct emulated_place *p = emulated_place(e, m->model);
        if (fleet_loop_now(e->o.loop) > m->latest_at) {
            emulated_end_move(e, emulated_take_load(e), FLEET_TOO_LATE, "other moves were before it");
        } else if (!p) {
            emulated_end_move(e, emulated_take_load(e), FLEET_BROKEN, "no memory");
        } else if (p->leaves) {
            return;
        } else if (p->where == FLEET_GPU) {
            emulated_end_move(e, emulated_take_load(e), FLEET_DONE, "");
        } else if (e->gpu_used + f->pages > e->o.gpu_pages && e->leaving) {
            return;
        } else if (e->gpu_used + f->pages > e->o.gpu_pages) {
            emulated_end_move(e, emulated_take_load(e), FLEET_NO_ROOM, "no free pages on the GPU");
        } else if (p->where == EMULATED_ON_DISK && e->host_used + f->pages > e->o.host_pages) {
            emulated_end_move(e, emulated_take_load(e), FLEET_NO_ROOM, "no free pages in host memory");
        } else {
            emulated_copy(e, m, p);
        }
    }
}

static void emulated_load(struct emulated *e, struct fleet_move *m)
{
    m->next = NULL;
    if (e->last)
        e->last->next = m;
    else
        e->first = m;
    e->last = m;
    emulated_look_at_loads(e);
}

/* ---- EVICT and DROP */

static void emulated_leave_host(struct emulated *e, struct emulated_place *p)
{
    GW_ASSERT(e->host_used >= e->o.zoo->profile.pages);
    e->host_used -= e->o.zoo->profile.pages;
    p->where = EMULATED_ON_DISK;
}

void emulated_left(struct emulated *e, struct emulated_place *p)
{
    struct fleet_move *m = p->leaves;
    p->leaves = NULL;
    GW_ASSERT(e->leaving && e->gpu_used >= e->o.zoo->profile.pages && !p->n);
    e->leaving--;
    e->gpu_used -= e->o.zoo->profile.pages;
    p->where = FLEET_HOST;
    if (m->kind == FLEET_DROP) emulated_leave_host(e, p);
    emulated_end_move(e, m, FLEET_DONE, "");
    emulated_look_at_loads(e);
}

/* Off the GPU: requests are refused from now on, and the batch that runs is waited for. */
static void emulated_evict(struct emulated *e, struct fleet_move *m, struct emulated_place *p)
{
    p->where = FLEET_LEAVING;
    p->leaves = m;
    e->leaving++;
    m->result.began_at = fleet_loop_now(e->o.loop);
    emulated_flush(e, p, GW_SERVE_NOT_THERE, e->o.zoo->profile.load_ns);
    if (e->running != p) emulated_left(e, p);
}

void emulated_move(struct fleet_engine *engine, struct fleet_move *m)
{
    struct emulated *e = emulated_of(engine);
    m->result = (struct fleet_result){0};
    if (m->model >= e->o.zoo->models) {
        m->result.where = EMULATED_ON_DISK;
        m->result.outcome = FLEET_NO_MODEL;
        m->done(m);
        return;
    }
    uint32_t where = emulated_where(e, m->model);
    struct emulated_place *p = emulated_place(e, m->model);
    if (!p)
        emulated_end_move(e, m, FLEET_BROKEN, "no memory");
    else if (m->kind == FLEET_LOAD)
        emulated_load(e, m);
    else if (m->kind != FLEET_EVICT && m->kind != FLEET_DROP)
        emulated_end_move(e, m, FLEET_BAD, "neither LOAD, EVICT nor DROP");
    else if (where == FLEET_LOADING || where == FLEET_LEAVING)
        emulated_end_move(e, m, FLEET_BAD, "the model is being moved");
    else if (where == FLEET_GPU)
        emulated_evict(e, m, p);
    else {
        if (m->kind == FLEET_DROP && where == FLEET_HOST) emulated_leave_host(e, p);
        emulated_end_move(e, m, FLEET_DONE, "");
    }
}

void emulated_stop_moves(struct emulated *e)
{
    fleet_timer_clear(e->o.loop, &e->load_timer);
    e->copying = false;
    while (e->first) emulated_end_move(e, emulated_take_load(e), FLEET_BROKEN, "the worker ends");
}
