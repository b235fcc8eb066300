/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to workers that have no answer yet. A worker that does not answer an action in time is cut off. It
 * connects again, and tells what it has. */
#include <errno.h>
#include <stdlib.h>

#include "src/fleet/control/impl.h"

static uint64_t pending_hash(const struct ctl_worker *k, uint64_t seq)
{
    return fleet_table_hash(k->control->seed, &seq, sizeof(seq));
}

static void pending_late(void *ctx)
{
    struct ctl_pending *p = ctx;
    ctl_worker_cut(p->worker, "it does not say how an action ended");
}

int ctl_pending_add(struct ctl_worker *k, const struct ctl_pending *what)
{
    struct fleet_control *c = k->control;
    struct ctl_pending *p = malloc(sizeof(*p));
    if (!p) return -ENOMEM;
    *p = *what;
    p->worker = k;
    p->timer = (struct fleet_timer){0};
    if (fleet_table_add(&k->pending, &p->entry, pending_hash(k, p->seq))) {
        free(p);
        return -ENOMEM;
    }
    ctl_link_add(&k->pendings, &p->link);
    if (p->key) return 0;
    const struct fleet_model *m = &c->state->models[p->model];
    return fleet_timer_set(c->o.loop, &p->timer, ctl_now(c) + 15 * CTL_SECOND + 4 * (m->load_ns + m->disk_ns),
                           pending_late, p);
}

struct ctl_pending *ctl_pending_take(struct ctl_worker *k, uint64_t seq)
{
    struct fleet_entry *e = fleet_table_find(&k->pending, pending_hash(k, seq));
    for (; e; e = fleet_table_next(e)) {
        struct ctl_pending *p = CTL_OF(struct ctl_pending, entry, e);
        if (p->seq == seq) return p;
    }
    return NULL;
}

void ctl_pending_free(struct ctl_worker *k, struct ctl_pending *p)
{
    fleet_timer_clear(k->control->o.loop, &p->timer);
    fleet_table_remove(&k->pending, &p->entry);
    ctl_link_remove(&p->link);
    free(p);
}

void ctl_pending_forget(struct ctl_worker *k)
{
    while (!ctl_link_alone(&k->pendings))
        ctl_pending_free(k, CTL_OF(struct ctl_pending, link, k->pendings.next));
    fleet_table_free(&k->pending);
}
