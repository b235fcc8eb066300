/* SPDX-License-Identifier: Apache-2.0 */
/* A server that names itself to a load balancer (gpuwire balance), and goes on telling it how much waits
 * here, and which queue pairs its sessions have. */
#ifndef GW_CLI_SERVE_BALANCER_H
#define GW_CLI_SERVE_BALANCER_H

#include <stdint.h>

#include "src/server/lifecycle/table.h"

struct gw_cli_balancer_opts {
    const char *url;     /* of the service there: http://10.0.0.5:9091/web; NULL: there is no balancer */
    const char *address; /* this server's, as the balancer reaches it; NULL: the way to the balancer tells */
    const char *token_file; /* NULL: none */
    uint64_t weight;        /* 0: 1 */
};

struct gw_cli_balancer;

/* What a server has to do. */
struct gw_cli_balanced {
    const char *command;         /* "serve": for messages */
    uint64_t (*load)(void *ctx); /* how much waits or is under way: the balancer compares it */
    void *ctx;
    struct gw_table *sessions; /* NULL: its sessions' queue pairs are not told */
    uint16_t port;
};

/* Begins to tell it, on a thread. The balancer need not be there yet. *out is NULL when there is none to
 * tell. 0 or a negative errno with the reason in gw_last_error(). */
int gw_cli_balancer_start(const struct gw_cli_balancer_opts *o, const struct gw_cli_balanced *server,
                          struct gw_cli_balancer **out);
/* Deregisters: the balancer gives this server no more connections, and those that it has go on. From now on
 * `load` is not called any more. It takes some seconds when the balancer does not answer. NULL is allowed. */
void gw_cli_balancer_leave(struct gw_cli_balancer *b);
/* After that, and after the server has stopped: its last sessions have ended. NULL is allowed. */
void gw_cli_balancer_stop(struct gw_cli_balancer *b);

#endif
