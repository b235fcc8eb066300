/* SPDX-License-Identifier: Apache-2.0 */
/*
 * central.h: policies that plan each request in the controller, to be compared with ours. Both see all
 * requests, know what every GPU runs and when it will be free, and tell workers which batches to run in
 * which window.
 *
 *     clockwork   as OSDI'20 describes it. Batches are 1, 2, 4, 8 or 16. The batch that must begin first
 *                 goes first. A GPU has work for some milliseconds ahead. Models are loaded by the work that
 *                 waits for them. The model that was used longest ago makes room.
 *     deferred    as Symphony (arXiv 2308.07470) describes it. A batch begins when one more request could not
 *                 join it any more, so that batches are large. Placement is ours (fleet_plan without leases).
 *
 * Both are written from those descriptions. Units and rules are plan.h's.
 */
#ifndef GW_FLEET_CENTRAL_H
#define GW_FLEET_CENTRAL_H

#include "src/fleet/plan/heap.h"
#include "src/fleet/plan/queue.h"

struct fleet_central;
struct fleet_central_out {
    struct fleet_action *a;
    uint32_t n, max;
};

/* When a worker is looked at: now; when what is sent now is there; when a batch can begin. */
struct fleet_central_times {
    int64_t now_ns, soonest_ns, start_ns;
};

/* What a policy decides. */
struct fleet_central_policy {
    /* How large a batch of the model's requests may begin; 0: none may. Requests for which it is too late are
     * refused first. */
    uint32_t (*batch)(struct fleet_central *c, uint32_t model, const struct fleet_central_times *t,
                      struct fleet_central_out *out);
    /* When the model's batch may begin; NULL: at once. */
    int64_t (*begin)(const struct fleet_central *c, uint32_t model);
};
extern const struct fleet_central_policy fleet_clockwork, fleet_deferred;

struct fleet_central_options {
    const struct fleet_central_policy *policy;
    int64_t
        ahead_ns;   /* a GPU has work for this time: clockwork's 5 ms; for `deferred` the way to the worker */
    int64_t hop_ns; /* the way to a worker takes no longer */
};

struct fleet_central_model {
    struct fleet_queue queue;
    int64_t wake_ns; /* the earliest moment in the heap that is this model's */
};

struct fleet_central_worker {
    int64_t free_ns; /* what was sent will have ended by then */
    uint32_t active; /* its places whose models have requests: a list */
    uint32_t sent;   /* batches that have not ended */
};

struct fleet_central_place {
    uint32_t next, prev; /* of the worker's active places */
    uint32_t sent;       /* batches that have not ended */
    bool linked;
};

struct fleet_central {
    struct fleet_central_options o;
    struct fleet_state *s;
    struct fleet_link *links; /* the caller's; a request's number is its index */
    struct fleet_central_model *models;
    struct fleet_central_worker *workers;
    struct fleet_central_place *places;
    float *work; /* for each worker, in a round: seconds that wait for it */
    struct fleet_heap heap;
};

/* What stands in the heap. */
enum { FLEET_WAKE_WORKER, FLEET_WAKE_MODEL };

/* Bytes for fleet_central_init(); `requests`: as many may wait at once. */
size_t fleet_central_size(const struct fleet_limits *limits, uint32_t requests);

/* Makes a policy in `memory`, aligned to 64. It reads and changes `s`; `links` has room for `requests`. */
struct fleet_central *fleet_central_init(void *memory, struct fleet_state *s, struct fleet_link *links,
                                         uint32_t requests, const struct fleet_central_options *o);

/* A request has come. links[request].deadline_ns is when its batch must have ended on the worker. */
void fleet_central_request(struct fleet_central *c, uint32_t request, uint32_t model, int64_t now_ns);

/* A place's model is on the GPU now, or is about to leave it. */
void fleet_central_place(struct fleet_central *c, uint32_t place, bool loaded);

/* A worker has ended a batch; it is free at free_ns if nothing else was sent. */
void fleet_central_ended(struct fleet_central *c, uint32_t worker, uint32_t place, int64_t free_ns);

/* INFER and REFUSE actions that are due. Call again at fleet_central_wake(), or when there was no room. */
uint32_t fleet_central_step(struct fleet_central *c, int64_t now_ns, struct fleet_action *out, uint32_t max);
int64_t fleet_central_wake(const struct fleet_central *c);

/* Clockwork's placement: LOAD and EVICT. */
uint32_t fleet_clockwork_round(struct fleet_central *c, int64_t now_ns, struct fleet_action *out,
                               uint32_t max);

/* ---- for the policies */
/* Actions that must fit into `out` besides what a policy adds. */
enum { FLEET_CENTRAL_ROOM = 32 };

/* Refuses the first request of a model. */
void fleet_central_refuse(struct fleet_central *c, uint32_t model, struct fleet_central_out *out);

#endif
