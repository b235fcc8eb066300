/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on keys, and leases, as etcd's messages; and its answers as ours. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "etcd.pb-c.h"
#include "src/fleet/etcd/calls.h"

#define MAX_OPS 128 /* of one txn, etcd's own limit */

typedef ProtobufCBinaryData pb_bytes;

/* ---- questions ---- */

static pb_bytes kv_bytes(struct fleet_etcd_bytes b)
{
    return (pb_bytes){.len = b.bytes, .data = (uint8_t *)b.data};
}

static Etcd__RangeRequest kv_get(const struct fleet_etcd_op *op)
{
    Etcd__RangeRequest q = ETCD__RANGE_REQUEST__INIT;
    q.key = kv_bytes(op->key);
    q.range_end = kv_bytes(op->end);
    q.limit = op->limit;
    q.revision = op->revision;
    q.serializable = op->serializable;
    return q;
}

static Etcd__PutRequest kv_put(const struct fleet_etcd_op *op)
{
    Etcd__PutRequest q = ETCD__PUT_REQUEST__INIT;
    q.key = kv_bytes(op->key);
    q.value = kv_bytes(op->value);
    q.lease = op->lease;
    return q;
}

static Etcd__DeleteRangeRequest kv_delete(const struct fleet_etcd_op *op)
{
    Etcd__DeleteRangeRequest q = ETCD__DELETE_RANGE_REQUEST__INIT;
    q.key = kv_bytes(op->key);
    q.range_end = kv_bytes(op->end);
    return q;
}

/* An operation of a txn, with its memory. */
struct kv_op {
    Etcd__RequestOp op;
    union {
        Etcd__RangeRequest get;
        Etcd__PutRequest put;
        Etcd__DeleteRangeRequest drop;
    } q;
};

static void kv_fill_op(struct kv_op *to, const struct fleet_etcd_op *op)
{
    etcd__request_op__init(&to->op);
    switch (op->what) {
    case FLEET_ETCD_GET:
        to->q.get = kv_get(op);
        to->op.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
        to->op.request_range = &to->q.get;
        break;
    case FLEET_ETCD_PUT:
        to->q.put = kv_put(op);
        to->op.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
        to->op.request_put = &to->q.put;
        break;
    default:
        to->q.drop = kv_delete(op);
        to->op.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
        to->op.request_delete_range = &to->q.drop;
    }
}

static void kv_fill_compare(Etcd__Compare *to, const struct fleet_etcd_compare *c)
{
    /* In the order of enum fleet_etcd_target. */
    static const Etcd__Compare__TargetUnionCase cases[] = {
        ETCD__COMPARE__TARGET_UNION_VERSION, ETCD__COMPARE__TARGET_UNION_CREATE_REVISION,
        ETCD__COMPARE__TARGET_UNION_MOD_REVISION, ETCD__COMPARE__TARGET_UNION_VALUE,
        ETCD__COMPARE__TARGET_UNION_LEASE};
    etcd__compare__init(to);
    to->result = (Etcd__Compare__CompareResult)c->is;
    to->target = (Etcd__Compare__CompareTarget)c->target;
    to->key = kv_bytes(c->key);
    to->target_union_case = cases[c->target];
    if (c->target == FLEET_ETCD_VALUE)
        to->value = kv_bytes(c->value);
    else
        to->version = c->number; /* the numbers share their memory */
}

/* ---- answers ---- */

static bool kv_header(const Etcd__ResponseHeader *h, struct fleet_etcd_answer *a)
{
    if (!h || h->revision < 0 || h->revision == INT64_MAX) return false;
    a->revision = h->revision;
    return true;
}

static bool kv_read_get(const Etcd__RangeResponse *r, struct gw_grpc_arena *arena,
                        struct fleet_etcd_result *to)
{
    struct fleet_etcd_kv *kv = gw_grpc_arena_take(arena, (r->n_kvs + 1) * sizeof(*kv));
    if (!kv) return false;
    for (size_t i = 0; i < r->n_kvs; i++) {
        const Etcd__KeyValue *f = r->kvs[i];
        kv[i] = (struct fleet_etcd_kv){{f->key.data, f->key.len},
                                       {f->value.data, f->value.len},
                                       f->create_revision,
                                       f->mod_revision,
                                       f->version,
                                       f->lease};
    }
    *to = (struct fleet_etcd_result){
        .what = FLEET_ETCD_GET, .kv = kv, .kvs = r->n_kvs, .more = r->more, .count = r->count};
    return true;
}

static struct fleet_etcd_result *kv_results(struct gw_grpc_arena *arena, size_t n,
                                            struct fleet_etcd_answer *a)
{
    struct fleet_etcd_result *r = gw_grpc_arena_take(arena, (n + 1) * sizeof(*r));
    a->result = r;
    a->results = n;
    return r;
}

static bool kv_range_response(const uint8_t *message, size_t bytes, struct gw_grpc_arena *arena,
                              struct fleet_etcd_answer *a)
{
    const Etcd__RangeResponse *r = etcd__range_response__unpack(&arena->allocator, bytes, message);
    struct fleet_etcd_result *to = kv_results(arena, 1, a);
    return r && to && kv_header(r->header, a) && kv_read_get(r, arena, to);
}

static bool kv_put_response(const uint8_t *message, size_t bytes, struct gw_grpc_arena *arena,
                            struct fleet_etcd_answer *a)
{
    const Etcd__PutResponse *r = etcd__put_response__unpack(&arena->allocator, bytes, message);
    struct fleet_etcd_result *to = kv_results(arena, 1, a);
    if (!r || !to) return false;
    *to = (struct fleet_etcd_result){.what = FLEET_ETCD_PUT};
    return kv_header(r->header, a);
}

static bool kv_delete_response(const uint8_t *message, size_t bytes, struct gw_grpc_arena *arena,
                               struct fleet_etcd_answer *a)
{
    const Etcd__DeleteRangeResponse *r =
        etcd__delete_range_response__unpack(&arena->allocator, bytes, message);
    struct fleet_etcd_result *to = kv_results(arena, 1, a);
    if (!r || !to) return false;
    *to = (struct fleet_etcd_result){.what = FLEET_ETCD_DELETE, .count = r->deleted};
    return kv_header(r->header, a);
}

static bool kv_txn_response(const uint8_t *message, size_t bytes, struct gw_grpc_arena *arena,
                            struct fleet_etcd_answer *a)
{
    const Etcd__TxnResponse *r = etcd__txn_response__unpack(&arena->allocator, bytes, message);
    if (!r || !kv_header(r->header, a)) return false;
    struct fleet_etcd_result *to = kv_results(arena, r->n_responses, a);
    if (!to) return false;
    a->succeeded = r->succeeded;
    for (size_t i = 0; i < r->n_responses; i++) {
        const Etcd__ResponseOp *op = r->responses[i];
        switch (op->response_case) {
        case ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE:
            if (!kv_read_get(op->response_range, arena, &to[i])) return false;
            break;
        case ETCD__RESPONSE_OP__RESPONSE_RESPONSE_PUT:
            to[i] = (struct fleet_etcd_result){.what = FLEET_ETCD_PUT};
            break;
        case ETCD__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE:
            to[i] = (struct fleet_etcd_result){.what = FLEET_ETCD_DELETE,
                                               .count = op->response_delete_range->deleted};
            break;
        default: return false;
        }
    }
    return true;
}

/* ---- calls ---- */

int fleet_etcd_do(struct fleet_etcd *e, const struct fleet_etcd_op *op, const struct fleet_etcd_how *how,
                  struct fleet_etcd_call **call)
{
    struct kv_op q;
    kv_fill_op(&q, op);
    const struct fleet_etcd_ask ask[] = {
        [FLEET_ETCD_GET] = {"/etcdserverpb.KV/Range", kv_range_response, &q.q.get.base},
        [FLEET_ETCD_PUT] = {"/etcdserverpb.KV/Put", kv_put_response, &q.q.put.base},
        [FLEET_ETCD_DELETE] = {"/etcdserverpb.KV/DeleteRange", kv_delete_response, &q.q.drop.base}};
    return fleet_etcd_ask(e, &ask[op->what], how, call);
}

int fleet_etcd_txn(struct fleet_etcd *e, const struct fleet_etcd_txn *t, const struct fleet_etcd_how *how,
                   struct fleet_etcd_call **call)
{
    struct kv_op op[2 * MAX_OPS];
    Etcd__RequestOp *ops[2 * MAX_OPS];
    Etcd__Compare compare[MAX_OPS], *compares[MAX_OPS];
    Etcd__TxnRequest q = ETCD__TXN_REQUEST__INIT;
    if (t->thens > MAX_OPS || t->otherwises > MAX_OPS || t->compares > MAX_OPS)
        return gw_error(-EINVAL, "etcd: a txn of more than %d operations", MAX_OPS);
    for (size_t i = 0; i < t->compares; i++) {
        kv_fill_compare(&compare[i], &t->compare[i]);
        compares[i] = &compare[i];
    }
    for (size_t i = 0; i < t->thens + t->otherwises; i++) {
        kv_fill_op(&op[i], i < t->thens ? &t->then[i] : &t->otherwise[i - t->thens]);
        ops[i] = &op[i].op;
    }
    q.n_compare = t->compares;
    q.compare = compares;
    q.n_success = t->thens;
    q.success = ops;
    q.n_failure = t->otherwises;
    q.failure = ops + t->thens;
    const struct fleet_etcd_ask ask = {"/etcdserverpb.KV/Txn", kv_txn_response, &q.base};
    return fleet_etcd_ask(e, &ask, how, call);
}

/* ---- leases ---- */

static bool kv_grant_response(const uint8_t *message, size_t bytes, struct gw_grpc_arena *arena,
                              struct fleet_etcd_answer *a)
{
    const Etcd__LeaseGrantResponse *r = etcd__lease_grant_response__unpack(&arena->allocator, bytes, message);
    if (!r || !kv_header(r->header, a) || r->id == 0 || r->ttl <= 0) return false;
    a->lease = r->id;
    a->ttl_s = r->ttl;
    return true;
}

static bool kv_revoke_response(const uint8_t *message, size_t bytes, struct gw_grpc_arena *arena,
                               struct fleet_etcd_answer *a)
{
    const Etcd__LeaseRevokeResponse *r =
        etcd__lease_revoke_response__unpack(&arena->allocator, bytes, message);
    return r && kv_header(r->header, a);
}

static bool kv_time_response(const uint8_t *message, size_t bytes, struct gw_grpc_arena *arena,
                             struct fleet_etcd_answer *a)
{
    const Etcd__LeaseTimeToLiveResponse *r =
        etcd__lease_time_to_live_response__unpack(&arena->allocator, bytes, message);
    if (!r || !kv_header(r->header, a)) return false;
    a->lease = r->id;
    a->ttl_s = r->ttl;
    return true;
}

int fleet_etcd_grant(struct fleet_etcd *e, int64_t lease, int64_t ttl_s, const struct fleet_etcd_how *how,
                     struct fleet_etcd_call **call)
{
    Etcd__LeaseGrantRequest q = ETCD__LEASE_GRANT_REQUEST__INIT;
    q.id = lease;
    q.ttl = ttl_s;
    const struct fleet_etcd_ask ask = {"/etcdserverpb.Lease/LeaseGrant", kv_grant_response, &q.base};
    return fleet_etcd_ask(e, &ask, how, call);
}

int fleet_etcd_revoke(struct fleet_etcd *e, int64_t lease, const struct fleet_etcd_how *how,
                      struct fleet_etcd_call **call)
{
    Etcd__LeaseRevokeRequest q = ETCD__LEASE_REVOKE_REQUEST__INIT;
    q.id = lease;
    const struct fleet_etcd_ask ask = {"/etcdserverpb.Lease/LeaseRevoke", kv_revoke_response, &q.base};
    return fleet_etcd_ask(e, &ask, how, call);
}

int fleet_etcd_time_to_live(struct fleet_etcd *e, int64_t lease, const struct fleet_etcd_how *how,
                            struct fleet_etcd_call **call)
{
    Etcd__LeaseTimeToLiveRequest q = ETCD__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    q.id = lease;
    const struct fleet_etcd_ask ask = {"/etcdserverpb.Lease/LeaseTimeToLive", kv_time_response, &q.base};
    return fleet_etcd_ask(e, &ask, how, call);
}

/* ---- bytes ---- */

struct fleet_etcd_bytes fleet_etcd_prefix_end(struct fleet_etcd_bytes prefix, uint8_t *to)
{
    size_t n = prefix.bytes;
    if (n) memcpy(to, prefix.data, n);
    while (n && to[n - 1] == 0xff) n--;
    if (!n) return (struct fleet_etcd_bytes){"", 1}; /* a zero byte stands for all keys from there on */
    to[n - 1]++;
    return (struct fleet_etcd_bytes){to, n};
}

bool fleet_etcd_equal(struct fleet_etcd_bytes a, struct fleet_etcd_bytes b)
{
    return a.bytes == b.bytes && (!a.bytes || !memcmp(a.data, b.data, a.bytes));
}
