/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC door's connections: accepting them, how many there may be, and how long each may stay.
 *
 * gRPC core does not count connections, and stops listening for good when descriptors run out. So we listen
 * ourselves and hand it each connection that we let in. Its name for one is the descriptor's number. */
#ifndef GW_GRPC_GATE_H
#define GW_GRPC_GATE_H

#include <stdint.h>

#include "src/grpc/admission.h"
#include "src/serve/who.h"

struct gw_grpc_gate;
struct gw_grpc_tls;

/* One client, as src/serve/who.h tells clients apart. It lives while it has connections or calls. */
struct gw_grpc_client {
    struct gw_grpc_client *next;
    uint32_t users;             /* its connections and calls; the gate's */
    uint32_t calls;             /* under way */
    uint32_t running;           /* jobs that threads work on; the pool's */
    struct gw_grpc_share share; /* what it has of all that there is; see admission.h */
    char who[GW_WHO_TEXT];
};

struct gw_grpc_gate_opts {
    const char *host;                 /* numeric; NULL: 127.0.0.1 */
    uint16_t port;                    /* 0: any free one */
    uint32_t calls, calls_each;       /* that may be under way in all, and for one client */
    uint64_t patience_ns;             /* for the first call, or the handshake */
    uint64_t idle_ns;                 /* a connection without calls may stay so long */
    struct gw_grpc_tls *tls;          /* NULL: no encryption. It outlives the gate. */
    void (*admit)(void *ctx, int fd); /* hands a connection to gRPC, which closes it */
    void *ctx;
};

/* 0 or a negative errno with the reason in gw_last_error(). Nobody is let in before gw_grpc_gate_open. */
int gw_grpc_gate_start(const struct gw_grpc_gate_opts *opts, struct gw_grpc_gate **out);
int gw_grpc_gate_open(struct gw_grpc_gate *g);
/* Closes connections that have stayed too long. It is called now and then, by one thread. */
void gw_grpc_gate_tend(struct gw_grpc_gate *g);
uint16_t gw_grpc_gate_port(const struct gw_grpc_gate *g);
/* Lets nobody in any more. */
void gw_grpc_gate_close(struct gw_grpc_gate *g);
/* When every call has ended. NULL is allowed. */
void gw_grpc_gate_free(struct gw_grpc_gate *g);

/* A call begins on the connection that gRPC names `peer`. NULL and *why: it has to be refused. */
struct gw_grpc_client *gw_grpc_gate_begin(struct gw_grpc_gate *g, const char *peer, const char **why);
void gw_grpc_gate_end(struct gw_grpc_gate *g, struct gw_grpc_client *client, const char *peer);

#endif
