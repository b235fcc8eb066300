/* SPDX-License-Identifier: Apache-2.0 */
/* emulated_engine.c: makes zoos and engines, and says what they have. */
#include "src/fleet/worker/emulated_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/assert.h>
#include <gpuwire/error.h>

/* ---- the zoo */

int fleet_zoo_create(uint32_t models, const struct fleet_profile *profile, struct fleet_zoo **out)
{
    struct fleet_zoo *z = calloc(1, sizeof(*z));
    void *zeros = calloc(FLEET_MAX_BATCH, profile->answer_bytes);
    if (!z || !zeros || !models || models == UINT32_MAX) {
        free(z);
        free(zeros);
        return models && models != UINT32_MAX ? gw_error(-ENOMEM, "no memory for %u models", models)
                                              : gw_error(-EINVAL, "%u models: give 1 to 4294967294", models);
    }
    z->models = models;
    z->profile = *profile;
    z->zeros = zeros;
    *out = z;
    return 0;
}

void fleet_zoo_destroy(struct fleet_zoo *z)
{
    if (!z) return;
    free(z->zeros);
    free(z);
}

/* ---- what the worker says of itself */

static void emulated_facts(const struct fleet_engine *engine, struct fleet_hello_worker *out)
{
    const struct emulated *e = emulated_of(engine);
    memset(out, 0, sizeof(*out));
    out->gpu_pages = e->o.gpu_pages;
    out->host_pages = e->o.host_pages;
    out->slots = e->o.slots;
    out->leases = e->o.leases;
    out->models = e->o.zoo->models;
    out->emulated = 1;
}

static uint64_t emulated_largest(const struct fleet_engine *engine)
{
    return (uint64_t)FLEET_MAX_BATCH * emulated_of(engine)->o.zoo->profile.request_bytes;
}

/* All emulated workers call the same models the same, and mean the same file. */
static void emulated_digest(const struct fleet_zoo *z, const char *name, uint8_t digest[32])
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (const char *c = name; *c; c++) h = (h ^ (uint8_t)*c) * UINT64_C(1099511628211);
    memset(digest, 0, 32);
    memcpy(digest, &h, sizeof(h));
    memcpy(digest + 8, z->profile.exec_ns, sizeof(z->profile.exec_ns[0]));
}

static void emulated_model(const struct fleet_engine *engine, uint32_t model, struct fleet_has_model *out)
{
    const struct emulated *e = emulated_of(engine);
    const struct fleet_profile *f = &e->o.zoo->profile;
    memset(out, 0, sizeof(*out));
    out->model = model;
    out->version = 1;
    out->pages = f->pages;
    out->where = emulated_where(e, model);
    memcpy(out->exec_ns, f->exec_ns, sizeof(out->exec_ns));
    out->spread_ns = f->spread_ns;
    out->load_ns = f->load_ns;
    out->disk_ns = f->disk_ns;
    out->request_bytes = f->request_bytes;
    out->answer_bytes = f->answer_bytes;
    out->max_batch = FLEET_MAX_BATCH;
    snprintf(out->name, sizeof(out->name), "%s-%u", f->name, model);
    emulated_digest(e->o.zoo, out->name, out->digest);
}

static int64_t emulated_find(const struct fleet_engine *engine, const char *name)
{
    const struct emulated *e = emulated_of(engine);
    size_t length = strlen(e->o.zoo->profile.name);
    char again[FLEET_MODEL];
    if (strncmp(name, e->o.zoo->profile.name, length) || name[length] != '-') return -ENOENT;
    unsigned long model = strtoul(name + length + 1, NULL, 10);
    if (model >= e->o.zoo->models) return -ENOENT;
    snprintf(again, sizeof(again), "%s-%lu", e->o.zoo->profile.name, model);
    return strcmp(name, again) ? -ENOENT : (int64_t)model; /* "m-07" is not "m-7" */
}

static int emulated_describe(const struct fleet_engine *engine, uint32_t model, char *out, size_t max)
{
    const struct emulated *e = emulated_of(engine);
    const struct fleet_profile *f = &e->o.zoo->profile;
    if (model >= e->o.zoo->models) return gw_error(-ENOENT, "no model %u", model);
    return snprintf(out, max,
                    "{\"name\":\"%s-%u\",\"versions\":[\"1\"],\"platform\":\"emulated\","
                    "\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[-1,%u]}],"
                    "\"outputs\":[{\"name\":\"output\",\"datatype\":\"FP32\",\"shape\":[-1,%u]}]}",
                    f->name, model, f->request_bytes / 4, f->answer_bytes / 4);
}

static uint32_t emulated_telemetry(struct fleet_engine *engine, struct fleet_telemetry *t,
                                   struct fleet_telemetry_model *models, uint32_t max)
{
    struct emulated *e = emulated_of(engine);
    uint32_t n = 0;
    t->gpu_used = e->gpu_used;
    t->host_used = e->host_used;
    t->queue = e->waiting;
    t->sessions = 0;
    t->answered = e->answered;
    t->late = e->late;
    t->refused = e->refused;
    for (; e->to_tell && n < max; n++) {
        struct emulated_place *p = e->to_tell;
        e->to_tell = p->next_to_tell;
        p->told = true;
        models[n] = (struct fleet_telemetry_model){
            .model = p->model, .queue = p->n, .requests = p->requests, .refused = p->refused};
    }
    return n;
}

static bool emulated_idle(const struct fleet_engine *engine)
{
    const struct emulated *e = emulated_of(engine);
    return !e->waiting && !e->running;
}

/* ---- sessions, which it has not, and calls that no one waits for */

static void emulated_open(struct fleet_engine *engine, struct fleet_session *s)
{
    (void)engine;
    s->err = -ENOTSUP;
    snprintf(s->why, sizeof(s->why), "an emulated worker has no RDMA: send REQUEST");
    s->done(s);
}

static void emulated_close(struct fleet_engine *engine, struct fleet_session *s)
{
    (void)engine;
    (void)s;
}

static void emulated_recall(struct fleet_engine *engine, struct fleet_call *c)
{
    c->state = engine; /* not NULL: when its turn comes, it is dropped */
}

static void emulated_release(struct fleet_engine *engine, struct fleet_call *c)
{
    (void)engine;
    (void)c;
}

/* ---- its life */

static void emulated_end_batch(struct emulated *e)
{
    struct emulated_place *p = e->running;
    fleet_timer_clear(e->o.loop, &e->batch_timer);
    for (uint32_t i = 0; i < e->nbatch; i++) emulated_answer(e, e->batch[i].call, GW_SERVE_CLOSING, 0);
    e->nbatch = 0;
    e->running = NULL;
    if (p && p->leaves) emulated_left(e, p);
}

static void emulated_stop(struct fleet_engine *engine)
{
    struct emulated *e = emulated_of(engine);
    while (e->nbusy) emulated_flush(e, e->busy[0], GW_SERVE_CLOSING, 0);
    emulated_end_batch(e);
    emulated_stop_moves(e);
}

static void emulated_destroy(struct fleet_engine *engine)
{
    struct emulated *e = emulated_of(engine);
    for (uint32_t i = 0; i < e->o.zoo->models; i++) {
        if (e->place[i]) free(e->place[i]->heap);
        free(e->place[i]);
    }
    free(e->place);
    free(e->lease);
    free(e->busy);
    free(e);
}

static const struct fleet_engine_ops emulated_ops = {
    .facts = emulated_facts,
    .largest = emulated_largest,
    .model = emulated_model,
    .find = emulated_find,
    .describe = emulated_describe,
    .move = emulated_move,
    .lease = emulated_lease,
    .open = emulated_open,
    .close = emulated_close,
    .submit = emulated_submit,
    .recall = emulated_recall,
    .release = emulated_release,
    .telemetry = emulated_telemetry,
    .idle = emulated_idle,
    .stop = emulated_stop,
    .destroy = emulated_destroy,
};

int fleet_emulated_create(const struct fleet_emulated_opts *opts, struct fleet_engine **out)
{
    if (!opts->gpu_pages || !opts->host_pages || !opts->slots || !opts->leases)
        return gw_error(-EINVAL, "an emulated worker must have pages, slots and leases");
    struct emulated *e = calloc(1, sizeof(*e));
    struct emulated_place **place = calloc(opts->zoo->models, sizeof(struct emulated_place *));
    if (!e || !place) {
        free(e);
        free(place);
        return gw_error(-ENOMEM, "no memory for an emulated worker of %u models", opts->zoo->models);
    }
    uint32_t fit = opts->host_pages / opts->zoo->profile.pages;
    e->engine.ops = &emulated_ops;
    e->o = *opts;
    e->place = place;
    e->random.state = opts->seed ? opts->seed : 1;
    e->in_host = opts->cold ? 0 : fit < opts->zoo->models ? fit : opts->zoo->models;
    e->host_used = e->in_host * opts->zoo->profile.pages;
    *out = &e->engine;
    return 0;
}
