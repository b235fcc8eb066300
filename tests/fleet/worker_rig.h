/* SPDX-License-Identifier: Apache-2.0 */
/* A worker, a controller and clients that a test plays, each on a loop of its own, in one thread. A loop that
 * is not run is a silent peer. */
#ifndef GW_TESTS_FLEET_WORKER_RIG_H
#define GW_TESTS_FLEET_WORKER_RIG_H

#include "src/fleet/plan/plan.h"
#include "src/fleet/worker/agent.h"
#include "src/fleet/worker/emulated.h"
#include "src/server/wire/wire.h"
#include "tests/fleet/worker_profile.h"

enum { RIG_RESULTS = 16384, RIG_HELD = 16384 };

/* A controller that obeys the test. */
struct rig_controller {
    struct fleet_loop *loop;
    struct fleet_listener *listener;
    struct fleet_conn *c; /* NULL: no worker is there */
    char address[FLEET_ADDRESS];
    uint64_t term; /* of WELCOME; 0: it sends ELSEWHERE to `leader` */
    const char *leader;
    int64_t telemetry_ns;
    int opened, closed, ready, leaves, models, held, results, tellings, late_models;
    struct fleet_hello_worker worker;
    struct fleet_has_model last_model;
    struct fleet_held lease[RIG_HELD];
    struct fleet_result result[RIG_RESULTS]; /* by seq modulo */
    uint64_t seq_of[RIG_RESULTS];
    struct fleet_telemetry told;
};

struct rig_client {
    struct fleet_conn *c; /* NULL: it has no connection */
    uint8_t id[FLEET_ID];
    bool open;
    int closed, answers, of_status[16], described, nothing;
    char why[FLEET_WHY], text[4096];
    struct fleet_answer last, refusal;
};

struct rig {
    struct fleet_loop *loop, *clients;
    struct fleet_zoo *zoo;
    struct fleet_agent *agent;
    struct rig_controller *ctl; /* NULL: its loop does not run */
    char lines[32][512];
    int nlines, left;
};

struct rig_opts {
    uint32_t models, gpu_pages, host_pages, slots, leases;
    const struct fleet_profile *profile;
    const char *controllers;
    size_t backlog;
    int64_t silent_ns;
};

void rig_controller_start(struct rig_controller *c, uint64_t term);
void rig_controller_stop(struct rig_controller *c);
void rig_start(struct rig *r, const struct rig_opts *o);
void rig_stop(struct rig *r);
/* All loops, for a moment. */
void rig_turn(struct rig *r);
/* Until it holds; the test fails after 10 s. */
#define rig_until(r, what)                                                                                   \
    do {                                                                                                     \
        int64_t end_ = rig_now() + 10 * SECOND;                                                              \
        while (!(what)) {                                                                                    \
            if (rig_now() > end_) fail_msg("not so within 10 s: %s", #what);                                 \
            rig_turn(r);                                                                                     \
        }                                                                                                    \
    } while (0)
void rig_sleep(struct rig *r, int64_t ns);

/* Sends an ACTION; returns its seq. */
uint64_t rig_action(struct rig_controller *c, uint32_t kind, uint32_t model, int64_t earliest,
                    int64_t latest);
/* Sends a lease of the client's; returns the seq. */
uint64_t rig_lease(struct rig_controller *c, const struct fleet_lease *l);
/* The outcome of that seq, or -1. */
int rig_outcome(const struct rig_controller *c, uint64_t seq);
struct fleet_lease rig_lease_of(const struct rig_controller *c, const struct rig_client *k, uint32_t number,
                                uint32_t model);
/* Loads the model and leases it, with all slots. */
void rig_serve(struct rig *r, const struct rig_client *k, uint32_t number, uint32_t model);

void rig_client_open(struct rig *r, struct rig_client *k);
int rig_client_request(struct rig_client *k, uint32_t lease, uint64_t key, uint64_t id, uint64_t budget_ns);

#endif
