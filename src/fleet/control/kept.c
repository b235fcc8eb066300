/* SPDX-License-Identifier: Apache-2.0 */
/* kept.c: where models shall be, as etcd has it from the leaders before. A new leader needs it for workers
 * that are not here yet: their models must not be loaded elsewhere. Workers that are here tell by
 * themselves. */
#include <stdlib.h>
#include <string.h>

#include "src/fleet/control/impl.h"

#define KEPT_PATIENCE (5 * CTL_SECOND) /* of a new leader: as long as a dead worker stays in etcd */

static uint64_t kept_hash(const struct fleet_control *c, const char *name)
{
    return fleet_table_hash(c->seed, name, strlen(name));
}

static struct ctl_keeps *kept_of(struct fleet_control *c, const char *worker)
{
    struct fleet_entry *e = fleet_table_find(&c->kept, kept_hash(c, worker));
    while (e && strcmp(CTL_OF(struct ctl_keeps, entry, e)->worker, worker) != 0) e = fleet_table_next(e);
    return e ? CTL_OF(struct ctl_keeps, entry, e) : NULL;
}

static struct ctl_kept *kept_find(struct fleet_control *c, const struct ctl_keeps *of, const char *model)
{
    struct fleet_entry *e = fleet_table_find(&of->by_model, kept_hash(c, model));
    while (e && strcmp(CTL_OF(struct ctl_kept, entry, e)->model, model) != 0) e = fleet_table_next(e);
    return e ? CTL_OF(struct ctl_kept, entry, e) : NULL;
}

/* ---- what etcd says */

static struct ctl_keeps *kept_make(struct fleet_control *c, const char *worker)
{
    struct ctl_keeps *of = calloc(1, sizeof(*of));
    if (!of) return NULL;
    strncpy(of->worker, worker, sizeof(of->worker) - 1);
    ctl_link_init(&of->all);
    if (!fleet_table_add(&c->kept, &of->entry, kept_hash(c, of->worker))) return of;
    free(of);
    return NULL;
}

/* Without memory it is not known, and the model may be loaded elsewhere. */
static void kept_add(struct fleet_control *c, struct ctl_keeps *of, const char *model)
{
    struct ctl_kept *p = calloc(1, sizeof(*p));
    if (!p) return;
    strncpy(p->model, model, sizeof(p->model) - 1);
    if (fleet_table_add(&of->by_model, &p->entry, kept_hash(c, p->model)))
        free(p);
    else
        ctl_link_add(&of->all, &p->link), c->nkept++;
}

static void kept_remove(struct fleet_control *c, struct ctl_keeps *of, struct ctl_kept *p)
{
    c->nkept--;
    fleet_table_remove(&of->by_model, &p->entry);
    ctl_link_remove(&p->link);
    free(p);
}

static void kept_free(struct fleet_control *c, struct ctl_keeps *of)
{
    while (!ctl_link_alone(&of->all)) kept_remove(c, of, CTL_OF(struct ctl_kept, link, of->all.next));
    fleet_table_remove(&c->kept, &of->entry);
    fleet_table_free(&of->by_model);
    free(of);
}

void fleet_control_place(struct fleet_control *c, const char *worker, const char *model, bool is)
{
    struct ctl_keeps *of = kept_of(c, worker);
    if (!of && is) of = kept_make(c, worker);
    if (!of) return;
    struct ctl_kept *p = kept_find(c, of, model);
    if (!p && is) kept_add(c, of, model);
    if (p && !is) kept_remove(c, of, p);
    if (ctl_link_alone(&of->all)) kept_free(c, of);
}

/* ---- for the planner */

static void kept_count(struct fleet_control *c, const struct ctl_keeps *of)
{
    for (const struct ctl_link *l = of->all.next; l != &of->all; l = l->next) {
        const struct ctl_model *m = ctl_model_find(c, CTL_OF(struct ctl_kept, link, l)->model, 0);
        if (m) c->state->models[m->number].expected++;
    }
}

void ctl_kept_expect(struct fleet_control *c)
{
    bool soon = ctl_now(c) - c->lead_at < KEPT_PATIENCE;
    for (uint32_t i = 0; c->expects && i < c->nmodels; i++) c->state->models[i].expected = 0;
    c->expects = false;
    for (struct ctl_link *l = c->all_workers.next; soon && l != &c->all_workers; l = l->next) {
        const struct ctl_worker *k = CTL_OF(struct ctl_worker, link, l);
        const struct ctl_keeps *of = k->wanted && !k->ready && !k->drains ? kept_of(c, k->name) : NULL;
        if (!of) continue;
        kept_count(c, of);
        c->expects = true;
    }
}

/* ---- for the next leader */

void ctl_kept_correct(struct ctl_worker *k)
{
    struct fleet_control *c = k->control;
    const struct fleet_state *s = c->state;
    struct ctl_keeps *of = kept_of(c, k->name);
    for (uint32_t i = s->workers[k->number].first; i != FLEET_NONE; i = s->places[i].next_of_worker) {
        const char *model = c->models[s->places[i].model].name;
        if (s->places[i].where != FLEET_HOST && !(of && kept_find(c, of, model)))
            ctl_place_told(c, k->number, s->places[i].model, true);
    }
    for (struct ctl_link *l = of ? of->all.next : NULL; of && l != &of->all; l = l->next) {
        const struct ctl_kept *p = CTL_OF(struct ctl_kept, link, l);
        const struct ctl_model *m = ctl_model_find(c, p->model, 0);
        uint32_t place = m ? fleet_place_find(s, k->number, m->number) : FLEET_NONE;
        bool there = place != FLEET_NONE && s->places[place].where != FLEET_HOST;
        if (!there && c->keeper.place) c->keeper.place(c->keeper.ctx, k->name, p->model, false);
    }
}

void ctl_kept_close(struct fleet_control *c)
{
    for (uint32_t i = 0; i < c->kept.slots; i++)
        while (c->kept.slot[i]) kept_free(c, CTL_OF(struct ctl_keeps, entry, c->kept.slot[i]));
    fleet_table_free(&c->kept);
}
