/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of a connection (conn.c) and its calls (call.c). */
#ifndef GW_SERVER_GRPC_CONN_IMPL_H
#define GW_SERVER_GRPC_CONN_IMPL_H

#include <pthread.h>
#include <stdbool.h>

#include "src/server/grpc/conn.h"
#include "src/server/grpc/wire/h2.h"

/* The cost of work that may be useless, in the units of account.h. */
#define GW_GRPC_COST_FRAME      1
#define GW_GRPC_COST_CALL       10
#define GW_GRPC_COST_ERROR      10 /* a stream that the peer's mistake ends */
#define GW_GRPC_COST_CONNECTION 20
#define GW_GRPC_WORTH_CALL      16 /* of one that was served: what it has cost, and the frames around it */
#define GW_GRPC_WORTH_REFUSAL   8  /* of one whose client has heard why it is not served */
#define GW_GRPC_WORTH_MESSAGE   8
#define GW_GRPC_WORTH_FRAME     4 /* of an answer: the peer's windows grow by frames */

/* Bytes that a peer may send on a stream before it has heard of more. */
#define GW_GRPC_FIRST_WINDOW (256u << 10)

struct gw_grpc_call {
    struct gw_grpc_waiter waiter; /* first, so that one is the other */
    struct gw_grpc_call *next, **link;
    struct gw_grpc_conn *conn;
    struct gw_grpc_request_head head;
    int32_t stream;
    uint32_t refs;  /* the stream, its turns' jobs, and a wait for a place */
    int is_entered; /* the account has it */

    struct gw_grpc_inbox inbox;
    uint64_t place;           /* that the message on its way in has */
    uint8_t *early;           /* bytes that cannot be looked at yet; at most what a stream's window holds */
    size_t earlies;           /* of them; the account has them */
    uint32_t advance, owed;   /* bytes that the peer may send already; that its window lacks */
    int waits;                /* for the message's place */
    int has_message, has_all; /* a message has come whole; the client sends no more */

    struct gw_grpc_turn *first, **last; /* whose answers have not left, in order */
    uint32_t turns;
    enum gw_grpc_status status;
    char *why;
    int begun, done, closed;      /* its headers are under way; its end is known; its stream is over */
    int is_served;                /* a method has answered */
    uint64_t deadline;            /* UINT64_MAX: none */
    uint64_t since_in, since_out; /* it has been the client's turn to send, and to take, since then */
};

struct gw_grpc_conn {
    pthread_mutex_t lock;
    uint32_t refs; /* the owner, each call, and each thread that is inside */
    struct gw_grpc_env *env;
    struct gw_h2 h2;
    struct gw_grpc_client *client;
    struct gw_grpc_call *calls;
    gw_grpc_watch *watch;
    void *watch_ctx;
    int watches_out;
    int over, finishing; /* nothing is read or sent any more; it ends when its calls have */
    struct gw_grpc_turn *todo, **todo_last; /* to be run when the lock is free */
    uint64_t freed;                         /* bytes that others may have */
    int withdrew;                           /* one that waited waits no more */
    int64_t cost;                           /* that the account has not been told of */
    int64_t credit;                         /* of this connection alone */
    uint64_t credited;
    uint64_t last; /* when a call ended; 0: none has */
    uint64_t stuck_since;
    uint64_t due; /* the first deadline of its calls; UINT64_MAX: none has one */
};

/* Takes the lock, and lets it go. Between them anything may be changed: what there is to be sent is sent, and
 * what others wait for is passed on, on the way out. */
void gw_grpc_conn_enter(struct gw_grpc_conn *n);
void gw_grpc_conn_leave(struct gw_grpc_conn *n);

/* All with the connection's lock held, as call.c states. */
struct gw_grpc_call *gw_grpc_call_new(struct gw_grpc_conn *n, int32_t stream);
void gw_grpc_call_begin(struct gw_grpc_call *c);
void gw_grpc_call_data(struct gw_grpc_call *c, const uint8_t *data, size_t n);
void gw_grpc_call_end_of_input(struct gw_grpc_call *c);
/* It ends with that status, whatever is under way. */
void gw_grpc_call_finish(struct gw_grpc_call *c, enum gw_grpc_status status, const char *why);
/* Its stream is over; `orderly`: it was not reset. */
void gw_grpc_call_closed(struct gw_grpc_call *c, int orderly);
/* The place that it has waited for is there. */
void gw_grpc_call_placed(struct gw_grpc_call *c);
/* Ends it when it is late. */
void gw_grpc_call_look(struct gw_grpc_call *c, uint64_t now);
/* Nothing of it is worked on, or waits to be sent. */
bool gw_grpc_call_is_idle(const struct gw_grpc_call *c);
/* For the session's send_data callback. */
int gw_grpc_call_send_data(struct gw_grpc_call *c, const uint8_t *head, size_t n);

/* Runs turns, or gives them to the pool; without any lock. */
void gw_grpc_turns_run(struct gw_grpc_turn *todo);

#endif
