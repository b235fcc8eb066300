/* SPDX-License-Identifier: Apache-2.0 */
/* The door remembers what each model did in the last ten minutes, one value each five seconds. So a page that
 * is opened now has something to draw. A model takes 5 KB. One thread adds, and any thread asks. Time is an
 * argument: tests have a clock of their own. */
#ifndef GW_SERVER_HTTP_PAST_H
#define GW_SERVER_HTTP_PAST_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>

#include "src/server/lifecycle/server.h"
#include "src/server/requests/infer.h"
#include "src/server/requests/stats.h"

#define GW_PAST_SLOTS 120u
#define GW_PAST_NS    5000000000ull /* of one slot */

/* What happened in one slot. Times are of the requests that were answered; 0: none was. */
struct gw_past_slot {
    uint32_t success, failed, late, refused;
    float median_ns, p99_ns, queue_ns;
};

/* Slot n is at n % GW_PAST_SLOTS. */
struct gw_past_model {
    char name[GW_INFER_NAME];
    uint32_t version;
    uint64_t since, seen;         /* the first slot that has values, and the last one */
    struct gw_infer_stats before; /* its counts at the end of `seen` */
    struct gw_past_slot slot[GW_PAST_SLOTS];
};

struct gw_past {
    pthread_mutex_t lock;
    uint64_t slot, next; /* the last one that is full, and the one that is being filled; 0: none */
    uint64_t taken_ns;
    bool known[GW_PAST_SLOTS];    /* a client looked at the models in this slot */
    struct gw_past_model **model; /* some are NULL */
    size_t models;
    size_t near; /* the place where the next one is likely: models come in the same order each time */
};

void gw_past_open(struct gw_past *p);
void gw_past_close(struct gw_past *p);

/* Is it time for a slot? Then the caller adds each model that is served, and ends the slot. */
bool gw_past_begin(struct gw_past *p, uint64_t now_ns);
void gw_past_add(struct gw_past *p, const char *name, uint32_t version, const struct gw_infer_stats *s);
void gw_past_end(struct gw_past *p, uint64_t now_ns);

/* {"every_ms": 5000, "age_ms": …, "models": […]}, each with its `name`, `version` and lists of values, the
 * oldest first. null: nothing is known, or no request was answered. NULL: no memory. */
json_t *gw_past_json(struct gw_past *p, uint64_t now_ns);

#endif
