/* SPDX-License-Identifier: Apache-2.0 */
/* The client's API: checks what the caller gives, and passes it to the door. */
#include <gpuwire/client.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>

#include "src/client/impl.h"

#define DEFAULT_TIMEOUT_NS 10000000000u
#define DEFAULT_ROWS       64
#define CHOSEN_BYTES       ((uint64_t)1 << 30) /* of all slots, where the caller does not say how many */

/* ---- opening ---- */

static bool is_name(const char *name)
{
    return *name && strlen(name) <= 200 && !strpbrk(name, "/?#% \"\\");
}

static int client_keep(char **to, const char *text)
{
    if (!text) return 0;
    *to = strdup(text);
    return *to ? 0 : -ENOMEM;
}

static int keep_options(struct gw_client *c, const struct gw_client_opts *o)
{
    int err = client_keep(&c->name, o->model);
    if (!err) err = client_keep(&c->version, o->version);
    if (!err) err = client_keep(&c->token, o->token);
    if (!err) err = client_keep(&c->ca_file, o->ca_file);
    if (!err && asprintf(&c->path, "v2/models/%s%s%s", o->model, o->version ? "/versions/" : "",
                         o->version ? o->version : "") < 0) {
        c->path = NULL;
        err = -ENOMEM;
    }
    c->slots = o->slots;
    c->rows = o->rows;
    c->http_opts = (struct gw_http_opts){.base = c->url.base,
                                         .token = c->token,
                                         .ca_file = c->ca_file,
                                         .timeout_ns = o->timeout_ns ? o->timeout_ns : DEFAULT_TIMEOUT_NS,
                                         .give_up = o->give_up};
    return err ? gw_error_errno(err, "client") : 0;
}

static const struct gw_client_door *door_of(enum gw_url_door door)
{
    switch (door) {
    case GW_URL_HTTP: return &gw_client_http;
    case GW_URL_GRPC: return &gw_client_grpc;
    case GW_URL_FLEET: return &gw_client_fleet;
    default: return &gw_client_rdma;
    }
}

int gw_client_ask_http(struct gw_client *c, enum gw_client_question what, json_t **answer)
{
    char path[512];
    int err = c->http ? 0 : gw_http_open(&c->http_opts, &c->http);
    if (err) return err;
    if (what == GW_CLIENT_ASK_STATS)
        snprintf(path, sizeof(path), "v2/models/%s/stats", c->name);
    else
        snprintf(path, sizeof(path), "%s%s", c->path, what == GW_CLIENT_ASK_CONFIG ? "/config" : "");
    return gw_http_call(c->http, "GET", path, NULL, answer);
}

/* Triton says how many samples a request may have in the model's configuration only. */
static int ask_max_rows(struct gw_client *c)
{
    json_t *answer;
    int err = c->door->ask(c, GW_CLIENT_ASK_CONFIG, &answer);
    if (err) return err == -EINTR || err == -ENOMEM ? err : 0; /* then the server does not say */
    json_int_t most = json_integer_value(json_object_get(answer, "max_batch_size"));
    if (most > 0 && most <= UINT32_MAX) c->model.max_rows = (uint32_t)most;
    json_decref(answer);
    return 0;
}

static int choose_rows(struct gw_client *c)
{
    uint32_t most = !c->model.batched ? 1 : c->model.max_rows ? c->model.max_rows : UINT32_MAX;
    if (c->rows > most)
        return gw_error(-EINVAL, "model %s takes %u samples in one request, not %u", c->name, most, c->rows);
    if (!c->rows) c->rows = most < DEFAULT_ROWS ? most : DEFAULT_ROWS;
    int err = 0;
    for (uint32_t i = 0; !err && i < c->model.inputs; i++)
        err = gw_layout_add(&c->in_layout, c->model.input[i].bytes, c->model.input[i].batched, c->rows);
    return err ? gw_error(err,
                          "model %s: a request with %u samples takes more than 2 GiB; ask for fewer rows",
                          c->name, c->rows)
               : 0;
}

static int ask_model(struct gw_client *c, const struct gw_client_opts *opts)
{
    json_t *answer;
    int err = c->door->ask(c, GW_CLIENT_ASK_MODEL, &answer);
    if (err == -ENOENT) return gw_error(err, "the server serves no model %s", c->name);
    if (err) return err;
    err = gw_describe_model(answer, opts, &c->model);
    json_decref(answer);
    if (!err && c->model.batched && !c->model.max_rows) err = ask_max_rows(c);
    return err ? err : choose_rows(c);
}

int gw_client_fit_slots(struct gw_client *c, uint32_t wish, uint64_t each)
{
    uint32_t slots = c->slots ? c->slots : wish;
    if (!c->slots && slots * each > CHOSEN_BYTES)
        slots = each > CHOSEN_BYTES ? 1 : (uint32_t)(CHOSEN_BYTES / each);
    if (slots * each > GW_CLIENT_MAX_BYTES)
        return gw_error(
            -EFBIG,
            "model %s: %u slots take %llu MiB, at most %llu may be taken; ask for fewer slots or rows",
            c->name, slots, (unsigned long long)(slots * each >> 20),
            (unsigned long long)(GW_CLIENT_MAX_BYTES >> 20));
    c->slots = slots;
    return 0;
}

int gw_client_open(const struct gw_client_opts *opts, struct gw_client **out)
{
    if (!opts->server || !opts->model || opts->slots > GW_CLIENT_MAX_SLOTS)
        return gw_error(-EINVAL, "client: give a server, a model and at most %u slots", GW_CLIENT_MAX_SLOTS);
    if (!is_name(opts->model)) return gw_error(-EINVAL, "model %s: not a model's name", opts->model);
    if (opts->version && !is_name(opts->version))
        return gw_error(-EINVAL, "model %s: %s is not a version", opts->model, opts->version);
    struct gw_client *c = calloc(1, sizeof(*c));
    if (!c) return gw_error_errno(-ENOMEM, "client");
    int err = gw_url_parse(opts->server, &c->url);
    if (!err) err = keep_options(c, opts);
    if (!err) c->door = door_of(c->url.door);
    if (!err) err = ask_model(c, opts);
    if (!err) err = c->door->open(c);
    if (err)
        gw_client_close(c);
    else
        *out = c;
    return err;
}

void gw_client_close(struct gw_client *c)
{
    if (!c) return;
    for (uint32_t i = 0; i < c->regions; i++)
        if (c->region[i].key) c->door->drop_region(c, &c->region[i]);
    if (c->door) c->door->close(c);
    gw_http_close(c->http);
    gw_url_free(&c->url);
    free(c->name);
    free(c->version);
    free(c->token);
    free(c->ca_file);
    free(c->path);
    free(c);
}

/* ---- what there is ---- */

uint32_t gw_client_inputs(const struct gw_client *c)
{
    return c->model.inputs;
}
uint32_t gw_client_outputs(const struct gw_client *c)
{
    return c->model.outputs;
}
const struct gw_client_tensor *gw_client_input(const struct gw_client *c, uint32_t i)
{
    return i < c->model.inputs ? &c->model.input[i] : NULL;
}
const struct gw_client_tensor *gw_client_output(const struct gw_client *c, uint32_t i)
{
    return i < c->model.outputs ? &c->model.output[i] : NULL;
}
uint32_t gw_client_slots(const struct gw_client *c)
{
    return c->slots;
}
uint32_t gw_client_rows(const struct gw_client *c)
{
    return c->rows;
}
const char *gw_client_door(const struct gw_client *c)
{
    return c->door->name;
}

static uint8_t *input_at(const struct gw_client *c, uint32_t slot, uint32_t i, uint32_t rows)
{
    return gw_client_slot_at(c, slot) + sizeof(struct gw_serve_request) +
           gw_layout_offset(&c->in_layout, i, rows);
}

void *gw_client_slot_input(struct gw_client *c, uint32_t slot, uint32_t i, uint32_t rows)
{
    if (slot >= c->slots || i >= c->model.inputs || rows > c->rows) return NULL;
    return input_at(c, slot, i, rows ? rows : 1);
}

void gw_client_output_fill(const struct gw_client_tensor *t, uint32_t rows, const void *data,
                           struct gw_client_output *out)
{
    out->data = data;
    out->dtype = t->dtype;
    out->rank = t->rank;
    memcpy(out->dims, t->dims, sizeof(out->dims));
    out->bytes = t->bytes * (t->batched ? rows : 1);
    if (t->batched) out->dims[0] = rows;
}

/* ---- memory that tensors are sent from ---- */

static int find_region(const struct gw_client *c, const uint8_t *at, uint64_t bytes)
{
    for (uint32_t i = 0; i < c->regions; i++) {
        const struct gw_client_region *r = &c->region[i];
        if (at >= r->addr && bytes <= r->bytes && (uint64_t)(at - r->addr) <= r->bytes - bytes) return (int)i;
    }
    return -1;
}

int gw_client_register(struct gw_client *c, const void *addr, size_t bytes)
{
    const uint8_t *from = addr;
    struct gw_client_region r = {.addr = from, .bytes = bytes};
    if (!from || !bytes || (uintptr_t)from + bytes < (uintptr_t)from)
        return gw_error(-EINVAL, "client: %zu bytes at %p are no memory", bytes, addr);
    for (uint32_t i = 0; i < c->regions; i++)
        if (from < c->region[i].addr + c->region[i].bytes && c->region[i].addr < from + bytes)
            return gw_error(-EINVAL, "client: the memory at %p overlaps a region that is registered", addr);
    if (c->regions == GW_CLIENT_REGIONS)
        return gw_error(-ENOSPC, "client: %d regions are registered, which is the limit", GW_CLIENT_REGIONS);
    int err = c->door->add_region ? c->door->add_region(c, &r) : 0;
    if (!err) c->region[c->regions++] = r;
    return err;
}

int gw_client_unregister(struct gw_client *c, const void *addr)
{
    uint32_t i = 0;
    while (i < c->regions && c->region[i].addr != addr) i++;
    if (i == c->regions) return gw_error(-ENOENT, "client: no region begins at %p", addr);
    if (c->in_flight) return gw_error(-EBUSY, "client: %u requests are in flight", c->in_flight);
    if (c->region[i].key) c->door->drop_region(c, &c->region[i]);
    c->region[i] = c->region[--c->regions];
    return 0;
}

/* ---- requests ---- */

static int client_check(const struct gw_client *c, uint32_t slot, const struct gw_client_request *request,
                        struct gw_client_request *checked)
{
    if (slot >= c->slots) return gw_error(-EINVAL, "slot %u: there are %u", slot, c->slots);
    if (c->slot[slot].sent) return gw_error(-EBUSY, "slot %u: its last request has not been answered", slot);
    *checked = *request;
    if (!checked->rows) checked->rows = 1;
    if (checked->rows > c->rows)
        return gw_error(-EINVAL, "a request has %u samples here at most, not %u", c->rows, checked->rows);
    return 0;
}

static int send_it(struct gw_client *c, uint32_t slot, const struct gw_client_request *r,
                   const struct gw_client_from *from)
{
    struct gw_client_slot *s = &c->slot[slot];
    s->id = r->id;
    s->rows = r->rows;
    s->sent = gw_deadline(0);
    int err = c->door->submit(c, slot, r, from);
    if (err)
        s->sent = 0;
    else
        c->in_flight++;
    return err;
}

int gw_client_submit(struct gw_client *c, uint32_t slot, const struct gw_client_request *request)
{
    struct gw_client_from from;
    struct gw_client_request r;
    int err = client_check(c, slot, request, &r);
    if (err) return err;
    for (uint32_t i = 0; i < c->model.inputs; i++) {
        from.at[i] = input_at(c, slot, i, r.rows);
        from.region[i] = -1;
    }
    return send_it(c, slot, &r, &from);
}

int gw_client_submit_from(struct gw_client *c, uint32_t slot, const struct gw_client_request *request,
                          const void *const in[])
{
    struct gw_client_from from;
    struct gw_client_request r;
    int err = client_check(c, slot, request, &r);
    if (err) return err;
    for (uint32_t i = 0; i < c->model.inputs; i++) {
        uint64_t bytes = gw_layout_tensor_bytes(&c->in_layout, i, r.rows);
        if (!in[i]) return gw_error(-EINVAL, "input %s: there is no tensor", c->model.input[i].name);
        from.at[i] = in[i];
        from.region[i] = find_region(c, in[i], bytes);
        if (from.region[i] >= 0) continue;
        uint8_t *to = input_at(c, slot, i, r.rows);
        memcpy(to, in[i], bytes);
        from.at[i] = to;
    }
    return send_it(c, slot, &r, &from);
}

int gw_client_wait(struct gw_client *c, uint64_t deadline_ns, struct gw_client_reply *reply)
{
    int err = c->door->wait(c, deadline_ns, reply);
    if (err) return err;
    c->slot[reply->slot].sent = 0;
    c->in_flight--;
    return 0;
}

/* ---- questions ---- */

int gw_client_worker_cpu(struct gw_client *c, struct gw_client_cpu *out)
{
    json_t *answer;
    int err = c->door->ask(c, GW_CLIENT_ASK_STATS, &answer);
    if (err) return err;
    const json_t *own = json_object_get(answer, "cpu_own_ns"), *nic = json_object_get(answer, "cpu_nic_ns");
    if (!json_is_integer(own) || !json_is_integer(nic))
        err = gw_error(-ENOTSUP, "this server does not say what CPU time it has spent");
    out->own_ns = (uint64_t)json_integer_value(own);
    out->nic_ns = (uint64_t)json_integer_value(nic);
    json_decref(answer);
    return err;
}

int gw_client_stats(struct gw_client *c, struct gw_client_stats *out)
{
    json_t *answer;
    int err = c->door->ask(c, GW_CLIENT_ASK_STATS, &answer);
    if (err) return err;
    err = gw_describe_stats(answer, out);
    json_decref(answer);
    return err;
}
