/* SPDX-License-Identifier: Apache-2.0 */
/* move.c: the second step of a round: models come to GPUs that need them, and make room for others. The
 * most urgent wish is first; nothing leaves a GPU unless its pages are needed, or its worker drains. */
#include "gpuwire/detail/assert.h"
#include "src/fleet/plan/scratch.h"

#define MOVE_DISK  0.5f /* a worker that must read the disk first is as bad as one that is this much busier */
#define MOVE_EVICT 0.15f    /* the same, where something must be pushed out */
#define MOVE_QUEUE 0.1f     /* the same, for each LOAD before it */
enum { MOVE_RELIEFS = 16 }; /* workers of one round */
#define MOVE_BLOCK                                                                                           \
    2.0f /* the same, where one request of a lease there takes longer than another lease can wait */

static void move_push(struct fleet_scratch *x, struct fleet_wish wish)
{
    uint32_t i = x->wishes++;
    for (; i && x->wish[(i - 1) / 2].urgency < wish.urgency; i = (i - 1) / 2)
        x->wish[i] = x->wish[(i - 1) / 2];
    x->wish[i] = wish;
}

static struct fleet_wish move_pop(struct fleet_scratch *x)
{
    struct fleet_wish top = x->wish[0], last = x->wish[--x->wishes];
    uint32_t i = 0, child;
    while ((child = 2 * i + 1) < x->wishes) {
        if (child + 1 < x->wishes && x->wish[child + 1].urgency > x->wish[child].urgency) child++;
        if (x->wish[child].urgency <= last.urgency) break;
        x->wish[i] = x->wish[child];
        i = child;
    }
    x->wish[i] = last;
    return top;
}

/* Requests a second that would fail without one more place; a model with clients that wait and no place
 * comes first. */
static float move_urgency(const struct fleet_round *r, const struct fleet_need *n)
{
    if (!n->have) return 1e9f + n->rate + (float)n->waiting;
    if (n->have >= n->want) return -1 / (1 + n->rate); /* for what others refuse: only where memory is free */
    float lacking = n->use - (float)n->have * r->t->fill;
    return lacking > 0 && n->cost > 0 ? lacking / n->cost : 0;
}

/* What a place is worth: time of loads that it saves each second, for a page. */
static float move_value(const struct fleet_model *m, const struct fleet_need *n)
{
    return (n->rate + (float)n->waiting) * (float)m->load_ns * 1e-9f / (float)m->pages /
           (float)(n->have ? n->have : 1);
}

/* Marks the workers that cannot get the model, and finds the copies in host memory: those come first in
 * `host`. */
static uint32_t move_mark(struct fleet_round *r, uint32_t model)
{
    struct fleet_scratch *x = r->s->scratch;
    uint32_t host = FLEET_NONE;
    x->marks++;
    for (uint32_t i = r->s->models[model].first; i != FLEET_NONE; i = r->s->places[i].next_of_model) {
        const struct fleet_place *p = &r->s->places[i];
        if (p->where != FLEET_HOST || p->dropping || p->retry_ns > r->now_ns)
            x->room[p->worker].mark = x->marks;
        else
            host = host == FLEET_NONE || x->room[p->worker].load < x->room[r->s->places[host].worker].load
                       ? i
                       : host;
    }
    return host;
}

/* How bad this worker is for the model: less is better; a negative number: impossible. */
static float move_score(const struct fleet_round *r, uint32_t worker, uint32_t model, bool in_host)
{
    const struct fleet_worker *w = &r->s->workers[worker];
    const struct fleet_room *o = &r->s->scratch->room[worker];
    const struct fleet_model *m = &r->s->models[model];
    if (!fleet_stays(w) || o->mark == r->s->scratch->marks || w->loading >= r->t->worker_loads) return -1;
    if (o->leases >= w->slots / FLEET_SLOTS_EACH || m->pages > w->gpu_pages) return -1;
    if (!fleet_state_has_file(r->s, worker, model)) return -1;
    /* Clients that wait come first on the bus. For a model without a place that no client waits for,
     * nothing is pushed out. */
    const struct fleet_need *need = &r->s->scratch->need[model];
    bool cold = !need->have;
    if (!need->waiting && (w->loading || (cold && o->free_pages < m->pages))) return -1;
    if (need->waiting && cold && o->free_pages + o->old_pages < m->pages) return -1;
    if (!in_host && w->host_pages - w->host_used < m->pages) return -1;
    float score = o->load + MOVE_QUEUE * (float)w->loading;
    if (!in_host && m->disk_ns) score += MOVE_DISK;
    if (o->free_pages < m->pages)
        score += o->free_pages + o->idle_pages < m->pages ? 4 * MOVE_EVICT : MOVE_EVICT;
    int64_t wait = r->s->scratch->need[model].deadline_ns - m->exec_ns[0];
    if (m->exec_ns[0] > o->block_ns || o->longest_ns > wait) score += MOVE_BLOCK;
    return score;
}

/* The best worker for one more place of the model, or FLEET_NONE. */
static uint32_t move_choose(struct fleet_round *r, uint32_t model)
{
    uint32_t host = move_mark(r, model), best = FLEET_NONE;
    float least = 1e9f;
    if (host != FLEET_NONE) {
        float score = move_score(r, r->s->places[host].worker, model, true);
        if (score >= 0) least = score, best = r->s->places[host].worker;
    }
    for (uint32_t i = 0; i < r->s->limits.workers; i++) {
        if (r->s->workers[i].health == FLEET_GONE) continue;
        float score = move_score(r, i, model, false);
        if (score >= 0 && score < least) least = score, best = i;
    }
    return best;
}

/* Whether a place may be pushed out for a model: if it is not needed, or is worth much less. Clients may
 * wait for a model that is on no GPU. For them, any model may go that was not used for a while. It comes
 * back the same way. */
static bool move_spare(const struct fleet_round *r, const struct fleet_place *p, uint32_t model)
{
    const struct fleet_need *n = &r->s->scratch->need[p->model], *wish = &r->s->scratch->need[model];
    if (p->where != FLEET_GPU || r->now_ns - p->since_ns < r->t->rest_ns) return false;
    if (n->have > n->want && (!p->slots || p->spill || n->leased > n->want)) return true;
    if (wish->waiting && !wish->have && r->now_ns - p->used_ns > r->t->rest_ns) return true;
    return move_value(&r->s->models[p->model], n) < move_value(&r->s->models[model], wish) / 2;
}

/* The place of a worker that is missed least: the lowest value, then the longest unused. */
static uint32_t move_victim(const struct fleet_round *r, uint32_t worker, uint32_t model)
{
    uint32_t best = FLEET_NONE;
    float least = 0;
    for (uint32_t i = r->s->workers[worker].first; i != FLEET_NONE; i = r->s->places[i].next_of_worker) {
        const struct fleet_place *p = &r->s->places[i];
        if (!move_spare(r, p, model)) continue;
        float worth = move_value(&r->s->models[p->model], &r->s->scratch->need[p->model]);
        bool older = best != FLEET_NONE && p->used_ns < r->s->places[best].used_ns;
        if (best == FLEET_NONE || worth < least || (worth <= least && older)) best = i, least = worth;
    }
    return best;
}

static bool move_evict(struct fleet_round *r, uint32_t place)
{
    struct fleet_place *p = &r->s->places[place];
    struct fleet_need *n = &r->s->scratch->need[p->model];
    if (p->slots && !fleet_revoke(r, place)) return false;
    if (!fleet_act(r, FLEET_EVICT, place)) return false;
    fleet_place_move(r->s, place, FLEET_LEAVING, r->now_ns);
    r->s->scratch->room[p->worker].free_pages += r->s->models[p->model].pages;
    if (fleet_stays(&r->s->workers[p->worker]) && n->have) n->have--;
    return true;
}

/* Pushes out what the model needs on that worker. False: there is too little to push out; what went is
 * free for others. */
static bool move_make_room(struct fleet_round *r, uint32_t worker, uint32_t model)
{
    const struct fleet_model *m = &r->s->models[model];
    struct fleet_room *o = &r->s->scratch->room[worker];
    uint32_t spare = o->free_pages;
    for (uint32_t i = r->s->workers[worker].first; i != FLEET_NONE; i = r->s->places[i].next_of_worker) {
        const struct fleet_place *p = &r->s->places[i];
        if (move_spare(r, p, model)) spare += r->s->models[p->model].pages;
    }
    if (spare < m->pages) return false;
    while (o->free_pages < m->pages) {
        uint32_t victim = move_victim(r, worker, model);
        if (victim == FLEET_NONE || !move_evict(r, victim)) return false;
    }
    return true;
}

static bool move_load(struct fleet_round *r, uint32_t worker, uint32_t model)
{
    struct fleet_room *o = &r->s->scratch->room[worker];
    struct fleet_need *n = &r->s->scratch->need[model];
    uint32_t pages = r->s->models[model].pages;
    bool spill = n->have >= n->want;
    if (r->n >= r->max || (o->free_pages < pages && (spill || !move_make_room(r, worker, model))))
        return false;
    if (r->n >= r->max) return false;
    uint32_t place = fleet_place_find(r->s, worker, model);
    if (place == FLEET_NONE) place = fleet_place_add(r->s, worker, model, r->now_ns);
    if (place == FLEET_NONE) return false;
    fleet_act(r, FLEET_LOAD, place);
    fleet_place_move(r->s, place, FLEET_LOADING, r->now_ns);
    o->free_pages -= pages;
    if (!spill) o->load += n->use / (float)(n->have + 1);
    n->have++;
    return true;
}

/* The model that uses most of a worker that has too much to do gets one more place, if there is one that
 * has less to do. */
static void move_relieve(struct fleet_round *r, uint32_t worker)
{
    const struct fleet_scratch *x = r->s->scratch;
    uint32_t most = FLEET_NONE;
    float use = 0;
    for (uint32_t i = r->s->workers[worker].first; i != FLEET_NONE; i = r->s->places[i].next_of_worker) {
        const struct fleet_place *p = &r->s->places[i];
        const struct fleet_need *n = &x->need[p->model];
        if (!n->leased || n->have > n->leased || n->have > n->want) continue; /* help is on its way */
        if (n->use / (float)n->leased > use) use = n->use / (float)n->leased, most = p->model;
    }
    if (most == FLEET_NONE) return;
    uint32_t to = move_choose(r, most);
    float after = x->need[most].use / (float)(x->need[most].have + 1);
    if (to != FLEET_NONE && x->room[to].load + after < x->room[worker].load - 0.1f) move_load(r, to, most);
}

/* Workers that drain lose what has no lease any more; host memory that is short loses what is used least. */
static void move_leave(struct fleet_round *r, uint32_t worker)
{
    const struct fleet_worker *w = &r->s->workers[worker];
    bool drain = w->health == FLEET_DRAINING, leaves = !fleet_stays(w);
    uint32_t spare = w->host_pages - w->host_used, enough = w->host_pages / 16, oldest = FLEET_NONE;
    if (!leaves && spare >= enough) return;
    for (uint32_t i = w->first; i != FLEET_NONE; i = r->s->places[i].next_of_worker) {
        struct fleet_place *p = &r->s->places[i];
        if (leaves && p->where == FLEET_GPU && !p->slots) move_evict(r, i);
        if (p->where != FLEET_HOST || p->dropping) continue;
        if (drain && fleet_act(r, FLEET_DROP, i))
            p->dropping = true;
        else if (oldest == FLEET_NONE || p->used_ns < r->s->places[oldest].used_ns)
            oldest = i;
    }
    if (!leaves && oldest != FLEET_NONE && fleet_act(r, FLEET_DROP, oldest))
        r->s->places[oldest].dropping = true;
}

void fleet_move(struct fleet_round *r)
{
    struct fleet_scratch *x = r->s->scratch;
    x->wishes = 0;
    for (uint32_t i = 0; i < r->s->limits.models; i++) {
        if (x->need[i].have < x->need[i].want + x->need[i].spills) {
            move_push(x, (struct fleet_wish){move_urgency(r, &x->need[i]), i});
        }
    }
    for (uint32_t loads = 0; x->wishes && loads < r->t->round_loads; loads++) {
        struct fleet_wish top = move_pop(x);
        uint32_t to = move_choose(r, top.model);
        if (to == FLEET_NONE || !move_load(r, to, top.model)) continue;
        const struct fleet_need *n = &x->need[top.model];
        if (n->have < n->want + n->spills) move_push(x, (struct fleet_wish){move_urgency(r, n), top.model});
    }
    /* Looking for a better worker is dear: some are relieved in each round, and the round says where it
     * begins. */
    uint32_t all = r->s->limits.workers, from = (uint32_t)((uint64_t)r->now_ns / 1000000 % all), relieved = 0;
    for (uint32_t k = 0; k < all; k++) {
        uint32_t i = (from + k) % all;
        if (r->s->workers[i].health == FLEET_GONE) continue;
        bool busy = fleet_stays(&r->s->workers[i]) && x->room[i].load > r->t->high;
        if (busy && relieved++ < MOVE_RELIEFS) move_relieve(r, i);
        move_leave(r, i);
    }
}
