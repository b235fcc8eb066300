/* SPDX-License-Identifier: Apache-2.0 */
/* need.c: the first step of a round: how many leased places each model should have, and what each worker
 * has left. */
#include <math.h>
#include <string.h>

#include "src/fleet/plan/scratch.h"

enum { NEED_TIGHT = 2 }; /* the largest batch of a model that gains little by batches */

/* The rate to plan for. A short window is believed less what chance does to it; a rise goes on while a
 * model loads. */
static float need_rate(const struct fleet_demand *d, const struct fleet_model *m)
{
    float rate = d->rate[1] > d->rate[2] ? d->rate[1] : d->rate[2];
    float burst = d->rate[0] - sqrtf(d->rate[0] * 10);
    if (burst > rate) rate = burst;
    float rise = d->rate[1] - d->rate[2];
    float ahead = (float)(m->load_ns + m->disk_ns) * 1e-9f;
    return rise > 0 ? rate + rise * (ahead < 1 ? ahead : 1) : rate;
}

/* The tightest deadline that a hundredth of the requests has: what is rarer does not decide about the
 * batches. */
static int64_t need_deadline(const struct fleet_demand *d)
{
    float all = 0;
    for (int i = 0; i < FLEET_CLASSES; i++) all += d->class[i].rate;
    for (int i = 0; i < FLEET_CLASSES; i++) {
        if (d->class[i].deadline_ns && (d->class[i].rate > all / 100 || d->class[i].waiting))
            return d->class[i].deadline_ns;
    }
    return d->class[0].deadline_ns;
}

/* Whether requests come to a place first. Where single requests are planned there are no leases. */
static bool need_serves(const struct fleet_round *r, const struct fleet_place *p)
{
    return r->t->leases ? p->slots && !p->spill : p->where == FLEET_GPU;
}

static void need_of_model(const struct fleet_round *r, uint32_t model)
{
    const struct fleet_model *m = &r->s->models[model];
    const struct fleet_demand *d = &r->s->demand[model];
    struct fleet_need *n = &r->s->scratch->need[model];
    memset(n, 0, sizeof *n);
    if (!m->pages) return;
    for (int i = 0; i < FLEET_CLASSES; i++) n->waiting += d->class[i].waiting;
    n->rate = need_rate(d, m);
    n->deadline_ns = need_deadline(d);
    if (!n->deadline_ns) n->deadline_ns = 4 * m->exec_ns[0];
    uint32_t best = fleet_batch_for(m, n->deadline_ns);
    n->cost = (float)fleet_exec(m, best) * 1e-9f / (float)best;
    /* A batch holds what arrives in half a deadline; one that is not full costs more a request. */
    float met = 1 + n->rate * (float)n->deadline_ns * 0.5e-9f;
    uint32_t size = met < (float)best ? (uint32_t)met : best;
    n->use = n->rate * (float)fleet_exec(m, size) * 1e-9f / (float)size;
    n->want = (uint32_t)ceilf(n->use / r->t->fill);
    if (!n->want && (n->waiting || n->rate > 0.01f)) n->want = 1;
    if (n->want < m->min_replicas) n->want = m->min_replicas;
    n->tight = best <= NEED_TIGHT;
    n->have = m->expected;
    /* What others refuse has time until those that are expected are here. */
    if (n->want && r->t->leases && !m->expected) n->spills = n->tight ? r->t->tight_spills : r->t->spills;
    for (uint32_t i = m->first; i != FLEET_NONE; i = r->s->places[i].next_of_model) {
        const struct fleet_place *p = &r->s->places[i];
        if (!fleet_stays(&r->s->workers[p->worker])) continue;
        n->have += p->where == FLEET_LOADING || p->where == FLEET_GPU;
        n->leased += need_serves(r, p);
        n->spill += p->slots && p->spill;
    }
}

static void need_of_worker(const struct fleet_round *r, uint32_t worker)
{
    const struct fleet_state *s = r->s;
    const struct fleet_worker *w = &s->workers[worker];
    struct fleet_room *o = &s->scratch->room[worker];
    memset(o, 0, sizeof *o);
    o->block_ns = INT64_MAX;
    o->free_pages = w->gpu_pages - w->gpu_used;
    for (uint32_t i = w->first; i != FLEET_NONE; i = s->places[i].next_of_worker) {
        const struct fleet_place *p = &s->places[i];
        const struct fleet_model *m = &s->models[p->model];
        const struct fleet_need *n = &s->scratch->need[p->model];
        if (p->where == FLEET_LEAVING) o->free_pages += m->pages;
        if (p->where == FLEET_LOADING) o->load += n->use / (float)(n->have ? n->have : 1);
        if (p->where == FLEET_GPU && (!need_serves(r, p) || n->leased > n->want || !n->want))
            o->idle_pages += m->pages;
        bool old = r->now_ns - p->used_ns > r->t->rest_ns && r->now_ns - p->since_ns > r->t->rest_ns;
        if (p->where == FLEET_GPU && old) o->old_pages += m->pages;
        o->granted += p->share;
        o->slots += p->slots;
        o->leases += p->slots > 0;
        if (!need_serves(r, p)) continue;
        o->load += n->use / (float)(n->leased ? n->leased : 1);
        o->least += n->rate * n->cost / (float)(n->leased ? n->leased : 1);
        if (n->rate <= 0.01f) continue;
        int64_t wait = n->deadline_ns - m->exec_ns[0];
        if (wait < o->block_ns) o->block_ns = wait;
        if (m->exec_ns[0] > o->longest_ns) o->longest_ns = m->exec_ns[0];
    }
}

void fleet_need(struct fleet_round *r)
{
    for (uint32_t i = 0; i < r->s->limits.models; i++) need_of_model(r, i);
    for (uint32_t i = 0; i < r->s->limits.workers; i++) need_of_worker(r, i);
}
