/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC door's connections: accepting them, how many there may be, how long each may stay, and the threads
 * that read from them. */
#ifndef GW_SERVER_GRPC_GATE_H
#define GW_SERVER_GRPC_GATE_H

#include <stdint.h>

#include "src/server/grpc/conn.h"

struct gw_grpc_gate;

struct gw_grpc_gate_opts {
    const char *host;        /* numeric; NULL: 127.0.0.1 */
    uint16_t port;           /* 0: any free one */
    uint32_t each;           /* connections of one client; 0: 64, or a quarter of all */
    const char *proxies;     /* who may have three quarters of all; NULL: none */
    uint64_t patience_ns;    /* for the first call, or the handshake */
    uint64_t idle_ns;        /* how long a connection without calls may stay */
    struct gw_grpc_env *env; /* outlives the gate */
};

/* 0 or a negative errno with the reason in gw_last_error(). No client is let in before gw_grpc_gate_open. */
int gw_grpc_gate_start(const struct gw_grpc_gate_opts *opts, struct gw_grpc_gate **out);
int gw_grpc_gate_open(struct gw_grpc_gate *g);
/* Closes connections that have stayed too long. It is called now and then, by one thread. */
void gw_grpc_gate_tend(struct gw_grpc_gate *g);
uint16_t gw_grpc_gate_port(const struct gw_grpc_gate *g);
/* Lets no more clients in. Connections end when their calls have been answered, or are cut when the time is
 * over. Its threads have ended then. */
void gw_grpc_gate_close(struct gw_grpc_gate *g, uint64_t patience_ns);
/* When it is closed. NULL is allowed. */
void gw_grpc_gate_free(struct gw_grpc_gate *g);

#endif
