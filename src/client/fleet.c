/* SPDX-License-Identifier: Apache-2.0 */
/* The door to a fleet: requests go to whichever workers its controllers lease. The fleet's client has a
 * thread of its own, which leaves answers in a queue for gw_client_wait. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/exec.h>

#include "src/client/impl.h"
#include "src/fleet/client/fleet_client.h"
#include "src/server/wire/wire.h"

#define FLEET_SLOTS   64
#define FLEET_LOOK_NS 100000000u

/* A request, or the question for metadata, and its answer. */
struct fleet_door_slot {
    struct gw_client *c;
    uint32_t slot;
    struct fleet_door_slot *next; /* in the queue of answers */
    struct fleet_client_reply reply;
    uint8_t *out; /* the answer's tensors */
    char why[FLEET_WHY];
};

struct fleet_door {
    struct fleet_client *fleet;
    struct fleet_client_model *model;
    struct gw_layout out_layout;
    uint64_t out_stride;
    uint8_t *out;
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct fleet_door_slot *first, *last; /* answers, under the lock */
    struct fleet_door_slot slot[GW_CLIENT_MAX_SLOTS];
};

/* ---- answers, on the fleet client's thread ---- */

static void client_fleet_queue(struct fleet_door *d, struct fleet_door_slot *s)
{
    pthread_mutex_lock(&d->lock);
    s->next = NULL;
    *(d->last ? &d->last->next : &d->first) = s;
    d->last = s;
    pthread_cond_signal(&d->news);
    pthread_mutex_unlock(&d->lock);
}

static void client_fleet_answered(void *ctx, const struct fleet_client_reply *r)
{
    struct fleet_door_slot *s = ctx;
    struct fleet_door *d = s->c->own;
    s->reply = *r;
    snprintf(s->why, sizeof(s->why), "%s", r->why);
    if (!r->error && r->bytes != gw_layout_bytes(&d->out_layout, r->rows)) {
        s->reply.error = -EPROTO;
        snprintf(s->why, sizeof(s->why), "the answer of worker %s has the wrong length", r->worker);
    }
    if (!s->reply.error) memcpy(s->out, r->data, r->bytes);
    client_fleet_queue(d, s);
}

/* The metadata is text of any length. */
static void client_fleet_described(void *ctx, const struct fleet_client_reply *r)
{
    struct fleet_door_slot *s = ctx;
    s->reply = *r;
    snprintf(s->why, sizeof(s->why), "%s", r->why);
    s->out = r->error ? NULL : malloc(r->bytes);
    if (s->out) memcpy(s->out, r->data, r->bytes);
    client_fleet_queue(s->c->own, s);
}

/* The next answer, or NULL: none until `deadline_ns`. */
static struct fleet_door_slot *client_fleet_next(struct fleet_door *d, uint64_t deadline_ns)
{
    const struct timespec end = {(time_t)(deadline_ns / 1000000000), (long)(deadline_ns % 1000000000)};
    int err = 0;
    pthread_mutex_lock(&d->lock);
    while (!d->first && err != ETIMEDOUT) err = pthread_cond_timedwait(&d->news, &d->lock, &end);
    struct fleet_door_slot *s = d->first;
    if (s) d->first = s->next;
    if (!d->first) d->last = NULL;
    pthread_mutex_unlock(&d->lock);
    return s;
}

/* ---- opening ---- */

/* http://HOST:PORT[,http://HOST:PORT], of the HOST:PORT[,HOST:PORT] of an URL; or NULL: no memory. */
static char *client_fleet_etcd(const char *hosts)
{
    const size_t more = strlen("http://");
    size_t n = 1;
    for (const char *at = hosts; *at; at++) n += *at == ',';
    char *text = malloc(strlen(hosts) + n * more + 1), *to = text;
    for (const char *at = hosts; text; at += strcspn(at, ",") + 1) {
        size_t length = strcspn(at, ",");
        to += sprintf(to, "http://%.*s%s", (int)length, at, at[length] ? "," : "");
        if (!at[length]) break;
    }
    return text;
}

static int client_fleet_begin(struct gw_client *c)
{
    struct fleet_door *d = c->own = calloc(1, sizeof(*d));
    pthread_condattr_t clock;
    if (!d) return gw_error_errno(-ENOMEM, "client");
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&d->news, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&d->lock, NULL);
    char *end = NULL;
    unsigned long version = c->version ? strtoul(c->version, &end, 10) : 0;
    if (c->version && (!version || *end || version > UINT32_MAX))
        return gw_error(-EINVAL, "model %s: %s is not a version; a fleet's are whole numbers", c->name,
                        c->version);
    char *etcd = c->url.etcd ? client_fleet_etcd(c->url.authority) : NULL;
    if (c->url.etcd && !etcd) return gw_error_errno(-ENOMEM, "client");
    const struct fleet_client_opts opts = {.controllers = c->url.etcd ? NULL : c->url.authority,
                                           .etcd = etcd,
                                           .fleet = c->url.fleet,
                                           .token = c->token,
                                           .rdma = 1,
                                           .patience_ns = (int64_t)c->http_opts.timeout_ns};
    int err = fleet_client_open(&opts, &d->fleet);
    free(etcd);
    return err ? err : fleet_client_model(d->fleet, c->name, (uint32_t)version, &d->model);
}

/* Waits for the metadata as long as a step of set-up may take. */
static int client_fleet_wait_described(struct gw_client *c, struct fleet_door_slot **s)
{
    /* It comes by its deadline in any case. */
    while (!(*s = client_fleet_next(c->own, gw_deadline(FLEET_LOOK_NS))))
        if (c->http_opts.give_up && c->http_opts.give_up()) return gw_error(-EINTR, "interrupted");
    return 0;
}

static int client_fleet_read_description(const struct gw_client *c, struct fleet_door_slot *s,
                                         json_t **answer)
{
    if (s->reply.error == -ENOENT) return -ENOENT; /* the caller says so */
    if (s->reply.error) {
        int err = s->reply.error == -EAGAIN || s->reply.error == -ETIME ? -ETIMEDOUT : s->reply.error;
        return gw_error(err, "fleet %s: %s", c->url.authority, s->why);
    }
    *answer = s->out ? json_loadb((const char *)s->out, s->reply.bytes, 0, NULL) : NULL;
    return *answer ? 0
                   : gw_error(-EPROTO, "model %s: worker %s describes it in words that are no JSON", c->name,
                              s->reply.worker);
}

static int client_fleet_ask(struct gw_client *c, enum gw_client_question what, json_t **answer)
{
    if (what != GW_CLIENT_ASK_MODEL) return gw_error(-ENOTSUP, "a fleet does not tell that to clients");
    int err = c->own ? 0 : client_fleet_begin(c);
    if (err) return err;
    struct fleet_door *d = c->own;
    struct fleet_door_slot *s = &d->slot[0];
    s->c = c;
    err = fleet_client_describe(d->model, (int64_t)gw_deadline(c->http_opts.timeout_ns),
                                client_fleet_described, s);
    if (!err) err = client_fleet_wait_described(c, &s);
    if (!err) err = client_fleet_read_description(c, s, answer);
    free(d->slot[0].out);
    d->slot[0].out = NULL;
    return err;
}

static int client_fleet_open(struct gw_client *c)
{
    struct fleet_door *d = c->own;
    int err = 0;
    for (uint32_t i = 0; !err && i < c->model.outputs; i++) {
        const struct gw_client_tensor *t = &c->model.output[i];
        if (!t->bytes) return gw_error(-EPROTO, "model %s: a worker fixes all shapes", c->name);
        err = gw_layout_add(&d->out_layout, t->bytes, t->batched, c->rows);
    }
    if (err) return gw_error(-EPROTO, "model %s: its outputs take more than 2 GiB", c->name);
    c->in_stride = gw_client_align(sizeof(struct gw_serve_request) + gw_layout_bytes(&c->in_layout, c->rows));
    d->out_stride = gw_client_align(gw_layout_bytes(&d->out_layout, c->rows));
    err = gw_client_fit_slots(c, FLEET_SLOTS, c->in_stride + d->out_stride);
    if (err) return err;
    c->in = aligned_alloc(GW_CLIENT_ALIGN, c->slots * c->in_stride);
    d->out = aligned_alloc(GW_CLIENT_ALIGN, c->slots * d->out_stride);
    if (!c->in || !d->out) return gw_error_errno(-ENOMEM, "client");
    memset(c->in, 0, c->slots * c->in_stride); /* what lies between two tensors is sent too */
    for (uint32_t i = 0; i < c->slots; i++)
        d->slot[i] = (struct fleet_door_slot){.c = c, .slot = i, .out = d->out + i * d->out_stride};
    return 0;
}

static void client_fleet_close(struct gw_client *c)
{
    struct fleet_door *d = c->own;
    if (!d) return;
    fleet_client_close(d->fleet);
    pthread_cond_destroy(&d->news);
    pthread_mutex_destroy(&d->lock);
    if (!d->out) free(d->slot[0].out); /* metadata that came after the wait for it */
    free(d->out);
    free(d);
    free(c->in);
    c->own = NULL;
}

/* ---- requests ---- */

static int client_fleet_submit(struct gw_client *c, uint32_t slot, const struct gw_client_request *r,
                               const struct gw_client_from *from)
{
    struct fleet_door *d = c->own;
    uint8_t *in = gw_client_slot_at(c, slot) + sizeof(struct gw_serve_request);
    for (uint32_t i = 0; i < c->model.inputs; i++) {
        uint8_t *to = in + gw_layout_offset(&c->in_layout, i, r->rows);
        if (from->at[i] != to) memcpy(to, from->at[i], gw_layout_tensor_bytes(&c->in_layout, i, r->rows));
    }
    const struct fleet_client_request q = {
        .in = in,
        .bytes = gw_layout_bytes(&c->in_layout, r->rows),
        .rows = r->rows,
        .priority = r->priority,
        .deadline_at = r->budget_ns ? (int64_t)gw_deadline(r->budget_ns) : 0,
        .done = client_fleet_answered,
        .ctx = &d->slot[slot],
    };
    return fleet_client_submit(d->model, &q);
}

/* The errors of <gpuwire/client.h>: there -ECONNRESET means that all of the server is gone. */
static int client_fleet_error_of(int err)
{
    return err == -EAGAIN ? -EBUSY : err == -ECONNRESET ? -EHOSTDOWN : err;
}

static void client_fleet_fill(struct gw_client *c, struct fleet_door_slot *s, struct gw_client_reply *reply)
{
    const struct fleet_door *d = c->own;
    const struct fleet_client_reply *r = &s->reply;
    memset(reply, 0, sizeof(*reply));
    reply->id = c->slot[s->slot].id;
    reply->slot = s->slot;
    reply->rows = r->rows;
    reply->batch = r->batch;
    reply->error = client_fleet_error_of(r->error);
    reply->why = reply->error ? s->why : "";
    reply->retry_ns = (uint64_t)r->retry_ns;
    reply->times.total = r->seen_at - (int64_t)c->slot[s->slot].sent;
    if (reply->error) return;
    /* Which part of the network's time was before the worker and which after is not known: halves. */
    int64_t network = reply->times.total - r->queued_ns - r->model_ns;
    reply->times.wait = r->queued_ns;
    reply->times.model = r->model_ns;
    reply->times.net_in = network / 2;
    reply->times.net_out = network - network / 2;
    reply->outputs = c->model.outputs;
    for (uint32_t i = 0; i < reply->outputs; i++)
        gw_client_output_fill(&c->model.output[i], r->rows,
                              s->out + gw_layout_offset(&d->out_layout, i, r->rows), &reply->out[i]);
}

static int client_fleet_wait(struct gw_client *c, uint64_t deadline_ns, struct gw_client_reply *reply)
{
    struct fleet_door_slot *s = client_fleet_next(c->own, deadline_ns);
    if (!s) return gw_error(-ETIMEDOUT, "the fleet has not answered in time");
    client_fleet_fill(c, s, reply);
    return 0;
}

const struct gw_client_door gw_client_fleet = {
    .name = "fleet",
    .ask = client_fleet_ask,
    .open = client_fleet_open,
    .close = client_fleet_close,
    .submit = client_fleet_submit,
    .wait = client_fleet_wait,
};
