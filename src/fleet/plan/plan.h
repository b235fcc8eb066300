/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h: the fleet's planner. It decides which model lies on which GPU, and who may send it how many
 * requests.
 *
 * A plan is a function: state, demand and the time go in, actions come out. It reads no clock, allocates
 * nothing and calls nothing that could fail. So the controller and the simulator (src/fleet/sim) run the
 * same code.
 *
 * Units: times in nanoseconds of the controller's clock; rates in requests a second; memory in pages of
 * FLEET_PAGE bytes; a share is a part of one GPU's time, 0 to 1. Workers, models and places are numbers
 * below the limits that the state was made with.
 *
 * Who may call: one thread at a time for each state. Numbers that come from workers or clients must be
 * checked before they get here (fleet_profile_ok): the planner asserts what it believes, and refuses
 * nothing.
 */
#ifndef GW_FLEET_PLAN_H
#define GW_FLEET_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLEET_NONE UINT32_MAX /* no worker, model, place or request */

enum {
    FLEET_PAGE = 16 << 20,
    FLEET_SIZES = 5,      /* measured batch sizes: 1, 2, 4, 8 and 16 */
    FLEET_MAX_BATCH = 16, /* requests in a batch */
    FLEET_WINDOWS = 3,    /* of rates: the last 0.1 s, 1 s and 10 s */
    FLEET_CLASSES = 4,    /* of deadlines, for each model */
    FLEET_ALL = 255,      /* fleet_demand.admitted: the class is not shed */
};

/* Where a model's weights are, on one worker. */
enum fleet_where {
    FLEET_HOST,    /* in pinned host memory alone */
    FLEET_LOADING, /* on their way to the GPU; its pages are taken */
    FLEET_GPU,     /* on the GPU, and in host memory */
    FLEET_LEAVING, /* an EVICT is under way; the pages are still taken */
};

enum fleet_health {
    FLEET_GONE,     /* no such worker, or it died: it has no places */
    FLEET_ACTIVE,   /*  */
    FLEET_DRAINING, /* it gets nothing new, and what it has moves away */
};

/* What was measured of a model. */
struct fleet_model {
    uint32_t pages;               /* of weights */
    uint32_t expected;            /* on GPUs of workers that are not here yet, and come soon */
    uint32_t min_replicas;        /* leased places that it has at least, whatever the demand */
    int64_t exec_ns[FLEET_SIZES]; /* p99 of a batch of 1 << i */
    int64_t spread_ns;            /* p99 less p50, of the largest batch */
    int64_t load_ns;              /* host memory to GPU */
    int64_t disk_ns;              /* disk to host memory */
    uint32_t first;               /* its places: a list by fleet_place.next_of_model */
};

struct fleet_worker {
    uint32_t gpu_pages, gpu_used;   /* used: by places that are LOADING, GPU or LEAVING */
    uint32_t host_pages, host_used; /* used: by all its places */
    uint32_t slots;                 /* for requests, of all leases together */
    uint32_t loading;               /* places that are LOADING */
    uint8_t health;                 /* enum fleet_health */
    int64_t clock_error_ns;         /* its clock differs from ours by no more */
    float late;                     /* part of the answers that clients saw late, 0 to 1 */
    uint32_t first;                 /* its places: a list by fleet_place.next_of_worker */
};

/* A model on a worker. */
struct fleet_place {
    uint32_t worker, model; /* worker is FLEET_NONE: the place is free */
    uint32_t next_of_worker, prev_of_worker, next_of_model, prev_of_model;
    uint8_t where;     /* enum fleet_where */
    uint8_t failures;  /* LOADs that failed in a row */
    uint8_t max_batch; /* of its lease */
    bool dropping;     /* a DROP is under way */
    bool spill;        /* its lease is for what the model's other leases refuse */
    uint32_t slots;    /* of its lease; 0: there is none */
    float share;       /* of its lease */
    float rate;        /* of its lease */
    int64_t until_ns;  /* its lease ends */
    int64_t since_ns;  /* it is where it is since then */
    int64_t used_ns;   /* the last request, as telemetry says */
    int64_t retry_ns;  /* after failures: no LOAD before */
};

/* Requests of one model with deadlines of about one length. An unused class has no rate. */
struct fleet_class {
    int64_t deadline_ns; /* from a request's start to its answer */
    float rate;          /* offered in the last second */
    uint32_t waiting;    /* requests whose client has no lease */
};

struct fleet_demand {
    float rate[FLEET_WINDOWS];               /* offered, all classes, what was refused included */
    struct fleet_class class[FLEET_CLASSES]; /* by deadline, the shortest first */
    uint8_t admitted[FLEET_CLASSES]; /* of 255: what the last SHED let through; FLEET_ALL if there was none */
};

struct fleet_limits {
    uint32_t workers, models, places;
};

struct fleet_scratch; /* what a round works with; its content has no meaning between rounds */

struct fleet_state {
    struct fleet_limits limits;
    struct fleet_worker *workers;
    struct fleet_model *models;
    struct fleet_place *places;
    struct fleet_demand *demand;
    uint64_t *files; /* NULL: each worker has the files of all models; else a bit for each pair */
    uint32_t free_place, places_used;
    struct fleet_scratch *scratch;
};

/*
 * What the controller shall do, in this order. The planner has entered into the state what an action
 * begins, as if the worker had it already: a place that an action loads is LOADING. The controller enters
 * the results.
 */
enum fleet_kind {
    FLEET_LOAD,   /* model to the worker's GPU: from host memory if it is there, else from disk */
    FLEET_EVICT,  /* the worker refuses its requests, ends the batch that runs, and frees the pages */
    FLEET_DROP,   /* host memory too; the place is gone when the worker answers */
    FLEET_GRANT,  /* a lease: worker, model, slots, rate, share, max_batch, [earliest, latest] */
    FLEET_RESIZE, /* the lease changes; also the renewal of its end */
    FLEET_REVOKE, /* the lease ends now */
    FLEET_SHED, /* clients send `admitted` of 255 requests of this model and class; the others fail at once */
    FLEET_INFER,  /* run `batch` requests as one batch, to begin within [earliest, latest] */
    FLEET_REFUSE, /* the requests cannot be done in time: their clients are told so */
};

struct fleet_action {
    uint8_t kind;     /* enum fleet_kind */
    uint8_t class;    /* SHED */
    uint8_t admitted; /* SHED */
    uint8_t
        max_batch; /* GRANT, RESIZE: batches on this worker are no larger, so that tight leases there hold */
    bool spill;    /* GRANT, RESIZE: clients use it when they have no other lease, or that refused */
    uint8_t batch; /* INFER, REFUSE: how many requests */
    uint32_t worker, model, place;
    uint32_t slots;
    float rate, share;
    int64_t earliest_ns, latest_ns;
    uint32_t request[FLEET_MAX_BATCH]; /* INFER, REFUSE */
};

/* ---- the state (state.c) */

/* Bytes that a state of these limits needs, its scratch included. */
size_t fleet_state_size(const struct fleet_limits *limits);

/* Makes an empty state in `memory`, of fleet_state_size() bytes, aligned to 64. Workers are GONE, models
 * have no pages. */
struct fleet_state *fleet_state_init(void *memory, const struct fleet_limits *limits);

/* Bytes that `files` needs. The caller gives the memory, all zero: no worker has a file. */
size_t fleet_state_files_size(const struct fleet_limits *limits);
/* The worker has the model's file, or has it no more. Without `files` nothing happens. */
void fleet_state_set_file(struct fleet_state *s, uint32_t worker, uint32_t model, bool has);
bool fleet_state_has_file(const struct fleet_state *s, uint32_t worker, uint32_t model);

/* Makes `to`, of the same limits, equal to `from`, but for the scratch. `files` are shared. */
void fleet_state_copy(struct fleet_state *to, const struct fleet_state *from);

/* Whether a model's numbers are such that the planner can count with them. */
bool fleet_profile_ok(const struct fleet_model *m);

/* A new place in host memory, or FLEET_NONE if the state has no room for one. The worker has no place of
 * this model. */
uint32_t fleet_place_add(struct fleet_state *s, uint32_t worker, uint32_t model, int64_t now_ns);

/* Forgets a place. What it had of the worker's memory and leases is free. */
void fleet_place_remove(struct fleet_state *s, uint32_t place);

/* The place is elsewhere now; the worker's used pages follow. */
void fleet_place_move(struct fleet_state *s, uint32_t place, enum fleet_where where, int64_t now_ns);

/* The place of this model on this worker, or FLEET_NONE. */
uint32_t fleet_place_find(const struct fleet_state *s, uint32_t worker, uint32_t model);

/* The result of a LOAD: the weights are on the GPU; or the worker could not, and the planner waits before
 * it tries again. */
void fleet_loaded(struct fleet_state *s, uint32_t place, bool ok, int64_t now_ns);

/* The worker died: it is GONE, and so are its places. */
void fleet_worker_gone(struct fleet_state *s, uint32_t worker);

/* Asserts that lists, sums and limits of the state agree. Nothing in a release. */
void fleet_state_check(const struct fleet_state *s);

/* ---- what a batch costs (cost.c) */

/* p99 of a batch of n requests, 1 to FLEET_MAX_BATCH: between measured sizes it grows linearly. */
int64_t fleet_exec(const struct fleet_model *m, uint32_t n);

/* The largest batch that takes no longer than `limit_ns`; 0: none does. */
uint32_t fleet_batch_within(const struct fleet_model *m, int64_t limit_ns);

/* The batch by which one GPU serves most requests of this deadline: a request may wait for a whole batch
 * before its own. */
uint32_t fleet_batch_for(const struct fleet_model *m, int64_t deadline_ns);

/* ---- our policy: leases and placement (round.c) */

/* How the planner decides. fleet_tuning_default() has what simulations found best. */
struct fleet_tuning {
    float fill;       /* a place is full when its model uses this share */
    float high;       /* a worker above this share gives something away */
    int64_t valid_ns; /* a lease's length; it is renewed at half of it */
    int64_t rest_ns;  /* the least time that a model stays on a GPU */
    uint32_t spills;  /* leases of each model for what the others refuse, where memory is free for them */
    uint32_t tight_spills; /* the same, if deadlines allow batches of two at most */
    uint32_t worker_loads; /* LOADs under way on one worker, at most */
    uint32_t round_loads;  /* LOADs of one round, at most */
    bool leases;           /* false: placement alone, for policies that plan single requests */
};
void fleet_tuning_default(struct fleet_tuning *t);

/* One round: writes at most `max` actions and returns their number. What did not fit comes in the next
 * round. */
uint32_t fleet_plan(struct fleet_state *s, const struct fleet_tuning *t, int64_t now_ns,
                    struct fleet_action *out, uint32_t max);

#endif
