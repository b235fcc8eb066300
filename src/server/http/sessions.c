/* SPDX-License-Identifier: Apache-2.0 */
/* v2/rdma/sessions: sessions that clients open over HTTP, and use by RDMA. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/server/http/calls.h"
#include "src/server/wire/wire.h"

#define MISDIRECTED 421 /* HTTP's word for: this server cannot answer that, another one can */

static int parse_address(const json_t *value, uint64_t *out)
{
    const char *text = json_string_value(value);
    char *end;
    if (!text || strncmp(text, "0x", 2) || !text[2]) return -EINVAL;
    errno = 0;
    *out = strtoull(text + 2, &end, 16);
    return errno || *end || text[2] == '-' || text[2] == '+' ? -EINVAL : 0;
}

/* An address in digits as a GID. */
static int parse_via(const char *text, uint8_t gid[16])
{
    struct in_addr v4;
    memset(gid, 0, 16);
    if (inet_pton(AF_INET6, text, gid) == 1) return 0;
    if (inet_pton(AF_INET, text, &v4) != 1) return -EINVAL;
    memset(gid + 10, 0xff, 2);
    memcpy(gid + 12, &v4, 4);
    return 0;
}

static const char *parse_wish(const json_t *body, struct gw_session_wish *wish)
{
    json_t *wanted = json_object_get(body, "slots");
    json_int_t slots = json_integer_value(wanted);
    json_int_t stride = json_integer_value(json_object_get(body, "reply_stride"));
    json_t *rkey = json_object_get(body, "reply_rkey");
    const char *endpoint = json_string_value(json_object_get(body, "endpoint"));
    const json_t *via = json_object_get(body, "via");
    if ((wanted && !json_is_integer(wanted)) || slots < 0 || slots > UINT32_MAX)
        return "slots: a number from 0 (as many as there are)";
    if (!endpoint || gw_endpoint_parse(endpoint, &wish->endpoint)) return "endpoint: not of the form gw:1:…";
    if (parse_address(json_object_get(body, "reply_addr"), &wish->reply_addr))
        return "reply_addr: not a string \"0x…\"";
    if (stride <= 0) return "reply_stride: a positive number of bytes";
    if (!json_is_integer(rkey) || json_integer_value(rkey) < 0 || json_integer_value(rkey) > UINT32_MAX)
        return "reply_rkey: a 32-bit number";
    if (via && (!json_is_string(via) || parse_via(json_string_value(via), wish->via)))
        return "via: the server's address as the client has called it, in digits";
    wish->slots = (uint32_t)slots;
    wish->reply_stride = (uint64_t)stride;
    wish->reply_rkey = (uint32_t)json_integer_value(rkey);
    return NULL;
}

static json_t *grant_json(const struct gw_api *api, const struct gw_infer_model *m, const char *id,
                          const struct gw_session_grant *g)
{
    char endpoint[GW_ENDPOINT_TEXT], addr[24];
    gw_endpoint_format(&g->endpoint, endpoint);
    snprintf(addr, sizeof(addr), "0x%llx", (unsigned long long)g->request_addr);
    return json_pack("{s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:s, s:I, s:I, s:o, s:o}", "id", id, "slots",
                     (json_int_t)g->slots, "endpoint", endpoint, "request_addr", addr, "request_stride",
                     (json_int_t)g->request_stride, "request_rkey", (json_int_t)g->request_rkey, "max_rows",
                     (json_int_t)gw_worker_max_rows(m->own), "clock", api->server.clock, "unused_ms",
                     (json_int_t)(api->server.sessions->unused_ns / 1000000), "idle_ms",
                     (json_int_t)(api->server.sessions->idle_ns / 1000000), "inputs", gw_http_tensors(m, 0),
                     "outputs", gw_http_tensors(m, 1));
}

static unsigned http_sessions_refuse(int err, json_t **reply)
{
    if (err == -EAGAIN) { /* some are being made ready for the next client: it may ask again soon */
        *reply = json_pack("{s:s, s:b}", "error", gw_last_error(), "retry", 1);
        return 503;
    }
    return gw_http_fail(err == -EBUSY || err == -EHOSTUNREACH ? 503
                        : err == -EDQUOT                      ? 429
                        : err == -EINVAL                      ? 400
                                                              : 500,
                        reply, gw_last_error());
}

/* A queue pair of this server's own as the peer would have it talk to itself. */
static bool http_sessions_is_ours(const struct gw_api *api, const struct gw_endpoint *ep)
{
    for (size_t i = 0; i < *api->server.workers; i++)
        if (gw_session_pool_has(gw_worker_sessions(api->server.worker[i]), ep)) return true;
    return false;
}

static unsigned http_sessions_open_one(struct gw_api *api, const struct gw_http_request *r, json_t **reply)
{
    struct gw_session_wish wish = {0};
    const struct gw_table_client client = {r->connection, r->who};
    struct gw_session_grant grant;
    struct gw_infer_model m;
    struct gw_infer_error error;
    char id[GW_SESSION_ID];
    unsigned draining = gw_http_draining(api, reply);
    if (draining) return draining;
    const char *model = json_string_value(json_object_get(r->body, "model"));
    if (!model) return gw_http_fail(400, reply, "model: a model's name");
    const char *wrong = parse_wish(r->body, &wish);
    if (wrong) return gw_http_fail(400, reply, wrong);
    if (http_sessions_is_ours(api, &wish.endpoint))
        return gw_http_fail(400, reply, "endpoint: it is one of this server's own");
    if (gw_infer_find(api->infer, model, NULL, &m, &error))
        return gw_http_fail(404, reply, "no such model here");

    int err = gw_table_add(api->server.sessions, m.own, &wish, &client, &grant, id);
    return err ? http_sessions_refuse(err, reply) : gw_http_done(201, reply, grant_json(api, &m, id, &grant));
}

static unsigned http_sessions_call_one(struct gw_api *api, const char *method, const char *id, json_t **reply)
{
    int renew = !strcmp(method, "PUT");
    if (!renew && strcmp(method, "DELETE")) return gw_http_fail(405, reply, "PUT and DELETE only");
    int err = renew ? gw_table_renew(api->server.sessions, id) : gw_table_close(api->server.sessions, id);
    if (err)
        return gw_http_fail(err == -ENOENT   ? 404
                            : err == -ESTALE ? MISDIRECTED
                                             : 409,
                            reply, gw_last_error());
    return gw_http_done(200, reply, json_object());
}

unsigned gw_http_sessions(struct gw_api *api, const struct gw_http_request *r, const char *rest,
                          json_t **reply)
{
    if (!api->server.sessions)
        return gw_http_fail(501, reply, "models here lie on other hosts: RDMA sessions are opened there");
    if (*rest == '/') return http_sessions_call_one(api, r->method, rest + 1, reply);
    if (*rest) return gw_http_nothing(reply);
    if (strcmp(r->method, "POST")) return gw_http_fail(405, reply, "POST only");
    return http_sessions_open_one(api, r, reply);
}
