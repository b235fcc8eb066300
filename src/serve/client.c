/* SPDX-License-Identifier: Apache-2.0 */
#include <gpuwire/client.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "src/serve/clock.h"
#include "src/serve/http_client.h"
#include "src/serve/wire.h"

#define DEFAULT_TIMEOUT_NS 10000000000u
#define SEND_ROOM_NS       1000000000u
#define SLOT_ALIGN         256u
#define MAX_BYTES          ((uint64_t)4 << 30) /* of all slots: a server may name any sizes */
#define RETRY_NS           2000000000u         /* so long a server may need to make a session ready */
#define RETRY_PAUSE_NS     5000000

struct slot {
    uint64_t sent; /* when it was submitted; 0: not in flight */
    uint64_t id;
};

struct gw_client {
    struct gw_http *http;
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *send_cq, *recv_cq; /* apart: who waits for room to send must not take answers */
    struct gw_qp *qp;
    struct gw_mem in, out; /* requests to send, answers as they come */
    struct gw_mr *in_mr, *out_mr;
    char *model, session[40];
    struct gw_client_tensor input, output;
    uint32_t slots;
    uint64_t in_stride, out_stride;
    uint64_t request_addr, request_stride;
    uint32_t request_rkey;
    struct slot *slot;
    uint64_t submitted;
    uint32_t in_flight;
    /* The server ends a session that has no request for unused_ns, or no other request for idle_ns. 0:
     * never. */
    uint64_t unused_ns, idle_ns;
    uint64_t used;     /* when it was opened, submitted to, answered or renewed */
    int has_requested; /* since it was opened */
    int (*give_up)(void);
    /* The worker's clock minus ours: 0 when it is the same, else from the answer that spent the least time on
     * the network so far. */
    int same_clock;
    int64_t clock_offset;
    int64_t least_network;
};

static uint64_t align_up(uint64_t v)
{
    return (v + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

/* ---- set-up ---- */

static int session_call(struct gw_client *c, const char *method)
{
    char path[64];
    json_t *reply = NULL;
    snprintf(path, sizeof(path), "v2/rdma/sessions/%s", c->session);
    int error = gw_http_call(c->http, method, path, NULL, &reply);
    json_decref(reply);
    return error;
}

static int parse_tensor(const json_t *t, struct gw_client_tensor *out)
{
    const char *name = json_string_value(json_object_get(t, "name"));
    const char *type = json_string_value(json_object_get(t, "datatype"));
    const json_t *shape = json_object_get(t, "shape");
    if (!name || !type || strcmp(type, "FP32") || json_array_size(shape) > 8) return -EPROTO;
    gw_plain_text(out->name, sizeof(out->name), name);
    out->ndim = (uint32_t)json_array_size(shape);
    out->bytes = sizeof(float);
    for (uint32_t i = 0; i < out->ndim; i++) {
        json_int_t dim = json_integer_value(json_array_get(shape, i));
        if (dim <= 0 || __builtin_mul_overflow(out->bytes, (size_t)dim, &out->bytes) ||
            out->bytes > UINT32_MAX / 2)
            return -EPROTO;
        out->dim[i] = dim;
    }
    return 0;
}

static int ask_model(struct gw_client *c, uint32_t *slots)
{
    char path[300];
    json_t *reply;
    if (strlen(c->model) > 200 || strpbrk(c->model, "/?#% "))
        return gw_error(-EINVAL, "model %s: not a model's name", c->model);
    snprintf(path, sizeof(path), "v2/models/%s", c->model);
    int error = gw_http_call(c->http, "GET", path, NULL, &reply);
    if (error == -ENOENT) return gw_error(error, "the worker serves no model %s", c->model);
    if (error) return error;
    const json_t *in = json_object_get(reply, "inputs"), *out = json_object_get(reply, "outputs");
    json_int_t most = json_integer_value(json_object_get(json_object_get(reply, "rdma"), "slots"));
    if (most > 0 && (uint64_t)most < *slots)
        *slots = (uint32_t)most; /* no memory for more than there will be */
    if (json_array_size(in) != 1 || json_array_size(out) != 1 ||
        parse_tensor(json_array_get(in, 0), &c->input) || parse_tensor(json_array_get(out, 0), &c->output))
        error =
            gw_error(-EPROTO, "model %s: its description is not one that a gpuwire worker gives", c->model);
    json_decref(reply);
    return error;
}

static int make_queues(struct gw_client *c, uint32_t slots)
{
    c->in_stride = align_up(sizeof(struct gw_serve_request) + c->input.bytes);
    c->out_stride = align_up(sizeof(struct gw_serve_reply) + c->output.bytes);
    if (slots * (c->in_stride + c->out_stride) > MAX_BYTES)
        return gw_error(-EFBIG,
                        "model %s: %u slots take %llu MiB, at most %llu may be taken; ask for fewer slots",
                        c->model, slots, (unsigned long long)(slots * (c->in_stride + c->out_stride)) >> 20,
                        (unsigned long long)MAX_BYTES >> 20);
    int error = gw_exec_create("cpu", NULL, &c->exec);
    if (!error) error = gw_device_open(NULL, c->exec, &c->dev);
    if (!error) error = gw_pd_create(c->dev, &c->pd);
    struct gw_cq_attr cq = {.cqe = GW_SERVE_MAX_SLOTS * 2, .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP, .qps = 1};
    if (!error) error = gw_cq_create(c->dev, &cq, &c->send_cq);
    if (!error) error = gw_cq_create(c->dev, &cq, &c->recv_cq);
    struct gw_qp_attr qp = {.send_cq = c->send_cq,
                            .recv_cq = c->recv_cq,
                            .max_send_wr = 2 * slots,
                            .max_recv_wr = slots,
                            .flags = GW_QP_ONE_POSTER};
    if (!error) error = gw_qp_create(c->pd, &qp, &c->qp);
    if (!error) error = gw_mem_alloc(c->exec, GW_MEM_HOST, slots * c->in_stride, &c->in);
    if (!error) error = gw_mem_alloc(c->exec, GW_MEM_HOST, slots * c->out_stride, &c->out);
    if (!error) error = gw_mr_register(c->pd, c->in.host, c->in.size, GW_MR_LOCAL_WRITE, &c->in_mr);
    if (!error) error = gw_mr_register(c->pd, c->out.host, c->out.size, GW_MR_REMOTE_WRITE, &c->out_mr);
    return error;
}

static int is_our_clock(const char *theirs)
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
    const char *id = json_string_value(json_object_get(reply, "id"));
    const char *endpoint = json_string_value(json_object_get(reply, "endpoint"));
    const char *addr = json_string_value(json_object_get(reply, "request_addr"));
    json_int_t slots = json_integer_value(json_object_get(reply, "slots"));
    json_int_t stride = json_integer_value(json_object_get(reply, "request_stride"));
    json_int_t rkey = json_integer_value(json_object_get(reply, "request_rkey"));
    if (!id || strlen(id) >= sizeof(c->session) || strpbrk(id, "/?#% ") || !endpoint ||
        gw_endpoint_parse(endpoint, peer) || !addr || sscanf(addr, "0x%" SCNx64, &c->request_addr) != 1 ||
        slots < 1 || slots > asked ||
        stride < (json_int_t)(sizeof(struct gw_serve_request) + c->input.bytes) || rkey < 0 ||
        rkey > UINT32_MAX)
        return gw_error(-EPROTO, "the worker's answer to a new session is not one that gpuwire gives");
    strcpy(c->session, id);
    c->same_clock = is_our_clock(json_string_value(json_object_get(reply, "clock")));
    c->slots = (uint32_t)slots;
    c->request_stride = (uint64_t)stride;
    c->request_rkey = (uint32_t)rkey;
    c->unused_ns = limit_of(reply, "unused_ms");
    c->idle_ns = limit_of(reply, "idle_ms");
    c->used = gw_deadline(0);
    c->has_requested = 0;
    return 0;
}

/* Sessions that clients have just left are not ready at once. */
static int ask_for_session(struct gw_client *c, const json_t *wish, json_t **reply)
{
    const struct timespec pause = {.tv_nsec = RETRY_PAUSE_NS};
    uint64_t end = gw_deadline(RETRY_NS);
    int error;
    while ((error = gw_http_call(c->http, "POST", "v2/rdma/sessions", wish, reply)) == -EAGAIN) {
        if (gw_deadline(0) >= end) return -EBUSY;
        if (c->give_up && c->give_up()) return gw_error(-EINTR, "interrupted");
        nanosleep(&pause, NULL);
    }
    return error;
}

static int open_session(struct gw_client *c, uint32_t slots)
{
    struct gw_endpoint mine, peer;
    char endpoint[GW_ENDPOINT_TEXT], addr[24];
    json_t *reply;
    gw_qp_endpoint(c->qp, &mine);
    gw_endpoint_format(&mine, endpoint);
    snprintf(addr, sizeof(addr), "0x%" PRIx64, c->out_mr->addr);
    json_t *wish = json_pack("{s:s, s:I, s:s, s:s, s:I, s:I}", "model", c->model, "slots", (json_int_t)slots,
                             "endpoint", endpoint, "reply_addr", addr, "reply_stride",
                             (json_int_t)c->out_stride, "reply_rkey", (json_int_t)c->out_mr->rkey);
    if (!wish) return -ENOMEM;
    int error = ask_for_session(c, wish, &reply);
    json_decref(wish);
    if (error) return error;
    error = take_grant(c, reply, slots, &peer);
    json_decref(reply);
    if (!error) error = gw_qp_connect(c->qp, &peer, NULL);
    /* The worker writes nothing before our first request, so the receives may come after the connection. */
    if (!error && gw_recv_empty(gw_qp_handle(c->qp), c->slots, 0))
        error = gw_error(-EIO, "cannot post receives");
    return error;
}

int gw_client_open(const struct gw_client_opts *opts, struct gw_client **out)
{
    uint32_t slots = opts->slots ? opts->slots : GW_SERVE_MAX_SLOTS;
    if (!opts->server || !opts->model || slots > GW_SERVE_MAX_SLOTS)
        return gw_error(-EINVAL, "client: give a server, a model and at most %u slots", GW_SERVE_MAX_SLOTS);
    struct gw_client *c = calloc(1, sizeof(*c));
    if (!c) return -ENOMEM;
    c->least_network = INT64_MAX;
    c->give_up = opts->give_up;
    c->model = strdup(opts->model);
    c->slot = calloc(GW_SERVE_MAX_SLOTS, sizeof(*c->slot));
    int error = c->model && c->slot ? 0 : -ENOMEM;
    if (!error)
        error = gw_http_open(opts->server, opts->timeout_ns ? opts->timeout_ns : DEFAULT_TIMEOUT_NS,
                             opts->give_up, &c->http);
    if (!error) error = ask_model(c, &slots);
    if (!error) error = make_queues(c, slots);
    if (!error) error = open_session(c, slots);
    if (error)
        gw_client_close(c);
    else
        *out = c;
    return error;
}

void gw_client_close(struct gw_client *c)
{
    if (!c) return;
    if (c->session[0]) session_call(c, "DELETE"); /* a worker that is gone needs no telling */
    gw_http_close(c->http);
    gw_qp_destroy(c->qp);
    gw_mr_free(c->in_mr);
    gw_mr_free(c->out_mr);
    if (c->send_cq) gw_cq_destroy(c->send_cq);
    if (c->recv_cq) gw_cq_destroy(c->recv_cq);
    if (c->pd) gw_pd_destroy(c->pd);
    gw_mem_free(&c->in);
    gw_mem_free(&c->out);
    if (c->dev) gw_device_close(c->dev);
    gw_exec_destroy(c->exec);
    free(c->slot);
    free(c->model);
    free(c);
}

const struct gw_client_tensor *gw_client_input(const struct gw_client *c)
{
    return &c->input;
}
const struct gw_client_tensor *gw_client_output(const struct gw_client *c)
{
    return &c->output;
}
uint32_t gw_client_slots(const struct gw_client *c)
{
    return c->slots;
}

static struct gw_serve_request *request_of(const struct gw_client *c, uint32_t slot)
{
    return (struct gw_serve_request *)((uint8_t *)c->in.host + slot * c->in_stride);
}

static const struct gw_serve_reply *reply_of(const struct gw_client *c, uint32_t slot)
{
    return (const struct gw_serve_reply *)((const uint8_t *)c->out.host + slot * c->out_stride);
}

float *gw_client_slot_input(struct gw_client *c, uint32_t slot)
{
    return slot < c->slots ? (float *)(request_of(c, slot) + 1) : NULL;
}

/* ---- a session that was idle ---- */

/* A new session for the buffers that there are; nothing is in flight. */
static int open_again(struct gw_client *c)
{
    session_call(c, "DELETE"); /* the server may have it still */
    c->session[0] = 0;
    int error = gw_qp_reset(c->qp, GW_RESET_QUIET, gw_deadline(RETRY_NS));
    uint32_t had = c->slots;
    if (!error) error = open_session(c, had);
    if (!error && c->slots != had)
        error = gw_error(-EPROTO, "the session has expired, and a new one has %u slots instead of %u",
                         c->slots, had);
    return error;
}

/* The server ends sessions that nobody uses. When half of that time has passed the client asks it to
 * keep this one. It opens another session when this one has ended, or had no request yet. */
static int keep_session(struct gw_client *c)
{
    uint64_t limit = c->has_requested ? c->idle_ns : c->unused_ns;
    if (!limit || c->in_flight || gw_deadline(0) - c->used < limit / 2) return 0;
    int error = session_call(c, "PUT");
    if (error == -ENOENT || error == -EINVAL) return open_again(c);
    if (!error) c->used = gw_deadline(0);
    return error;
}

/* ---- requests ---- */

static int broken(const struct gw_client *c, int error)
{
    struct gw_fault fault;
    char why[160];
    if (gw_qp_fault(c->qp, &fault) <= 0) return gw_error_errno(error, "connection to the worker");
    gw_fault_text(&fault, why, sizeof(why));
    return gw_error(-EIO, "connection to the worker: %s", why);
}

/* The send queue holds twice as many requests as there are slots, and an answer is nearly always preceded by
 * its request's acknowledgement: so there is nearly always room, and else there is when acknowledgements have
 * come. */
static int post(struct gw_client *c, uint32_t slot)
{
    uint32_t flags = ++c->submitted % c->slots == 0 ? GW_SIGNALED : 0;
    uint64_t end = gw_deadline(SEND_ROOM_NS);
    struct ibv_wc wc;
    for (;;) {
        while (gw_poll_cq(gw_cq_handle(c->send_cq), 1, &wc) > 0)
            if (wc.status != IBV_WC_SUCCESS) return broken(c, -EIO);
        int error =
            gw_post_op(gw_qp_handle(c->qp),
                       gw_put_imm_op(c->in_mr->addr + slot * c->in_stride, c->in_mr->lkey,
                                     c->request_addr + slot * c->request_stride, c->request_rkey,
                                     (uint32_t)(sizeof(struct gw_serve_request) + c->input.bytes), slot),
                       flags, slot);
        if (error != -EAGAIN) return error ? broken(c, error) : 0;
        error = gw_cq_wait(c->send_cq, end, NULL, -1);
        if (error < 0) return broken(c, error);
        if (!error && gw_deadline(0) >= end)
            return gw_error(-ETIMEDOUT, "the worker's NIC has acknowledged none of the last %u requests",
                            2 * c->slots);
    }
}

int gw_client_submit(struct gw_client *c, uint32_t slot, uint64_t id)
{
    if (slot >= c->slots) return gw_error(-EINVAL, "slot %u: the session has %u", slot, c->slots);
    if (c->slot[slot].sent) return gw_error(-EBUSY, "slot %u: its last request has not been answered", slot);
    int error = keep_session(c);
    if (error) return error;
    struct gw_serve_request *q = request_of(c, slot);
    q->magic = GW_SERVE_MAGIC;
    q->version = GW_SERVE_VERSION;
    q->slot = (uint16_t)slot;
    q->id = id;
    q->bytes = c->input.bytes;
    q->rows = 1;

    c->slot[slot].id = id;
    c->slot[slot].sent = c->used = gw_deadline(0);
    error = post(c, slot);
    c->slot[slot].sent = error ? 0 : c->slot[slot].sent;
    c->in_flight += !error;
    c->has_requested = 1;
    return error;
}

/* From a to b. A server may write any numbers; sums of a few of these do not overflow. */
static int64_t between(uint64_t a, uint64_t b)
{
    const int64_t most = INT64_MAX / 16;
    int64_t d = (int64_t)(b - a);
    return d > most ? most : d < -most ? -most : d;
}

/* Splits the time between submit and answer. Every difference of two stamps of one clock is exact; what lies
 * between the two clocks is the network, and its two directions are told apart by the clocks' offset. */
static void split(struct gw_client *c, const struct gw_serve_reply *r, uint64_t sent, uint64_t seen,
                  struct gw_client_times *t)
{
    int64_t inside = between(r->arrived, r->posted), network = between(sent, seen) - inside;
    int64_t first = between(sent, r->arrived), last = between(r->posted, seen);
    if (!c->same_clock && network < c->least_network) {
        c->least_network = network;
        c->clock_offset = (first - last) / 2;
    }
    /* What posting took is known of the answer before; it can have been no more than what is left here. */
    int64_t out = last + c->clock_offset, post = between(0, r->last_post_ns);
    if (post > out) post = out > 0 ? out : 0;
    t->total = (int64_t)(seen - sent);
    t->net_in = first - c->clock_offset;
    t->wait = between(r->arrived, r->started);
    t->model = between(r->started, r->done);
    t->post = between(r->done, r->posted) + post;
    t->net_out = out - post;
}

static int error_of(uint32_t status)
{
    switch (status) {
    case GW_SERVE_OK: return 0;
    case GW_SERVE_BAD_REQUEST: return -EINVAL;
    case GW_SERVE_LATE: return -ETIME;
    case GW_SERVE_CLOSING: return -ESHUTDOWN;
    default: return -EREMOTEIO;
    }
}

static int take_answer(struct gw_client *c, const struct ibv_wc *wc, struct gw_client_reply *reply)
{
    uint64_t seen = gw_deadline(0);
    uint32_t slot = gw_wc_imm(wc);
    if (!(wc->wc_flags & IBV_WC_WITH_IMM) || slot >= c->slots || !c->slot[slot].sent)
        return gw_error(-EPROTO, "the worker answered in slot %u, where nothing was asked", slot);
    const struct gw_serve_reply *r = reply_of(c, slot);
    if (gw_recv_empty(gw_qp_handle(c->qp), 1, 0)) return broken(c, -EIO);
    if (r->magic != GW_SERVE_MAGIC || r->version != GW_SERVE_VERSION || r->id != c->slot[slot].id)
        return gw_error(-EPROTO, "the worker's answer in slot %u is not one that gpuwire gives", slot);
    memset(reply, 0, sizeof(*reply));
    reply->slot = slot;
    reply->id = r->id;
    reply->error = error_of(r->status);
    if (!reply->error && (r->bytes != c->output.bytes || wc->byte_len != sizeof(*r) + c->output.bytes))
        return gw_error(-EPROTO, "the worker's answer in slot %u has the wrong length", slot);
    reply->output = reply->error ? NULL : (const float *)(r + 1);
    split(c, r, c->slot[slot].sent, seen, &reply->times);
    c->slot[slot].sent = 0;
    c->in_flight--;
    c->used = seen;
    return 0;
}

int gw_client_wait(struct gw_client *c, uint64_t deadline_ns, struct gw_client_reply *reply)
{
    struct ibv_wc wc;
    for (;;) {
        int n = gw_wait_cq(gw_cq_handle(c->recv_cq), 1, &wc, deadline_ns, NULL, -1);
        if (n < 0) return broken(c, n);
        if (n == 0 && gw_deadline(0) >= deadline_ns)
            return gw_error(-ETIMEDOUT, "the worker has not answered in time");
        if (n == 0) continue;
        if (wc.status != IBV_WC_SUCCESS) return broken(c, -EIO);
        return take_answer(c, &wc, reply);
    }
}

int gw_client_worker_cpu(struct gw_client *c, struct gw_client_cpu *out)
{
    char path[300];
    json_t *reply;
    snprintf(path, sizeof(path), "v2/models/%s/stats", c->model);
    int error = gw_http_call(c->http, "GET", path, NULL, &reply);
    if (error) return error;
    out->own_ns = (uint64_t)json_integer_value(json_object_get(reply, "cpu_own_ns"));
    out->nic_ns = (uint64_t)json_integer_value(json_object_get(reply, "cpu_nic_ns"));
    json_decref(reply);
    return 0;
}
