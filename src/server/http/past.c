/* SPDX-License-Identifier: Apache-2.0 */
/* The models' last ten minutes: filling the slots, and telling them as JSON. */
#include "src/server/http/past.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/server/device/cost.h"

#define PAST_FIRST 64 /* models that there is room for at first */

void gw_past_open(struct gw_past *p)
{
    memset(p, 0, sizeof(*p));
    pthread_mutex_init(&p->lock, NULL);
}

void gw_past_close(struct gw_past *p)
{
    for (size_t i = 0; i < p->models; i++) free(p->model[i]);
    free(p->model);
    pthread_mutex_destroy(&p->lock);
}

/* ---- filling ---- */

bool gw_past_begin(struct gw_past *p, uint64_t now_ns)
{
    uint64_t slot = now_ns / GW_PAST_NS + GW_PAST_SLOTS; /* so there are as many before it */
    if (slot <= p->slot) return false;
    p->next = slot;
    return true;
}

/* A place that is empty; NULL: no memory. */
static struct gw_past_model **past_grow(struct gw_past *p)
{
    size_t more = p->models + (p->models ? p->models : PAST_FIRST);
    struct gw_past_model **all = realloc(p->model, more * sizeof(*all));
    if (!all) return NULL;
    memset(all + p->models, 0, (more - p->models) * sizeof(*all));
    struct gw_past_model **empty = all + p->models;
    p->model = all;
    p->models = more;
    return empty;
}

/* Its place; a new one if need be. NULL: no memory. */
static struct gw_past_model *past_find(struct gw_past *p, const char *name, uint32_t version)
{
    struct gw_past_model **empty = NULL;
    for (size_t n = 0, i = p->near; n < p->models; n++, i++) {
        if (i >= p->models) i = 0;
        struct gw_past_model *m = p->model[i];
        if (!m && !empty) empty = &p->model[i];
        if (!m || m->version != version || strcmp(m->name, name)) continue;
        p->near = i + 1;
        return m;
    }
    if (!empty) empty = past_grow(p);
    struct gw_past_model *m = empty ? calloc(1, sizeof(*m)) : NULL;
    if (!m) return NULL;
    snprintf(m->name, sizeof(m->name), "%s", name);
    m->version = version;
    *empty = m;
    return m;
}

static uint64_t past_more(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

/* The time in which this part of the new requests had an answer. */
static float past_quantile(const uint64_t *now, const uint64_t *before, uint64_t all, double part)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; all && i < GW_SERVE_BUCKETS; i++)
        if ((double)(sum += past_more(now[i], before[i])) >= (double)all * part)
            return (float)gw_serve_bucket_end(i);
    return 0;
}

static struct gw_past_slot past_since(const struct gw_infer_stats *now, const struct gw_infer_stats *before)
{
    uint64_t all = 0, n = past_more(now->successes, before->successes);
    for (uint32_t i = 0; i < GW_SERVE_BUCKETS; i++) all += past_more(now->latency[i], before->latency[i]);
    return (struct gw_past_slot){
        .success = (uint32_t)n,
        .failed = (uint32_t)past_more(now->failures, before->failures),
        .late = (uint32_t)past_more(now->late, before->late),
        .refused = (uint32_t)past_more(now->refused, before->refused),
        .median_ns = past_quantile(now->latency, before->latency, all, 0.5),
        .p99_ns = past_quantile(now->latency, before->latency, all, 0.99),
        .queue_ns = n ? (float)past_more(now->queue_ns, before->queue_ns) / (float)n : 0,
    };
}

void gw_past_add(struct gw_past *p, const char *name, uint32_t version, const struct gw_infer_stats *s)
{
    static const struct gw_infer_stats nothing;
    pthread_mutex_lock(&p->lock);
    struct gw_past_model *m = past_find(p, name, version);
    if (m) {
        /* One that was loaded again counts from 0. What it did before the first look has no slot. */
        bool again = s->successes < m->before.successes;
        struct gw_past_slot did = past_since(s, again ? &nothing : &m->before);
        if (m->seen) m->slot[p->next % GW_PAST_SLOTS] = did;
        if (m->seen && !m->since) m->since = p->next;
        m->seen = p->next;
        m->before = *s;
    }
    pthread_mutex_unlock(&p->lock);
}

void gw_past_end(struct gw_past *p, uint64_t now_ns)
{
    pthread_mutex_lock(&p->lock);
    uint64_t skipped = p->next - p->slot < GW_PAST_SLOTS ? p->next - p->slot : GW_PAST_SLOTS;
    while (--skipped) p->known[(p->next - skipped) % GW_PAST_SLOTS] = false;
    p->known[p->next % GW_PAST_SLOTS] = true;
    p->slot = p->next;
    p->taken_ns = now_ns;
    for (size_t i = 0; i < p->models; i++) {
        if (!p->model[i] || p->model[i]->seen == p->slot) continue;
        free(p->model[i]); /* it is not served any more */
        p->model[i] = NULL;
    }
    pthread_mutex_unlock(&p->lock);
}

/* ---- as JSON ---- */

enum past_list { SUCCESS, FAILED, LATE, REFUSED, MEDIAN, P99, QUEUE, PAST_LISTS };

static json_t *past_value(const struct gw_past_slot *s, enum past_list list)
{
    if (list >= MEDIAN && !s->success) return json_null();
    switch (list) {
    case SUCCESS: return json_integer(s->success);
    case FAILED: return json_integer(s->failed);
    case LATE: return json_integer(s->late);
    case REFUSED: return json_integer(s->refused);
    case MEDIAN: return json_integer((json_int_t)s->median_ns);
    case P99: return json_integer((json_int_t)s->p99_ns);
    default: return json_integer((json_int_t)s->queue_ns);
    }
}

static json_t *past_list(const struct gw_past *p, const struct gw_past_model *m, enum past_list list)
{
    json_t *values = json_array();
    for (uint64_t n = p->slot - (GW_PAST_SLOTS - 1); n <= p->slot; n++) {
        bool known = p->known[n % GW_PAST_SLOTS] && m->since && n >= m->since;
        json_array_append_new(values, known ? past_value(&m->slot[n % GW_PAST_SLOTS], list) : json_null());
    }
    return values;
}

static json_t *past_model(const struct gw_past *p, const struct gw_past_model *m)
{
    static const char *const names[PAST_LISTS] = {
        [SUCCESS] = "success",  [FAILED] = "failed", [LATE] = "late",     [REFUSED] = "refused",
        [MEDIAN] = "median_ns", [P99] = "p99_ns",    [QUEUE] = "queue_ns"};
    char version[16];
    snprintf(version, sizeof(version), "%u", m->version);
    json_t *j = json_pack("{s:s, s:s}", "name", m->name, "version", version);
    for (int i = 0; j && i < PAST_LISTS; i++)
        json_object_set_new(j, names[i], past_list(p, m, (enum past_list)i));
    return j;
}

json_t *gw_past_json(struct gw_past *p, uint64_t now_ns)
{
    json_t *models = json_array();
    pthread_mutex_lock(&p->lock);
    uint64_t age = p->slot && now_ns > p->taken_ns ? now_ns - p->taken_ns : 0;
    for (size_t i = 0; p->slot && i < p->models; i++)
        if (p->model[i]) json_array_append_new(models, past_model(p, p->model[i]));
    pthread_mutex_unlock(&p->lock);
    return json_pack("{s:I, s:I, s:o}", "every_ms", (json_int_t)(GW_PAST_NS / 1000000), "age_ms",
                     (json_int_t)(age / 1000000), "models", models);
}
