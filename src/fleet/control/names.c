/* SPDX-License-Identifier: Apache-2.0 */
/* Models by their names. Equal names with another version or another file are other models. */
#include <string.h>

#include "src/fleet/control/impl.h"

static uint64_t names_hash(const struct fleet_control *c, const char *name)
{
    return fleet_table_hash(c->seed, name, strlen(name));
}

struct ctl_model *ctl_model_find(struct fleet_control *c, const char *name, uint32_t version)
{
    struct ctl_model *best = NULL;
    struct fleet_entry *e = fleet_table_find(&c->models_by_name, names_hash(c, name));
    for (; e; e = fleet_table_next(e)) {
        struct ctl_model *m = CTL_OF(struct ctl_model, entry, e);
        if (strcmp(m->name, name) || (version && m->version != version) || !m->workers) continue;
        bool newer = best && m->version > best->version;
        if (!best || newer || (m->version == best->version && m->workers > best->workers)) best = m;
    }
    return best;
}

const struct fleet_control_wish *ctl_wish_find(const struct fleet_control *c, const char *name,
                                               uint32_t version)
{
    struct fleet_entry *e = fleet_table_find(&c->wishes_by_name, names_hash(c, name));
    for (; e; e = fleet_table_next(e)) {
        const struct fleet_control_wish *w = &CTL_OF(struct ctl_wish, entry, e)->is;
        if (!strcmp(w->name, name) && (!version || !w->version || w->version == version)) return w;
    }
    return NULL;
}

uint32_t ctl_wish_replicas(const struct fleet_control *c, const char *name, uint32_t version)
{
    const struct fleet_control_wish *w = ctl_wish_find(c, name, version);
    return w ? w->replicas : 0;
}

/* A profile with a time for each size: a batch that the model does not make costs as two of half its size. */
static struct fleet_model names_profile(const struct fleet_has_model *h)
{
    struct fleet_model m = {.pages = h->pages, .spread_ns = h->spread_ns, .load_ns = h->load_ns};
    m.disk_ns = h->disk_ns;
    m.first = FLEET_NONE;
    for (int i = 0; i < FLEET_SIZES; i++) {
        bool made = h->exec_ns[i] || !i;
        m.exec_ns[i] = made ? h->exec_ns[i] : 2 * m.exec_ns[i - 1];
        if (i && m.exec_ns[i] < m.exec_ns[i - 1]) m.exec_ns[i] = m.exec_ns[i - 1];
        if (m.exec_ns[i] > 3600 * CTL_SECOND) m.exec_ns[i] = 3600 * CTL_SECOND;
    }
    if (m.spread_ns > m.exec_ns[FLEET_SIZES - 1]) m.spread_ns = m.exec_ns[FLEET_SIZES - 1];
    if (m.load_ns == 0) m.load_ns = 1;
    return m;
}

/* Deadlines of one class are within a factor of four: those of the next one are longer. */
static void names_edges(struct ctl_model *m)
{
    int64_t edge = 8 * m->told_ns[0];
    for (int i = 0; i < FLEET_CLASSES - 1; i++, edge *= 4) m->edge_ns[i] = edge;
    m->edge_ns[FLEET_CLASSES - 1] = INT64_MAX;
}

static struct ctl_model *names_new(struct fleet_control *c, const struct fleet_has_model *h,
                                   const struct fleet_model *profile, const char **why)
{
    struct ctl_model *m = &c->models[c->nmodels];
    *why = "the controller has no room for more models: give it a larger --max-models";
    if (c->nmodels == c->state->limits.models) return NULL;
    *m = (struct ctl_model){.version = h->version, .number = c->nmodels};
    memcpy(m->name, h->name, sizeof(m->name));
    memcpy(m->digest, h->digest, sizeof(m->digest));
    if (fleet_table_add(&c->models_by_name, &m->entry, names_hash(c, m->name))) {
        *why = "no memory";
        return NULL;
    }
    c->nmodels++;
    m->request_bytes = h->request_bytes;
    m->answer_bytes = h->answer_bytes;
    memcpy(m->told_ns, profile->exec_ns, sizeof(m->told_ns));
    names_edges(m);
    ctl_link_init(&m->wants);
    ctl_link_init(&m->dirty);
    c->state->models[m->number] = *profile;
    c->state->models[m->number].min_replicas = ctl_wish_replicas(c, m->name, m->version);
    return m;
}

struct ctl_model *ctl_model_take(struct fleet_control *c, const struct fleet_has_model *h, const char **why)
{
    struct fleet_model profile = names_profile(h);
    *why = "its name or its numbers make no sense";
    if (!h->name[0] || !fleet_text_ok(h->name, sizeof(h->name)) || h->exec_ns[0] <= 0) return NULL;
    for (int i = 0; i < FLEET_SIZES; i++)
        if (h->exec_ns[i] < 0 || h->exec_ns[i] > 3600 * CTL_SECOND) return NULL;
    if (!fleet_profile_ok(&profile) || profile.pages > INT32_MAX) return NULL;
    struct fleet_entry *e = fleet_table_find(&c->models_by_name, names_hash(c, h->name));
    for (; e; e = fleet_table_next(e)) {
        struct ctl_model *m = CTL_OF(struct ctl_model, entry, e);
        bool same = !strcmp(m->name, h->name) && m->version == h->version &&
                    !memcmp(m->digest, h->digest, sizeof(m->digest));
        if (!same) continue;
        *why = "another worker says that this file has more or fewer pages";
        return c->state->models[m->number].pages == h->pages ? m : NULL;
    }
    return names_new(c, h, &profile, why);
}

void ctl_model_learn(struct fleet_control *c, uint32_t model, const int64_t p99_ns[FLEET_SIZES])
{
    struct fleet_model *m = &c->state->models[model];
    for (int i = 0; i < FLEET_SIZES; i++) {
        int64_t told = c->models[model].told_ns[i], least = told / 4, most = told * 4;
        if (!p99_ns[i]) continue;
        int64_t p99 = p99_ns[i] < least ? least : p99_ns[i] > most ? most : p99_ns[i];
        m->exec_ns[i] += (p99 - m->exec_ns[i]) / 8;
    }
    for (int i = 1; i < FLEET_SIZES; i++)
        if (m->exec_ns[i] < m->exec_ns[i - 1]) m->exec_ns[i] = m->exec_ns[i - 1];
    if (m->spread_ns > m->exec_ns[FLEET_SIZES - 1]) m->spread_ns = m->exec_ns[FLEET_SIZES - 1];
}

void ctl_model_dirty(struct fleet_control *c, uint32_t model)
{
    struct ctl_model *m = &c->models[model];
    if (ctl_link_alone(&m->dirty)) ctl_link_add(&c->dirty, &m->dirty);
    ctl_round_soon(c);
}
