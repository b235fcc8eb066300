/* SPDX-License-Identifier: Apache-2.0 */
/* Reads keys page by page, then watches them; after a compaction it begins again. */
#include "src/fleet/etcd/mirror.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "etcd.pb-c.h"
#include "src/fleet/etcd/health.h"
#include "src/fleet/etcd/streams.h"
#include "src/grpc/call.h"
#include "src/server/grpc/wire/pack.h"

#define PAGE     1000 /* keys of one answer */
#define READ_NS  10000000000
#define AGAIN_NS 200000000u /* after a refusal */
#define WATCH    "/etcdserverpb.Watch/Watch"

struct fleet_etcd_mirror {
    struct fleet_etcd *e;
    struct fleet_etcd_bytes key, end;
    uint8_t *memory; /* of key and end */
    uint8_t *from;   /* where the next page begins; NULL: at the key */
    size_t from_bytes;
    int64_t revision; /* of the pages; 0: there was none */
    int64_t next;     /* the first revision that was not seen; 0: it reads */
    uint64_t pause;   /* nothing before */
    struct fleet_timer timer;
    struct fleet_etcd_call *call;
    struct fleet_etcd_stream stream;
    const struct fleet_etcd_mirror_handler *handler;
    void *ctx;
};

static void mirror_look(void *mirror)
{
    struct fleet_etcd_mirror *m = mirror;
    fleet_etcd_kick(m->e);
}

static void mirror_pause(struct fleet_etcd_mirror *m)
{
    m->pause = gw_deadline(AGAIN_NS);
    fleet_timer_set(m->e->loop, &m->timer, (int64_t)m->pause, mirror_look, m);
}

/* ---- reading ---- */

/* What was seen may be old: reads all again. */
static void mirror_begin(struct fleet_etcd_mirror *m)
{
    gw_rpc_end(&m->e->link, &m->stream.rpc);
    free(m->from);
    m->from = NULL;
    m->from_bytes = 0;
    m->revision = m->next = 0;
    fleet_etcd_kick(m->e);
}

/* The next page begins after the last key of this one. */
static int mirror_turn_page(struct fleet_etcd_mirror *m, const struct fleet_etcd_result *r)
{
    const struct fleet_etcd_bytes *last = &r->kv[r->kvs - 1].key;
    uint8_t *from = malloc(last->bytes + 1);
    if (!from) return -ENOMEM;
    memcpy(from, last->data, last->bytes);
    from[last->bytes] = 0;
    free(m->from);
    m->from = from;
    m->from_bytes = last->bytes + 1;
    return 0;
}

static void mirror_page(void *ctx, int err, const struct fleet_etcd_answer *a)
{
    struct fleet_etcd_mirror *m = ctx;
    const struct fleet_etcd_result *r = err ? NULL : a->result;
    m->call = NULL;
    if (!err && r->more && (!r->kvs || mirror_turn_page(m, r))) err = -EPROTO;
    if (err) { /* the revision was compacted, say */
        mirror_begin(m);
        mirror_pause(m);
        return;
    }
    if (!m->revision) {
        m->revision = a->revision;
        m->handler->begin(m->ctx);
    }
    for (size_t i = 0; i < r->kvs; i++) m->handler->put(m->ctx, &r->kv[i]);
    fleet_etcd_kick(m->e);
    if (r->more) return;
    m->next = m->revision + 1;
    m->handler->synced(m->ctx, m->revision);
}

static void mirror_read(struct fleet_etcd_mirror *m)
{
    const struct fleet_etcd_how how = {mirror_page, m, READ_NS, true};
    const struct fleet_etcd_op op = {.what = FLEET_ETCD_GET,
                                     .key =
                                         m->from ? (struct fleet_etcd_bytes){m->from, m->from_bytes} : m->key,
                                     .end = m->end,
                                     .limit = PAGE,
                                     .revision = m->revision};
    if (fleet_etcd_do(m->e, &op, &how, &m->call)) mirror_pause(m);
}

/* ---- watching ---- */

static void mirror_watch(struct fleet_etcd_mirror *m)
{
    Etcd__WatchCreateRequest create = ETCD__WATCH_CREATE_REQUEST__INIT;
    Etcd__WatchRequest q = ETCD__WATCH_REQUEST__INIT;
    create.key = (ProtobufCBinaryData){m->key.bytes, (uint8_t *)m->key.data};
    create.range_end = (ProtobufCBinaryData){m->end.bytes, (uint8_t *)m->end.data};
    create.start_revision = m->next;
    q.request_union_case = ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    q.create_request = &create;
    gw_rpc_start_stream(&m->e->link, &m->stream.rpc, WATCH, gw_grpc_pack(&q.base));
}

static void mirror_ready(void *owner)
{
    struct fleet_etcd_mirror *m = owner;
    if (m->call || gw_deadline(0) < m->pause) return;
    if (m->next)
        mirror_watch(m);
    else
        mirror_read(m);
}

static void mirror_event(struct fleet_etcd_mirror *m, const Etcd__Event *event)
{
    const Etcd__KeyValue *f = event->kv;
    if (!f || f->mod_revision < m->next || f->mod_revision == INT64_MAX)
        return; /* it was seen, or is a lie */
    const struct fleet_etcd_kv kv = {{f->key.data, f->key.len},
                                     {f->value.data, f->value.len},
                                     f->create_revision,
                                     f->mod_revision,
                                     f->version,
                                     f->lease};
    if (event->type == ETCD__EVENT__EVENT_TYPE__DELETE)
        m->handler->gone(m->ctx, kv.key, kv.mod);
    else
        m->handler->put(m->ctx, &kv);
}

static void mirror_take(struct fleet_etcd_mirror *m, const Etcd__WatchResponse *r)
{
    /* A store that is older than what was seen is another one, or was set back. */
    bool is_older = r->created && r->header && r->header->revision < m->next - 1;
    if (is_older || (r->canceled && r->compact_revision)) {
        mirror_begin(m);
        if (is_older) mirror_pause(m);
        return;
    }
    if (r->canceled) {
        gw_rpc_end(&m->e->link, &m->stream.rpc);
        mirror_pause(m);
        return;
    }
    /* Events of one revision come in one message. */
    for (size_t i = 0; i < r->n_events; i++) mirror_event(m, r->events[i]);
    const Etcd__Event *last = r->n_events ? r->events[r->n_events - 1] : NULL;
    int64_t revision = last && last->kv ? last->kv->mod_revision : 0;
    if (revision >= m->next && revision < INT64_MAX) m->next = revision + 1;
}

static void mirror_message(void *owner, const uint8_t *message, size_t bytes)
{
    struct fleet_etcd_mirror *m = owner;
    struct gw_grpc_arena arena;
    gw_grpc_arena_open(&arena, bytes);
    const Etcd__WatchResponse *r = etcd__watch_response__unpack(&arena.allocator, bytes, message);
    if (r) {
        mirror_take(m, r);
    } else { /* what it said is lost */
        mirror_begin(m);
        mirror_pause(m);
    }
    gw_grpc_arena_close(&arena);
}

static void mirror_ended(void *owner, bool is_gone, const char *why)
{
    (void)why;
    if (!is_gone) mirror_pause(owner);
}

/* ---- opening and closing ---- */

int fleet_etcd_mirror_open(struct fleet_etcd *e, struct fleet_etcd_bytes key, bool is_prefix,
                           const struct fleet_etcd_mirror_handler *handler, void *ctx,
                           struct fleet_etcd_mirror **out)
{
    struct fleet_etcd_mirror *m = calloc(1, sizeof(*m));
    if (m) m->memory = malloc(2 * key.bytes + 1);
    if (!m || !m->memory) {
        free(m);
        return gw_error_errno(-ENOMEM, "etcd");
    }
    memcpy(m->memory, key.data, key.bytes);
    m->e = e;
    m->key = (struct fleet_etcd_bytes){m->memory, key.bytes};
    if (is_prefix) m->end = fleet_etcd_prefix_end(m->key, m->memory + key.bytes);
    m->handler = handler;
    m->ctx = ctx;
    m->stream.ready = mirror_ready;
    m->stream.message = mirror_message;
    m->stream.ended = mirror_ended;
    m->stream.owner = m;
    fleet_etcd_stream_add(e, &m->stream);
    *out = m;
    return 0;
}

void fleet_etcd_mirror_close(struct fleet_etcd_mirror *m)
{
    if (!m) return;
    if (m->call) fleet_etcd_cancel(m->call);
    fleet_timer_clear(m->e->loop, &m->timer);
    fleet_etcd_stream_drop(m->e, &m->stream);
    free(m->from);
    free(m->memory);
    free(m);
}
