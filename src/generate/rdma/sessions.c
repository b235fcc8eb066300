/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that open, keep and close RDMA sessions of generators. */
#include "src/generate/rdma/sessions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <gpuwire/error.h>

#include "src/generate/rdma/table.h"

struct gen_rdma {
    struct gen_rdma_opts opts;
    struct gen_table table;
    bool draining; /* atomic: it stands alone */
};

int gen_rdma_create(const struct gen_rdma_opts *opts, struct gen_rdma **out)
{
    struct gen_rdma *t = calloc(1, sizeof(*t));
    uint64_t all = 0, most = 0;
    if (!t) return gw_error_errno(-ENOMEM, "generate");
    t->opts = *opts;
    for (uint32_t i = 0; i < opts->workers; i++) {
        uint32_t n = gen_pool_size(gen_worker_pool(opts->worker[i]));
        all += n;
        if (n > most) most = n;
    }
    int err = gen_table_make(&t->table, (uint32_t)all,
                             opts->each ? opts->each : (uint32_t)(most > 3 ? most - most / 4 : most));
    if (err)
        gen_rdma_destroy(t);
    else
        *out = t;
    return err;
}

void gen_rdma_destroy(struct gen_rdma *t)
{
    if (!t) return;
    gen_table_free(&t->table);
    free(t);
}

void gen_rdma_drain(struct gen_rdma *t)
{
    __atomic_store_n(&t->draining, true, __ATOMIC_RELAXED);
}

/* ---- answers ---- */

static unsigned rdma_refuse(unsigned status, const char *why, json_t **reply)
{
    *reply = gw_http_error(why);
    return status;
}

static unsigned rdma_failed(int err, json_t **reply)
{
    if (err == -EAGAIN) { /* some are being made ready for the next client: it may ask again soon */
        *reply = json_pack("{s:s, s:b}", "error", gw_last_error(), "retry", 1);
        return 503;
    }
    return rdma_refuse(err == -EBUSY || err == -EHOSTUNREACH ? 503
                       : err == -EDQUOT                      ? 429
                       : err == -EINVAL                      ? 400
                       : err == -ENOENT                      ? 404
                                                             : 500,
                       gw_last_error(), reply);
}

static unsigned rdma_done(unsigned status, json_t *body, json_t **reply)
{
    *reply = body;
    return body ? status : rdma_refuse(503, "out of memory", reply);
}

/* Processor time of this process so far. */
static json_int_t rdma_cpu_us(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (json_int_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
           u.ru_stime.tv_usec;
}

static unsigned rdma_list(const struct gen_rdma *t, json_t **reply)
{
    json_t *models = json_array();
    for (uint32_t i = 0; i < t->opts.workers; i++) {
        const struct gen_worker *w = t->opts.worker[i];
        struct gen_source_shape s;
        gen_worker_shape(w, &s);
        json_array_append_new(models, json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", gen_worker_name(w),
                                                "vocab", (json_int_t)s.vocab, "context",
                                                (json_int_t)s.context, "lanes", (json_int_t)s.lanes, "slots",
                                                (json_int_t)gen_pool_slots(gen_worker_pool(w))));
    }
    return rdma_done(200, json_pack("{s:o, s:I}", "models", models, "cpu_us", rdma_cpu_us()), reply);
}

/* ---- opening ---- */

static bool rdma_address(const json_t *value, uint64_t *out)
{
    const char *text = json_string_value(value);
    char *end;
    if (!text || strncmp(text, "0x", 2) || strspn(text + 2, "0123456789abcdefABCDEF") != strlen(text + 2) ||
        !text[2] || strlen(text) > 18)
        return false;
    *out = strtoull(text + 2, &end, 16);
    return true;
}

static bool rdma_u32(const json_t *value, uint32_t *out)
{
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || n > UINT32_MAX) return false;
    *out = (uint32_t)n;
    return true;
}

/* NULL, or what is wrong. */
static const char *rdma_wish(const json_t *body, struct gen_wish *wish)
{
    const json_t *slots = json_object_get(body, "slots");
    const char *endpoint = json_string_value(json_object_get(body, "endpoint"));
    json_int_t stride = json_integer_value(json_object_get(body, "event_stride"));
    if (slots && !rdma_u32(slots, &wish->slots)) return "slots: a number from 0 (as many as there are)";
    if (!rdma_u32(json_object_get(body, "ring"), &wish->ring)) return "ring: a number of events";
    if (!endpoint || gw_endpoint_parse(endpoint, &wish->endpoint)) return "endpoint: not of the form gw:1:…";
    if (!rdma_address(json_object_get(body, "event_addr"), &wish->event_addr))
        return "event_addr: not a string \"0x…\"";
    if (stride <= 0) return "event_stride: a positive number of bytes";
    wish->event_stride = (uint64_t)stride;
    return rdma_u32(json_object_get(body, "event_rkey"), &wish->event_rkey) ? NULL
                                                                            : "event_rkey: a 32-bit number";
}

static struct gen_worker *rdma_find(const struct gen_rdma *t, const char *model)
{
    for (uint32_t i = 0; model && i < t->opts.workers; i++)
        if (!strcmp(gen_worker_name(t->opts.worker[i]), model)) return t->opts.worker[i];
    return NULL;
}

/* A queue pair of this server's own: the peer would have it talk to itself. */
static bool rdma_is_ours(const struct gen_rdma *t, const struct gw_endpoint *ep)
{
    for (uint32_t i = 0; i < t->opts.workers; i++)
        if (gen_pool_owns(gen_worker_pool(t->opts.worker[i]), ep)) return true;
    return false;
}

static unsigned rdma_open(struct gen_rdma *t, const struct gw_http_request *r, json_t **reply)
{
    struct gen_wish wish = {0};
    struct gen_grant g;
    char endpoint[GW_ENDPOINT_TEXT], addr[24];
    if (__atomic_load_n(&t->draining, __ATOMIC_RELAXED))
        return rdma_refuse(503, "the server is about to end", reply);
    if (!json_is_object(r->body)) return rdma_refuse(400, "the body must be a JSON object", reply);
    const char *wrong = rdma_wish(r->body, &wish);
    if (wrong) return rdma_refuse(400, wrong, reply);
    if (rdma_is_ours(t, &wish.endpoint))
        return rdma_refuse(400, "endpoint: it is one of this server's own", reply);
    struct gen_worker *w = rdma_find(t, json_string_value(json_object_get(r->body, "model")));
    if (!w) return rdma_refuse(404, "model: no such model here", reply);
    int err = gen_table_open(&t->table, w, &wish, r, &g);
    if (err) return rdma_failed(err, reply);
    gw_endpoint_format(&g.endpoint, endpoint);
    snprintf(addr, sizeof(addr), "0x%llx", (unsigned long long)g.request_addr);
    return rdma_done(201,
                     json_pack("{s:s, s:I, s:s, s:s, s:I, s:I}", "id", g.id, "slots", (json_int_t)g.slots,
                               "endpoint", endpoint, "request_addr", addr, "request_stride",
                               (json_int_t)g.request_stride, "request_rkey", (json_int_t)g.request_rkey),
                     reply);
}

/* ---- calls ---- */

static unsigned rdma_one(struct gen_rdma *t, const char *method, const char *id, json_t **reply)
{
    bool keep = !strcmp(method, "PUT");
    if (!keep && strcmp(method, "DELETE")) return rdma_refuse(405, "PUT and DELETE only", reply);
    int err = keep ? gen_table_keep(&t->table, id) : gen_table_close(&t->table, id);
    return err ? rdma_failed(err, reply) : rdma_done(200, json_object(), reply);
}

unsigned gen_rdma_call(void *ctx, const struct gw_http_request *r, json_t **reply)
{
    struct gen_rdma *t = ctx;
    const char *rest = r->path + strlen(GEN_RDMA_PATH);
    static const char sessions[] = "/sessions";
    if (!*rest) return strcmp(r->method, "GET") ? rdma_refuse(405, "GET only", reply) : rdma_list(t, reply);
    if (strncmp(rest, sessions, sizeof(sessions) - 1)) return rdma_refuse(404, "no such call", reply);
    rest += sizeof(sessions) - 1;
    if (*rest == '/') return rdma_one(t, r->method, rest + 1, reply);
    if (*rest) return rdma_refuse(404, "no such call", reply);
    return strcmp(r->method, "POST") ? rdma_refuse(405, "POST only", reply) : rdma_open(t, r, reply);
}

void gen_rdma_closed(void *ctx, const void *connection)
{
    gen_table_close_all_of(&((struct gen_rdma *)ctx)->table, connection);
}

bool gen_rdma_stays(void *ctx, const void *connection)
{
    return gen_table_holds(&((struct gen_rdma *)ctx)->table, connection);
}
