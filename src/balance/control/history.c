/* SPDX-License-Identifier: Apache-2.0 */
/* The last ten minutes of services and workers: filling the slots, and telling them as JSON. */
#include "src/balance/control/history.h"

#include <stdlib.h>

static uint32_t history_add(uint32_t a, uint64_t b)
{
    return b > UINT32_MAX - a ? UINT32_MAX : a + (uint32_t)b;
}

static void history_sum(struct gw_bal_slot *to, const struct gw_bal_slot *more)
{
    to->live = history_add(to->live, more->live);
    to->opened = history_add(to->opened, more->opened);
    to->packets = history_add(to->packets, more->packets);
    to->bytes += more->bytes;
}

/* A data plane that starts again counts from 0. The events of slots without counts are spread over them. */
static uint64_t history_since(uint64_t now, uint64_t before, uint64_t slots)
{
    uint64_t n = now >= before ? now - before : now;
    return (n + slots / 2) / slots;
}

/* The worker's work since the slot before. At the first look nothing is known of that. */
static struct gw_bal_slot history_worker(struct gw_bal_history *h, const struct gw_bal_worker *w,
                                         uint64_t slot)
{
    const struct gw_bal_counts *c = &w->counts;
    struct gw_bal_counted *b = &h->before[w->id];
    struct gw_bal_slot did = {.live = history_add(0, c->live)};
    uint64_t slots = slot - h->slot;
    if (b->slot != h->slot) *b = (struct gw_bal_counted){0}; /* another worker had this id */
    if (h->slot) {
        did.opened = history_add(0, history_since(c->opened, b->opened, slots));
        did.packets = history_add(0, history_since(c->packets, b->packets, slots));
        did.bytes = (float)history_since(c->bytes, b->bytes, slots);
    }
    *b = (struct gw_bal_counted){slot, c->opened, c->packets, c->bytes};
    return did;
}

/* An object that has done nothing yet needs no trace. */
static void history_put(struct gw_bal_history *h, struct gw_bal_trace **trace, const struct gw_bal_slot *did,
                        uint64_t slot)
{
    bool busy = did->live || did->opened || did->packets;
    if (!*trace && busy && h->traces < GW_BAL_TRACES && (*trace = calloc(1, sizeof(**trace)))) h->traces++;
    if (!*trace) return;
    (*trace)->slot[slot % GW_BAL_HISTORY_SLOTS] = *did;
    (*trace)->seen = slot;
    if (busy) (*trace)->busy = slot;
}

/* Traces go with their objects, and when nothing but 0 is left in them. */
static void history_forget(struct gw_bal_history *h, struct gw_bal_trace **trace, uint32_t n, uint64_t slot)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!trace[i] || (trace[i]->seen == slot && slot - trace[i]->busy < GW_BAL_HISTORY_SLOTS)) continue;
        free(trace[i]);
        trace[i] = NULL;
        h->traces--;
    }
}

void gw_bal_history_take(struct gw_bal_history *h, const struct gw_bal_model *m, uint64_t now_ns)
{
    uint64_t slot = now_ns / GW_BAL_HISTORY_NS + GW_BAL_HISTORY_SLOTS; /* so there are as many before it */
    struct gw_bal_slot all = {0};
    if (slot <= h->slot) return;
    for (const struct gw_bal_service *s = m->services; s; s = s->next) {
        struct gw_bal_slot sum = {0};
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next) {
            struct gw_bal_slot did = history_worker(h, w, slot);
            history_put(h, &h->worker[w->id], &did, slot);
            history_sum(&sum, &did);
        }
        history_put(h, &h->service[s->id], &sum, slot);
        history_sum(&all, &sum);
    }
    h->all.slot[slot % GW_BAL_HISTORY_SLOTS] = all;
    uint64_t skipped = slot - h->slot < GW_BAL_HISTORY_SLOTS ? slot - h->slot : GW_BAL_HISTORY_SLOTS;
    while (--skipped) h->known[(slot - skipped) % GW_BAL_HISTORY_SLOTS] = false;
    h->known[slot % GW_BAL_HISTORY_SLOTS] = true;
    h->slot = slot;
    h->taken_ns = now_ns;
    history_forget(h, h->service, GW_BAL_SERVICES, slot);
    history_forget(h, h->worker, GW_BAL_WORKERS, slot);
}

void gw_bal_history_free(struct gw_bal_history *h)
{
    if (!h) return;
    for (uint32_t i = 0; h->traces && i < GW_BAL_SERVICES; i++) free(h->service[i]);
    for (uint32_t i = 0; h->traces && i < GW_BAL_WORKERS; i++) free(h->worker[i]);
    free(h);
}

/* ---- as JSON ---- */

static void history_add_values(json_t *j, const struct gw_bal_history *h, const struct gw_bal_trace *t)
{
    json_t *live = json_array(), *opened = json_array(), *packets = json_array(), *bytes = json_array();
    for (uint64_t n = h->slot - (GW_BAL_HISTORY_SLOTS - 1); n <= h->slot; n++) {
        const struct gw_bal_slot *s = &t->slot[n % GW_BAL_HISTORY_SLOTS];
        bool known = h->known[n % GW_BAL_HISTORY_SLOTS];
        json_array_append_new(live, known ? json_integer(s->live) : json_null());
        json_array_append_new(opened, known ? json_integer(s->opened) : json_null());
        json_array_append_new(packets, known ? json_integer(s->packets) : json_null());
        json_array_append_new(bytes, known ? json_integer((json_int_t)s->bytes) : json_null());
    }
    json_object_set_new(j, "live", live);
    json_object_set_new(j, "opened", opened);
    json_object_set_new(j, "packets", packets);
    json_object_set_new(j, "bytes", bytes);
}

static json_t *history_head(const struct gw_bal_history *h, uint64_t now_ns)
{
    uint64_t age = h->slot && now_ns > h->taken_ns ? now_ns - h->taken_ns : 0;
    return json_pack("{s:I, s:I}", "every_ms", (json_int_t)(GW_BAL_HISTORY_NS / 1000000), "age_ms",
                     (json_int_t)(age / 1000000));
}

static void history_add_trace(json_t *j, const struct gw_bal_history *h, const struct gw_bal_trace *t)
{
    bool kept = t || h->traces < GW_BAL_TRACES;
    json_object_set_new(j, "kept", json_boolean(kept));
    if (t) history_add_values(j, h, t);
}

json_t *gw_bal_history_json(const struct gw_bal_history *h, uint64_t now_ns)
{
    json_t *j = history_head(h, now_ns);
    if (j && h->slot) history_add_values(j, h, &h->all);
    return j;
}

json_t *gw_bal_history_service_json(const struct gw_bal_history *h, const struct gw_bal_service *s,
                                    uint64_t now_ns)
{
    json_t *j = history_head(h, now_ns), *workers = json_array();
    if (j) history_add_trace(j, h, h->service[s->id]);
    for (const struct gw_bal_worker *w = s->workers; w; w = w->next) {
        json_t *one = json_pack("{s:s}", "name", w->name);
        history_add_trace(one, h, h->worker[w->id]);
        json_array_append_new(workers, one);
    }
    json_object_set_new(j, "workers", workers);
    return j;
}
