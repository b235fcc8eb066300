/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs of a server behind a load balancer. Clients that call the balancer's address (the VIP) for a
 * session send their RDMA packets there, too. So the balancer must know which server has which queue pair
 * before the client does. */
#ifndef GW_CLI_SERVE_PAIRS_H
#define GW_CLI_SERVE_PAIRS_H

#include <pthread.h>

#include "src/client/http_client.h"
#include "src/server/lifecycle/table.h"

#define GW_CLI_SERVICE 96 /* bytes of a service's name, and of a worker's, with the final zero */

struct gw_cli_pair;

struct gw_cli_pairs {
    struct gw_table_route route; /* for the server's table of sessions */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int wake_fd; /* an eventfd: gw_cli_pairs_sync has something to do */
    struct gw_cli_pair *first;
    /* The balancer's last answer. */
    int told; /* it answers */
    char why[200];
    uint8_t vip[16];              /* a GID; zeros: not known yet */
    char service[GW_CLI_SERVICE]; /* with protocol roce, at the VIP; "": there is none */
    int nat;                     /* it changes addresses: clients see the VIP where this server has its own */
    char worker[GW_CLI_SERVICE]; /* this server there */
    int again;                   /* it may have lost some */
    int said;                    /* that RDMA goes past the balancer */
};

/* 0 or a negative errno with the reason in gw_last_error(). */
int gw_cli_pairs_init(struct gw_cli_pairs *p, const char *worker);
void gw_cli_pairs_free(struct gw_cli_pairs *p);

/* The functions below are for one thread, which talks to the balancer. */

/* The balancer's answer to a beat, with the service's address and where its RDMA goes. NULL: it has not
 * answered, and gw_last_error() says why. */
void gw_cli_pairs_hear(struct gw_cli_pairs *p, const json_t *answer);
/* Beats for the service with protocol roce, if there is one. `body` as for the other service, but for the
 * port. */
void gw_cli_pairs_beat(struct gw_cli_pairs *p, struct gw_http *http, json_t *body);
/* Tells the balancer what has begun and what has ended. */
void gw_cli_pairs_sync(struct gw_cli_pairs *p, struct gw_http *http);
/* All have ended: deregisters from that service. */
void gw_cli_pairs_leave(struct gw_cli_pairs *p, struct gw_http *http);

#endif
