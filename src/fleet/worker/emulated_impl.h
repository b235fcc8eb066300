/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the emulated engine share. All on the loop's thread. */
#ifndef GW_FLEET_WORKER_EMULATED_IMPL_H
#define GW_FLEET_WORKER_EMULATED_IMPL_H

#include "src/fleet/plan/plan.h"
#include "src/fleet/sim/random.h"
#include "src/fleet/worker/emulated.h"
#include "src/server/wire/wire.h"

#define EMULATED_NOWHERE UINT32_MAX /* in the list of busy places */
#define EMULATED_ON_DISK UINT32_MAX /* as in struct fleet_has_model.where */

struct fleet_zoo {
    uint32_t models;
    struct fleet_profile profile;
    void *zeros; /* the largest answer */
};

/* A request that waits. */
struct emulated_entry {
    uint64_t rank,
        order; /* the next one has the least rank, then the least order (src/server/device/queue.h) */
    int64_t deadline_at; /* INT64_MAX: none */
    struct fleet_call *call;
};

/* A model on this worker that has been used or moved: a heap of the requests that wait for it. */
struct emulated_place {
    uint32_t model;
    uint32_t where; /* enum fleet_where, or EMULATED_ON_DISK */
    struct emulated_entry *heap;
    uint32_t n, room;
    uint32_t busy_at; /* its place in the list of those with requests, or EMULATED_NOWHERE */
    uint32_t of_batch[FLEET_MAX_BATCH + 1]; /* leases by their max_batch */
    struct fleet_move *leaves;              /* the EVICT or DROP that waits for the batch that runs */
    uint64_t requests, refused;
    bool told; /* telemetry knows of all its requests */
    struct emulated_place *next_to_tell;
};

struct emulated_lease {
    struct fleet_lease lease; /* key 0: there is none */
    int64_t until_at;
    int64_t interval_ns, next_at; /* of its budget: between samples; the next one is due */
    uint32_t in_flight;
};

struct emulated {
    struct fleet_engine engine; /* first: its ops are handed this struct */
    struct fleet_emulated_opts o;
    struct sim_random random;
    struct emulated_place **place; /* by model; NULL: never used */
    uint32_t in_host;              /* models below it were in host memory at first */
    uint32_t gpu_used, host_used;

    struct emulated_lease *lease; /* by number, below `leases` */
    uint32_t leases;

    struct emulated_place **busy; /* places with requests that wait */
    uint32_t nbusy, busy_room;
    uint64_t order, batches;
    uint32_t waiting;

    struct emulated_place *running; /* NULL: the GPU is idle */
    struct emulated_entry batch[FLEET_MAX_BATCH];
    uint32_t nbatch, rows;
    int64_t began_at, ends_at;
    struct fleet_timer batch_timer;

    struct fleet_move *first, *last; /* LOADs that wait, the first of them is copied if `copying` */
    bool copying;
    uint32_t leaving; /* places with an EVICT that waits */
    struct fleet_timer load_timer;

    struct emulated_place *to_tell;
    uint64_t answered, late, refused;
};

static inline struct emulated *emulated_of(const struct fleet_engine *e)
{
    return (struct emulated *)(uintptr_t)e;
}

static inline bool emulated_before(const struct emulated_entry *a, const struct emulated_entry *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->order < b->order;
}

/* ---- emulated_queue.c */

/* Where a model is. */
uint32_t emulated_where(const struct emulated *e, uint32_t model);
/* Its place, which is made when it has none. NULL: no memory. */
struct emulated_place *emulated_place(struct emulated *e, uint32_t model);
/* Telemetry has something new to tell of it. */
void emulated_tell(struct emulated *e, struct emulated_place *p);
/* How large the model's batches may be now: as large as its strictest lease allows. */
uint32_t emulated_most(const struct emulated_place *p);
/* The priority comes first, then the deadline. */
uint64_t emulated_rank(const struct fleet_request *r, int64_t deadline_at);
/* Puts an admitted request into its place's queue. False: no memory. */
bool emulated_enqueue(struct emulated *e, struct emulated_place *p, struct fleet_call *c);
/* Takes the request at that place of the heap out. */
struct emulated_entry emulated_take(struct emulated *e, struct emulated_place *p, uint32_t at);
/* Answers a request that is in no queue. The call is its owner's afterwards. */
void emulated_answer(struct emulated *e, struct fleet_call *c, enum gw_serve_status status, int64_t retry_ns);
/* The same for one that was admitted: its lease has the slot back. */
void emulated_answer_admitted(struct emulated *e, struct fleet_call *c, enum gw_serve_status status,
                              int64_t retry_ns);
/* Answers all that wait for a place. */
void emulated_flush(struct emulated *e, struct emulated_place *p, enum gw_serve_status status,
                    int64_t retry_ns);

/* ---- emulated_expect.c */

/* When a request that comes now will have been served at the soonest: after what runs, what must end sooner,
 * and what its own model has before it. */
int64_t emulated_estimate(const struct emulated *e, const struct emulated_place *p,
                          const struct fleet_call *c, int64_t deadline_at);

/* ---- emulated_admit.c */

int emulated_lease(struct fleet_engine *engine, const struct fleet_lease *l, int64_t until_at);
void emulated_submit(struct fleet_engine *engine, struct fleet_call *c);

/* ---- emulated_batch.c */

/* Begins a batch if the GPU is idle and requests wait. */
void emulated_look(struct emulated *e);

/* ---- emulated_move.c */

void emulated_move(struct fleet_engine *engine, struct fleet_move *m);
/* The batch of a place has ended, on which an EVICT waits. */
void emulated_left(struct emulated *e, struct emulated_place *p);
/* Ends all moves that are under way. */
void emulated_stop_moves(struct emulated *e);

#endif
