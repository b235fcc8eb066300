/* SPDX-License-Identifier: Apache-2.0 */
/* The registry: watches a fleet's keys, and tells the handler what they say. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/fleet/registry/enlist.h"
#include "src/fleet/registry/impl.h"
#include "src/fleet/registry/leader.h"
#include "src/fleet/registry/say.h"

#define LEADER_TTL_S 2
#define WORKER_TTL_S 5
#define MAX_TTL_S    86400

/* ---- what is said ---- */

static void registry_state(void *ctx, bool up, const char *line)
{
    struct fleet_registry *r = ctx;
    if (r->handler.state) r->handler.state(r->ctx, up, line);
}

/* Keys are percent-encoded, those that are ours. */
static void registry_bad(struct fleet_registry *r, struct fleet_etcd_bytes key, const char *why)
{
    char text[200];
    size_t n = key.bytes < sizeof(text) - 1 ? key.bytes : sizeof(text) - 1;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = ((const unsigned char *)key.data)[i];
        text[i] = c > ' ' && c < 127 ? (char)c : '?';
    }
    text[n] = 0;
    fleet_registry_trouble(r, "etcd's entry %s is skipped: %s; delete it, or put a good one", text, why);
}

/* ---- entries ---- */

/* The names of an entry that is gone, in its struct. */
static void registry_tell_gone(struct fleet_registry *r, const struct fleet_entry_name *n)
{
    const struct fleet_registry_handler *h = &r->handler;
    struct fleet_registry_worker w = {0};
    struct fleet_registry_model m = {0};
    struct fleet_registry_place p = {0};
    struct fleet_registry_drain d = {0};
    switch (n->kind) {
    case FLEET_ENTRY_LEADER:
        if (h->leader) h->leader(r->ctx, NULL);
        break;
    case FLEET_ENTRY_WORKER:
        memcpy(w.name, n->name, sizeof(w.name));
        if (h->worker) h->worker(r->ctx, &w, true);
        break;
    case FLEET_ENTRY_MODEL:
        memcpy(m.name, n->name, sizeof(m.name));
        if (h->model) h->model(r->ctx, &m, true);
        break;
    case FLEET_ENTRY_PLACE:
        memcpy(p.worker, n->name, sizeof(p.worker));
        memcpy(p.model, n->model, sizeof(p.model));
        if (h->place) h->place(r->ctx, &p, true);
        break;
    case FLEET_ENTRY_DRAIN:
        memcpy(d.worker, n->name, sizeof(d.worker));
        if (h->drain) h->drain(r->ctx, &d, true);
        break;
    default: break;
    }
}

static const char *registry_tell_leader(struct fleet_registry *r, const struct fleet_etcd_kv *kv)
{
    struct fleet_registry_leader l = {.term = (uint64_t)kv->create};
    const char *why = fleet_entry_get_leader(kv->value, &l);
    if (!why && r->handler.leader) r->handler.leader(r->ctx, &l);
    return why;
}

static const char *registry_tell_worker(struct fleet_registry *r, const struct fleet_entry_name *n,
                                        const struct fleet_etcd_kv *kv)
{
    struct fleet_registry_worker w = {0};
    const char *why = fleet_entry_get_worker(kv->value, &w);
    memcpy(w.name, n->name, sizeof(w.name));
    if (!why && r->handler.worker) r->handler.worker(r->ctx, &w, false);
    return why;
}

static const char *registry_tell_model(struct fleet_registry *r, const struct fleet_entry_name *n,
                                       const struct fleet_etcd_kv *kv)
{
    struct fleet_registry_model m = {0};
    const char *why = fleet_entry_get_model(kv->value, &m);
    memcpy(m.name, n->name, sizeof(m.name));
    if (!why && r->handler.model) r->handler.model(r->ctx, &m, false);
    return why;
}

static const char *registry_tell_place(struct fleet_registry *r, const struct fleet_entry_name *n,
                                       const struct fleet_etcd_kv *kv)
{
    struct fleet_registry_place p = {0};
    const char *why = fleet_entry_get_place(kv->value, &p);
    memcpy(p.worker, n->name, sizeof(p.worker));
    memcpy(p.model, n->model, sizeof(p.model));
    if (!why && r->handler.place) r->handler.place(r->ctx, &p, false);
    return why;
}

static const char *registry_tell_drain(struct fleet_registry *r, const struct fleet_entry_name *n,
                                       const struct fleet_etcd_kv *kv)
{
    struct fleet_registry_drain d = {0};
    const char *why = fleet_entry_get_drain(kv->value, &d);
    memcpy(d.worker, n->name, sizeof(d.worker));
    if (!why && r->handler.drain) r->handler.drain(r->ctx, &d, false);
    return why;
}

/* NULL, or what is wrong with it. */
static const char *registry_tell(struct fleet_registry *r, const struct fleet_entry_name *n,
                                 const struct fleet_etcd_kv *kv)
{
    switch (n->kind) {
    case FLEET_ENTRY_LEADER: return registry_tell_leader(r, kv);
    case FLEET_ENTRY_WORKER: return registry_tell_worker(r, n, kv);
    case FLEET_ENTRY_MODEL: return registry_tell_model(r, n, kv);
    case FLEET_ENTRY_PLACE: return registry_tell_place(r, n, kv);
    case FLEET_ENTRY_DRAIN: return registry_tell_drain(r, n, kv);
    default: return NULL;
    }
}

/* ---- the mirror ---- */

static void registry_begin(void *ctx)
{
    struct fleet_registry *r = ctx;
    fleet_known_next_round(&r->known);
}

static void registry_put(void *ctx, const struct fleet_etcd_kv *kv)
{
    struct fleet_registry *r = ctx;
    struct fleet_entry_name name;
    if (!fleet_entry_parse_key(r->prefix, kv->key, &name)) {
        registry_bad(r, kv->key, "its key is none of a fleet");
        return;
    }
    if (name.kind == FLEET_ENTRY_OTHER) return;
    /* Before the handler, which would never hear of its end. */
    if (fleet_known_add(&r->known, kv->key)) {
        registry_bad(r, kv->key, "no memory");
        return;
    }
    const char *why = registry_tell(r, &name, kv);
    if (why) registry_bad(r, kv->key, why);
}

static void registry_forget(void *ctx, struct fleet_etcd_bytes key)
{
    struct fleet_registry *r = ctx;
    struct fleet_entry_name name;
    if (fleet_entry_parse_key(r->prefix, key, &name)) registry_tell_gone(r, &name);
}

static void registry_gone(void *ctx, struct fleet_etcd_bytes key, int64_t revision)
{
    struct fleet_registry *r = ctx;
    (void)revision;
    if (fleet_known_drop(&r->known, key)) registry_forget(r, key);
}

static void registry_synced(void *ctx, int64_t revision)
{
    struct fleet_registry *r = ctx;
    (void)revision;
    fleet_known_sweep(&r->known, registry_forget, r);
    if (r->handler.synced) r->handler.synced(r->ctx);
}

static const struct fleet_etcd_mirror_handler registry_mirror = {
    .begin = registry_begin, .put = registry_put, .gone = registry_gone, .synced = registry_synced};

/* ---- opening and closing ---- */

static void registry_settle(void *ctx)
{
    struct fleet_registry *r = ctx;
    fleet_registry_leader_settle(r);
    fleet_registry_worker_settle(r);
}

static int registry_set_up(struct fleet_registry *r, const struct fleet_registry_opts *opts)
{
    char key[FLEET_ENTRY_KEY];
    const struct fleet_registry_handler *h = &r->handler;
    const struct fleet_etcd_opts etcd = {.urls = opts->etcd,
                                         .user = opts->user,
                                         .password = opts->password,
                                         .ca_file = opts->ca_file,
                                         .state = registry_state,
                                         .ctx = r};
    int err = fleet_entry_prefix(opts->fleet ? opts->fleet : "default", r->prefix);
    if (err) return err;
    if (opts->leader_ttl_s > MAX_TTL_S || opts->worker_ttl_s > MAX_TTL_S)
        return gw_error(-EINVAL, "a lease of etcd for more than %d seconds", MAX_TTL_S);
    r->leader_ttl_s = opts->leader_ttl_s ? opts->leader_ttl_s : LEADER_TTL_S;
    r->worker_ttl_s = opts->worker_ttl_s ? opts->worker_ttl_s : WORKER_TTL_S;
    err = fleet_etcd_open(r->loop, &etcd, &r->etcd);
    if (err) return err;
    bool is_all = h->worker || h->model || h->place || h->drain;
    fleet_entry_key(r->prefix, FLEET_ENTRY_LEADER, NULL, NULL, key);
    return fleet_etcd_mirror_open(r->etcd, fleet_etcd_text(is_all ? r->prefix : key), is_all,
                                  &registry_mirror, r, &r->mirror);
}

int fleet_registry_open(struct fleet_loop *loop, const struct fleet_registry_opts *opts,
                        const struct fleet_registry_handler *handler, void *ctx, struct fleet_registry **out)
{
    struct fleet_registry *r = calloc(1, sizeof(*r));
    if (!r) return gw_error_errno(-ENOMEM, "fleet");
    r->loop = loop;
    r->handler = *handler;
    r->ctx = ctx;
    r->settle = registry_settle;
    int err = registry_set_up(r, opts);
    if (err) {
        fleet_registry_close(r);
        return err;
    }
    *out = r;
    return 0;
}

void fleet_registry_close(struct fleet_registry *r)
{
    if (!r) return;
    r->campaigns = r->entry.is_wanted = false;
    r->resigns = true;
    fleet_timer_clear(r->loop, &r->later);
    registry_settle(r);
    fleet_etcd_mirror_close(r->mirror);
    fleet_etcd_close(r->etcd);
    fleet_known_free(&r->known);
    free(r);
}

bool fleet_registry_is_up(const struct fleet_registry *r)
{
    return fleet_etcd_is_up(r->etcd);
}
