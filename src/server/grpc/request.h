/* SPDX-License-Identifier: Apache-2.0 */
/* The headers of a request, one after the other, and what is wrong with them. */
#ifndef GW_SERVER_GRPC_REQUEST_H
#define GW_SERVER_GRPC_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "src/server/grpc/call.h"

#define GW_GRPC_HEADERS (16u << 10) /* bytes of a call's headers, counted as HTTP/2 does */

/* Zero, but for timeout_ns. */
struct gw_grpc_request_head {
    const struct gw_grpc_method *method; /* NULL: there is no such method */
    size_t bytes;                        /* of all headers so far */
    uint64_t timeout_ns;                 /* UINT64_MAX: none */
    int is_post, is_grpc, has_trailers, is_encoded, is_allowed, is_wrong_timeout;
};

/* The state while headers are read. */
struct gw_grpc_rules {
    const struct gw_grpc_method *method; /* ends with one that has no path */
    const char *token;                   /* that calls must bring; NULL: none */
    int open_health;                     /* 1: but not of methods about the server's health */
};

/* 0, or -EMSGSIZE: the headers are many times as long as allowed, so the connection has to end. */
int gw_grpc_request_header(struct gw_grpc_request_head *h, const struct gw_grpc_rules *rules,
                           const uint8_t *name, size_t names, const uint8_t *value, size_t values);

/* When all headers are there: the answer's ":status", and when that is 200, *status and *why of a call that
 * is refused; GW_GRPC_OK: it is not. */
const char *gw_grpc_request_check(const struct gw_grpc_request_head *h, const struct gw_grpc_rules *rules,
                                  enum gw_grpc_status *status, const char **why);

#endif
