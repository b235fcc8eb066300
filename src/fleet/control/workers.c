/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: they come, tell what they have, and go. What they tell is a stranger's word: it is looked at
 * before the planner counts with it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/fleet/control/impl.h"

enum {
    WORKERS_MOST = 1 << 20,       /* models, leases or slots of one worker */
    WORKERS_MOST_PAGES = 1 << 26, /* a PiB */
};

/* ---- records */

static uint64_t workers_hash(const struct fleet_control *c, const char *name)
{
    return fleet_table_hash(c->seed, name, strlen(name));
}

struct ctl_worker *ctl_worker_find(struct fleet_control *c, const char *name)
{
    struct fleet_entry *e = fleet_table_find(&c->workers_by_name, workers_hash(c, name));
    for (; e; e = fleet_table_next(e)) {
        struct ctl_worker *k = CTL_OF(struct ctl_worker, entry, e);
        if (!strcmp(k->name, name)) return k;
    }
    return NULL;
}

struct ctl_worker *ctl_worker_make(struct fleet_control *c, const char *name)
{
    uint32_t number = 0;
    while (number < c->state->limits.workers && c->workers[number]) number++;
    struct ctl_worker *k = number < c->state->limits.workers ? calloc(1, sizeof(*k)) : NULL;
    if (!k) return NULL;
    strncpy(k->name, name, sizeof(k->name) - 1);
    k->control = c;
    k->number = number;
    k->gone_at = ctl_now(c);
    if (fleet_table_add(&c->workers_by_name, &k->entry, workers_hash(c, k->name))) {
        free(k);
        return NULL;
    }
    ctl_link_init(&k->pendings);
    ctl_link_add(&c->all_workers, &k->link);
    c->workers[number] = k;
    c->state->workers[number] = (struct fleet_worker){.first = FLEET_NONE};
    return k;
}

static void workers_free_arrays(struct ctl_worker *k)
{
    free(k->model_of);
    free(k->place_of);
    free(k->has);
    free(k->lease);
    free(k->free_number);
    free(k->requests);
    k->model_of = NULL;
    k->place_of = NULL;
    k->has = NULL;
    k->lease = NULL;
    k->free_number = NULL;
    k->requests = NULL;
    k->nhas = k->told = k->nfree = 0;
}

void ctl_worker_free(struct ctl_worker *k)
{
    struct fleet_control *c = k->control;
    fleet_table_remove(&c->workers_by_name, &k->entry);
    ctl_link_remove(&k->link);
    c->workers[k->number] = NULL;
    free(k);
}

static void workers_set_file(struct ctl_worker *k, uint32_t model, bool has)
{
    struct fleet_control *c = k->control;
    fleet_state_set_file(c->state, k->number, model, has);
    c->models[model].workers += has ? 1u : -1u;
}

void ctl_worker_gone(struct ctl_worker *k, const char *why)
{
    struct fleet_control *c = k->control;
    bool was = k->ready;
    ctl_target_end(k);
    for (uint32_t i = 0; i < k->facts.leases && k->lease; i++) {
        if (!k->lease[i]) continue;
        ctl_model_dirty(c, k->lease[i]->model);
        ctl_lease_end(c, k->lease[i], false);
    }
    for (uint32_t i = c->state->workers[k->number].first; i != FLEET_NONE;
         i = c->state->places[i].next_of_worker) {
        c->places[i].busy = c->places[i].renews = false;
        if (was && c->state->places[i].where != FLEET_HOST)
            ctl_place_told(c, k->number, c->state->places[i].model, false);
    }
    fleet_worker_gone(c->state, k->number);
    for (uint32_t i = 0; i < k->nhas; i++) workers_set_file(k, k->has[i].model, false);
    ctl_pending_forget(k);
    workers_free_arrays(k);
    k->conn = NULL;
    k->ready = k->leaves = k->lies = false;
    k->slots = 0;
    k->gone_at = ctl_now(c);
    if (!was) return;
    c->nworkers--;
    ctl_say(c, "worker %s is gone: %s", k->name, why);
    ctl_audit(c, "worker gone", k->number, FLEET_NONE, json_pack("{s:s}", "why", why));
    ctl_round_soon(c);
}

void ctl_worker_cut(struct ctl_worker *k, const char *why)
{
    struct fleet_control *c = k->control;
    struct ctl_conn *conn = fleet_conn_ctx(k->conn);
    ctl_say(c, "worker %s is cut off: %s", k->name, why);
    conn->worker = NULL;
    fleet_conn_close(k->conn, -EPROTO, why);
    ctl_link_remove(&conn->link);
    free(conn);
    ctl_worker_gone(k, why);
}

void ctl_worker_health(struct ctl_worker *k)
{
    bool stays = !k->drains && !k->leaves && !k->lies;
    struct fleet_worker *w = &k->control->state->workers[k->number];
    w->health = !k->ready ? FLEET_GONE : stays ? FLEET_ACTIVE : FLEET_DRAINING;
    ctl_round_soon(k->control);
}

static int workers_by_model(const void *a, const void *b)
{
    uint32_t x = ((const struct ctl_has *)a)->model, y = ((const struct ctl_has *)b)->model;
    return (x > y) - (x < y);
}

uint32_t ctl_worker_number(const struct ctl_worker *k, uint32_t model)
{
    struct ctl_has key = {.model = model};
    const struct ctl_has *h = k->nhas ? bsearch(&key, k->has, k->nhas, sizeof(key), workers_by_model) : NULL;
    return h ? h->number : FLEET_NONE;
}

/* Places come and go as the planner decides, so what was looked up is checked. */
uint32_t ctl_worker_place(struct ctl_worker *k, uint32_t number)
{
    const struct fleet_state *s = k->control->state;
    uint32_t model = k->model_of[number], at = k->place_of[number];
    if (at != FLEET_NONE && s->places[at].worker == k->number && s->places[at].model == model) return at;
    k->place_of[number] = fleet_place_find(s, k->number, model);
    return k->place_of[number];
}

/* ---- WORKER */

static bool workers_facts_ok(const struct fleet_hello_worker *f)
{
    return fleet_text_ok(f->address, sizeof(f->address)) && f->address[0] &&
           f->gpu_pages <= WORKERS_MOST_PAGES && f->host_pages <= WORKERS_MOST_PAGES && f->slots &&
           f->slots <= WORKERS_MOST && f->leases && f->leases <= WORKERS_MOST && f->models <= WORKERS_MOST &&
           f->emulated <= 1;
}

static bool workers_make_arrays(struct ctl_worker *k)
{
    const struct fleet_hello_worker *f = &k->facts;
    k->model_of = malloc((f->models + 1) * sizeof(*k->model_of));
    k->place_of = malloc((f->models + 1) * sizeof(*k->place_of));
    k->has = malloc((f->models + 1) * sizeof(*k->has));
    k->requests = calloc(f->models + 1, sizeof(*k->requests));
    k->lease = calloc(f->leases, sizeof(struct ctl_lease *));
    k->free_number = malloc(f->leases * sizeof(*k->free_number));
    if (!k->model_of || !k->place_of || !k->has || !k->requests || !k->lease || !k->free_number) {
        workers_free_arrays(k);
        return false;
    }
    for (uint32_t i = 0; i < f->models; i++) k->model_of[i] = k->place_of[i] = FLEET_NONE;
    for (uint32_t i = 0; i < f->leases; i++) k->free_number[i] = f->leases - 1 - i;
    k->nfree = f->leases;
    return true;
}

/* The record for a worker that connects; NULL with why it may not. */
static struct ctl_worker *workers_record(struct ctl_conn *conn, const struct fleet_hello *h, const char **why)
{
    struct fleet_control *c = conn->control;
    struct ctl_worker *k = ctl_worker_find(c, h->name);
    *why = "a worker needs a name";
    if (!h->name[0]) return NULL;
    *why = "another worker of this name is here: give one of them another --name";
    if (k && k->conn && memcmp(k->id, h->id, FLEET_ID)) return NULL;
    if (k && k->conn) ctl_worker_cut(k, "the same worker has connected again");
    *why = "the controller has no room for more workers: give it a larger --max-workers";
    return k ? k : ctl_worker_make(c, h->name);
}

static const char *workers_enter(struct ctl_conn *conn, const struct fleet_hello_worker *f)
{
    struct fleet_control *c = conn->control;
    const struct fleet_hello *h = fleet_conn_peer(conn->conn);
    struct fleet_welcome w = {.term = c->term, .telemetry_ns = c->o.telemetry_ns};
    const char *why;
    if (!workers_facts_ok(f)) return "what it tells of itself makes no sense";
    struct ctl_worker *k = workers_record(conn, h, &why);
    if (!k) return why;
    k->facts = *f;
    if (!workers_make_arrays(k)) return "no memory";
    memcpy(k->id, h->id, FLEET_ID);
    k->conn = conn->conn;
    k->told_last = (struct fleet_telemetry){0};
    k->told_at = 0;
    conn->worker = k;
    struct fleet_worker *s = &c->state->workers[k->number];
    *s = (struct fleet_worker){.gpu_pages = f->gpu_pages,
                               .host_pages = f->host_pages,
                               .slots = f->slots,
                               .health = FLEET_GONE,
                               .first = FLEET_NONE};
    fleet_send(k->conn, FLEET_WELCOME, 0, &w, sizeof(w), NULL, 0, NULL);
    ctl_target_begin(k);
    return NULL;
}

/* ---- HAS_MODEL, HELD, READY */

/* The worker has the place that it tells of. NULL, or why it cannot have it. */
static const char *workers_place(struct ctl_worker *k, uint32_t model, uint32_t where)
{
    struct fleet_control *c = k->control;
    struct fleet_worker *w = &c->state->workers[k->number];
    uint32_t pages = c->state->models[model].pages;
    if (where == UINT32_MAX) return NULL;
    if (where > FLEET_LEAVING) return "a model is where no model can be";
    if (pages > w->host_pages - w->host_used || (where != FLEET_HOST && pages > w->gpu_pages - w->gpu_used))
        return "its models need more pages than it has";
    uint32_t place = fleet_place_add(c->state, k->number, model, ctl_now(c));
    if (place == FLEET_NONE)
        return "the controller has no room for more places: give it a larger --max-places";
    if (where != FLEET_HOST) fleet_place_move(c->state, place, (enum fleet_where)where, ctl_now(c));
    c->state->places[place].used_ns = ctl_now(c);
    return NULL;
}

static void workers_insert(struct ctl_worker *k, struct ctl_has has)
{
    uint32_t i = k->nhas++;
    for (; k->ready && i && k->has[i - 1].model > has.model; i--) k->has[i] = k->has[i - 1];
    k->has[i] = has;
    k->model_of[has.number] = has.model;
    workers_set_file(k, has.model, true);
}

static const char *workers_has(struct ctl_worker *k, const struct fleet_has_model *m)
{
    struct fleet_control *c = k->control;
    const char *why;
    if (m->model >= k->facts.models) return "it has more models than it said";
    if (k->model_of[m->model] != FLEET_NONE) {
        if (!k->ready) return "it tells of a model twice";
        ctl_place_is(k, k->model_of[m->model], m->where);
        return NULL;
    }
    if (!k->ready) k->told++;
    struct ctl_model *model = ctl_model_take(c, m, &why);
    if (!model || (k->ready && ctl_worker_number(k, model->number) != FLEET_NONE)) {
        ctl_say(c, "worker %s: model %u is left out: %s", k->name, m->model,
                model ? "it has the same file twice" : why);
        return NULL;
    }
    if ((why = workers_place(k, model->number, m->where))) return why;
    workers_insert(k, (struct ctl_has){model->number, m->model});
    if (model->workers == 1 && c->keeper.model)
        c->keeper.model(c->keeper.ctx, m, &c->state->models[model->number]);
    return NULL;
}

static const char *workers_held(struct ctl_worker *k, const struct fleet_held *h)
{
    const char *why;
    if (ctl_lease_adopt(k, h, &why)) return NULL;
    struct fleet_lease end = {.term = k->control->term, .lease = h->lease, .model = h->model};
    if (h->lease >= k->facts.leases) return why;
    /* One that lies where no model is now: it ends, so that nothing conflicts with it. */
    fleet_send(k->conn, FLEET_LEASE, 0, &end, sizeof(end), NULL, 0, NULL);
    return NULL;
}

/* A place whose leases were granted by an earlier leader has their sums. */
static void workers_sum_up(struct fleet_control *c, uint32_t place)
{
    struct fleet_place *p = &c->state->places[place];
    const struct ctl_link *head = &c->places[place].leases;
    for (const struct ctl_link *l = head->next; l != head; l = l->next) {
        const struct ctl_lease *lease = CTL_OF(struct ctl_lease, of_place, l);
        p->slots += lease->slots;
        p->rate += lease->rate;
        p->spill = lease->spill;
        p->max_batch = lease->max_batch;
        if (lease->until > p->until_ns) p->until_ns = lease->until;
    }
    float share = p->rate * (float)c->state->models[p->model].exec_ns[0] * 1e-9f;
    uint32_t places = 0;
    for (uint32_t i = c->state->workers[p->worker].first; i != FLEET_NONE;
         i = c->state->places[i].next_of_worker)
        places++;
    p->share = share < 1 / (float)places ? share : 1 / (float)places;
}

static const char *workers_ready(struct ctl_worker *k)
{
    struct fleet_control *c = k->control;
    if (k->ready || k->told != k->facts.models) return "it is ready before it has told all";
    qsort(k->has, k->nhas, sizeof(*k->has), workers_by_model);
    for (uint32_t i = 1; i < k->nhas; i++)
        if (k->has[i].model == k->has[i - 1].model) return "it has the same model file twice";
    k->ready = true;
    c->nworkers++;
    for (uint32_t i = c->state->workers[k->number].first; i != FLEET_NONE;
         i = c->state->places[i].next_of_worker)
        if (c->places[i].nleases) workers_sum_up(c, i);
    k->drains = ctl_drains(c, k->name);
    ctl_say(c, "worker %s at %s is here: %u models, %u pages on the GPU%s", k->name, k->facts.address,
            k->nhas, k->facts.gpu_pages, k->drains ? ", drains" : "");
    ctl_audit(c, "worker", k->number, FLEET_NONE, NULL);
    ctl_kept_correct(k);
    ctl_worker_health(k);
    return NULL;
}

/* ---- messages */

static void workers_result(struct ctl_worker *k, const struct fleet_frame *f, const struct fleet_result *r)
{
    struct ctl_pending *p = ctl_pending_take(k, f->seq);
    if (!p) return; /* of a lease that was ended */
    struct ctl_pending was = *p;
    ctl_pending_free(k, p);
    if (r->outcome == FLEET_OLD_TERM)
        ctl_worker_cut(k, "it obeys a leader with a larger term");
    else if (was.key)
        ctl_lease_result(k, &was, r);
    else
        ctl_act_result(k, &was, r);
}

/* The keeper knows whether to believe it; then all connections have ended when it returns. */
static const char *workers_other(const struct fleet_control *c, const struct fleet_elsewhere *e)
{
    if (!e || !fleet_text_ok(e->leader, sizeof(e->leader)) || !e->leader[0])
        return "an ELSEWHERE that makes no sense";
    if (c->keeper.other) c->keeper.other(c->keeper.ctx, e->leader);
    return NULL;
}

static const char *workers_take(struct ctl_worker *k, const struct fleet_frame *f, const void *body)
{
    const struct fleet_has_model *m = FLEET_BODY(struct fleet_has_model, f, body);
    const struct fleet_held *h = FLEET_BODY(struct fleet_held, f, body);
    const struct fleet_result *r = FLEET_BODY(struct fleet_result, f, body);
    const struct fleet_endpoint *e = FLEET_BODY(struct fleet_endpoint, f, body);
    switch (f->kind) {
    case FLEET_HAS_MODEL: return m ? workers_has(k, m) : "a message is too short";
    case FLEET_HELD: return !k->ready && h ? workers_held(k, h) : "a HELD out of place";
    case FLEET_READY: return workers_ready(k);
    case FLEET_RESULT:
        if (!r || !fleet_text_ok(r->why, sizeof(r->why))) return "a RESULT that makes no sense";
        workers_result(k, f, r);
        return NULL;
    case FLEET_TELEMETRY: ctl_telemetry(k, body, f->bytes, CTL_BY_TCP); return NULL;
    case FLEET_TARGETED: return e ? ctl_target_connect(k, e) : "a message is too short";
    case FLEET_ELSEWHERE: return workers_other(k->control, FLEET_BODY(struct fleet_elsewhere, f, body));
    case FLEET_LEAVES:
        k->leaves = true;
        k->left_at = ctl_now(k->control);
        ctl_say(k->control, "worker %s leaves", k->name);
        ctl_worker_health(k);
        return NULL;
    default: return "a message that no worker sends";
    }
}

bool ctl_worker_message(struct ctl_conn *conn, const struct fleet_frame *f, const void *body)
{
    const struct fleet_hello_worker *facts = FLEET_BODY(struct fleet_hello_worker, f, body);
    const char *why;
    if (conn->worker) {
        struct ctl_worker *k = conn->worker;
        struct fleet_conn *peer =
            conn->conn; /* `conn` is no more if the message was such that it was cut off */
        why = workers_take(k, f, body);
        if (why && k->conn == peer) ctl_worker_cut(k, why);
        return true;
    }
    if (f->kind != FLEET_WORKER || !facts) return false;
    why = workers_enter(conn, facts);
    if (!why) return true;
    ctl_say(conn->control, "worker %s at %s is refused: %s", fleet_conn_peer(conn->conn)->name,
            fleet_conn_text(conn->conn), why);
    fleet_conn_close(conn->conn, -EINVAL, why);
    ctl_link_remove(&conn->link);
    free(conn);
    return true;
}
