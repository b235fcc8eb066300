/* SPDX-License-Identifier: Apache-2.0 */
/* Counts good and bad checks of a worker, and says when the next one is due. */
#include "src/balance/control/health.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static int due_list_add(struct gw_bal_due_list *l, struct gw_bal_service *s, struct gw_bal_worker *w)
{
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        struct gw_bal_due *bigger = realloc(l->due, room * sizeof(*bigger));
        if (!bigger) return -ENOMEM;
        l->due = bigger;
        l->room = room;
    }
    l->due[l->n++] = (struct gw_bal_due){s, w};
    return 0;
}

static int due_order(const void *left, const void *right)
{
    const struct gw_bal_worker *a = ((const struct gw_bal_due *)left)->worker,
                               *b = ((const struct gw_bal_due *)right)->worker;
    if (a->health.next_ns != b->health.next_ns) return a->health.next_ns < b->health.next_ns ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

int gw_bal_health_due(const struct gw_bal_model *m, uint64_t now_ns, struct gw_bal_due_list *l,
                      uint64_t *next_ns)
{
    l->n = 0;
    *next_ns = UINT64_MAX;
    for (struct gw_bal_service *s = m->services; s; s = s->next)
        for (struct gw_bal_worker *w = s->workers; w; w = w->next) {
            if (gw_bal_check_of(s, w)->kind == GW_BAL_NO_CHECK || w->health.busy) continue;
            if (w->health.next_ns > now_ns) {
                if (w->health.next_ns < *next_ns) *next_ns = w->health.next_ns;
            } else if (due_list_add(l, s, w)) {
                return -ENOMEM;
            }
        }
    if (l->n) qsort(l->due, l->n, sizeof(l->due[0]), due_order);
    return 0;
}

void gw_bal_due_list_free(struct gw_bal_due_list *l)
{
    free(l->due);
    *l = (struct gw_bal_due_list){0};
}

void gw_bal_health_weight(struct gw_bal_model *m, struct gw_bal_worker *w, int weight)
{
    uint32_t before = gw_bal_weight_of(w);
    w->health.has_weight = weight >= 0;
    w->health.weight = weight >= 0 ? (uint32_t)weight : 0;
    if (gw_bal_weight_of(w) != before) m->version++;
}

static bool verdict(const struct gw_bal_health *h, const struct gw_bal_check *c)
{
    if (!h->known) return h->good > 0;
    if (h->up) return h->bad < c->fall;
    return h->good >= c->rise;
}

int gw_bal_health_done(struct gw_bal_model *m, const struct gw_bal_service *s, struct gw_bal_worker *w,
                       const char *why, uint64_t now_ns)
{
    const struct gw_bal_check *c = gw_bal_check_of(s, w);
    struct gw_bal_health *h = &w->health;
    h->busy = 0;
    h->checks++;
    /* Workers that began together drift apart: the id adds up to a tenth of the interval. */
    uint64_t wait_ns = why && h->up && c->again_ns ? c->again_ns : c->interval_ns;
    h->last_ns = now_ns;
    h->next_ns = now_ns + wait_ns + wait_ns / 10 * (w->id % 8) / 8;
    h->good = why ? 0 : (uint16_t)(h->good + (h->good < UINT16_MAX));
    h->bad = why ? (uint16_t)(h->bad + (h->bad < UINT16_MAX)) : 0;
    if (why) {
        h->failures++;
        gw_bal_plain(h->why, sizeof(h->why), why); /* it may be the worker's own words */
    }
    int up = verdict(h, c);
    h->known = 1;
    if (up == h->up) return 0;
    h->up = (uint8_t)up;
    m->version++;
    return 1;
}
