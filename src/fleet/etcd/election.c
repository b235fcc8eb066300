/* SPDX-License-Identifier: Apache-2.0 */
/* Campaigns for a key, knows by its own clock how long it may lead, and writes under its term. */
#include "src/fleet/etcd/election.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/fleet/etcd/lease.h"
#include "src/fleet/etcd/mirror.h"
#include "src/fleet/etcd/state.h"

#define SECOND_NS 1000000000
#define MARGIN    7 /* a part of the lease: what two clocks and a late thread may differ by */
#define AGAIN_NS  200000000u
#define BATCH     100 /* writes of one txn; etcd takes 128 operations */
#define MARK      48  /* bytes of the text that numbers a batch */

struct election_write {
    STAILQ_ENTRY(election_write) entry;
    struct fleet_etcd_op op; /* key and value lie in `memory` */
    void (*done)(void *ctx, int err);
    void *ctx;
    uint8_t memory[];
};
STAILQ_HEAD(election_writes, election_write);

struct fleet_etcd_election {
    struct fleet_etcd *e;
    char *key, *value, *writes;
    uint64_t margin_ns;
    struct fleet_etcd_lease *lease;
    struct fleet_etcd_mirror *mirror;
    int64_t lease_id, asked; /* asked: the one that the campaign names */
    uint64_t term;           /* we have created the key, and know of no end; 0: not so */
    bool is_sure;            /* our lease is not near its end */
    bool is_taken;           /* the key is there */
    bool is_read;            /* whether it is there is known */
    int64_t seen;            /* the revision of the last news of the key */
    struct fleet_timer sure, again;
    struct fleet_etcd_call *campaign, *batch;
    struct election_writes waiting, running;
    uint64_t batch_term; /* that the batch names */
    uint64_t batches;    /* their numbers */
    char mark[MARK];     /* what the key `writes` holds */
    char next_mark[MARK];
    const struct fleet_etcd_election_handler *handler;
    void *ctx;
};

static void election_try(void *ctx);
static void election_send(struct fleet_etcd_election *el);

/* ---- being sure ---- */

static uint64_t election_sure_until(const struct fleet_etcd_election *el)
{
    uint64_t until = (uint64_t)fleet_etcd_lease_until(el->lease);
    return until > el->margin_ns ? until - el->margin_ns : 0;
}

uint64_t fleet_etcd_election_term(const struct fleet_etcd_election *el)
{
    /* The timer may be late: the clock decides. */
    return el->is_sure && gw_deadline(0) < election_sure_until(el) ? el->term : 0;
}

static void election_unsure(struct fleet_etcd_election *el, const char *why)
{
    if (!el->is_sure) return;
    el->is_sure = false;
    fleet_timer_clear(el->e->loop, &el->sure);
    el->handler->lost(el->ctx, el->term, why);
}

static void election_check(void *ctx)
{
    struct fleet_etcd_election *el = ctx;
    uint64_t until = election_sure_until(el);
    if (!el->is_sure) return;
    if (gw_deadline(0) < until)
        fleet_timer_set(el->e->loop, &el->sure, (int64_t)until, election_check, el);
    else
        election_unsure(el, "etcd did not renew the lease in time");
}

/* The lease was renewed, or we were elected. */
static void election_renewed(void *ctx)
{
    struct fleet_etcd_election *el = ctx;
    if (!el->term || gw_deadline(0) >= election_sure_until(el)) return;
    bool was_sure = el->is_sure;
    el->is_sure = true;
    election_check(el);
    if (was_sure || !el->is_sure) return;
    el->handler->leads(el->ctx, el->term);
}

static void election_end(struct election_writes *list, int err)
{
    struct election_writes all = STAILQ_HEAD_INITIALIZER(all);
    struct election_write *w;
    STAILQ_CONCAT(&all, list);
    while ((w = STAILQ_FIRST(&all))) {
        STAILQ_REMOVE_HEAD(&all, entry);
        if (w->done) w->done(w->ctx, err);
        free(w);
    }
}

/* The key is not ours any more. What is under way ends by its own answer. */
static void election_over(struct fleet_etcd_election *el, const char *why)
{
    if (!el->term) return;
    election_unsure(el, why);
    el->term = 0;
    election_end(&el->waiting, gw_error(-ESTALE, "this controller leads no more: %s", why));
}

/* ---- the campaign ---- */

static void election_won(struct fleet_etcd_election *el, uint64_t term)
{
    el->term = term;
    el->is_taken = true;
    el->batches = 0;
    snprintf(el->mark, sizeof(el->mark), "%" PRIx64 ".0", (uint64_t)el->lease_id);
    election_renewed(el);
}

static void election_answer(void *ctx, int err, const struct fleet_etcd_answer *a)
{
    struct fleet_etcd_election *el = ctx;
    el->campaign = NULL;
    if (err) {
        fleet_timer_set(el->e->loop, &el->again, (int64_t)gw_deadline(AGAIN_NS), election_try, el);
        return;
    }
    const struct fleet_etcd_kv *kv = a->succeeded || !a->results || !a->result->kvs ? NULL : a->result->kv;
    bool is_ours = a->succeeded || (kv && kv->lease == el->asked); /* or an answer before was lost */
    if (a->revision < el->seen)
        election_try(el); /* its end was told already, maybe */
    else if (is_ours && el->asked == el->lease_id)
        election_won(el, (uint64_t)(kv ? kv->create : a->revision));
    else
        el->is_taken = true; /* its end is still to come */
}

static void election_try(void *ctx)
{
    struct fleet_etcd_election *el = ctx;
    if (!el->lease_id || el->term || el->is_taken || !el->is_read || el->campaign) return;
    char mark[MARK];
    struct fleet_etcd_bytes key = fleet_etcd_text(el->key);
    snprintf(mark, sizeof(mark), "%" PRIx64 ".0", (uint64_t)el->lease_id);
    const struct fleet_etcd_compare absent = {
        .key = key, .target = FLEET_ETCD_CREATE, .is = FLEET_ETCD_EQUAL};
    const struct fleet_etcd_op then[] = {
        {.what = FLEET_ETCD_PUT, .key = key, .value = fleet_etcd_text(el->value), .lease = el->lease_id},
        {.what = FLEET_ETCD_PUT,
         .key = fleet_etcd_text(el->writes),
         .value = fleet_etcd_text(mark),
         .lease = el->lease_id}};
    const struct fleet_etcd_op otherwise = {.what = FLEET_ETCD_GET, .key = key};
    const struct fleet_etcd_txn txn = {&absent, 1, then, &otherwise, 2, 1};
    const struct fleet_etcd_how how = {.done = election_answer, .ctx = el, .again = true};
    el->asked = el->lease_id;
    if (fleet_etcd_txn(el->e, &txn, &how, &el->campaign))
        fleet_timer_set(el->e->loop, &el->again, (int64_t)gw_deadline(AGAIN_NS), election_try, el);
}

static void election_granted(void *ctx, int64_t lease)
{
    struct fleet_etcd_election *el = ctx;
    el->lease_id = lease;
    election_try(el);
}

static void election_refused(void *ctx, const char *why)
{
    struct fleet_etcd_election *el = ctx;
    if (el->handler->refused) el->handler->refused(el->ctx, why);
}

static void election_lease_ended(void *ctx, int64_t lease)
{
    struct fleet_etcd_election *el = ctx;
    (void)lease;
    el->lease_id = 0;
    election_over(el, "its lease has ended");
}

/* ---- what happens to the key ---- */

static void election_begin(void *ctx)
{
    struct fleet_etcd_election *el = ctx;
    el->is_read = false;
    el->seen = 0;
    if (!el->term) el->is_taken = false;
}

static void election_put(void *ctx, const struct fleet_etcd_kv *kv)
{
    struct fleet_etcd_election *el = ctx;
    if (kv->mod <= el->seen && el->is_read) return;
    el->seen = kv->mod;
    el->is_taken = true;
    if (el->term && kv->create > (int64_t)el->term) election_over(el, "another controller leads");
}

static void election_gone(void *ctx, struct fleet_etcd_bytes key, int64_t revision)
{
    struct fleet_etcd_election *el = ctx;
    (void)key;
    if (revision <= (int64_t)el->term || revision <= el->seen) return; /* of one before us */
    el->seen = revision;
    el->is_taken = false;
    election_over(el, "its entry in etcd is gone");
    election_try(el);
}

static void election_synced(void *ctx, int64_t revision)
{
    struct fleet_etcd_election *el = ctx;
    el->is_read = true;
    if (el->term && el->seen < (int64_t)el->term && revision >= (int64_t)el->term) {
        el->is_taken = false;
        election_over(el, "its entry in etcd is gone");
    }
    if (revision > el->seen) el->seen = revision;
    election_try(el);
}

/* ---- writes ---- */

static void election_batch_answer(void *ctx, int err, const struct fleet_etcd_answer *a)
{
    struct fleet_etcd_election *el = ctx;
    el->batch = NULL;
    const struct fleet_etcd_kv *leader = NULL, *mark = NULL;
    if (!err && !a->succeeded && a->results == 2) {
        leader = a->result[0].kvs ? a->result[0].kv : NULL;
        mark = a->result[1].kvs ? a->result[1].kv : NULL;
    }
    /* It may have been elected again since: then what it decided before counts no more. */
    bool is_ours = leader && el->term == el->batch_term && leader->create == (int64_t)el->term;
    bool was_done = is_ours && mark && fleet_etcd_equal(mark->value, fleet_etcd_text(el->next_mark));
    if (!err && (a->succeeded || was_done)) {
        memcpy(el->mark, el->next_mark, sizeof(el->mark));
        election_end(&el->running, 0);
    } else if (is_ours && mark && mark->value.bytes < MARK) {
        /* A batch that was given up has been done after all. This one has not: it goes again, first. */
        snprintf(el->mark, sizeof(el->mark), "%.*s", (int)mark->value.bytes, (const char *)mark->value.data);
        STAILQ_CONCAT(&el->running, &el->waiting);
        STAILQ_CONCAT(&el->waiting, &el->running);
    } else if (!err) {
        if (el->term == el->batch_term) election_over(el, "another controller leads");
        election_end(&el->running, gw_error(-ESTALE, "another controller leads: nothing was written"));
    } else {
        election_end(&el->running, err);
    }
    election_send(el);
}

/* etcd takes no key twice in one txn. */
static bool election_has_key(const struct election_writes *list, struct fleet_etcd_bytes key)
{
    const struct election_write *w;
    STAILQ_FOREACH(w, list, entry)
    if (fleet_etcd_equal(w->op.key, key)) return true;
    return false;
}

static size_t election_gather(struct fleet_etcd_election *el, struct fleet_etcd_op *ops)
{
    struct election_write *w;
    size_t n = 0;
    while (n < BATCH && (w = STAILQ_FIRST(&el->waiting)) && !election_has_key(&el->running, w->op.key)) {
        STAILQ_REMOVE_HEAD(&el->waiting, entry);
        STAILQ_INSERT_TAIL(&el->running, w, entry);
        ops[n++] = w->op;
    }
    return n;
}

static void election_send(struct fleet_etcd_election *el)
{
    struct fleet_etcd_op then[BATCH + 1];
    if (!el->term || el->batch || STAILQ_EMPTY(&el->waiting)) return;
    size_t n = election_gather(el, then);
    struct fleet_etcd_bytes key = fleet_etcd_text(el->key), writes = fleet_etcd_text(el->writes);
    snprintf(el->next_mark, sizeof(el->next_mark), "%" PRIx64 ".%" PRIu64, (uint64_t)el->lease_id,
             ++el->batches);
    then[n++] = (struct fleet_etcd_op){.what = FLEET_ETCD_PUT,
                                       .key = writes,
                                       .value = fleet_etcd_text(el->next_mark),
                                       .lease = el->lease_id};
    const struct fleet_etcd_compare compare[] = {
        {.key = key, .target = FLEET_ETCD_CREATE, .is = FLEET_ETCD_EQUAL, .number = (int64_t)el->term},
        /* What was sent twice is done once, and nothing old is done after something newer. */
        {.key = writes,
         .target = FLEET_ETCD_VALUE,
         .is = FLEET_ETCD_EQUAL,
         .value = fleet_etcd_text(el->mark)}};
    const struct fleet_etcd_op otherwise[] = {{.what = FLEET_ETCD_GET, .key = key},
                                              {.what = FLEET_ETCD_GET, .key = writes}};
    const struct fleet_etcd_txn txn = {compare, 2, then, otherwise, n, 2};
    const struct fleet_etcd_how how = {.done = election_batch_answer, .ctx = el, .again = true};
    el->batch_term = el->term;
    int err = fleet_etcd_txn(el->e, &txn, &how, &el->batch);
    if (err) election_end(&el->running, err);
}

int fleet_etcd_election_write(struct fleet_etcd_election *el, const struct fleet_etcd_op *op,
                              void (*done)(void *ctx, int err), void *ctx)
{
    if (!fleet_etcd_election_term(el)) return gw_error(-EPERM, "this controller does not lead");
    struct election_write *w = malloc(sizeof(*w) + op->key.bytes + op->value.bytes);
    if (!w) return gw_error_errno(-ENOMEM, "etcd");
    w->op = *op;
    w->done = done;
    w->ctx = ctx;
    memcpy(w->memory, op->key.data, op->key.bytes);
    if (op->value.bytes) memcpy(w->memory + op->key.bytes, op->value.data, op->value.bytes);
    w->op.key.data = w->memory;
    w->op.value.data = w->memory + op->key.bytes;
    STAILQ_INSERT_TAIL(&el->waiting, w, entry);
    election_send(el);
    return 0;
}

/* ---- opening and closing ---- */

static const struct fleet_etcd_lease_handler election_lease = {.granted = election_granted,
                                                               .renewed = election_renewed,
                                                               .ended = election_lease_ended,
                                                               .refused = election_refused};
static const struct fleet_etcd_mirror_handler election_mirror = {
    .begin = election_begin, .put = election_put, .gone = election_gone, .synced = election_synced};

static int election_set_up(struct fleet_etcd_election *el, const struct fleet_etcd_election_opts *opts)
{
    el->key = strdup(opts->key);
    el->value = strdup(opts->value);
    el->writes = strdup(opts->writes);
    if (!el->key || !el->value || !el->writes) return gw_error_errno(-ENOMEM, "etcd");
    el->margin_ns = (uint64_t)(opts->margin_ns ? opts->margin_ns : opts->ttl_s * SECOND_NS / MARGIN);
    int err = fleet_etcd_lease_open(el->e, opts->ttl_s, &election_lease, el, &el->lease);
    if (err) return err;
    return fleet_etcd_mirror_open(el->e, fleet_etcd_text(el->key), false, &election_mirror, el, &el->mirror);
}

int fleet_etcd_election_open(struct fleet_etcd *e, const struct fleet_etcd_election_opts *opts,
                             const struct fleet_etcd_election_handler *handler, void *ctx,
                             struct fleet_etcd_election **out)
{
    struct fleet_etcd_election *el = calloc(1, sizeof(*el));
    if (!el) return gw_error_errno(-ENOMEM, "etcd");
    el->e = e;
    el->handler = handler;
    el->ctx = ctx;
    STAILQ_INIT(&el->waiting);
    STAILQ_INIT(&el->running);
    int err = election_set_up(el, opts);
    if (err) {
        fleet_etcd_election_close(el);
        return err;
    }
    *out = el;
    return 0;
}

static void election_forget(struct election_writes *list)
{
    struct election_write *w;
    while ((w = STAILQ_FIRST(list))) {
        STAILQ_REMOVE_HEAD(list, entry);
        free(w);
    }
}

void fleet_etcd_election_close(struct fleet_etcd_election *el)
{
    if (!el) return;
    if (el->campaign) fleet_etcd_cancel(el->campaign);
    if (el->batch) fleet_etcd_cancel(el->batch);
    fleet_timer_clear(el->e->loop, &el->sure);
    fleet_timer_clear(el->e->loop, &el->again);
    fleet_etcd_mirror_close(el->mirror);
    fleet_etcd_lease_close(el->lease);
    election_forget(&el->waiting);
    election_forget(&el->running);
    free(el->key);
    free(el->value);
    free(el->writes);
    free(el);
}
