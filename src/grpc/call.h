/* SPDX-License-Identifier: Apache-2.0 */
/* One gRPC call: messages come in, each is answered in turn, and a status ends it.
 *
 * Each message of a call is a `turn`. A unary call has one; a stream has several under way at once, and its
 * answers leave in the order of its messages. Any thread may answer a turn. */
#ifndef GW_GRPC_CALL_H
#define GW_GRPC_CALL_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdint.h>

#include "src/grpc/gate.h"
#include "src/grpc/pool.h"

#define GW_GRPC_WINDOW 8 /* turns that a stream may have under way */

struct gw_grpc_turn;
struct gw_grpc_calls;

struct gw_grpc_method {
    const char *path; /* "/package.Service/Method" */
    int stream;
    int waits;  /* it may take its time, so a thread of its own runs it */
    int health; /* it tells whether the server is well */
    /* Answers or refuses the turn, at once or later. */
    void (*run)(void *ctx, struct gw_grpc_turn *turn);
};

struct gw_grpc_calls_opts {
    grpc_server *server;
    grpc_completion_queue *cq;
    struct gw_grpc_gate *gate;
    struct gw_grpc_pool *pool;
    const struct gw_grpc_method *method; /* ends with one that has no path */
    void *ctx;                           /* of the methods */
    const char *token;                   /* that calls must bring; NULL: none */
    int open_health;                     /* 1: but not of methods about the server's health */
    uint32_t messages;                   /* of unary calls that may be on their way in at once */
    uint32_t streams;                    /* that there may be */
    uint64_t patience_ns;                /* for a client to send its message, or to take the answer */
    uint64_t idle_ns;                    /* a stream may be silent so long */
};

int gw_grpc_calls_create(const struct gw_grpc_calls_opts *opts, struct gw_grpc_calls **out);
/* Waits for new calls: when the server has started. */
void gw_grpc_calls_open(struct gw_grpc_calls *c);
/* Cancels the calls whose client makes us wait too long. */
void gw_grpc_calls_tick(struct gw_grpc_calls *c);
/* Is any call's message being worked on, or its answer on its way out? */
int gw_grpc_calls_busy(struct gw_grpc_calls *c);
/* When the completion queue is empty. NULL is allowed. */
void gw_grpc_calls_free(struct gw_grpc_calls *c);
/* The threads of the completion queue call it with each tag. */
void gw_grpc_event(void *tag, int ok);

/* The turn's message, in one piece; the turn keeps it. NULL: no memory. */
const uint8_t *gw_grpc_turn_message(struct gw_grpc_turn *turn, size_t *bytes);
/* Frees the message early. */
void gw_grpc_turn_forget(struct gw_grpc_turn *turn);
/* Nanoseconds until the caller's deadline, 0 when it has passed; UINT64_MAX: there is none. */
uint64_t gw_grpc_turn_budget(const struct gw_grpc_turn *turn);
/* The caller has gone: nobody reads the answer. */
int gw_grpc_turn_cancelled(struct gw_grpc_turn *turn);
/* The client, as src/serve/who.h tells clients apart. */
const char *gw_grpc_turn_who(const struct gw_grpc_turn *turn);
int gw_grpc_turn_streams(const struct gw_grpc_turn *turn);

/* Ends the turn; the answer is this function's to free. NULL: no memory was left for one. */
void gw_grpc_answer(struct gw_grpc_turn *turn, grpc_byte_buffer *answer);
/* Ends the turn and its call. */
void gw_grpc_refuse(struct gw_grpc_turn *turn, grpc_status_code status, const char *why);

#endif
