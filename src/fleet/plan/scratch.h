/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h: what the steps of one round of the planner tell each other. */
#ifndef GW_FLEET_SCRATCH_H
#define GW_FLEET_SCRATCH_H

#include "src/fleet/plan/plan.h"

/* What a model needs. */
struct fleet_need {
    float rate;          /* expected */
    float use;           /* of GPUs, in all: 1.5 is one GPU and a half */
    float cost;          /* share for one request a second, in the batches that its deadline allows */
    int64_t deadline_ns; /* the tightest of its classes */
    uint32_t want;       /* leased places, without those for what others refuse */
    uint32_t spill;      /* the latter: how many it has */
    uint32_t have;       /* LOADING or GPU, on workers that stay */
    uint32_t leased;     /* with a lease for all its requests, on workers that stay */
    uint32_t waiting;    /* requests without a lease */
    uint32_t spills;     /* leases that it should have for what others refuse */
    bool tight;          /* its deadlines allow no batches to speak of: it may spread */
};

/* A worker has at most one lease for this number of its slots. */
enum { FLEET_SLOTS_EACH = 8 };

/* What a worker has left. */
struct fleet_room {
    float load;             /* expected share of its leases */
    float least;            /* the same, if all batches were as large as their deadlines allow */
    float granted;          /* shares of its leases, as in the places */
    float asked;            /* shares that its leases should have before they are fitted to the worker */
    uint32_t slots, leases; /* of its leases; how many they are */
    uint32_t free_pages;    /* of the GPU, those that are LEAVING included */
    uint32_t old_pages;     /* of models unused for a while, which clients that wait may push out */
    uint32_t idle_pages;    /* of models that a LOAD may push out */
    uint32_t mark;          /* the last wish that found its model here */
    int64_t block_ns;       /* the shortest wait that a lease here allows: deadline less its own time */
    int64_t longest_ns;     /* the longest single request of its leases */
};

/* A model that should have one more place. The most urgent comes first out of a heap. */
struct fleet_wish {
    float urgency;
    uint32_t model;
};

struct fleet_scratch {
    struct fleet_need *need;
    struct fleet_room *room;
    struct fleet_wish *wish;
    uint32_t wishes, marks;
};

struct fleet_round {
    struct fleet_state *s;
    const struct fleet_tuning *t;
    int64_t now_ns;
    struct fleet_action *out;
    uint32_t n, max;
};

/* act.c */

/* The next action, all zero but for what is given; NULL if there is no more room. */
struct fleet_action *fleet_act(struct fleet_round *r, enum fleet_kind kind, uint32_t place);

/* Whether a worker takes part in what is new. */
bool fleet_stays(const struct fleet_worker *w);

/* Ends a place's lease, and says so. False: there is no room for the action. */
bool fleet_revoke(struct fleet_round *r, uint32_t place);

/* The steps, in their order */
void fleet_need(struct fleet_round *r);  /* need.c: fills need and room */
void fleet_move(struct fleet_round *r);  /* move.c: LOAD, EVICT, DROP */
void fleet_lease(struct fleet_round *r); /* lease.c: GRANT, RESIZE, REVOKE */
void fleet_shed(struct fleet_round *r);  /* shed.c: SHED */

#endif
