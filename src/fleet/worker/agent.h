/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h: a worker of a fleet: it obeys the leader, serves clients, and computes with an engine.
 *
 * To the leader it holds one connection. It tells what it has, does ACTIONs within their windows, keeps the
 * table of leases, and sends telemetry. The largest term that it has seen fences out older leaders, also
 * after it has connected again. When the leader is silent or gone, what is leased is served until the leases
 * end; nothing of the table is lost by a new connection.
 *
 * Clients connect to its data port. A request's owner is the id of the connection's HELLO.
 *
 * Who may call: the loop's thread alone. Functions return 0 or a negative errno, and say why in
 * gw_last_error().
 */
#ifndef GW_FLEET_WORKER_AGENT_H
#define GW_FLEET_WORKER_AGENT_H

#include "src/fleet/pipe/pipe.h"
#include "src/fleet/wire/conn.h"
#include "src/fleet/worker/engine.h"

struct fleet_agent;

struct fleet_agent_opts {
    struct fleet_loop *loop;
    struct fleet_engine *engine; /* the agent's from a successful fleet_agent_create on */
    const char *fleet;           /* its name */
    const char *name;            /* this worker's */
    const char *token;           /* the fleet's secret; NULL: none */
    const char *listen;          /* the data port: "HOST:PORT"; port 0 is any free one */
    const char *address;         /* that clients are told; NULL: where it listens */
    const char *controllers;     /* "HOST:PORT,HOST:PORT"; NULL: fleet_agent_leader says who leads */
    uint32_t connections;        /* of clients, at most; 0: 4,096 */
    size_t backlog;              /* bytes of answers that may wait for a client to read; 0: 64 MiB */
    int64_t silent_ns;           /* a controller that is silent for this long is gone; 0: 2 s */
    struct fleet_pipes *pipes;   /* for telemetry by RDMA; they outlive the agent; NULL: it goes over TCP */
    void (*say)(void *ctx, const char *line); /* for the log; NULL: no one reads it */
    void *ctx;
};

int fleet_agent_create(const struct fleet_agent_opts *opts, struct fleet_agent **out);

/* Who leads, and with which term (0: unknown). "": no one does. The agent goes there at once. */
void fleet_agent_leader(struct fleet_agent *a, const char *address, uint64_t term);

/* The orderly end: tells the leader, takes no new leases, and serves the old ones until they have ended and
 * all is answered, `within_ns` at most. Then it says goodbye to all, and calls left(ctx), once; only
 * fleet_agent_destroy may follow. A second call can only make it end sooner, and its `left` is not called. */
void fleet_agent_leave(struct fleet_agent *a, int64_t within_ns, void (*left)(void *ctx), void *ctx);

/* Ends all at once, and destroys the engine. NULL is allowed. */
void fleet_agent_destroy(struct fleet_agent *a);

/* How it is. */
struct fleet_agent_view {
    uint8_t id[FLEET_ID];        /* this life of it */
    char address[FLEET_ADDRESS]; /* of the data port, as clients are told */
    char leader[FLEET_ADDRESS];  /* "": there is no connection that a leader has welcomed */
    uint64_t term;               /* the largest one seen */
    uint32_t leases;             /* in force */
    uint32_t clients;            /* connections */
    uint32_t calls;              /* requests by TCP under way */
    uint32_t moves;              /* ACTIONs under way, those that wait for their window too */
    struct fleet_hello_worker facts;
};
void fleet_agent_view(const struct fleet_agent *a, struct fleet_agent_view *v);

#endif
