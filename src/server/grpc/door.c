/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the gRPC door, and ends it with the server. */
#include "src/server/grpc/door.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/sync.h>

#include "src/server/grpc/gate.h"
#include "src/server/grpc/methods.h"
#include "src/server/grpc/tls.h"
#include "src/door/secret.h"

#define PATIENCE_NS 20000000000ull
#define IDLE_NS     300000000000ull
#define TICK_NS     1000000000ull
#define GOODBYE_NS  50000000ull  /* for clients to take the last answers */
#define END_NS      200000000ull /* for the calls' threads to notice the end */
#define NAP_NS      1000000ull
#define WORKERS     64                    /* calls that may wait for models at once */
#define CALLS       1024u                 /* under way at once */
#define CALLS_EACH  256u                  /* of them, of one client */
#define STREAMS     64u                   /* in all */
#define MEMORY      ((uint64_t)512 << 20) /* of messages and answers; more when messages may be long: */
#define MESSAGES    4u                    /* the number of the longest */

struct gw_grpc {
    struct gw_grpc_service service;
    struct gw_grpc_opts opts;
    struct gw_grpc_env env;
    struct gw_grpc_gate *gate;
    char *token; /* NULL: none is asked for */
    uint64_t next_tick;
};

/* ---- the server's hooks ---- */

static void grpc_door_tend(void *door)
{
    struct gw_grpc *g = door;
    if (gw_deadline(0) < g->next_tick) return;
    g->next_tick = gw_deadline(TICK_NS);
    gw_grpc_gate_tend(g->gate);
}

static bool grpc_door_busy(void *door)
{
    struct gw_grpc *g = door;
    return gw_ld_relaxed_u32(&g->env.turns) != 0; /* a number by itself */
}

/* The parts of a door. */
static void grpc_door_destroy(struct gw_grpc *g)
{
    gw_grpc_pool_free(g->env.pool);
    gw_grpc_gate_free(g->gate);
    gw_grpc_accounts_close(&g->env.accounts);
    SSL_CTX_free(g->env.tls);
    gw_secret_forget(g->token);
    free(g);
}

/* Are threads at work on calls still? The server has closed its calls by now, so each ends by itself. */
static bool has_jobs(const struct gw_grpc *g)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    uint64_t until = gw_deadline(END_NS);
    while (gw_grpc_pool_is_busy(g->env.pool)) {
        if (gw_deadline(0) >= until) return true;
        nanosleep(&nap, NULL);
    }
    return false;
}

/* Answers that a client does not take in time are cut. */
static void grpc_door_stop(void *door)
{
    struct gw_grpc *g = door;
    gw_st_relaxed_u32(&g->service.closing, 1); /* a number by itself */
    gw_grpc_gate_close(g->gate, GOODBYE_NS);
    if (!has_jobs(g)) grpc_door_destroy(g); /* else it stays as it is until the process ends */
}

/* ---- beginning ---- */

static uint64_t grpc_door_memory(const struct gw_grpc_opts *o)
{
    return MESSAGES * o->max_body > MEMORY ? MESSAGES * o->max_body : MEMORY;
}

static int grpc_door_make(struct gw_grpc *g)
{
    const struct gw_grpc_opts *o = &g->opts;
    const struct gw_grpc_limits limits = {
        .calls = CALLS, .calls_each = CALLS_EACH, .streams = STREAMS, .bytes = grpc_door_memory(o)};
    gw_grpc_accounts_open(&g->env.accounts, &limits);
    g->env.ctx = &g->service;
    g->env.max_body = o->max_body;
    g->env.patience_ns = PATIENCE_NS;
    g->env.idle_ns = IDLE_NS;
    int err = o->cert ? gw_grpc_tls_create(o->cert, o->key, &g->env.tls) : 0;
    if (!err) err = gw_secret_take_token(o->token, o->token_file, &g->token);
    g->env.rules = (struct gw_grpc_rules){gw_grpc_methods, g->token, o->open_health};
    struct gw_grpc_gate_opts gate = {.host = o->host,
                                     .port = o->port,
                                     .each = o->connections_each,
                                     .proxies = o->trusted_proxies,
                                     .patience_ns = PATIENCE_NS,
                                     .idle_ns = IDLE_NS,
                                     .env = &g->env};
    if (!err) err = gw_grpc_pool_create(WORKERS, &g->env.pool);
    return err ? err : gw_grpc_gate_start(&gate, &g->gate);
}

int gw_grpc_start(struct gw_infer *infer, const struct gw_grpc_opts *o, struct gw_server_door *door,
                  struct gw_grpc **out)
{
    struct gw_grpc *g = calloc(1, sizeof(*g));
    if (!g) return -ENOMEM;
    g->opts = *o;
    g->service.infer = infer;
    if (!g->opts.max_body) g->opts.max_body = GW_GRPC_MESSAGE;
    int err = grpc_door_make(g);
    if (err) {
        grpc_door_destroy(g);
        return err;
    }
    *door = (struct gw_server_door){g, grpc_door_tend, grpc_door_stop, grpc_door_busy};
    *out = g;
    err = gw_grpc_gate_open(g->gate); /* from here on only grpc_door_stop() ends it */
    if (err) grpc_door_stop(g);
    return err;
}

uint16_t gw_grpc_port(const struct gw_grpc *g)
{
    return gw_grpc_gate_port(g->gate);
}
