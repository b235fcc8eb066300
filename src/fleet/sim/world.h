/* SPDX-License-Identifier: Apache-2.0 */
/* world.h: what the simulator's parts share. The controller's belief is in `state`; what is true is in the
 * structs here. */
#ifndef GW_FLEET_WORLD_H
#define GW_FLEET_WORLD_H

#include "gpuwire/detail/assert.h"
#include "src/fleet/plan/central.h"
#include "src/fleet/sim/histogram.h"
#include "src/fleet/sim/random.h"
#include "src/fleet/sim/sim.h"

enum { SIM_CLIENTS = 4 /* of each model */, SIM_MAX_ACTIONS = 4096, SIM_PLAN = 64 };

enum sim_kind {
    EV_DELIVER, /* a: request; it reaches its place's worker, or the controller */
    EV_ENDED,   /* a: worker, b: its life; a batch has ended */
    EV_TIMER,   /* a: worker; the device looks at its queues */
    EV_ACTION,  /* a: message; an action reaches a worker */
    EV_LOADED,  /* a: message; a LOAD has ended on the worker */
    EV_RESULT,  /* a: message; the controller learns how an action ended */
    EV_DONE,    /* a: place, b: worker; the controller learns that a batch has ended */
    EV_ROUND,   /* b: 1: one that was asked for */
    EV_WAKE,    /* the controller plans requests */
    EV_RATE,    /* a: model; its rate changes */
    EV_LOST,    /* a: request; its client has got no answer by the deadline */
    EV_FAULT,
    EV_HEAL,   /* a: worker, b: enum sim_fault */
    EV_EXPIRE, /* a: worker; the controller misses its worker */
};

struct sim_request {
    int64_t start_ns, deadline_ns; /* at its client */
    uint32_t model, place, life;   /* where it was sent; the place's life then */
    uint8_t client, tries, class;
    bool last; /* its client will not send it elsewhere */
    bool open; /* it has not ended */
};

struct sim_place { /* beside the place of the same number in the state */
    struct fleet_queue queue;
    uint32_t life; /* how often the place was used for a model */
    uint32_t inflight[SIM_CLIENTS];
    uint32_t queued_at; /* in its worker's `busy`, or FLEET_NONE */
    uint32_t leased_at; /* in its model's `leases`, or FLEET_NONE */
    uint8_t where;      /* enum fleet_where, as it is */
    uint8_t max_batch;
    bool spill;       /* its lease is in leases[1] */
    bool evict;       /* it leaves when its batch ends */
    bool in_host;     /* its pages were read from disk */
    int64_t avoid_ns; /* clients that missed an answer send nothing before */
    uint32_t slots;
    double tokens, rate;
    float share;
    int64_t until_ns, refilled_ns;
};

struct sim_batch { /* an INFER that waits on a worker */
    struct fleet_action a;
    uint32_t life;
};

struct sim_worker {
    bool dead, cut, lies;
    int64_t cut_until_ns;
    uint32_t life;
    int64_t clock_ns;  /* its clock less the true time */
    uint32_t gpu_used; /* pages, as it is */
    uint32_t *busy;    /* places with queues */
    uint32_t nbusy, most_busy;
    uint32_t running; /* place of the batch that runs, or FLEET_NONE */
    int64_t ends_ns, expected_ns;
    uint32_t batch[FLEET_MAX_BATCH], nbatch;
    int64_t timer_ns;          /* the earliest EV_TIMER of it */
    uint32_t loads[8], nloads; /* messages: LOADs in order */
    bool copying;
    struct sim_batch plan[SIM_PLAN]; /* INFERs in order: a ring */
    uint32_t plan_head, plan_n;
    double busy_ns;
    uint32_t answers, late; /* since the last round, as clients saw it */
};

struct sim_leases {
    uint32_t *place, n, most;
};

struct sim_model {
    double rate, rate_now; /* mean; as it is */
    bool on, timer, bursty;
    double phase;
    struct fleet_queue waiting;    /* clients' requests without a lease */
    struct sim_leases leases[2];   /* as clients know them; [1]: for what the others refuse */
    uint32_t count[FLEET_CLASSES]; /* requests since the last round */
    int64_t deadline_ns;
    uint8_t admitted[FLEET_CLASSES];
    uint32_t shed; /* spreads what is shed evenly */
};

struct sim_message {
    struct fleet_action a;
    uint32_t life, worker_life, next;
    bool ok;
};

struct sim_world {
    struct sim_options o;
    struct sim_random random, load; /* load: what comes is the same for all policies */
    struct sim_result *result;
    int64_t now_ns;
    struct fleet_state *state;
    struct fleet_central *central;
    struct fleet_tuning tuning;
    struct sim_worker *workers;
    struct sim_model *models;
    struct sim_place *places;
    struct sim_request *requests;
    struct fleet_link *links; /* beside the requests */
    uint32_t request_free, request_max, open;
    struct sim_message *messages;
    uint32_t message_free, message_max;
    struct fleet_heap heap;
    struct fleet_action *actions;
    double *fenwick; /* rates of models, as sums */
    double total_rate;
    int64_t next_arrival_ns, last_arrival_ns, last_round_ns, asked_round_ns, central_wake_ns, paused_until_ns;
    int64_t last_sent_ns;
    uint64_t arrived;
    uint64_t hash;
    bool full; /* more requests are open than there is room for */
};

/* world.c */
void sim_at(struct sim_world *w, int64_t at_ns, enum sim_kind kind, uint32_t a, uint32_t b);
int64_t sim_hop(struct sim_world *w);
int64_t sim_way(const struct sim_world *w); /* a hop that is rarely exceeded */
void sim_finish(struct sim_world *w, uint32_t request, enum sim_end end, int64_t at_ns);
void sim_lose(struct sim_world *w, uint32_t request); /* its client learns nothing until its deadline */
uint32_t sim_message(struct sim_world *w, const struct fleet_action *a);
void sim_message_free(struct sim_world *w, uint32_t message);
void sim_note(struct sim_world *w, uint64_t what, uint64_t which); /* into the hash */
void sim_ask(struct sim_world *w); /* the controller: a client has no lease, a round comes soon */

/* load.c */
void sim_load_start(struct sim_world *w);
void sim_load_rate(struct sim_world *w, uint32_t model); /* EV_RATE */
uint32_t sim_load_pick(struct sim_world *w);             /* the model of the next request */
void sim_load_next(struct sim_world *w);                 /* when it comes */

/* client.c */
void sim_client_request(struct sim_world *w, uint32_t model);
void sim_client_send(struct sim_world *w, uint32_t request); /* to a lease, or it waits for one */
void sim_client_refused(struct sim_world *w, uint32_t request);
void sim_client_lease(struct sim_world *w, uint32_t place, bool spill);
void sim_client_unlease(struct sim_world *w, uint32_t place);
void sim_client_left(struct sim_world *w, uint32_t request); /* it is no longer in flight */
void sim_client_expire(struct sim_world *w, uint32_t model);

/* device.c */
void sim_device_deliver(struct sim_world *w, uint32_t request);
void sim_device_look(struct sim_world *w, uint32_t worker);
void sim_device_flush(struct sim_world *w, uint32_t place); /* refuses all that is queued there */

/* batch.c */
void sim_worker_start(struct sim_world *w, uint32_t worker, uint32_t place); /* its batch[] */

/* worker.c */
void sim_worker_ended(struct sim_world *w, uint32_t worker, uint32_t life);
void sim_worker_action(struct sim_world *w, uint32_t message);
void sim_worker_admin(struct sim_world *w, uint32_t worker);
void sim_worker_loaded(struct sim_world *w, uint32_t message);
void sim_worker_plan(struct sim_world *w, uint32_t worker);
void sim_worker_die(struct sim_world *w, uint32_t worker);

/* control.c */
void sim_control_round(struct sim_world *w, bool asked);
void sim_control_result(struct sim_world *w, uint32_t message);
void sim_control_request(struct sim_world *w, uint32_t request);
void sim_control_done(struct sim_world *w, uint32_t place, uint32_t worker);
void sim_control_wake(struct sim_world *w);
void sim_control_expire(struct sim_world *w, uint32_t worker);

/* fault.c */
void sim_fault(struct sim_world *w);
void sim_heal(struct sim_world *w, uint32_t worker, uint32_t what);

/* check.c */
void sim_check(const struct sim_world *w);

#endif
