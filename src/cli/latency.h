/* SPDX-License-Identifier: Apache-2.0 */
/* A table of where requests' time went. */
#ifndef GW_CLI_LATENCY_H
#define GW_CLI_LATENCY_H

#include <stdio.h>

#include <gpuwire/client.h>

#include "src/serve/percentile.h"

struct gw_latency {
    struct gw_samples total, net_in, wait, model, post, net_out;
};

int gw_latency_add(struct gw_latency *l, const struct gw_client_times *t); /* 0 or -ENOMEM */
void gw_latency_print(struct gw_latency *l, FILE *f);
void gw_latency_free(struct gw_latency *l);

#endif
