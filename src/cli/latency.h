/* SPDX-License-Identifier: Apache-2.0 */
/* A table of where requests' time went. */
#ifndef GW_CLI_LATENCY_H
#define GW_CLI_LATENCY_H

#include <stdio.h>

#include <gpuwire/client.h>

#include "src/cli/histogram.h"

enum gw_latency_part { GW_NET_IN, GW_WAIT, GW_MODEL, GW_POST, GW_NET_OUT, GW_TOTAL, GW_LATENCY_PARTS };

struct gw_latency {
    struct gw_histogram part[GW_LATENCY_PARTS];
};

/* Too large for a stack: NULL, when there is no memory; free() it. */
struct gw_latency *gw_latency_new(void);
void gw_latency_add(struct gw_latency *l, const struct gw_client_times *t);
void gw_latency_merge(struct gw_latency *to, const struct gw_latency *from);
/* A table of percentiles. Parts that nothing was told of are left out. */
void gw_latency_print(const struct gw_latency *l, FILE *f);

#endif
