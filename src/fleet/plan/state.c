/* SPDX-License-Identifier: Apache-2.0 */
/* state.c: what the planner knows: workers, models, and the places where a model lies on a worker. All of
 * it is in memory that the caller gave. Places are in two lists each: their worker's and their model's. */
#include <string.h>

#include "gpuwire/detail/assert.h"
#include "src/fleet/plan/scratch.h"

enum { STATE_ALIGN = 64 };
#define STATE_BACKOFF_NS INT64_C(250000000) /* after the first failed LOAD; then twice as long each time */

static size_t state_round(size_t n)
{
    return (n + STATE_ALIGN - 1) / STATE_ALIGN * STATE_ALIGN;
}

size_t fleet_state_size(const struct fleet_limits *l)
{
    return state_round(sizeof(struct fleet_state)) + state_round(l->workers * sizeof(struct fleet_worker)) +
           state_round(l->models * sizeof(struct fleet_model)) +
           state_round(l->places * sizeof(struct fleet_place)) +
           state_round(l->models * sizeof(struct fleet_demand)) + state_round(sizeof(struct fleet_scratch)) +
           state_round(l->models * sizeof(struct fleet_need)) +
           state_round(l->workers * sizeof(struct fleet_room)) +
           state_round(l->models * sizeof(struct fleet_wish));
}

static void *state_take(uint8_t **at, size_t bytes)
{
    void *p = *at;
    *at += state_round(bytes);
    return p;
}

struct fleet_state *fleet_state_init(void *memory, const struct fleet_limits *l)
{
    uint8_t *at = memory;
    memset(memory, 0, fleet_state_size(l));
    struct fleet_state *s = state_take(&at, sizeof *s);
    s->limits = *l;
    s->workers = state_take(&at, l->workers * sizeof *s->workers);
    s->models = state_take(&at, l->models * sizeof *s->models);
    s->places = state_take(&at, l->places * sizeof *s->places);
    s->demand = state_take(&at, l->models * sizeof *s->demand);
    s->scratch = state_take(&at, sizeof *s->scratch);
    s->scratch->need = state_take(&at, l->models * sizeof *s->scratch->need);
    s->scratch->room = state_take(&at, l->workers * sizeof *s->scratch->room);
    s->scratch->wish = state_take(&at, l->models * sizeof *s->scratch->wish);
    for (uint32_t i = 0; i < l->workers; i++) s->workers[i].first = FLEET_NONE;
    for (uint32_t i = 0; i < l->models; i++) {
        s->models[i].first = FLEET_NONE;
        memset(s->demand[i].admitted, FLEET_ALL, sizeof s->demand[i].admitted);
    }
    for (uint32_t i = 0; i < l->places; i++) {
        s->places[i].worker = FLEET_NONE;
        s->places[i].next_of_worker = i + 1 < l->places ? i + 1 : FLEET_NONE;
    }
    s->free_place = l->places ? 0 : FLEET_NONE;
    return s;
}

size_t fleet_state_files_size(const struct fleet_limits *l)
{
    return ((uint64_t)l->workers * l->models + 63) / 64 * sizeof(uint64_t);
}

static uint64_t state_file(const struct fleet_state *s, uint32_t worker, uint32_t model, uint64_t *bit)
{
    uint64_t at = (uint64_t)worker * s->limits.models + model;
    *bit = UINT64_C(1) << at % 64;
    return at / 64;
}

void fleet_state_set_file(struct fleet_state *s, uint32_t worker, uint32_t model, bool has)
{
    uint64_t bit, word = state_file(s, worker, model, &bit);
    if (!s->files) return;
    s->files[word] = has ? s->files[word] | bit : s->files[word] & ~bit;
}

bool fleet_state_has_file(const struct fleet_state *s, uint32_t worker, uint32_t model)
{
    uint64_t bit, word = state_file(s, worker, model, &bit);
    return !s->files || s->files[word] & bit;
}

void fleet_state_copy(struct fleet_state *to, const struct fleet_state *from)
{
    const struct fleet_limits *l = &from->limits;
    memcpy(to->workers, from->workers, l->workers * sizeof *to->workers);
    memcpy(to->models, from->models, l->models * sizeof *to->models);
    memcpy(to->places, from->places, l->places * sizeof *to->places);
    memcpy(to->demand, from->demand, l->models * sizeof *to->demand);
    to->files = from->files;
    to->free_place = from->free_place;
    to->places_used = from->places_used;
}

bool fleet_profile_ok(const struct fleet_model *m)
{
    const int64_t longest = INT64_C(3600) * 1000000000;
    for (int i = 0; i < FLEET_SIZES; i++) {
        if (m->exec_ns[i] <= 0 || m->exec_ns[i] > longest || (i && m->exec_ns[i] < m->exec_ns[i - 1]))
            return false;
    }
    return m->pages > 0 && m->load_ns > 0 && m->load_ns <= longest && m->disk_ns >= 0 &&
           m->disk_ns <= longest && m->spread_ns >= 0 && m->spread_ns <= m->exec_ns[FLEET_SIZES - 1];
}

static bool state_on_gpu(uint8_t where)
{
    return where != FLEET_HOST;
}

uint32_t fleet_place_add(struct fleet_state *s, uint32_t worker, uint32_t model, int64_t now_ns)
{
    uint32_t id = s->free_place;
    if (id == FLEET_NONE) return FLEET_NONE;
    GW_ASSERT(worker < s->limits.workers && model < s->limits.models);
    struct fleet_worker *w = &s->workers[worker];
    struct fleet_model *m = &s->models[model];
    struct fleet_place *p = &s->places[id];
    s->free_place = p->next_of_worker;
    *p = (struct fleet_place){.worker = worker, .model = model, .where = FLEET_HOST, .since_ns = now_ns};
    p->prev_of_worker = p->prev_of_model = FLEET_NONE;
    p->next_of_worker = w->first;
    p->next_of_model = m->first;
    if (w->first != FLEET_NONE) s->places[w->first].prev_of_worker = id;
    if (m->first != FLEET_NONE) s->places[m->first].prev_of_model = id;
    w->first = m->first = id;
    w->host_used += m->pages;
    s->places_used++;
    return id;
}

void fleet_place_move(struct fleet_state *s, uint32_t place, enum fleet_where where, int64_t now_ns)
{
    struct fleet_place *p = &s->places[place];
    struct fleet_worker *w = &s->workers[p->worker];
    uint32_t pages = s->models[p->model].pages;
    if (!state_on_gpu(p->where) && state_on_gpu(where)) w->gpu_used += pages;
    if (state_on_gpu(p->where) && !state_on_gpu(where)) w->gpu_used -= pages;
    w->loading += (where == FLEET_LOADING) - (p->where == FLEET_LOADING);
    p->where = (uint8_t)where;
    p->since_ns = now_ns;
}

void fleet_place_remove(struct fleet_state *s, uint32_t place)
{
    struct fleet_place *p = &s->places[place];
    struct fleet_worker *w = &s->workers[p->worker];
    struct fleet_model *m = &s->models[p->model];
    fleet_place_move(s, place, FLEET_HOST, p->since_ns);
    w->host_used -= m->pages;
    if (p->next_of_worker != FLEET_NONE) s->places[p->next_of_worker].prev_of_worker = p->prev_of_worker;
    if (p->next_of_model != FLEET_NONE) s->places[p->next_of_model].prev_of_model = p->prev_of_model;
    *(p->prev_of_worker == FLEET_NONE ? &w->first : &s->places[p->prev_of_worker].next_of_worker) =
        p->next_of_worker;
    *(p->prev_of_model == FLEET_NONE ? &m->first : &s->places[p->prev_of_model].next_of_model) =
        p->next_of_model;
    *p = (struct fleet_place){.worker = FLEET_NONE, .next_of_worker = s->free_place};
    s->free_place = place;
    s->places_used--;
}

uint32_t fleet_place_find(const struct fleet_state *s, uint32_t worker, uint32_t model)
{
    for (uint32_t i = s->models[model].first; i != FLEET_NONE; i = s->places[i].next_of_model) {
        if (s->places[i].worker == worker) return i;
    }
    return FLEET_NONE;
}

void fleet_loaded(struct fleet_state *s, uint32_t place, bool ok, int64_t now_ns)
{
    struct fleet_place *p = &s->places[place];
    GW_ASSERT(p->where == FLEET_LOADING);
    fleet_place_move(s, place, ok ? FLEET_GPU : FLEET_HOST, now_ns);
    if (ok) {
        p->failures = 0;
        p->used_ns = now_ns;
        return;
    }
    p->retry_ns = now_ns + (STATE_BACKOFF_NS << (p->failures < 8 ? p->failures : 8));
    if (p->failures < UINT8_MAX) p->failures++;
}

void fleet_worker_gone(struct fleet_state *s, uint32_t worker)
{
    struct fleet_worker *w = &s->workers[worker];
    while (w->first != FLEET_NONE) fleet_place_remove(s, w->first);
    GW_ASSERT(!w->gpu_used && !w->host_used && !w->loading);
    w->health = FLEET_GONE;
}

/* One worker's sums, from its list. Returns how many places it has. */
static uint32_t state_check_worker(const struct fleet_state *s, uint32_t worker)
{
    const struct fleet_worker *w = &s->workers[worker];
    uint32_t gpu = 0, leaving = 0, host = 0, loading = 0, slots = 0, n = 0;
    float share = 0;
    for (uint32_t i = w->first; i != FLEET_NONE; i = s->places[i].next_of_worker, n++) {
        const struct fleet_place *p = &s->places[i];
        GW_ASSERT(p->worker == worker && p->model < s->limits.models);
        GW_ASSERT(!p->slots || p->where == FLEET_GPU);
        gpu += state_on_gpu(p->where) ? s->models[p->model].pages : 0;
        leaving += p->where == FLEET_LEAVING ? s->models[p->model].pages : 0;
        host += s->models[p->model].pages;
        loading += p->where == FLEET_LOADING;
        slots += p->slots;
        share += p->share;
    }
    GW_ASSERT(gpu == w->gpu_used && host == w->host_used && loading == w->loading);
    GW_ASSERT(gpu - leaving <= w->gpu_pages); /* a LOAD waits on the worker for what an EVICT frees */
    GW_ASSERT(host <= w->host_pages && slots <= w->slots && share <= 1.001f);
    (void)gpu, (void)leaving, (void)host, (void)loading, (void)slots, (void)share;
    return n;
}

void fleet_state_check(const struct fleet_state *s)
{
    uint32_t of_workers = 0, of_models = 0;
    for (uint32_t i = 0; i < s->limits.workers; i++) of_workers += state_check_worker(s, i);
    for (uint32_t i = 0; i < s->limits.models; i++) {
        for (uint32_t p = s->models[i].first; p != FLEET_NONE; p = s->places[p].next_of_model) {
            GW_ASSERT(s->places[p].model == i);
            of_models++;
        }
    }
    GW_ASSERT(of_workers == s->places_used && of_models == s->places_used);
    (void)of_workers, (void)of_models;
}
