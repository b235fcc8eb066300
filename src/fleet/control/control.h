/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h: a fleet's controller. It plans which model lies on which GPU, tells workers, and shares each
 * worker's time among clients by leases. No request and no tensor passes it.
 *
 * One leads at a time. The others send workers, clients and tools to it. The controller does not know why it
 * leads: fleet_control_lead() says so, with a term that no earlier leader had.
 *
 * Who may call: the loop's thread. Nothing blocks. Functions return 0 or a negative errno, and say why in
 * gw_last_error(). Times are CLOCK_MONOTONIC in nanoseconds.
 */
#ifndef GW_FLEET_CONTROL_H
#define GW_FLEET_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/door/text.h"
#include "src/fleet/plan/plan.h"
#include "src/fleet/wire/conn.h"

struct fleet_control;

struct fleet_control_opts {
    struct fleet_loop *loop;
    const char *fleet;                 /* its name */
    const char *name;                  /* of this controller, or "" */
    const char *token;                 /* the fleet's secret; NULL: none */
    const uint8_t *id;                 /* FLEET_ID bytes: this life of the controller */
    const char *listen;                /* "HOST:PORT" */
    struct fleet_limits limits;        /* what it can hold; 0: 1,024 workers, 16,384 models, 262,144 places */
    const struct fleet_tuning *tuning; /* NULL: the default */
    int64_t telemetry_ns;              /* how often workers tell; 0: 10 ms */
    const char *device;                /* a NIC, which workers write their telemetry to; NULL: they send it */
    int64_t settle_ns; /* a new leader waits for its workers before it plans, at most for this; 0: 1 s */
    bool dry_run;      /* it decides and says what, and sends nothing */
    /* NULL: not asked for. A line for people; an action, of which the caller keeps no reference. */
    void (*say)(void *ctx, const char *line);
    void (*audit)(void *ctx, json_t *action);
    void *ctx;
};

int fleet_control_open(const struct fleet_control_opts *opts, struct fleet_control **out);
/* NULL is allowed. */
void fleet_control_close(struct fleet_control *c);
uint16_t fleet_control_port(const struct fleet_control *c);

/* ---- who leads */

/* This one leads, with a term larger than any before. It knows nothing yet: workers tell what they hold. */
void fleet_control_lead(struct fleet_control *c, uint64_t term);
/* It leads no more: peers are sent away, and all that it knew is forgotten. */
void fleet_control_yield(struct fleet_control *c, const char *why);
/* The address of the one that leads, for peers that come here; "": not known. */
void fleet_control_elsewhere(struct fleet_control *c, const char *leader);
/* True: what was granted goes on, and nothing new is granted (etcd is away). */
void fleet_control_freeze(struct fleet_control *c, bool frozen);
/* While it settles: workers that shall be there. It plans when all of them are. */
void fleet_control_expect(struct fleet_control *c, const char *worker, bool is);
/* What an earlier leader wanted: the model on the worker's GPU, or there no more. As long as such a worker is
 * expected, its models are not loaded elsewhere. */
void fleet_control_place(struct fleet_control *c, const char *worker, const char *model, bool is);

/* ---- what people ask for */

/* Gives the worker nothing new and moves away what it has, or ends that. It holds for workers that are not
 * there yet, too. -ENOMEM, or -EINVAL: no name. */
int fleet_control_drain(struct fleet_control *c, const char *worker, bool drains);
/* A model that people name, whether a worker has it or not. */
struct fleet_control_wish {
    char name[FLEET_MODEL];
    uint32_t version;  /* 0: any */
    uint32_t replicas; /* GPUs that it shall be on at least, whatever the demand; as far as memory is free */
};
/* Replaces all wishes. Clients that ask for a named model wait for a worker that has it; others are told that
 * there is none. -ENOMEM, or -EINVAL: a name is none. Then the wishes are as they were. */
int fleet_control_wishes(struct fleet_control *c, const struct fleet_control_wish *wish, uint32_t n);

/* What the next leader shall find. Any function may be NULL. */
struct fleet_control_keeper {
    /* A tool asks for a drain; before it is done. */
    void (*drain)(void *ctx, const char *worker, bool drains);
    /* The planner wants the model on the worker's GPU, or there no more. */
    void (*place)(void *ctx, const char *worker, const char *model, bool on_gpu);
    /* A first worker has the model. */
    void (*model)(void *ctx, const struct fleet_has_model *told, const struct fleet_model *profile);
    /* A worker leaves for another leader, at that address. */
    void (*other)(void *ctx, const char *leader);
    void *ctx;
};
/* `keeper` is copied; all zero: there is none. */
void fleet_control_keep(struct fleet_control *c, const struct fleet_control_keeper *keeper);

/* Workers, models, places and deadlines kept. A new reference, or NULL without memory. */
json_t *fleet_control_table(struct fleet_control *c);
/* The models whose files some worker has, and those that people named, each with `name` and `version`: for
 * routers. As above. */
json_t *fleet_control_models(struct fleet_control *c);
/* What the planner would do now. A new reference, or NULL without memory. */
json_t *fleet_control_plan(struct fleet_control *c);
/* The same numbers in the format of Prometheus. */
void fleet_control_metrics(struct fleet_control *c, struct gw_text *out);

#endif
