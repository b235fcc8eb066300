/* SPDX-License-Identifier: Apache-2.0 */
/* What must be so between two bursts, and after each publication. */
#include "src/balance/sound.h"

#include "src/balance/persist.h"
#include "src/balance/step.h"

/* ---- a core ---- */

struct sound_visit {
    bool wide, sound;
    uint64_t flows;
};

/* A connection counts for its worker. What only leads to one counts beside it (bal_beside). */
static void sound_look(void *ctx, const void *key, const struct gw_flow *flow)
{
    struct sound_visit *v = ctx;
    const struct bal_wide *k = key;
    bool beside = flow->worker >= BAL_WORKERS;
    v->flows++;
    if (!v->wide)
        v->sound &= !beside && flow->state != BAL_FRAGMENT && flow->state < BAL_ROCE_OPENING;
    else if (k->kind == BAL_W_FLOW || k->kind == BAL_W_QP || k->kind == BAL_W_DATAGRAM)
        v->sound &= !beside && flow->state != BAL_FRAGMENT;
    else
        v->sound &= beside && (flow->state == BAL_FRAGMENT) == (k->kind == BAL_W_FRAGMENT) &&
                    k->kind <= BAL_W_FRAGMENT;
}

static bool sound_table(struct gw_flow_table *t, bool wide)
{
    struct sound_visit v = {.wide = wide, .sound = true};
    uint64_t at = 0;
    gw_flow_scan(t, &at, SIZE_MAX, sound_look, &v);
    return v.sound && v.flows <= gw_flow_count(t); /* flows whose time is over are not visited */
}

bool bal_core_is_sound(struct bal_core *core)
{
    return sound_table(core->narrow, false) && sound_table(core->wide, true) &&
           core->outbox_used <= BAL_OUTBOX && bal_clients_are_sound(core->clients);
}

/* ---- publications ---- */

/* All of them, from the newest on. */
static const struct bal_snapshot *sound_next(const struct bal *bal, const struct bal_snapshot *s)
{
    return s == atomic_load_explicit(&bal->snap, memory_order_relaxed) ? bal->old : s->older;
}

static uint32_t sound_holders(const struct bal *bal, uint32_t service, const struct bal_table *t)
{
    uint32_t n = 0;
    const struct bal_snapshot *s = atomic_load_explicit(&bal->snap, memory_order_relaxed);
    for (; s; s = sound_next(bal, s)) n += s->table[service] == t || s->stable[service] == t;
    return n;
}

static bool sound_tables(const struct bal *bal, const struct bal_snapshot *s)
{
    for (uint32_t v = 0; v < BAL_SERVICES; v++) {
        if (s->config.service[v].used != !!s->table[v]) return false;
        if (s->table[v] && s->table[v]->users != sound_holders(bal, v, s->table[v])) return false;
        if (s->stable[v] && s->stable[v]->users != sound_holders(bal, v, s->stable[v])) return false;
    }
    return true;
}

/* A core looks at a snapshot that is not freed. 0: it is about to choose one. */
static bool sound_sight(const struct bal *bal, uint32_t core)
{
    uint64_t seen = atomic_load(&bal->seen[core]);
    const struct bal_snapshot *s = atomic_load_explicit(&bal->snap, memory_order_relaxed);
    while (s && s->generation != seen) s = sound_next(bal, s);
    return s || seen == BAL_OFFLINE || !seen;
}

bool bal_is_sound(const struct bal *bal)
{
    uint64_t before = bal->generation + 1;
    const struct bal_snapshot *s = atomic_load_explicit(&bal->snap, memory_order_relaxed);
    if (!s || s->generation != bal->generation) return false;
    for (; s; s = sound_next(bal, s)) {
        if (s->generation >= before || !sound_tables(bal, s)) return false;
        before = s->generation;
    }
    for (uint32_t i = 0; i < bal->attr.cores; i++)
        if (!sound_sight(bal, i)) return false;
    return true;
}
