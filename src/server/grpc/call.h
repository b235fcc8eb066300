/* SPDX-License-Identifier: Apache-2.0 */
/* One gRPC call, as methods see it: messages come in, each is answered in turn, and a status ends it.
 *
 * Each message of a call is a `turn`. A unary call has one; a stream has several under way at once, and its
 * answers leave in the order of its messages. A method answers its turn before it returns. */
#ifndef GW_SERVER_GRPC_CALL_H
#define GW_SERVER_GRPC_CALL_H

#include <stdint.h>

#include "src/server/grpc/wire/message.h"
#include "src/server/grpc/wire/status.h"

#define GW_GRPC_WINDOW 8 /* turns that a stream may have under way */

struct gw_grpc_turn;

struct gw_grpc_method {
    const char *path; /* "/package.Service/Method" */
    int stream;
    int waits;  /* it may take its time, so a thread of its own runs it */
    int health; /* it tells whether the server is well */
    /* Answers or refuses the turn. */
    void (*run)(void *ctx, struct gw_grpc_turn *turn);
};

/* The turn's message, which the turn keeps. */
const uint8_t *gw_grpc_turn_message(struct gw_grpc_turn *turn, size_t *bytes);
/* Nanoseconds until the caller's deadline, 0 when it has passed; UINT64_MAX: there is none. */
uint64_t gw_grpc_turn_budget(const struct gw_grpc_turn *turn);
/* The caller has gone: the answer is not read. */
int gw_grpc_turn_cancelled(struct gw_grpc_turn *turn);
/* The client, as src/door/who.h tells clients apart. */
const char *gw_grpc_turn_who(const struct gw_grpc_turn *turn);
/* Is the client a user of this host that has the connection open at this moment? */
int gw_grpc_turn_is_here(struct gw_grpc_turn *turn);
int gw_grpc_turn_streams(const struct gw_grpc_turn *turn);

/* Ends the turn; the answer is this function's to free. NULL: no memory was left for one. */
void gw_grpc_answer(struct gw_grpc_turn *turn, struct gw_grpc_message *answer);
/* Ends the turn and its call. */
void gw_grpc_refuse(struct gw_grpc_turn *turn, enum gw_grpc_status status, const char *why);

#endif
