/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of the world: each slot's request, and what must come of it. Every event is checked when it is
 * heard: its number, its request, and that the most likely token is the one that the client calculates.
 */
#ifndef TESTS_GENERATE_DEVICE_CLIENTS_H
#define TESTS_GENERATE_DEVICE_CLIENTS_H

#include "tests/generate/device/world.h"

enum { CLIENT_CONTEXT = 256 };

struct asked {
    bool live; /* it has not ended */
    bool warm; /* sampled with a temperature, or changed otherwise: any token will do */
    uint64_t id;
    uint32_t prompt, made, max, events;
    uint32_t status, detail, cached; /* of its last event */
    uint64_t posted, first;          /* when its last, its first event was */
    uint32_t token[CLIENT_CONTEXT];
};

void clients_begin(uint32_t sessions, uint32_t slots, uint32_t ring);
void clients_end(void);
/* The slot's latest request. */
struct asked *client_of(uint32_t session, uint32_t slot);
/* Asks. *q as world_request makes it, changed as the test likes. */
struct asked *client_ask(uint32_t session, uint32_t slot, struct gen_request q, const uint32_t *prompt);
struct asked *client_ask_more(uint32_t session, uint32_t slot, struct gen_request q, const uint32_t *prompt,
                              const uint32_t *stop, const struct gen_top *bias);
/* Nothing more comes to the session's slots. */
void client_gone(uint32_t session);
/* Takes all events that have come. */
void clients_hear(void);
/* Turns until no request lives, `most` at most; returns how many lived then. */
uint32_t clients_finish(uint32_t most);

#endif
