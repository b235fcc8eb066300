/* SPDX-License-Identifier: Apache-2.0 */
/* emulated_queue.c: the models of a worker, the requests that wait for each, and their answers. */
#include "src/fleet/worker/emulated_impl.h"

#include <stdlib.h>

enum { QUEUE_PRIORITY = 5, QUEUE_LEAST = 9, QUEUE_ROOM = 8 };

/* ---- places */

uint32_t emulated_where(const struct emulated *e, uint32_t model)
{
    if (e->place[model]) return e->place[model]->where;
    return model < e->in_host ? FLEET_HOST : EMULATED_ON_DISK;
}

struct emulated_place *emulated_place(struct emulated *e, uint32_t model)
{
    if (e->place[model]) return e->place[model];
    struct emulated_place *p = calloc(1, sizeof(*p));
    if (!p) return NULL;
    p->model = model;
    p->where = emulated_where(e, model);
    p->busy_at = EMULATED_NOWHERE;
    p->told = true;
    e->place[model] = p;
    return p;
}

void emulated_tell(struct emulated *e, struct emulated_place *p)
{
    if (!p->told) return;
    p->told = false;
    p->next_to_tell = e->to_tell;
    e->to_tell = p;
}

uint32_t emulated_most(const struct emulated_place *p)
{
    for (uint32_t i = 1; i < FLEET_MAX_BATCH; i++)
        if (p->of_batch[i]) return i;
    return FLEET_MAX_BATCH;
}

/* ---- the queue of a place: a heap */

static void queue_up(struct emulated_entry *heap, uint32_t at, struct emulated_entry x)
{
    for (; at && emulated_before(&x, &heap[(at - 1) / 2]); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = x;
}

static struct emulated_entry queue_remove(struct emulated_place *p, uint32_t at)
{
    struct emulated_entry taken = p->heap[at], last = p->heap[--p->n];
    if (at == p->n) return taken;
    for (uint32_t child; (child = 2 * at + 1) < p->n; at = child) {
        if (child + 1 < p->n && emulated_before(&p->heap[child + 1], &p->heap[child])) child++;
        if (!emulated_before(&p->heap[child], &last)) break;
        p->heap[at] = p->heap[child];
    }
    queue_up(p->heap, at, last);
    return taken;
}

/* ---- the list of places with requests */

static bool queue_busy(struct emulated *e, struct emulated_place *p)
{
    if (p->busy_at != EMULATED_NOWHERE) return true;
    if (e->nbusy == e->busy_room) {
        uint32_t room = e->busy_room ? 2 * e->busy_room : QUEUE_ROOM;
        struct emulated_place **grown = realloc(e->busy, room * sizeof(struct emulated_place *));
        if (!grown) return false;
        e->busy = grown;
        e->busy_room = room;
    }
    p->busy_at = e->nbusy;
    e->busy[e->nbusy++] = p;
    return true;
}

static void queue_not_busy(struct emulated *e, struct emulated_place *p)
{
    if (p->n || p->busy_at == EMULATED_NOWHERE) return;
    struct emulated_place *last = e->busy[--e->nbusy];
    e->busy[p->busy_at] = last;
    last->busy_at = p->busy_at;
    p->busy_at = EMULATED_NOWHERE;
}

static bool queue_room(struct emulated_place *p)
{
    if (p->n < p->room) return true;
    uint32_t room = p->room ? 2 * p->room : QUEUE_ROOM;
    struct emulated_entry *grown = realloc(p->heap, room * sizeof(*grown));
    if (!grown) return false;
    p->heap = grown;
    p->room = room;
    return true;
}

struct emulated_entry emulated_take(struct emulated *e, struct emulated_place *p, uint32_t at)
{
    struct emulated_entry x = queue_remove(p, at);
    e->waiting--;
    queue_not_busy(e, p);
    return x;
}

/* The deadline comes first after the priority: in units of 16 ns, so that both fit into a word. */
uint64_t emulated_rank(const struct fleet_request *r, int64_t deadline_at)
{
    uint64_t priority = !r->priority ? QUEUE_PRIORITY : r->priority < QUEUE_LEAST ? r->priority : QUEUE_LEAST;
    return priority << 60 | (uint64_t)deadline_at >> 4;
}

bool emulated_enqueue(struct emulated *e, struct emulated_place *p, struct fleet_call *c)
{
    uint64_t budget = c->request.budget_ns;
    struct emulated_entry x = {.order = e->order, .deadline_at = INT64_MAX, .call = c};
    if (budget && budget < (uint64_t)(INT64_MAX - c->arrived_at))
        x.deadline_at = c->arrived_at + (int64_t)budget;
    x.rank = emulated_rank(&c->request, x.deadline_at);
    if (!queue_room(p) || !queue_busy(e, p)) return false;
    e->order++;
    e->waiting++;
    queue_up(p->heap, p->n++, x);
    return true;
}

/* ---- answers */

void emulated_answer(struct emulated *e, struct fleet_call *c, enum gw_serve_status status, int64_t retry_ns)
{
    struct fleet_answer *a = &c->answer;
    e->answered += status == GW_SERVE_OK;
    e->late += status == GW_SERVE_LATE;
    e->refused += status != GW_SERVE_OK;
    a->id = c->request.id;
    a->status = status;
    a->arrived_at = c->arrived_at;
    a->retry_ns = status == GW_SERVE_OK || retry_ns < 0 ? 0 : retry_ns;
    a->bytes = status == GW_SERVE_OK ? (uint64_t)c->request.rows * e->o.zoo->profile.answer_bytes : 0;
    c->output = e->o.zoo->zeros;
    if (!a->done_at) a->started_at = a->done_at = fleet_loop_now(e->o.loop);
    c->done(c);
}

void emulated_answer_admitted(struct emulated *e, struct fleet_call *c, enum gw_serve_status status,
                              int64_t retry_ns)
{
    struct emulated_lease *l = &e->lease[c->request.lease];
    if (l->lease.key == c->request.key && l->in_flight) l->in_flight--;
    emulated_answer(e, c, status, retry_ns);
}

void emulated_flush(struct emulated *e, struct emulated_place *p, enum gw_serve_status status,
                    int64_t retry_ns)
{
    while (p->n) {
        struct emulated_entry x = emulated_take(e, p, p->n - 1);
        p->refused++;
        emulated_tell(e, p);
        emulated_answer_admitted(e, x.call, status, retry_ns);
    }
}
