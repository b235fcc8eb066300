/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's kernels without a NIC and without a network. The NIC is a few arrays, with a clock of its
 * own. The network writes what it is given into the pages of the cache, and makes logits of what it finds
 * there for all positions of a lane. So a page that two lanes write, or that has other tokens, gives wrong
 * tokens.
 */
#ifndef TESTS_GENERATE_DEVICE_WORLD_H
#define TESTS_GENERATE_DEVICE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "src/generate/device/device.h"

struct world_opts {
    struct gen_device_shape shape;
    /* Threads of the turn kernel and of the sampling kernel; 0: this thread runs them, as functions. */
    uint32_t block;
    uint32_t ring; /* of each slot */
};

void world_begin(const struct world_opts *o);
void world_end(void);
struct gen_args *world_args(void);

/* The host opens a session for a new client, or lets go of one. False: the kernel has not yet acted on the
 * last word. */
bool world_open(uint32_t session);
bool world_close(uint32_t session);
bool world_is_open(uint32_t session);
/* The queue pair fails: the client is gone. */
void world_die(uint32_t session);
/* The client's NIC takes nothing, or again. */
void world_stall(uint32_t session, bool on);

/* Fills what a usual request has. */
struct gen_request world_request(uint64_t id, uint32_t prompt, uint32_t max_tokens);
/* The client writes it: header, prompt, stops, biases. False: its queue pair has no receive. */
bool world_ask(uint32_t session, uint32_t slot, struct gen_request *q, const uint32_t *prompt,
               const uint32_t *stop, const struct gen_top *bias);
/* The same with a message of another length, or none of the session's slots. */
bool world_ask_raw(uint32_t session, uint32_t slot, uint32_t imm, const void *bytes, uint32_t n);
void world_cancel(uint32_t session, uint32_t slot, uint64_t id);

/* The next event that has reached the client: its slot, and that slot's ring. */
bool world_event(uint32_t session, uint32_t *slot, const struct gen_event **ring);

/* One iteration of the loop, after which all is accounted for. Returns how many rows the step had. */
uint32_t world_turn(void);
/* The same without the account, which takes most of the time. */
uint32_t world_turn_unchecked(void);
void world_pass(uint64_t ns);
/* CPU time of the turn's and the sampling's kernel so far, where this thread runs them. */
void world_times(double seconds[2]);
/* The network fails in the next step. */
void world_fail(void);

/* The most likely token after these. */
uint32_t world_next(const uint32_t *token, uint32_t n);
/* The logits after these: `vocab` of them. */
void world_logits(const uint32_t *token, uint32_t n, float *logit);

/* Aborts with a line: threads of kernels call it, too. */
void world_require(bool is, const char *what, int line);
#define require(is) world_require(is, #is, __LINE__)

#endif
