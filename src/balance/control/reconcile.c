/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is read again: what it says comes into force, and flows stay where they are. */
#include <string.h>

#include "src/balance/control/model.h"

static struct gw_bal_service *same_service(const struct gw_bal_model *m, const struct gw_bal_service *s)
{
    for (struct gw_bal_service *o = m->services; o; o = o->next)
        if (o->protocol == s->protocol && o->port == s->port && gw_bal_addr_same(&o->addr, &s->addr))
            return o;
    return NULL;
}

static struct gw_bal_worker *same_worker(const struct gw_bal_service *s, const struct gw_bal_service *in,
                                         const struct gw_bal_worker *w)
{
    for (struct gw_bal_worker *o = s->workers; o; o = o->next)
        if (gw_bal_port_of(s, o) == gw_bal_port_of(in, w) && gw_bal_addr_same(&o->addr, &w->addr)) return o;
    return NULL;
}

static void update_worker(struct gw_bal_model *m, struct gw_bal_worker *w, const struct gw_bal_worker *wanted)
{
    memcpy(w->name, wanted->name, sizeof(w->name));
    w->has_check = wanted->has_check;
    w->check = wanted->check;
    w->origin = GW_BAL_OF_FILE;
    gw_bal_set_weight(m, w, wanted->weight);
    if (w->leave) gw_bal_drain(m, w, w->drain); /* it stays after all */
}

static int update_service(struct gw_bal_model *m, struct gw_bal_service *s,
                          const struct gw_bal_service *wanted)
{
    int moved = s->forward != wanted->forward || s->sched != wanted->sched || s->jet != wanted->jet;
    memcpy(s->name, wanted->name, sizeof(s->name));
    s->forward = wanted->forward;
    s->sched = wanted->sched;
    s->jet = wanted->jet;
    gw_bal_set_check(m, s, &wanted->check);
    s->origin = GW_BAL_OF_FILE;
    if (moved) m->version++;
    for (struct gw_bal_worker *w = s->workers, *next; w; w = next) {
        next = w->next;
        if (w->origin == GW_BAL_OF_FILE && !same_worker(wanted, s, w)) gw_bal_leave(m, s, w, 0);
    }
    for (const struct gw_bal_worker *w = wanted->workers; w; w = w->next) {
        struct gw_bal_worker *mine = same_worker(s, wanted, w);
        int error = 0;
        if (mine)
            update_worker(m, mine, w);
        else
            error = gw_bal_add_worker(m, s, w, NULL);
        if (error) return error;
    }
    return 0;
}

int gw_bal_reconcile(struct gw_bal_model *m, const struct gw_bal_model *wanted)
{
    for (struct gw_bal_service *s = m->services, *next; s; s = next) {
        next = s->next;
        if (s->origin == GW_BAL_OF_FILE && !same_service(wanted, s)) gw_bal_remove_service(m, s);
    }
    for (const struct gw_bal_service *s = wanted->services; s; s = s->next) {
        struct gw_bal_service *mine = same_service(m, s);
        int error = mine ? 0 : gw_bal_add_service(m, s, &mine);
        if (!error) error = update_service(m, mine, s);
        if (error) return error;
    }
    m->file_hash = wanted->file_hash;
    return 0;
}
