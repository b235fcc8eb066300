/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of each service: which worker has which, and whether those of the publication before still hold.
 */
#include "src/balance/tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/assert.h>

#include "src/balance/maglev.h"

static uint64_t tables_name(const struct bal_worker *w)
{
    uint64_t a[2] = {0}, h = w->port;
    memcpy(a, w->addr.byte, w->addr.family == 4 ? 4 : 16);
    h = (h ^ a[0]) * 0x9e3779b97f4a7c15u;
    return (h ^ h >> 32 ^ a[1]) * 0xd6e8feb86659fd93u;
}

/* A table of the same candidates as before is the same table. */
static bool tables_are_same(const struct bal_snapshot *a, const struct bal_snapshot *b, uint32_t v)
{
    const struct bal_service *x = &a->config.service[v], *y = &b->config.service[v];
    if ((a->services <= BAL_FEW_SERVICES) != (b->services <= BAL_FEW_SERVICES)) return false;
    if (!y->used || a->members[v].count != b->members[v].count || x->track_moved != y->track_moved ||
        a->config.maglev_seed != b->config.maglev_seed)
        return false;
    for (uint32_t i = 0; i < a->members[v].count; i++) {
        uint16_t w = a->member[a->members[v].first + i];
        if (w != b->member[b->members[v].first + i]) return false;
        const struct bal_worker *p = &a->config.worker[w], *q = &b->config.worker[w];
        if (p->state != q->state || p->weight != q->weight || p->port != q->port ||
            !bal_same_addr(&p->addr, &q->addr))
            return false;
    }
    return true;
}

static int tables_by_name(const void *a, const void *b)
{
    const struct bal_candidate *x = a, *y = b;
    return (x->name > y->name) - (x->name < y->name);
}

/* The candidates of a service, in an order that does not depend on their numbers. */
static uint32_t tables_candidates(const struct bal_snapshot *s, uint32_t v, bool all, struct bal_candidate *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->members[v].count; i++) {
        uint16_t w = s->member[s->members[v].first + i];
        bool up = bal_is_up(s, w);
        if (!all && !up) continue;
        c[n++] = (struct bal_candidate){w, up, s->config.worker[w].weight, tables_name(&s->config.worker[w])};
    }
    qsort(c, n, sizeof(*c), tables_by_name);
    return n;
}

static struct bal_table *table_make(uint32_t rows)
{
    struct bal_table *t = malloc(sizeof(*t) + rows * sizeof(t->worker[0]));
    if (t) *t = (struct bal_table){.users = 1, .rows = rows};
    return t;
}

/* A hundred rows for each worker share out well enough. Where there are thousands of services, those with few
 * workers have small tables, or memory would end. */
static uint32_t table_rows(const struct bal_snapshot *s, uint32_t v, uint32_t candidates)
{
    if (candidates < 2) return 1;
    return s->services <= BAL_FEW_SERVICES || s->members[v].count > BAL_MAGLEV_SMALL / 100 ? BAL_MAGLEV
                                                                                           : BAL_MAGLEV_SMALL;
}

/* Of a service that remembers only what a change would move: its rows depend on nothing else. */
static int tables_make_jet(struct bal_snapshot *s, uint32_t v, struct bal_candidate *c)
{
    uint32_t n = tables_candidates(s, v, true, c), rows = n < 2 ? 1 : BAL_MAGLEV;
    s->table[v] = table_make(rows);
    s->stable[v] = table_make(rows);
    if (!s->table[v] || !s->stable[v]) return -ENOMEM;
    bal_rendezvous(c, n, s->config.maglev_seed,
                   &(struct bal_rows){s->table[v]->worker, s->stable[v]->worker, rows});
    return 0;
}

static int tables_make_one(struct bal_snapshot *s, uint32_t v, struct bal_candidate *c)
{
    if (s->config.service[v].track_moved) return tables_make_jet(s, v, c);
    uint32_t n = tables_candidates(s, v, false, c), rows = table_rows(s, v, n);
    s->table[v] = table_make(rows);
    return s->table[v] ? bal_maglev(c, n, s->config.maglev_seed, s->table[v]->worker, rows) : -ENOMEM;
}

int bal_tables_make(struct bal_snapshot *s, const struct bal_snapshot *last)
{
    struct bal_candidate *c = calloc(BAL_WORKERS, sizeof(*c));
    int err = c ? 0 : -ENOMEM;
    for (uint32_t v = 0; v < BAL_SERVICES && !err; v++) {
        if (!s->config.service[v].used) continue;
        if (!last || !tables_are_same(s, last, v)) {
            err = tables_make_one(s, v, c);
            continue;
        }
        s->table[v] = last->table[v];
        s->stable[v] = last->stable[v];
        s->table[v]->users++;
        if (s->stable[v]) s->stable[v]->users++;
    }
    free(c);
    return err;
}

static void table_release(struct bal_table *t)
{
    GW_ASSERT(!t || t->users);
    if (t && !--t->users) free(t);
}

void bal_tables_free(struct bal_snapshot *s)
{
    for (uint32_t v = 0; v < BAL_SERVICES; v++) {
        table_release(s->table[v]);
        table_release(s->stable[v]);
    }
}
