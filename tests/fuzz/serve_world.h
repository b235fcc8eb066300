/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The serving module's session pool and kernels, for fuzzers that keep state and for tests of the scheduler.
 * The NIC is a few arrays, with a clock of its own. The model has two inputs and two outputs, takes up to
 * four rows, and copies. Each grant of a session makes a new client. A client's payload consists of its own
 * tag alone, so a word of one client is recognised wherever it turns up.
 */
#ifndef TESTS_FUZZ_SERVE_WORLD_H
#define TESTS_FUZZ_SERVE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "src/server/worker/session.h"
#include "src/server/wire/wire.h"
#include "tests/fuzz/stream.h"

enum {
    WORLD_SESSIONS = 3,
    WORLD_SLOTS = 3,
    WORLD_ROWS = 4,
    WORLD_MODELS = 2,
    WORLD_FLOATS = 12,
    WORLD_MORE_FLOATS = 5
};

/* Starts again: no session is open. `faults` decides which of the NIC's calls fail; NULL: none. */
struct gw_session_pool *world_begin(struct stream *faults);
void world_end(void);

/* The same with several models and leases. No model is there, and no lease. All models copy. */
struct gw_session_pool *world_begin_tables(struct stream *faults, uint32_t leases);
/* What the host says of a model or a lease; what the kernel has answered of a model. */
void world_order(const struct gw_serve_order *order);
uint32_t world_seen(uint32_t model);
/* Requests that are counted on the lease. */
uint32_t world_in_flight(uint32_t lease);
/* One round of the kernel that receives beside the model: while a turn's `meanwhile` is called. */
void world_beside(void);
uint64_t world_clock(void);

/* A client's endpoint, which tells the NIC who it is. */
void world_endpoint(uint32_t client, struct gw_endpoint *ep);
/* A session was granted to a client: nothing of an earlier one may be left in it. */
void world_granted(uint32_t client, const struct gw_session_wish *wish, const struct gw_session_grant *grant);

/* A client writes `bytes` to addr through a session's queue pair: a header, then its tag. The NIC checks
 * key and range, and fails the queue pair as a real one does. */
struct world_message {
    struct gw_serve_request header;
    uint64_t addr;
    uint32_t rkey, bytes, imm;
    bool with_imm;
    uint8_t seed; /* tells requests of one client apart */
};
/* Of the tensors of `rows` rows; from one slot for requests to the next. */
uint64_t world_bytes(uint32_t rows);
uint64_t world_stride(void);
void world_send(uint32_t client, uint32_t session, const struct world_message *m);
/* The session's address and key as its client knows them. */
uint64_t world_address(uint32_t session);
uint32_t world_key(uint32_t session);

/* The NIC flushes one more receive of the session, whose queue pair has failed. */
void world_flush(uint32_t session);
/* `then` runs once: when the kernel has next polled completions, and before it looks at them. */
void world_after_poll(void (*then)(void *ctx), void *ctx);

/* The client's NIC acknowledges what the session has sent. */
void world_acknowledge(uint32_t session);
/* Time passes. */
void world_pass(uint64_t ns);
/* How long requests may wait for others; how long the model takes, and what it fails with. All 0 at first. */
void world_model(uint64_t delay_ns, uint64_t takes_ns, int fails);
/* Is called with each answer that reaches a client; NULL: none. */
void world_listen(void (*heard)(uint32_t session, const struct gw_serve_reply *reply, uint32_t imm));
/* Is every word of the answer's tensors the client's with that seed? */
bool world_is_echo(const struct gw_serve_reply *reply, uint32_t rows, uint32_t client, uint8_t seed);
/* One iteration of the loop. `meanwhile` runs while the model does. */
void world_turn(void (*meanwhile)(void *ctx), void *ctx);

#endif
