/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The serving module's session pool and kernels on a NIC that is a few arrays, for fuzzers that keep state.
 * Each grant of a session makes a new client. A client's payload consists of its own tag alone, so a word
 * of one client is recognised wherever it turns up.
 */
#ifndef TESTS_FUZZ_SERVE_WORLD_H
#define TESTS_FUZZ_SERVE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "src/serve/session.h"
#include "src/serve/wire.h"
#include "tests/fuzz/stream.h"

enum { WORLD_SESSIONS = 3, WORLD_SLOTS = 3, WORLD_FLOATS = 12 };
#define WORLD_BYTES (WORLD_FLOATS * sizeof(float))

/* Begins anew: no session is open. `faults` decides which of the NIC's calls fail; NULL: none. */
struct gw_session_pool *world_begin(struct stream *faults);
void world_end(void);

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
};
void world_send(uint32_t client, uint32_t session, const struct world_message *m);
/* The session's address and key as its client knows them. */
uint64_t world_address(uint32_t session);
uint32_t world_key(uint32_t session);

/* The client's NIC acknowledges what the session has sent. */
void world_acknowledge(uint32_t session);
/* One iteration of the loop. `meanwhile` runs while the model does. */
void world_turn(void (*meanwhile)(void *ctx), void *ctx);

#endif
