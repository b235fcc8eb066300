/* SPDX-License-Identifier: Apache-2.0 */
/* Requests over gRPC: one call for each slot, all on one connection. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>

#include "src/client/grpc_answer.h"
#include "src/client/impl.h"
#include "src/grpc/call.h"
#include "src/server/grpc/wire/pack.h"
#include "src/server/grpc/wire/split.h"

#define SLOTS      16
#define LOOK_NS    100000000u  /* how often give_up is asked */
#define QUESTION   (1u << 20)  /* bytes of a description, at most */
#define HEAD       (64u << 10) /* of an answer, beside its tensors */
#define ANY_ANSWER (1u << 30)  /* of one whose size is not known before */
#define METHOD(m)  "/inference.GRPCInferenceService/" m

struct call {
    struct gw_rpc rpc;
    struct gw_grpc_outputs outputs;
};

struct door {
    struct gw_link link;
    struct call call[];
};

/* ---- questions ---- */

/* What gw_client_open says of a server that was not reached. */
static int client_grpc_not_reached(const struct gw_link *l, const struct gw_rpc *r)
{
    char plain[240];
    const char *base = l->opts.base;
    gw_rpc_said(r, plain, sizeof(plain));
    switch (l->error) {
    case -EACCES: return gw_error(-EACCES, "server %s: its certificate is not trusted: %s", base, plain);
    case -EHOSTUNREACH: return gw_error(-EHOSTUNREACH, "server %s: %s; check the name", base, plain);
    case -ETIMEDOUT:
        return gw_error(-ETIMEDOUT, "server %s: %s; is it stopped, or out of reach?", base, plain);
    default:
        return gw_error(-ECONNREFUSED, "server %s: %s; is `gpuwire serve` running there, with its gRPC port?",
                        base, plain);
    }
}

static int question_error(const struct gw_link *l, const struct gw_rpc *r)
{
    char why[320];
    const char *base = l->opts.base;
    int err = gw_rpc_error(l, r, why, sizeof(why));
    if (!err) return 0;
    if (err == -ECONNRESET) return client_grpc_not_reached(l, r);
    if (r->status == GW_GRPC_DEADLINE_EXCEEDED)
        return gw_error(-ETIMEDOUT, "server %s: no answer in time", base);
    if (r->status == GW_GRPC_NOT_FOUND) err = -ENOENT;
    if (r->status == GW_GRPC_UNIMPLEMENTED) err = -ENOTSUP;
    if (r->status == GW_GRPC_UNAVAILABLE) err = -EBUSY;
    return gw_error(err, "server %s %s", base, why);
}

static json_t *read_it(json_t *(*read)(const uint8_t *message, size_t bytes), const struct gw_rpc *r)
{
    return r->in ? read(gw_grpc_message_body(r->in), gw_grpc_message_length(r->in)) : NULL;
}

static int put_question(struct gw_client *c, struct gw_link *l, const char *method,
                        struct gw_grpc_message *message,
                        json_t *(*read)(const uint8_t *message, size_t bytes), json_t **answer)
{
    struct gw_rpc r;
    int err = gw_rpc_start(l, &r, method, message, gw_deadline(c->http_opts.timeout_ns));
    if (err) return err;
    while (!r.seen && !(c->http_opts.give_up && c->http_opts.give_up()))
        gw_link_pump(l, gw_deadline(LOOK_NS));
    err = r.seen ? question_error(l, &r) : gw_error(-EINTR, "interrupted");
    if (!err && !(*answer = read_it(read, &r)))
        err =
            gw_error(-EPROTO, "server %s: its answer to %s is not one of the protocol", c->url.base, method);
    gw_rpc_end(l, &r);
    return err;
}

static int ask_over(struct gw_client *c, struct gw_link *l, enum gw_client_question what, json_t **answer)
{
    Inference__ModelMetadataRequest model = INFERENCE__MODEL_METADATA_REQUEST__INIT;
    Inference__ModelConfigRequest config = INFERENCE__MODEL_CONFIG_REQUEST__INIT;
    Inference__ModelStatisticsRequest stats = INFERENCE__MODEL_STATISTICS_REQUEST__INIT;
    char *version = c->version ? c->version : (char *)"";
    model.name = config.name = stats.name = c->name;
    model.version = config.version = version;
    switch (what) {
    case GW_CLIENT_ASK_MODEL:
        return put_question(c, l, METHOD("ModelMetadata"), gw_grpc_pack(&model.base), gw_grpc_read_metadata,
                            answer);
    case GW_CLIENT_ASK_CONFIG:
        return put_question(c, l, METHOD("ModelConfig"), gw_grpc_pack(&config.base), gw_grpc_read_config,
                            answer);
    default:
        return put_question(c, l, METHOD("ModelStatistics"), gw_grpc_pack(&stats.base),
                            gw_grpc_read_statistics, answer);
    }
}

static int client_grpc_open_link(const struct gw_client *c, uint64_t most, struct gw_link *l)
{
    const struct gw_link_opts opts = {.authority = c->url.authority,
                                      .base = c->url.base,
                                      .ca_file = c->ca_file,
                                      .token = c->token,
                                      .encrypted = c->url.encrypted,
                                      .timeout_ns = c->http_opts.timeout_ns,
                                      .most = most};
    return gw_link_open(&opts, l);
}

/* Before the door is open, a connection of its own: how long its answers may be is known only then. */
static int client_grpc_ask(struct gw_client *c, enum gw_client_question what, json_t **answer)
{
    struct door *d = c->own;
    struct gw_link link;
    if (d) return ask_over(c, &d->link, what, answer);
    int err = client_grpc_open_link(c, QUESTION, &link);
    if (err) return err;
    err = ask_over(c, &link, what, answer);
    gw_link_close(&link);
    return err;
}

/* ---- opening ---- */

static uint64_t client_grpc_answer_limit(const struct gw_client *c)
{
    uint64_t limit = HEAD;
    for (uint32_t i = 0; i < c->model.outputs; i++) {
        const struct gw_client_tensor *t = &c->model.output[i];
        if (!t->bytes) return ANY_ANSWER;
        limit += 2 * t->bytes * (t->batched ? c->rows : 1); /* numbers that are no raw bytes may take more */
    }
    return limit > QUESTION ? limit : QUESTION;
}

static int client_grpc_open_door(struct gw_client *c)
{
    c->in_stride = gw_client_align(sizeof(struct gw_serve_request) + gw_layout_bytes(&c->in_layout, c->rows));
    int err = gw_client_fit_slots(c, SLOTS, c->in_stride);
    if (err) return err;
    struct door *d = c->own = calloc(1, sizeof(*d) + c->slots * sizeof(d->call[0]));
    c->in = aligned_alloc(GW_CLIENT_ALIGN, c->slots * c->in_stride);
    if (!d || !c->in) return gw_error_errno(-ENOMEM, "client");
    return client_grpc_open_link(c, client_grpc_answer_limit(c), &d->link);
}

static void client_grpc_close_door(struct gw_client *c)
{
    struct door *d = c->own;
    for (uint32_t i = 0; d && i < c->slots; i++) {
        gw_rpc_end(&d->link, &d->call[i].rpc);
        gw_grpc_outputs_free(&d->call[i].outputs);
    }
    if (d) gw_link_close(&d->link);
    free(d);
    free(c->in);
    c->own = NULL;
}

/* ---- requests ---- */

typedef Inference__ModelInferRequest__InferInputTensor input_t;

/* All of a request but its tensors' elements. */
struct head {
    Inference__ModelInferRequest message;
    input_t input[GW_CLIENT_MAX_IO], *inputs[GW_CLIENT_MAX_IO];
    int64_t dims[GW_CLIENT_MAX_IO][GW_CLIENT_MAX_RANK];
    Inference__InferParameter value[2];
    Inference__ModelInferRequest__ParametersEntry entry[2], *entries[2];
};

static void add_parameter(struct head *h, const char *key, uint64_t value)
{
    size_t i = h->message.n_parameters++;
    inference__infer_parameter__init(&h->value[i]);
    inference__model_infer_request__parameters_entry__init(&h->entry[i]);
    h->value[i].parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
    h->value[i].int64_param = (int64_t)value;
    h->entry[i].key = (char *)key;
    h->entry[i].value = &h->value[i];
    h->entries[i] = &h->entry[i];
    h->message.parameters = h->entries;
}

static void client_grpc_fill_head(struct head *h, const struct gw_client *c,
                                  const struct gw_client_request *r)
{
    inference__model_infer_request__init(&h->message);
    h->message.model_name = c->name;
    if (c->version) h->message.model_version = c->version;
    h->message.inputs = h->inputs;
    h->message.n_inputs = c->model.inputs;
    for (uint32_t i = 0; i < c->model.inputs; i++) {
        const struct gw_client_tensor *t = &c->model.input[i];
        inference__model_infer_request__infer_input_tensor__init(&h->input[i]);
        memcpy(h->dims[i], t->dims, sizeof(h->dims[i]));
        if (t->batched) h->dims[i][0] = r->rows;
        h->input[i].name = (char *)t->name;
        h->input[i].datatype = (char *)gw_dtype_name(t->dtype);
        h->input[i].shape = h->dims[i];
        h->input[i].n_shape = t->rank;
        h->inputs[i] = &h->input[i];
    }
    if (r->priority) add_parameter(h, "priority", r->priority);
    /* Microseconds; a budget below one is still a deadline. */
    if (r->budget_ns) add_parameter(h, "timeout", (r->budget_ns + 999) / 1000);
}

/* NULL: no memory. */
static struct gw_grpc_message *client_grpc_request_of(const struct gw_client *c,
                                                      const struct gw_client_request *r,
                                                      const struct gw_client_from *from)
{
    struct head h = {0};
    struct gw_grpc_piece piece[GW_CLIENT_MAX_IO];
    client_grpc_fill_head(&h, c, r);
    for (uint32_t i = 0; i < c->model.inputs; i++)
        piece[i] = (struct gw_grpc_piece){from->at[i], gw_layout_tensor_bytes(&c->in_layout, i, r->rows)};
    return gw_grpc_pack_with(&h.message.base, GW_GRPC_RAW_INPUTS, piece, c->model.inputs, 0);
}

static int client_grpc_submit(struct gw_client *c, uint32_t slot, const struct gw_client_request *r,
                              const struct gw_client_from *from)
{
    struct door *d = c->own;
    struct gw_rpc *rpc = &d->call[slot].rpc;
    gw_rpc_end(&d->link, rpc); /* the one before it */
    int err = gw_rpc_start(&d->link, rpc, METHOD("ModelInfer"), client_grpc_request_of(c, r, from), GW_NEVER);
    if (!err) gw_link_pump(&d->link, 0);
    return err;
}

/* ---- answers ---- */

static void client_grpc_take_answer(struct gw_client *c, uint32_t slot, struct gw_client_reply *reply)
{
    struct door *d = c->own;
    struct call *call = &d->call[slot];
    const struct gw_client_slot *s = &c->slot[slot];
    struct gw_grpc_message *in = call->rpc.in;
    memset(reply, 0, sizeof(*reply));
    reply->slot = slot;
    reply->id = s->id;
    reply->rows = s->rows;
    reply->times.total = (int64_t)(call->rpc.seen - s->sent);
    reply->why = call->outputs.why;
    reply->error = gw_rpc_error(&d->link, &call->rpc, call->outputs.why, sizeof(call->outputs.why));
    if (!reply->error && !in) {
        reply->error = -EPROTO;
        snprintf(call->outputs.why, sizeof(call->outputs.why), "the answer has no message");
    } else if (!reply->error) {
        gw_grpc_read_answer(c, &call->outputs, gw_grpc_message_body(in), gw_grpc_message_length(in), s->rows,
                            reply);
    }
    gw_rpc_end(&d->link, &call->rpc);
}

static int client_grpc_first_seen(const struct gw_client *c)
{
    const struct door *d = c->own;
    int first = -1;
    for (uint32_t i = 0; i < c->slots; i++) {
        const struct gw_rpc *r = &d->call[i].rpc;
        if (c->slot[i].sent && r->seen && (first < 0 || r->seen < d->call[first].rpc.seen)) first = (int)i;
    }
    return first;
}

static int client_grpc_wait_answer(struct gw_client *c, uint64_t deadline_ns, struct gw_client_reply *reply)
{
    struct door *d = c->own;
    int slot;
    /* Also when the time is over it looks once: no other thread receives. */
    for (int looked = 0; (slot = client_grpc_first_seen(c)) < 0; looked = 1) {
        if (looked && gw_deadline(0) >= deadline_ns)
            return gw_error(-ETIMEDOUT, "the server has not answered in time");
        gw_link_pump(&d->link, deadline_ns);
    }
    client_grpc_take_answer(c, (uint32_t)slot, reply);
    return 0;
}

const struct gw_client_door gw_client_grpc = {
    .name = "grpc",
    .ask = client_grpc_ask,
    .open = client_grpc_open_door,
    .close = client_grpc_close_door,
    .submit = client_grpc_submit,
    .wait = client_grpc_wait_answer,
};
