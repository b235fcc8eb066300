/* SPDX-License-Identifier: Apache-2.0 */
/* Controllers and a real client for tests of whole fleets. The test brings the workers. */
#ifndef GW_TESTS_FLEET_WHOLE_RIG_H
#define GW_TESTS_FLEET_WHOLE_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/fleet/client/fleet_client.h"
#include "src/fleet/control/control.h"
#include "tests/fleet/worker_profile.h"

enum { WHOLE_CONTROLLERS = 2, WHOLE_MODELS = 16, WHOLE_REQUESTS = 20000 };

struct whole {
    struct fleet_loop *loop;
    struct fleet_control *control[WHOLE_CONTROLLERS];
    char controllers[2 * FLEET_ADDRESS];
    struct fleet_client *client;
    struct fleet_client_model *model[WHOLE_MODELS];
    uint32_t models, input_bytes, sent;
    int64_t gap_ns; /* between two requests: 1 ms at first */
};

extern struct whole whole;

/* Two controllers, of which the first leads, and a client of models PREFIX-0 and so on, or of one model of
 * that name if `models` is 1. */
void whole_start(const char *prefix, uint32_t models, uint32_t input_bytes);
/* A new leader waits for a worker of that name. */
void whole_expect(const char *worker);
/* After the workers that use its loop. */
void whole_stop(void);
/* The loop, for a moment. */
void whole_turn(void);
/* Sends a request to that model. */
void whole_request(uint32_t model);
/* How many have been answered well. */
uint32_t whole_good(void);
/* Waits until all are answered; the test fails if one failed, or many were refused. One that was refused is
 * sent again. */
void whole_settle(void);
/* A line for people who look: with GW_TEST_SAY. */
void whole_say(void *ctx, const char *line);

/* Sends a request each gap_ns until it holds; the test fails after 30 s. */
#define whole_load_until(what)                                                                               \
    do {                                                                                                     \
        int64_t end_ = rig_now() + 30 * SECOND, next_ = rig_now();                                           \
        while (!(what)) {                                                                                    \
            if (rig_now() > end_) fail_msg("not so within 30 s: %s", #what);                                 \
            if (rig_now() >= next_ && whole.sent < WHOLE_REQUESTS)                                           \
                whole_request(whole.sent % whole.models), next_ += whole.gap_ns;                             \
            whole_turn();                                                                                    \
        }                                                                                                    \
    } while (0)

/* Goes on until n more are answered well. */
#define whole_load(n)                                                                                        \
    do {                                                                                                     \
        uint32_t then_ = whole_good();                                                                       \
        whole_load_until(whole_good() >= then_ + (n));                                                       \
    } while (0)

#endif
