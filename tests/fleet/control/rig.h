/* SPDX-License-Identifier: Apache-2.0 */
/* Workers and clients for tests of the controller, in its own loop. They do what the protocol says, and what
 * a test tells them to do instead. */
#ifndef GW_TESTS_FLEET_CONTROL_RIG_H
#define GW_TESTS_FLEET_CONTROL_RIG_H

#include <stdio.h>

#include "src/fleet/control/control.h"

#define MS INT64_C(1000000)
enum { RIG_MODELS = 64, RIG_LEASES = 1024 };

struct rig_worker {
    char name[FLEET_NAME];
    uint8_t id[FLEET_ID];
    struct fleet_conn *conn;
    uint32_t models, gpu_pages, pages; /* pages: of each model */
    uint32_t where[RIG_MODELS];
    int64_t exec_ns;
    struct fleet_lease lease[RIG_LEASES]; /* key 0: none */
    int64_t until[RIG_LEASES];
    uint64_t term;
    uint32_t fails, loads, evicts, leases, cut;
    bool silent;                /* it answers no action */
    struct fleet_target target; /* of the second WELCOME */
    bool targeted;
    bool obeys_another;
    char why[FLEET_WHY], leader[FLEET_ADDRESS];
};

struct rig_client {
    uint8_t id[FLEET_ID];
    struct fleet_conn *conn;
    char model[FLEET_MODEL];
    uint64_t offered; /* of each DEMAND */
    uint32_t waiting;
    int64_t deadline_ns;
    uint32_t welcomes, granted, revoked, nothing, sheds, cut, held; /* held: leases now */
    int32_t error;
    uint32_t admitted;
    struct fleet_granted last, lease[RIG_LEASES];
    struct fleet_timer timer;
    bool quiet; /* it sends no DEMAND */
    char leader[FLEET_ADDRESS];
};

extern struct fleet_loop *rig_loop;
extern char rig_address[FLEET_ADDRESS];

void rig_worker_dial(struct rig_worker *w, const char *name, uint32_t models);
/* Connects again, with what it has. */
void rig_worker_again(struct rig_worker *w);
void rig_client_dial(struct rig_client *c, const char *model, uint64_t offered);
void rig_client_again(struct rig_client *c);
void rig_run(int ms);
/* Until the condition holds, for some seconds at most. */
#define RIG_UNTIL(cond)                                                                                      \
    do {                                                                                                     \
        for (int rig_i = 0; !(cond) && rig_i < 4000; rig_i++) rig_run(2);                                    \
        assert_true(cond);                                                                                   \
    } while (0)

#endif
