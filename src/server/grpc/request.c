/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the headers of a gRPC request. */
#include "src/server/grpc/request.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "src/server/grpc/wire/h2.h"
#include "src/door/secret.h"

#define FIELD_OVERHEAD  32u /* of a header, as HTTP/2 counts */
#define HEADERS_REFUSED 4u  /* times what there may be: the connection ends */

static const struct gw_grpc_method *request_method(const struct gw_grpc_rules *rules, const uint8_t *path,
                                                   size_t n)
{
    for (const struct gw_grpc_method *m = rules->method; m->path; m++)
        if (gw_h2_is(path, n, m->path)) return m;
    return NULL;
}

/* "application/grpc", "application/grpc+proto", "application/grpc;…". */
static bool is_grpc_type(const uint8_t *value, size_t n)
{
    static const char type[] = "application/grpc";
    size_t length = sizeof(type) - 1;
    return n >= length && !memcmp(value, type, length) &&
           (n == length || value[length] == '+' || value[length] == ';');
}

int gw_grpc_request_header(struct gw_grpc_request_head *h, const struct gw_grpc_rules *rules,
                           const uint8_t *name, size_t names, const uint8_t *value, size_t values)
{
    h->bytes += names + values + FIELD_OVERHEAD;
    if (h->bytes > HEADERS_REFUSED * GW_GRPC_HEADERS) return -EMSGSIZE;
    if (h->bytes > GW_GRPC_HEADERS) return 0;
    if (gw_h2_is(name, names, ":path"))
        h->method = request_method(rules, value, values);
    else if (gw_h2_is(name, names, ":method"))
        h->is_post = gw_h2_is(value, values, "POST");
    else if (gw_h2_is(name, names, "content-type"))
        h->is_grpc = is_grpc_type(value, values);
    else if (gw_h2_is(name, names, "te"))
        h->has_trailers = gw_h2_is(value, values, "trailers");
    else if (gw_h2_is(name, names, "grpc-encoding"))
        h->is_encoded = !gw_h2_is(value, values, "identity");
    else if (gw_h2_is(name, names, "grpc-timeout"))
        h->is_wrong_timeout = gw_grpc_timeout_parse(value, values, &h->timeout_ns) != 0;
    else if (gw_h2_is(name, names, "authorization") && rules->token)
        h->is_allowed = gw_secret_allows(rules->token, (const char *)value); /* nghttp2 ends it with a zero */
    return 0;
}

const char *gw_grpc_request_check(const struct gw_grpc_request_head *h, const struct gw_grpc_rules *rules,
                                  enum gw_grpc_status *status, const char **why)
{
    static const struct gw_grpc_method nothing = {0};
    const struct gw_grpc_method *m = h->method ? h->method : &nothing;
    *status = GW_GRPC_OK;
    if (h->bytes > GW_GRPC_HEADERS) {
        *status = GW_GRPC_RESOURCE_EXHAUSTED;
        *why = "the call's metadata is longer than 16 KiB";
        return "200";
    }
    if (!h->is_post) return "405";
    if (!h->is_grpc) return "415";
    if (!h->method) {
        *status = GW_GRPC_UNIMPLEMENTED;
        *why = "the server has no such method";
    } else if (rules->token && !h->is_allowed && !(m->health && rules->open_health)) {
        *status = GW_GRPC_UNAUTHENTICATED;
        *why = "a bearer token is needed: metadata `authorization: Bearer TOKEN`";
    } else if (!h->has_trailers) {
        *status = GW_GRPC_INTERNAL;
        *why = "the header `te: trailers` is missing: something between client and server takes it away";
    } else if (h->is_wrong_timeout) {
        *status = GW_GRPC_INVALID_ARGUMENT;
        *why = "grpc-timeout: a number of eight digits at most and a unit are needed";
    } else if (h->is_encoded) {
        *status = GW_GRPC_UNIMPLEMENTED;
        *why = "this server takes no compressed messages";
    }
    return "200";
}
