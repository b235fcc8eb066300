/* SPDX-License-Identifier: Apache-2.0 */
/* catalog.c: keeps the list of models, and asks a worker what a model is when a request needs it first. */
#include "src/fleet/router/catalog.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/error.h>

#include "src/fleet/router/refuse.h"
#include "src/fleet/wire/conn.h"

#define CATALOG_PATIENCE_NS 5000000000 /* for a worker to describe a model */

int fleet_catalog_open(struct fleet_catalog *c, struct fleet_client *client)
{
    *c = (struct fleet_catalog){.client = client};
    return -pthread_mutex_init(&c->lock, NULL);
}

void fleet_catalog_close(struct fleet_catalog *c)
{
    for (size_t i = 0; i < c->count; i++) {
        fleet_metadata_free(&c->all[i]->metadata);
        pthread_mutex_destroy(&c->all[i]->lock);
        free(c->all[i]);
    }
    free(c->all);
    free(c->served);
    pthread_mutex_destroy(&c->lock);
}

/* ---- the list */

/* Where the name is in `all`, or would be. */
static size_t catalog_place(const struct fleet_catalog *c, const char *name, bool *found)
{
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(c->all[middle]->name, name);
        if (!order) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = false;
    return low;
}

static int catalog_grow(struct fleet_catalog *c, size_t more)
{
    size_t room = c->count + more;
    if (room <= c->room) return 0;
    struct fleet_catalog_model **all = realloc(c->all, room * sizeof(*all));
    if (all) c->all = all;
    struct fleet_catalog_model **served = all ? realloc(c->served, room * sizeof(*served)) : NULL;
    if (!served) return -ENOMEM;
    c->served = served;
    c->room = room;
    return 0;
}

/* The model of that name, made when there is none. NULL: no model can have that name, or no memory. */
static struct fleet_catalog_model *catalog_take(struct fleet_catalog *c, const char *name)
{
    bool found;
    char field[FLEET_MODEL] = {0};
    if (!*name || strlen(name) >= sizeof(field)) return NULL;
    memcpy(field, name, strlen(name));
    size_t at = catalog_place(c, name, &found);
    if (found) return c->all[at];
    struct fleet_catalog_model *m = fleet_text_ok(field, sizeof(field)) ? calloc(1, sizeof(*m)) : NULL;
    if (!m) return NULL;
    memcpy(m->name, field, sizeof(field));
    pthread_mutex_init(&m->lock, NULL);
    memmove(c->all + at + 1, c->all + at, (c->count - at) * sizeof(*c->all));
    c->all[at] = m;
    c->count++;
    return m;
}

/* Those whose grace is over are not served any more. The others stay in their order. */
static void catalog_age(struct fleet_catalog *c, int64_t now)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->serving; i++) {
        struct fleet_catalog_model *m = c->served[i];
        m->listed = now - m->seen_at < FLEET_CATALOG_GRACE_NS;
        if (m->listed) c->served[kept++] = m;
    }
    c->serving = kept;
}

int fleet_catalog_set(struct fleet_catalog *c, const struct fleet_catalog_item *list, size_t n, int64_t now)
{
    pthread_mutex_lock(&c->lock);
    int err = catalog_grow(c, n);
    for (size_t i = 0; !err && i < n; i++) {
        struct fleet_catalog_model *m = catalog_take(c, list[i].name);
        if (!m) continue;
        m->seen_at = now;
        if (!m->described) m->version = list[i].version;
        if (!m->listed) c->served[c->serving++] = m;
        m->listed = true;
    }
    if (!err) {
        catalog_age(c, now);
        c->known = true;
    }
    pthread_mutex_unlock(&c->lock);
    return err;
}

bool fleet_catalog_is_known(struct fleet_catalog *c)
{
    pthread_mutex_lock(&c->lock);
    bool known = c->known;
    pthread_mutex_unlock(&c->lock);
    return known;
}

struct fleet_catalog_model *fleet_catalog_at(struct fleet_catalog *c, size_t i, unsigned *version,
                                             bool *described)
{
    pthread_mutex_lock(&c->lock);
    struct fleet_catalog_model *m = i < c->serving ? c->served[i] : NULL;
    if (m) {
        *version = m->version;
        *described = m->described;
    }
    pthread_mutex_unlock(&c->lock);
    return m;
}

/* ---- descriptions */

/* A thread that waits for one. */
struct catalog_wait {
    pthread_mutex_t lock;
    pthread_cond_t over;
    struct fleet_catalog *catalog;
    struct fleet_catalog_model *model;
    struct gw_infer_error *error;
    bool is_over;
    int err;
};

/* Two threads may have asked: the first answer is kept. */
static int catalog_keep(struct catalog_wait *w, const struct fleet_client_reply *reply)
{
    struct fleet_metadata metadata;
    struct fleet_catalog_model *m = w->model;
    if (fleet_metadata_read(reply->data, reply->bytes, &metadata))
        return gw_infer_fail(w->error, GW_INFER_INTERNAL, "model '%s': %s", m->name, gw_last_error());
    pthread_mutex_lock(&w->catalog->lock);
    bool late = m->described;
    if (!late) {
        m->metadata = metadata;
        m->version = metadata.version;
        m->described = true;
    }
    pthread_mutex_unlock(&w->catalog->lock);
    if (late) fleet_metadata_free(&metadata);
    return 0;
}

static void catalog_told(void *ctx, const struct fleet_client_reply *reply)
{
    struct catalog_wait *w = ctx;
    int err = reply->error ? fleet_refuse(reply->error, reply->why, reply->retry_ns, w->model->name, w->error)
                           : catalog_keep(w, reply);
    pthread_mutex_lock(&w->lock);
    w->err = err;
    w->is_over = true;
    pthread_cond_signal(&w->over);
    pthread_mutex_unlock(&w->lock);
}

static int64_t catalog_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Waits as long as it takes: the client calls back at the deadline at the latest. */
static int catalog_ask(struct fleet_catalog *c, struct fleet_catalog_model *m,
                       struct fleet_client_model *client, struct gw_infer_error *error)
{
    struct catalog_wait w = {.lock = PTHREAD_MUTEX_INITIALIZER,
                             .over = PTHREAD_COND_INITIALIZER,
                             .catalog = c,
                             .model = m,
                             .error = error};
    int err = fleet_client_describe(client, catalog_now() + CATALOG_PATIENCE_NS, catalog_told, &w);
    if (err) return gw_infer_fail_errno(error, err);
    pthread_mutex_lock(&w.lock);
    while (!w.is_over) pthread_cond_wait(&w.over, &w.lock);
    pthread_mutex_unlock(&w.lock);
    return w.err;
}

/* What the list says of it: true with *out when it is there, and *described. */
static bool catalog_look(struct fleet_catalog *c, const char *name, struct fleet_catalog_model **out,
                         bool *described, bool *known)
{
    bool found;
    pthread_mutex_lock(&c->lock);
    size_t at = catalog_place(c, name, &found);
    found = found && c->all[at]->listed;
    if (found) {
        *out = c->all[at];
        *described = c->all[at]->described;
    }
    *known = c->known;
    pthread_mutex_unlock(&c->lock);
    return found;
}

/* The client gives the same model to all that ask. */
static int catalog_join(struct fleet_catalog *c, struct fleet_catalog_model *m,
                        struct fleet_client_model **client, struct gw_infer_error *error)
{
    int err = fleet_client_model(c->client, m->name, 0, client);
    if (err) return gw_infer_fail_errno(error, err);
    pthread_mutex_lock(&c->lock);
    if (!m->client) m->client = *client;
    pthread_mutex_unlock(&c->lock);
    return 0;
}

int fleet_catalog_find(struct fleet_catalog *c, const char *name, struct fleet_catalog_model **out,
                       struct gw_infer_error *error)
{
    bool described = false, known = false;
    if (!catalog_look(c, name, out, &described, &known)) {
        if (known)
            return gw_infer_fail(error, GW_INFER_NOT_FOUND,
                                 "Request for unknown model: '%.200s' is not found", name);
        return fleet_refuse(-EAGAIN, "no controller has told yet which models there are", 0, name, error);
    }
    if (described) return 0;
    struct fleet_client_model *client;
    return catalog_join(c, *out, &client, error) || catalog_ask(c, *out, client, error) ? -1 : 0;
}
