/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the data plane what has changed in the model, and takes counts back. */
#include "src/balance/control/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/balance/control/json.h"
#include "src/balance/control/pairs.h"

#define AGAIN_NS 1000000000u

int gw_bal_exchange_state(struct gw_bal_exchange *e, struct gw_bal_model *m, int *found)
{
    json_t *answer;
    int err = gw_bal_link_ask(&e->link, json_pack("{s:s}", "op", "state"), &answer);
    if (err) return err;
    json_t *state = json_object_get(answer, "state");
    *found = json_is_object(state);
    if (*found) err = gw_bal_model_from(state, m, gw_deadline(0));
    json_decref(answer);
    return err;
}

/* Returns 1. Only what is new is said. */
static uint8_t take_refusal(const char *what, const char *name, char refused[GW_BAL_WHY], const char *why)
{
    if (strcmp(refused, why)) fprintf(stderr, "gpuwire balance: %s %s is refused: %s\n", what, name, why);
    snprintf(refused, GW_BAL_WHY, "%s", why);
    return 1;
}

/* Which objects the data plane cannot run: it has the last word, as its network ports may be other ones. */
static void take_refusals(struct gw_bal_model *m, const json_t *answer)
{
    size_t i;
    json_t *one;
    struct gw_bal_part still = {0};
    json_array_foreach(json_object_get(answer, "refused"), i, one)
    {
        const char *what, *why;
        json_int_t id;
        if (json_unpack(one, "[s,I,s]", &what, &id, &why) || id < 0) continue;
        struct gw_bal_service *s = *what == 's' ? gw_bal_service_by_id(m, (uint32_t)id) : NULL;
        struct gw_bal_worker *w = *what == 'w' ? gw_bal_worker_by_id(m, (uint32_t)id) : NULL;
        if (s) still.service[id] = take_refusal("service", s->name, s->refused, why);
        if (w) still.worker[id] = take_refusal("worker", w->name, w->refused, why);
    }
    for (struct gw_bal_service *s = m->services; s; s = s->next) {
        if (!still.service[s->id]) s->refused[0] = 0;
        for (struct gw_bal_worker *w = s->workers; w; w = w->next)
            if (!still.worker[w->id]) w->refused[0] = 0;
    }
}

/* ---- what is other than before ---- */

static uint64_t hash_more(uint64_t h, const void *data, size_t bytes)
{
    uint64_t word;
    for (const char *at = data; bytes; at += sizeof(word)) {
        size_t n = bytes < sizeof(word) ? bytes : sizeof(word);
        word = 0;
        memcpy(&word, at, n);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
        bytes -= n;
    }
    return h;
}

/* Of all that is said, also of what will be added; without what is this process's own. */
static uint64_t hash_service(const struct gw_bal_service *s)
{
    struct gw_bal_service said = *s;
    said.next = said.next_name = said.next_place = NULL;
    said.workers = said.last = NULL;
    memset(said.refused, 0, sizeof(said.refused));
    return hash_more(1, &said, sizeof(said)) | 1;
}

/* And without what changes all the time: counts, and how often it was checked. */
static uint64_t hash_worker(const struct gw_bal_worker *w)
{
    struct gw_bal_worker said = *w;
    uint64_t h = hash_more(2, &w->service->id, sizeof(w->service->id));
    said.next = said.next_name = said.next_place = NULL;
    said.service = NULL;
    said.health = (struct gw_bal_health){.up = w->health.up,
                                         .known = w->health.known,
                                         .has_weight = w->health.has_weight,
                                         .weight = w->health.weight};
    said.telemetry = (struct gw_bal_telemetry){.beat_ns = w->telemetry.beat_ns};
    said.counts = (struct gw_bal_counts){0};
    said.counted = said.changed = 0;
    said.idle = 0;
    memset(said.refused, 0, sizeof(said.refused));
    return hash_more(h, &said, sizeof(said)) | 1;
}

static void hash_all(struct gw_bal_exchange *e, const struct gw_bal_model *m)
{
    memset(e->service_now, 0, sizeof(e->service_now));
    memset(e->worker_now, 0, sizeof(e->worker_now));
    for (const struct gw_bal_service *s = m->services; s; s = s->next) {
        e->service_now[s->id] = hash_service(s);
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next)
            e->worker_now[w->id] = hash_worker(w);
    }
}

static void mark_part(uint8_t *mark, const uint64_t *now, const uint64_t *before, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mark[i] = now[i] == before[i] ? GW_BAL_SAME : now[i] ? GW_BAL_CHANGED : GW_BAL_GONE;
}

/* With the core's lock. Only a data plane that has the version before can use a part. NULL: no memory. */
static json_t *state_question(struct gw_bal_exchange *e, const struct gw_bal_model *m)
{
    struct gw_bal_part *part = e->have ? malloc(sizeof(*part)) : NULL;
    hash_all(e, m);
    if (!part) return json_pack("{s:s, s:o}", "op", "apply", "state", gw_bal_model_json(m));
    mark_part(part->service, e->service_now, e->service, GW_BAL_SERVICES);
    mark_part(part->worker, e->worker_now, e->worker, GW_BAL_WORKERS);
    json_t *question = json_pack("{s:s, s:I, s:o}", "op", "change", "from", (json_int_t)e->applied, "part",
                                 gw_bal_part_json(m, part));
    free(part);
    return question;
}

static int push_state(struct gw_bal_exchange *e, struct gw_bal_core *c)
{
    json_t *question = NULL, *answer;
    pthread_mutex_lock(&c->lock);
    uint64_t version = c->model.version;
    int due = version != e->applied || (c->refused[0] && gw_deadline(0) >= e->again_ns);
    if (due) question = state_question(e, &c->model);
    pthread_mutex_unlock(&c->lock);
    if (!due) return 0;
    int err = gw_bal_link_ask(&e->link, question, &answer), had = e->have;
    e->have = !err;
    if (err && err != -EREMOTEIO) return err;
    if (err && had) return push_state(e, c); /* the whole of it may be taken */
    memcpy(e->service, e->service_now, sizeof(e->service));
    memcpy(e->worker, e->worker_now, sizeof(e->worker));
    e->applied = version;
    e->again_ns = gw_deadline(AGAIN_NS); /* memory may be there later */
    pthread_mutex_lock(&c->lock);
    snprintf(c->refused, sizeof(c->refused), "%s", err ? gw_last_error() : "");
    if (!err) take_refusals(&c->model, answer);
    c->applied = version;
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
    json_decref(answer);
    if (err) fprintf(stderr, "gpuwire balance: %s; it goes on as before\n", gw_last_error());
    return 0;
}

/* ---- the rest ---- */

static int push_loads(struct gw_bal_exchange *e, struct gw_bal_core *c)
{
    json_t *loads = json_array(), *answer;
    uint64_t latest = e->loads_ns;
    pthread_mutex_lock(&c->lock);
    for (const struct gw_bal_service *s = c->model.services; s; s = s->next)
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next) {
            const struct gw_bal_telemetry *t = &w->telemetry;
            if (t->at_ns <= e->loads_ns) continue;
            if (t->at_ns > latest) latest = t->at_ns;
            json_array_append_new(
                loads, json_pack("[I,I,I]", (json_int_t)w->id, (json_int_t)t->queue, (json_int_t)t->bytes));
        }
    pthread_mutex_unlock(&c->lock);
    if (!json_array_size(loads)) {
        json_decref(loads);
        return 0;
    }
    int err = gw_bal_link_ask(&e->link, json_pack("{s:s, s:o}", "op", "load", "loads", loads), &answer);
    if (err) return err;
    e->loads_ns = latest;
    json_decref(answer);
    return 0;
}

static struct gw_bal_qp *take_qp(struct gw_bal_core *c)
{
    pthread_mutex_lock(&c->lock);
    struct gw_bal_qp *q = gw_bal_pairs_take(c);
    pthread_mutex_unlock(&c->lock);
    return q;
}

static void end_qp(struct gw_bal_core *c, struct gw_bal_qp *q,
                   void (*how)(struct gw_bal_core *c, struct gw_bal_qp *q))
{
    pthread_mutex_lock(&c->lock);
    how(c, q);
    pthread_mutex_unlock(&c->lock);
}

static int push_qps(struct gw_bal_exchange *e, struct gw_bal_core *c)
{
    struct gw_bal_qp *q;
    char addr[GW_BAL_ADDR];
    json_t *answer;
    while ((q = take_qp(c))) {
        int err = gw_bal_link_ask(&e->link,
                                  json_pack("{s:s, s:I, s:I, s:s, s:I, s:b}", "op", "queue_pair", "service",
                                            (json_int_t)q->service, "worker", (json_int_t)q->worker, "client",
                                            gw_bal_addr_text(&q->client, addr), "qpn", (json_int_t)q->qpn,
                                            "ended", q->ends),
                                  &answer);
        json_decref(answer);
        if (err && err != -EREMOTEIO) { /* later */
            end_qp(c, q, gw_bal_pairs_back);
            return err == -EAGAIN ? 0 : err;
        }
        end_qp(c, q, gw_bal_pairs_done);
    }
    return 0;
}

int gw_bal_exchange_push(struct gw_bal_exchange *e, struct gw_bal_core *c)
{
    int err = push_state(e, c);
    if (!err) err = push_loads(e, c);
    return err ? err : push_qps(e, c);
}

static void take_counts(struct gw_bal_model *m, const json_t *counts, uint64_t settled)
{
    json_int_t id, packets, bytes, opened, live, held;
    if (json_unpack((json_t *)counts, "[I,I,I,I,I,I]", &id, &packets, &bytes, &opened, &live, &held) ||
        id < 0 || id >= GW_BAL_WORKERS)
        return;
    struct gw_bal_worker *w = gw_bal_worker_by_id(m, (uint32_t)id);
    if (!w) return;
    w->counts = (struct gw_bal_counts){
        .live = (uint64_t)live,
        .opened = (uint64_t)opened,
        .packets = (uint64_t)packets,
        .bytes = (uint64_t)bytes,
        .held = (uint64_t)held,
        /* a data plane from before an upgrade does not tell of them */
        .clients = (uint64_t)json_integer_value(json_array_get(counts, 6)),
    };
    w->counted = settled;
}

int gw_bal_exchange_stats(struct gw_bal_exchange *e, struct gw_bal_core *c)
{
    json_t *answer, *one;
    size_t i;
    int err = gw_bal_link_ask(&e->link, json_pack("{s:s}", "op", "stats"), &answer);
    if (err) return err;
    pthread_mutex_lock(&c->lock);
    e->settled = (uint64_t)json_integer_value(json_object_get(answer, "settled"));
    for (struct gw_bal_service *s = c->model.services; s; s = s->next)
        for (struct gw_bal_worker *w = s->workers; w; w = w->next) {
            w->counts = (struct gw_bal_counts){0};
            w->counted = e->settled;
        }
    json_array_foreach(json_object_get(answer, "workers"), i, one) take_counts(&c->model, one, e->settled);
    json_decref(c->stats);
    c->stats = answer;
    c->stats_ns = c->heard_ns = gw_deadline(0);
    gw_bal_history_take(c->history, &c->model, c->stats_ns);
    pthread_mutex_unlock(&c->lock);
    return 0;
}
