/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is read again: what it says comes into force, and flows stay where they are. */
#include <stdio.h>
#include <string.h>

#include "src/balance/control/index.h"
#include "src/balance/control/model.h"

static void update_worker(struct gw_bal_model *m, struct gw_bal_worker *w, const struct gw_bal_worker *wanted)
{
    gw_bal_rename_worker(m, w, wanted->name);
    w->has_check = wanted->has_check;
    w->check = wanted->check;
    w->origin = GW_BAL_OF_FILE;
    gw_bal_check_changed(m, w);
    if (w->sorry != wanted->sorry || w->inhibit != wanted->inhibit) m->version++;
    w->sorry = wanted->sorry;
    w->inhibit = wanted->inhibit;
    gw_bal_set_weight(m, w, wanted->weight);
    /* A worker that the API has drained stays drained, unless the file says something else than before. */
    int drain = w->file_drain == wanted->file_drain ? w->drain : wanted->file_drain;
    w->file_drain = wanted->file_drain;
    if (w->leave || w->drain != drain) gw_bal_drain(m, w, drain); /* it stays after all */
}

/* A worker that is leaving gives its name to the one that comes. */
static void free_name(struct gw_bal_model *m, struct gw_bal_worker *w)
{
    char name[GW_BAL_NAME];
    const struct gw_bal_worker *other;
    unsigned n = 0;
    for (other = w->next_name; other; other = other->next_name)
        if (other->service == w->service && !strcmp(other->name, w->name)) break;
    if (!other && gw_bal_index_worker(m, w->service, w->name) == w) return;
    do snprintf(name, sizeof(name), "%.40s.old-%u", w->name, ++n);
    while (gw_bal_index_worker(m, w->service, name));
    gw_bal_rename_worker(m, w, name);
}

/* Workers that leave have no connections left that a new way to forward could carry. */
static void forget_misfits(struct gw_bal_model *m, struct gw_bal_service *s)
{
    for (struct gw_bal_worker *w = s->workers, *next; w; w = next) {
        next = w->next;
        if (w->leave && gw_bal_fits(m, s, w)) gw_bal_leave(m, s, w, true);
    }
}

static void settle_new(const struct gw_bal_model *m, struct gw_bal_worker *w)
{
    w->changed = m->version;
    w->health.up = gw_bal_check_of(w->service, w)->kind == GW_BAL_NO_CHECK;
}

static int update_service(struct gw_bal_model *m, struct gw_bal_service *s, const struct gw_bal_model *file,
                          const struct gw_bal_service *wanted)
{
    int err = 0, moved = s->forward != wanted->forward || s->sched != wanted->sched ||
                         s->jet != wanted->jet || s->quorum != wanted->quorum ||
                         s->persist_s != wanted->persist_s || s->persist_bits != wanted->persist_bits;
    gw_bal_rename_service(m, s, wanted->name);
    s->forward = wanted->forward;
    s->sched = wanted->sched;
    s->jet = wanted->jet;
    s->drain_limit_ns = wanted->drain_limit_ns;
    s->quorum = wanted->quorum;
    s->persist_s = wanted->persist_s;
    s->persist_bits = wanted->persist_bits;
    gw_bal_set_check(m, s, &wanted->check);
    s->origin = GW_BAL_OF_FILE;
    if (moved) m->version++;
    for (struct gw_bal_worker *w = s->workers, *next; w; w = next) {
        next = w->next;
        if (w->origin == GW_BAL_OF_FILE && !gw_bal_worker_at(file, wanted, &w->addr, gw_bal_port_of(s, w)))
            gw_bal_leave(m, s, w, false);
    }
    for (const struct gw_bal_worker *w = wanted->workers; w && !err; w = w->next) {
        struct gw_bal_worker *mine = gw_bal_worker_at(m, s, &w->addr, gw_bal_port_of(wanted, w));
        if (mine)
            update_worker(m, mine, w);
        else if (!(err = gw_bal_put_worker(m, s, w, GW_BAL_ANY_ID, &mine)))
            settle_new(m, mine);
    }
    for (struct gw_bal_worker *w = s->workers; w && !err; w = w->next)
        if (w->leave) free_name(m, w);
    if (!err) forget_misfits(m, s);
    return err;
}

static int reconcile_change(struct gw_bal_model *m, const struct gw_bal_model *wanted)
{
    int err = 0;
    for (struct gw_bal_service *s = m->services, *next; s; s = next) {
        next = s->next;
        if (s->origin == GW_BAL_OF_FILE && !gw_bal_service_at(wanted, s)) gw_bal_remove_service(m, s);
    }
    for (const struct gw_bal_service *s = wanted->services; s && !err; s = s->next) {
        struct gw_bal_service *mine = gw_bal_service_at(m, s);
        if (!mine) err = gw_bal_put_service(m, s, GW_BAL_ANY_ID, &mine);
        if (!err) err = update_service(m, mine, wanted, s);
    }
    m->file_hash = wanted->file_hash;
    return err;
}

static int reconcile_with(struct gw_bal_model *m, const struct gw_bal_model *wanted,
                          int (*judge)(struct gw_bal_model *m))
{
    struct gw_bal_model next;
    int err = gw_bal_model_copy(m, &next);
    if (err) return err;
    err = reconcile_change(&next, wanted);
    if (!err) err = judge(&next);
    if (err < 0) {
        gw_bal_model_free(&next);
        return err;
    }
    next.version++; /* also for what only the next control plane needs: names, and the file's hash */
    gw_bal_model_free(m);
    *m = next;
    return 0;
}

static int must_run(struct gw_bal_model *m)
{
    return gw_bal_model_check(m);
}

int gw_bal_reconcile(struct gw_bal_model *m, const struct gw_bal_model *wanted)
{
    return reconcile_with(m, wanted, must_run);
}

int gw_bal_begin(struct gw_bal_model *m, const struct gw_bal_model *wanted)
{
    return reconcile_with(m, wanted, gw_bal_model_refuse);
}
