/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the balancer that runs. */
#ifndef GW_CLI_BALANCE_CLIENT_H
#define GW_CLI_BALANCE_CLIENT_H

#include <jansson.h>

#include "src/cli/balance/args.h"

struct gw_balance_client {
    struct gw_http *http;
    char *token, *base;
};

/* 0, or the exit code after one line. */
int gw_balance_connect(const struct gw_balance_args *a, struct gw_balance_client *c);
void gw_balance_disconnect(struct gw_balance_client *c);
/* 0 and *reply is the caller's, or the exit code after one line. `body` may be NULL. */
int gw_balance_ask(struct gw_balance_client *c, const char *method, const char *path, const json_t *body,
                   json_t **reply);
/* A line for each part of the balancer that is silent, by what v1/stats says. */
void gw_balance_print_silent(const json_t *stats);
/* "10.0.0.1:80/tcp" of a service, "10.0.0.11:80" of a worker. */
void gw_balance_endpoint(const json_t *of, char *text, size_t size);

#endif
