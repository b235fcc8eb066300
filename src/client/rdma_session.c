/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a session: opening it over HTTP, keeping it, and finding out why it broke. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/exec.h>

#include "src/client/rdma.h"
#include "src/server/wire/clock.h"
#include "src/server/wire/wire.h"

#define RETRY_NS       2000000000u /* how long a server may need to make a session ready */
#define RETRY_PAUSE_NS 5000000
#define GONE_NS        1000000000u /* a server that does not answer for this long has gone */
#define ASK_NS         2000000000u /* no answer for this long: the server is asked whether it has the session */
#define MAX_PIECES     30u         /* of a work request, as ConnectX takes them */

/* ---- over HTTP ---- */

static int session_call(struct gw_client *c, const char *method)
{
    struct gw_client_session *s = c->own;
    char path[64];
    json_t *reply = NULL;
    snprintf(path, sizeof(path), "v2/rdma/sessions/%s", s->id);
    int err = gw_http_call(c->http, method, path, NULL, &reply);
    json_decref(reply);
    return err;
}

static bool is_our_clock(const char *theirs)
{
    char ours[GW_CLOCK_TEXT];
    gw_clock_name(ours);
    return theirs && ours[0] && !strcmp(theirs, ours);
}

/* Milliseconds that the server names; what is none is never. */
static uint64_t limit_of(const json_t *reply, const char *name)
{
    json_int_t ms = json_integer_value(json_object_get(reply, name));
    return ms > 0 && ms < 1000000000000 ? (uint64_t)ms * 1000000 : 0;
}

static int take_grant(struct gw_client *c, const json_t *reply, uint32_t asked, struct gw_endpoint *peer)
{
    struct gw_client_session *s = c->own;
    const char *id = json_string_value(json_object_get(reply, "id"));
    const char *endpoint = json_string_value(json_object_get(reply, "endpoint"));
    const char *addr = json_string_value(json_object_get(reply, "request_addr"));
    json_int_t slots = json_integer_value(json_object_get(reply, "slots"));
    json_int_t stride = json_integer_value(json_object_get(reply, "request_stride"));
    json_int_t rkey = json_integer_value(json_object_get(reply, "request_rkey"));
    uint64_t need = sizeof(struct gw_serve_request) + gw_layout_bytes(&c->in_layout, c->rows);
    if (!id || strlen(id) >= sizeof(s->id) || strpbrk(id, "/?#% ") || !endpoint ||
        gw_endpoint_parse(endpoint, peer) || !addr || sscanf(addr, "0x%" SCNx64, &s->request_addr) != 1 ||
        slots < 1 || slots > asked || stride < (json_int_t)need || rkey < 0 || rkey > UINT32_MAX)
        return gw_error(-EPROTO, "the worker's answer to a new session is not one that gpuwire gives");
    strcpy(s->id, id);
    s->same_clock = is_our_clock(json_string_value(json_object_get(reply, "clock")));
    c->slots = (uint32_t)slots;
    s->request_stride = (uint64_t)stride;
    s->request_rkey = (uint32_t)rkey;
    s->unused_ns = limit_of(reply, "unused_ms");
    s->idle_ns = limit_of(reply, "idle_ms");
    s->used = gw_deadline(0);
    s->has_requested = 0;
    s->deaf = 0;
    return 0;
}

/* Sessions that clients have just left are not ready at once. */
static int ask_for_session(struct gw_client *c, const json_t *wish, json_t **reply)
{
    const struct timespec pause = {.tv_nsec = RETRY_PAUSE_NS};
    uint64_t end = gw_deadline(RETRY_NS);
    int err;
    while ((err = gw_http_call(c->http, "POST", "v2/rdma/sessions", wish, reply)) == -EAGAIN) {
        if (gw_deadline(0) >= end) return -EBUSY;
        if (c->http_opts.give_up && c->http_opts.give_up()) return gw_error(-EINTR, "interrupted");
        nanosleep(&pause, NULL);
    }
    return err;
}

static int open_session(struct gw_client *c, uint32_t slots)
{
    struct gw_client_session *s = c->own;
    struct gw_endpoint mine, peer;
    char endpoint[GW_ENDPOINT_TEXT], addr[24], via[GW_HTTP_PEER];
    json_t *reply;
    gw_qp_endpoint(s->qp, &mine);
    gw_endpoint_format(&mine, endpoint);
    snprintf(addr, sizeof(addr), "0x%" PRIx64, s->out_mr->addr);
    gw_http_peer(c->http, via); /* the model was asked for over this connection */
    json_t *wish =
        json_pack("{s:s, s:I, s:s, s:s, s:I, s:I, s:s*}", "model", c->name, "slots", (json_int_t)slots,
                  "endpoint", endpoint, "reply_addr", addr, "reply_stride", (json_int_t)s->out_stride,
                  "reply_rkey", (json_int_t)s->out_mr->rkey, "via", via[0] ? via : NULL);
    if (!wish) return gw_error_errno(-ENOMEM, "client");
    int err = ask_for_session(c, wish, &reply);
    json_decref(wish);
    if (err) return err;
    err = take_grant(c, reply, slots, &peer);
    json_decref(reply);
    struct gw_device_info nic;
    gw_device_query(s->dev, &nic);
    const struct gw_connect_opts with = {.timeout = nic.soft ? GW_SERVE_SOFT_TIMEOUT : 0};
    if (!err) err = gw_qp_connect(s->qp, &peer, &with);
    /* The worker writes nothing before our first request, so the receives may come after the connection. */
    if (!err && gw_recv_empty(gw_qp_handle(s->qp), c->slots, 0)) err = gw_error(-EIO, "cannot post receives");
    return err;
}

/* ---- queues and memory ---- */

/* Header and tensors are pieces; so is what lies between two tensors whose bytes are no multiple of
 * GW_SERVE_ALIGN. */
static uint32_t count_pieces(const struct gw_layout *l)
{
    uint32_t n = 1 + l->tensors;
    for (uint32_t i = 0; i + 1 < l->tensors; i++) n += l->tensor[i].bytes % GW_SERVE_ALIGN != 0;
    return n < MAX_PIECES ? n : MAX_PIECES;
}

static int make_layouts(struct gw_client *c, uint32_t *slots)
{
    struct gw_client_session *s = c->own;
    uint32_t most = c->model.max_rows ? c->model.max_rows : 1;
    int err = 0;
    for (uint32_t i = 0; !err && i < c->model.outputs; i++) {
        const struct gw_client_tensor *t = &c->model.output[i];
        if (!t->bytes) return gw_error(-EPROTO, "model %s: a worker fixes all shapes", c->name);
        err = gw_layout_add(&s->out_layout, t->bytes, t->batched, most);
    }
    if (err) return gw_error(-EPROTO, "model %s: its outputs take more than 2 GiB", c->name);
    c->in_stride = gw_client_align(sizeof(struct gw_serve_request) + gw_layout_bytes(&c->in_layout, c->rows));
    /* The worker wants room for the longest answer that it has. */
    s->out_stride = gw_client_align(sizeof(struct gw_serve_reply) + gw_layout_bytes(&s->out_layout, most));
    s->pieces = count_pieces(&c->in_layout);
    *slots = c->model.rdma_slots < GW_SERVE_MAX_SLOTS ? c->model.rdma_slots : GW_SERVE_MAX_SLOTS;
    if (!*slots)
        return gw_error(-ENOTSUP, "model %s: this server gives no RDMA sessions; use http://", c->name);
    err = gw_client_fit_slots(c, *slots, c->in_stride + s->out_stride);
    if (!err && c->slots < *slots) *slots = c->slots; /* no memory for more than there will be */
    return err;
}

static int rdma_session_make_queues(struct gw_client *c, uint32_t slots)
{
    struct gw_client_session *s = c->own;
    uint32_t blocks = (2 + s->pieces + 3) / 4; /* of 64 bytes, that a work request takes */
    struct gw_cq_attr send = {
        .cqe = GW_SERVE_MAX_SLOTS * 2 * blocks, .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP, .qps = 1};
    struct gw_cq_attr recv = send;
    int err = gw_cq_create(s->dev, &send, &s->send_cq);
    if (!err) err = gw_cq_create(s->dev, &recv, &s->recv_cq);
    struct gw_qp_attr qp = {.send_cq = s->send_cq,
                            .recv_cq = s->recv_cq,
                            .max_send_wr = 2 * slots * blocks,
                            .max_recv_wr = slots,
                            .max_send_sge = s->pieces,
                            .flags = GW_QP_ONE_POSTER};
    return err ? err : gw_qp_create(s->pd, &qp, &s->qp);
}

static int rdma_session_make_memory(struct gw_client *c, uint32_t slots)
{
    struct gw_client_session *s = c->own;
    int err = gw_mem_alloc(s->exec, GW_MEM_HOST, slots * c->in_stride, &s->in);
    if (!err) err = gw_mem_alloc(s->exec, GW_MEM_HOST, slots * s->out_stride, &s->out);
    if (!err) err = gw_mr_register(s->pd, s->in.host, s->in.size, GW_MR_LOCAL_WRITE, &s->in_mr);
    if (!err) err = gw_mr_register(s->pd, s->out.host, s->out.size, GW_MR_REMOTE_WRITE, &s->out_mr);
    c->in = s->in.host;
    return err;
}

int gw_session_begin(struct gw_client *c)
{
    struct gw_client_session *s = c->own = calloc(1, sizeof(*s));
    uint32_t slots = 0;
    if (!s) return gw_error_errno(-ENOMEM, "client");
    s->least_network = INT64_MAX;
    int err = make_layouts(c, &slots);
    if (!err) err = gw_exec_create("cpu", NULL, &s->exec);
    if (!err) err = gw_device_open(NULL, s->exec, &s->dev);
    if (!err) err = gw_pd_create(s->dev, &s->pd);
    if (!err) err = rdma_session_make_queues(c, slots);
    if (!err) err = rdma_session_make_memory(c, slots);
    return err ? err : open_session(c, slots);
}

void gw_session_end(struct gw_client *c)
{
    struct gw_client_session *s = c->own;
    if (!s) return;
    if (s->id[0]) session_call(c, "DELETE"); /* a worker that is gone needs no telling */
    gw_qp_destroy(s->qp);
    gw_mr_free(s->in_mr);
    gw_mr_free(s->out_mr);
    if (s->send_cq) gw_cq_destroy(s->send_cq);
    if (s->recv_cq) gw_cq_destroy(s->recv_cq);
    if (s->pd) gw_pd_destroy(s->pd);
    gw_mem_free(&s->in);
    gw_mem_free(&s->out);
    if (s->dev) gw_device_close(s->dev);
    gw_exec_destroy(s->exec);
    free(s);
    c->own = NULL;
}

/* ---- a session that was idle, or broke ---- */

/* A new session for the buffers that there are; nothing is in flight. */
static int rdma_session_open_again(struct gw_client *c)
{
    struct gw_client_session *s = c->own;
    session_call(c, "DELETE"); /* the server may have it still */
    s->id[0] = 0;
    int err = gw_qp_reset(s->qp, GW_RESET_QUIET, gw_deadline(RETRY_NS));
    uint32_t had = c->slots;
    if (!err) err = open_session(c, had);
    if (!err && c->slots != had)
        err = gw_error(-EPROTO, "the session has expired, and a new one has %u slots instead of %u", c->slots,
                       had);
    return err;
}

int gw_session_keep(struct gw_client *c)
{
    struct gw_client_session *s = c->own;
    uint64_t limit = s->has_requested ? s->idle_ns : s->unused_ns;
    if (!limit || c->in_flight || gw_deadline(0) - s->used < limit / 2) return 0;
    int err = session_call(c, "PUT");
    if (err == -ENOENT || err == -ESTALE || err == -EINVAL) return rdma_session_open_again(c);
    if (!err) s->used = gw_deadline(0);
    return err;
}

/* A connection of its own: the one that the session came over may be what is broken, and the session ends
 * with it. */
static int ask_server(const struct gw_client *c, const char *method, const char *path)
{
    struct gw_http_opts opts = c->http_opts;
    struct gw_http *http;
    json_t *reply = NULL;
    opts.timeout_ns = GONE_NS;
    int err = gw_http_open(&opts, &http);
    if (err) return err;
    err = gw_http_call(http, method, path, NULL, &reply);
    json_decref(reply);
    gw_http_close(http);
    return err;
}

/* The session's server, and what is at its address: */
enum there {
    IS_THERE, /* it, or that cannot be known */
    OTHER,    /* another server: it was started again, or a load balancer has several */
    NOBODY,
};

static enum there who_is_there(const struct gw_client *c)
{
    const struct gw_client_session *s = c->own;
    char path[64];
    snprintf(path, sizeof(path), "v2/rdma/sessions/%s", s->id);
    int err = ask_server(c, "PUT", path);
    if (err == -ESTALE) return OTHER;
    return err == -ECONNREFUSED || err == -EHOSTUNREACH || err == -ETIMEDOUT || err == -ECONNRESET ||
                   err == -EIO
               ? NOBODY
               : IS_THERE;
}

static int has_gone(const struct gw_client *c, enum there who)
{
    if (who == OTHER)
        return gw_error(
            -ECONNRESET,
            "the server that had the session has gone; another one answers at %s: open a new session",
            c->url.base);
    return gw_error(-ECONNRESET, "the server %s has gone", c->url.base);
}

int gw_session_hung_up(struct gw_client *c)
{
    enum there who = who_is_there(c);
    if (who != IS_THERE) return has_gone(c, who);
    return gw_error(-EIO, "the server %s has ended the session: it has closed the connection that opened it",
                    c->url.base);
}

/* Another server has answered: a load balancer leads each connection to one of several. The connection that
 * opened the session still leads to its server. */
static int ask_own(struct gw_client *c)
{
    gw_http_set_timeout(c->http, GONE_NS);
    int err = session_call(c, "PUT");
    gw_http_set_timeout(c->http, c->http_opts.timeout_ns);
    return err;
}

uint64_t gw_session_confirm_at(const struct gw_client *c)
{
    const struct gw_client_session *s = c->own;
    return c->in_flight ? s->heard + ASK_NS : UINT64_MAX;
}

/* Our queue pair does not tell when the server has closed the session between a request and its answer: its
 * NIC has acknowledged all that we sent. */
int gw_session_confirm(struct gw_client *c)
{
    struct gw_client_session *s = c->own;
    char path[64];
    snprintf(path, sizeof(path), "v2/rdma/sessions/%s", s->id);
    int err = ask_server(c, "PUT", path), other = err == -ESTALE;
    if (other) err = ask_own(c);
    s->heard = gw_deadline(0);
    /* A server, or a network, that has too much to do is no end. */
    if (err != -ENOENT && err != -ESTALE && err != -ECONNREFUSED && err != -EHOSTUNREACH &&
        !(other && err == -ECONNRESET))
        return 0;
    gw_qp_abort(s->qp); /* nothing comes any more, and nothing more can be sent */
    if (err != -ENOENT) return has_gone(c, other ? OTHER : NOBODY);
    return gw_error(
        -EIO,
        "the server %s has ended the session and will not answer: its NIC had no answer from this "
        "process in time, or it closed the session; its log says which",
        c->url.base);
}

int gw_session_broken(struct gw_client *c, int err)
{
    struct gw_client_session *s = c->own;
    struct gw_fault fault;
    char why[160];
    if (gw_qp_fault(s->qp, &fault) <= 0) return gw_error_errno(err, "connection to the worker");
    gw_fault_text(&fault, why, sizeof(why));
    enum there who = who_is_there(c);
    if (who == NOBODY || (who == OTHER && gw_http_hung_up(c->http) > 0)) return has_gone(c, who);
    return gw_error(-EIO, "the server %s has ended the session, or the network has cut it off: %s",
                    c->url.base, why);
}
