/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's part of the registry: its entry on its lease, put again whenever it is not there. */
#include "src/fleet/registry/enlist.h"

#include <errno.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/fleet/registry/say.h"

#define AGAIN_NS 200000000u /* after a refusal */

static void enlist_put(void *registry);

static void enlist_tell(struct fleet_registry *r, bool is)
{
    struct fleet_registry_entry *en = &r->entry;
    if (en->is_there == is) return;
    en->is_there = is;
    if (is) en->was_told = false;
    if (en->is_wanted && r->handler.registered) r->handler.registered(r->ctx, is);
}

static void enlist_later(struct fleet_registry *r)
{
    fleet_timer_set(r->loop, &r->entry.again, (int64_t)gw_deadline(AGAIN_NS), enlist_put, r);
}

/* ---- putting the entry ---- */

static void enlist_answer(void *ctx, int err, const struct fleet_etcd_answer *a)
{
    struct fleet_registry *r = ctx;
    struct fleet_registry_entry *en = &r->entry;
    en->call = NULL;
    bool is_refused = err == -EINVAL || err == -EACCES || err == -ENOSPC;
    if (is_refused && !en->was_refused)
        fleet_registry_trouble(r, "worker %s is not registered: %s", en->worker.name, gw_last_error());
    en->was_refused = is_refused;
    if (!err && a->succeeded) {
        if (a->revision > en->mod) en->mod = a->revision;
        enlist_tell(r, true);
    } else {
        enlist_later(r); /* until then the mirror has the news that it lacked */
    }
}

static void enlist_put(void *registry)
{
    struct fleet_registry *r = registry;
    struct fleet_registry_entry *en = &r->entry;
    if (!en->is_wanted || !en->lease_id || !en->is_read || en->call || en->is_there) return;
    if (en->is_foreign) {
        if (!en->was_told)
            fleet_registry_trouble(
                r,
                "another worker is registered as %s; this one waits until that is gone: stop it, "
                "or start this one with another --name",
                en->worker.name);
        en->was_told = true;
        return; /* its end comes by the mirror */
    }
    const struct fleet_etcd_compare same = {
        .key = fleet_etcd_text(en->key), .target = FLEET_ETCD_MOD, .is = FLEET_ETCD_EQUAL, .number = en->mod};
    const struct fleet_etcd_op put = {.what = FLEET_ETCD_PUT,
                                      .key = fleet_etcd_text(en->key),
                                      .value = fleet_etcd_text(en->text),
                                      .lease = en->lease_id};
    const struct fleet_etcd_txn txn = {&same, 1, &put, NULL, 1, 0};
    const struct fleet_etcd_how how = {.done = enlist_answer, .ctx = r, .again = true};
    if (fleet_etcd_txn(r->etcd, &txn, &how, &en->call)) enlist_later(r);
}

/* ---- its lease ---- */

static void enlist_granted(void *ctx, int64_t lease)
{
    struct fleet_registry *r = ctx;
    r->entry.lease_id = lease;
    enlist_put(r);
}

static void enlist_lease_ended(void *ctx, int64_t lease)
{
    struct fleet_registry *r = ctx;
    (void)lease;
    r->entry.lease_id = 0;
    enlist_tell(r, false);
}

static void enlist_refused(void *ctx, const char *why)
{
    struct fleet_registry *r = ctx;
    fleet_registry_trouble(r, "worker %s is not registered: %s", r->entry.worker.name, why);
}

static const struct fleet_etcd_lease_handler enlist_lease = {
    .granted = enlist_granted, .ended = enlist_lease_ended, .refused = enlist_refused};

/* ---- what is there under our name ---- */

static void enlist_begin(void *ctx)
{
    struct fleet_registry *r = ctx;
    r->entry.is_read = r->entry.is_foreign = false;
    r->entry.mod = 0;
}

static void enlist_seen(void *ctx, const struct fleet_etcd_kv *kv)
{
    struct fleet_registry *r = ctx;
    struct fleet_registry_entry *en = &r->entry;
    struct fleet_registry_worker w;
    if (kv->mod < en->mod) return; /* older than what we have put */
    en->mod = kv->mod;
    bool is_ours = !fleet_entry_get_worker(kv->value, &w) && !memcmp(w.id, en->worker.id, FLEET_ID);
    /* An entry that is no worker's stops no one. */
    en->is_foreign = !is_ours && kv->lease;
    enlist_tell(r, is_ours && kv->lease == en->lease_id && en->lease_id &&
                       fleet_etcd_equal(kv->value, fleet_etcd_text(en->text)));
    if (en->is_read) enlist_put(r);
}

static void enlist_gone(void *ctx, struct fleet_etcd_bytes key, int64_t revision)
{
    struct fleet_registry *r = ctx;
    (void)key;
    if (revision < r->entry.mod) return;
    r->entry.mod = 0;
    r->entry.is_foreign = false;
    enlist_tell(r, false);
    enlist_put(r);
}

static void enlist_synced(void *ctx, int64_t revision)
{
    struct fleet_registry *r = ctx;
    (void)revision;
    r->entry.is_read = true;
    if (!r->entry.mod) enlist_tell(r, false);
    enlist_put(r);
}

static const struct fleet_etcd_mirror_handler enlist_mirror = {
    .begin = enlist_begin, .put = enlist_seen, .gone = enlist_gone, .synced = enlist_synced};

/* ---- beginning and ending ---- */

static void enlist_close(struct fleet_registry *r)
{
    struct fleet_registry_entry *en = &r->entry;
    if (en->call) fleet_etcd_cancel(en->call);
    fleet_timer_clear(r->loop, &en->again);
    fleet_etcd_mirror_close(en->mirror);
    fleet_etcd_lease_close(en->lease); /* the entry ends with it */
    *en = (struct fleet_registry_entry){0};
}

static int enlist_open(struct fleet_registry *r)
{
    struct fleet_registry_entry *en = &r->entry;
    int err = fleet_etcd_lease_open(r->etcd, r->worker_ttl_s, &enlist_lease, r, &en->lease);
    if (!err)
        err =
            fleet_etcd_mirror_open(r->etcd, fleet_etcd_text(en->key), false, &enlist_mirror, r, &en->mirror);
    if (err) enlist_close(r);
    return err;
}

int fleet_registry_register(struct fleet_registry *r, const struct fleet_registry_worker *w)
{
    struct fleet_registry_entry *en = &r->entry;
    char key[FLEET_ENTRY_KEY], text[FLEET_ENTRY_VALUE];
    int err = fleet_entry_key(r->prefix, FLEET_ENTRY_WORKER, w->name, NULL, key);
    int n = err ? err : fleet_entry_put_worker(w, text);
    if (n < 0) return n;
    if (en->lease && strcmp(key, en->key))
        return gw_error(-EINVAL, "this worker is registered as %s; unregister it first", en->worker.name);
    bool is_same = en->is_wanted && !strcmp(text, en->text);
    en->worker = *w;
    en->is_wanted = true;
    memcpy(en->key, key, sizeof(key));
    memcpy(en->text, text, sizeof(text));
    if (!en->lease) return enlist_open(r);
    if (is_same) return 0;
    en->is_there = false;
    enlist_put(r);
    return 0;
}

void fleet_registry_unregister(struct fleet_registry *r)
{
    r->entry.is_wanted = false;
    fleet_registry_settle(r);
}

void fleet_registry_worker_settle(struct fleet_registry *r)
{
    if (!r->entry.is_wanted && r->entry.lease) enlist_close(r);
}
