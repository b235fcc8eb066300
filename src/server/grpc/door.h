/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC door of a server. */
#ifndef GW_SERVER_GRPC_DOOR_H
#define GW_SERVER_GRPC_DOOR_H

#include <stdint.h>

#include "src/server/requests/infer.h"
#include "src/server/lifecycle/server.h"

struct gw_grpc;

#define GW_GRPC_MESSAGE ((uint64_t)64 << 20) /* bytes that a message may have by default */

struct gw_grpc_opts {
    const char *host;            /* numeric; NULL: 127.0.0.1 */
    uint16_t port;               /* 0: any free one */
    uint64_t max_body;           /* bytes; 0: GW_GRPC_MESSAGE */
    uint32_t connections_each;   /* of one client; 0: 64, or a quarter of all if that is less */
    const char *trusted_proxies; /* who may have three quarters of all (src/door/proxies.h); NULL: none */
    const char *cert, *key;      /* PEM files for TLS; NULL: in the clear */
    const char *token;           /* that every call must bring; NULL: see token_file */
    const char *token_file;      /* holds a token that every call must bring; NULL: none */
    int open_health;             /* 1: asking whether the server lives and is ready needs no token */
};

/* Listens. *door is for gw_server_add_door, or for another owner that tends and stops it. `infer` outlives
 * the door. 0 or a negative errno with the reason in gw_last_error(). */
int gw_grpc_start(struct gw_infer *infer, const struct gw_grpc_opts *opts, struct gw_server_door *door,
                  struct gw_grpc **out);
uint16_t gw_grpc_port(const struct gw_grpc *g);

#endif
