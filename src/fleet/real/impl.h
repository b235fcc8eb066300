/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the real engine share. */
#ifndef GW_FLEET_REAL_IMPL_H
#define GW_FLEET_REAL_IMPL_H

#include <pthread.h>
#include <stdbool.h>

#include "src/fleet/pages/lane.h"
#include "src/fleet/pages/pages.h"
#include "src/fleet/plan/plan.h"
#include "src/model/graph/share.h"
#include "src/fleet/real/real.h"
#include "src/server/worker/call.h"
#include "src/server/worker/many.h"
#include "src/server/worker/repository.h"

struct real;

struct real_model {
    struct real *real;
    uint32_t number; /* the engine's, and the loop's */
    struct gw_model *model;
    struct gw_layout in, out; /* for the largest batch */
    struct gw_many_batch batch[FLEET_SIZES];
    uint32_t batches;
    struct gw_weights *shared;
    struct gw_plan_arena *arena; /* its own if it came while others were served; else NULL */
    struct fleet_weights *weights;
    struct fleet_has_model facts; /* but `where` */
    uint64_t told;                /* requests that telemetry has told of */
    uint64_t stamp;               /* of the file, when it was read */
    bool added;                   /* the loop knows it */
};

/* A file that could not be served; it is tried again when it is another one. */
struct real_bad {
    uint64_t stamp;
    struct real_bad *next;
};

/* A client, by the id of its connection. */
struct real_owner {
    uint8_t id[FLEET_ID];
    uint32_t users; /* leases and sessions; 0: the entry is free */
    uint32_t next;  /* with the same hash, or the next free one; UINT32_MAX: none */
};

struct real_lease {
    struct fleet_lease is; /* key 0: there is none */
    uint32_t owner;
};

struct real {
    struct fleet_engine engine; /* first: its ops are handed this struct */
    struct fleet_real_opts o;
    struct fleet_pages *pages;
    struct gw_plan_arena *arena; /* of all models that were there at first: one batch runs at a time */
    struct gw_many *many;
    struct gw_calls *calls;
    uint64_t reply_bytes;      /* that a client's slot must hold, beside the header */
    pthread_mutex_t host;      /* of what one thread at a time may tell the loop */
    struct real_model **model; /* by number; room for o.max_models */
    uint32_t models;           /* atomic; grows */
    pthread_mutex_t names;     /* of the next two */
    uint32_t listed;
    uint32_t *by_name;        /* the numbers, sorted by name; the newest of equal ones last */
    struct fleet_lane *scans; /* looks for new models */
    struct fleet_job scan;
    struct real_bad *bad;
    struct real_lease *lease; /* by number */
    pthread_mutex_t clients;  /* of the next three */
    struct real_owner *owner; /* by number */
    uint32_t *bucket;         /* by hash: the first owner; as many as there is room for owners */
    uint32_t owner_room, free_owner;
    struct fleet_lane *work; /* opens and closes sessions */
    struct fleet_job tend;
    bool tends;                    /* it is in the lane; atomic */
    int64_t page_ns, page_disk_ns; /* what a page takes to the GPU, and from disk; the worst so far */
    uint64_t told;                 /* all requests that there were at the last telemetry */
    bool untold;                   /* a model may have more to tell */
    uint32_t tell_from;            /* the model that telemetry looks at first */
    bool stopped;
};

static inline struct real *real_of(const struct fleet_engine *e)
{
    return (struct real *)e;
}

static inline bool real_on_gpu(const struct real *r)
{
    return gw_exec_kind(r->o.exec) == GW_EXEC_GPU;
}

/* Acquire: the models that it counts are complete. */
static inline uint32_t real_models(const struct real *r)
{
    return __atomic_load_n(&r->models, __ATOMIC_ACQUIRE);
}

int64_t real_now(void);
/* One line for the log. */
void real_say(const struct real *r, const char *form, ...) __attribute__((format(printf, 2, 3)));

/* ---- models.c */
/* Opens, plans and measures a model. */
int real_model_open(struct real *r, const struct gw_repository_entry *e, struct real_model **out);
void real_model_close(struct real_model *m);

/* ---- scan.c: opens all models of the repository; later those that are new. */
int real_scan_open(struct real *r);
void real_scan_close(struct real *r);
/* Gives a model to the loop, and lists it. An error: the model is the caller's still. */
int real_scan_add(struct real *r, struct real_model *m);
/* Looks for new ones, again and again. */
void real_scan_start(struct real *r);

/* ---- profile.c: how long batches and loads take. */
int real_measure(struct real_model *m);

/* ---- moves.c */
void real_arrived(void *ctx, void *user);
int real_leave(void *ctx, void *user);
void real_move(struct fleet_engine *e, struct fleet_move *m);
/* Moves a model and waits; the outcome. */
uint32_t real_move_wait(struct real_model *m, enum fleet_weights_move kind, int64_t *took_ns);

/* ---- leases.c */
int real_set_lease(struct fleet_engine *e, const struct fleet_lease *lease, int64_t until_at);
/* The number of a client, which is kept until real_owner_drop. UINT32_MAX: no memory. */
uint32_t real_owner_take(struct real *r, const uint8_t id[FLEET_ID]);
void real_owner_drop(struct real *r, uint32_t owner);

/* ---- calls.c */
void real_submit(struct fleet_engine *e, struct fleet_call *c);
void real_recall(struct fleet_engine *e, struct fleet_call *c);
void real_release(struct fleet_engine *e, struct fleet_call *c);

/* ---- sessions.c */
void real_open(struct fleet_engine *e, struct fleet_session *s);
void real_close(struct fleet_engine *e, struct fleet_session *s);

#endif
