/* SPDX-License-Identifier: Apache-2.0 */
/* A generator with the fake network in this process, and streams of it that are checked token by token. */
#ifndef GW_TEST_GENERATE_RIG_H
#define GW_TEST_GENERATE_RIG_H

#include <semaphore.h>
#include <stdbool.h>

#include "src/generate/worker/worker.h"
#include "tests/generate/worker/fake_net.h"

#define PATIENCE    60000000000u
#define RIG_CONTEXT 256u
#define RIG_PROMPT  64u

struct rig {
    struct gw_exec *exec;
    struct gw_device *dev;
    struct fake_net net;
    struct gen_worker *worker;
    struct gen_source source;
};

/* Starts one; zeros in `opts` get the tests' numbers. Blocks of the executor have that number of threads. */
void rig_begin(struct rig *r, uint32_t lanes, struct gen_worker_opts opts);
void rig_end(struct rig *r);
/* Each step takes that much longer from now on. */
void rig_slow(struct rig *r, uint32_t us);
/* Waits until no request is there. */
void rig_calm(struct rig *r);

/* A stream, and what came of it. */
struct told {
    struct gen_stream *stream;
    uint32_t token[RIG_CONTEXT]; /* the prompt, then what was made */
    uint32_t prompt, n;          /* tokens of the prompt, and all */
    uint32_t events, status;
    bool wrong; /* an event was not the next one, or its token not the network's */
    sem_t ended;
};

/* Submits a request of `prompt` tokens, made from `seed`, for `most` more. As gen_source_ops.submit. */
int told_submit(struct rig *r, struct told *t, uint32_t seed, uint32_t prompt, uint32_t most,
                const char *who);
/* Events so far. */
uint32_t told_events(const struct told *t);
/* Waits for its last event, checks its order and tokens, and releases it. Returns the status. */
uint32_t told_wait(struct rig *r, struct told *t);

#endif
