/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/server/worker/call.h: calls.c makes sessions, takes answers and mends what breaks.
 * call.c is what callers do. */
#ifndef GW_SERVER_WORKER_CALLS_H
#define GW_SERVER_WORKER_CALLS_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include <gpuwire/verbs.h>
#include <gpuwire/detail/held.h>

#include "src/server/worker/call.h"
#include "src/door/limit.h"
#include "src/door/who.h"

enum gw_call_state {
    CALL_FREE,
    CALL_TAKEN, /* the caller writes its inputs */
    CALL_SENT,  /* the worker has it */
    CALL_DONE,  /* the caller reads its outputs */
    CALL_LEFT   /* the worker has it, and no thread waits for it */
};

struct gw_slot {
    struct gw_call call; /* what the caller sees; first, so that one is the other */
    struct gw_calls *calls;
    struct gw_lane *lane;
    /* generation: that of the session it was sent by; placed: of the one that has its inputs, plus one. 0:
     * none has. */
    uint32_t index, rows, generation, placed;
    enum gw_call_state state;
    struct gw_call_target target;
    uint64_t id;
    void (*done)(void *ctx, struct gw_call *call);
    void *ctx;
    pthread_cond_t ended;
    char who[GW_WHO_TEXT];
};

enum gw_lane_life {
    LANE_CLOSED,
    LANE_OPENING, /* a thread opens its session */
    LANE_OPEN,
    LANE_BROKEN /* the calls' thread is about to close it */
};

/* One session. */
struct gw_lane {
    struct gw_cq *send_cq;
    struct gw_qp *qp;
    pthread_mutex_t post; /* held while something is posted: one thread at a time does */
    enum gw_lane_life life;
    struct gw_session_grant grant;
    uint32_t sent, generation;  /* under `post`: requests of this session; sessions so far */
    uint32_t visitors;          /* callers that are in its slots: it is closed when they have left */
    uint64_t in_addr, out_addr; /* its slots, as the NIC names them */
    struct gw_slot *slot;
};

struct gw_calls {
    struct gw_calls_opts opts;
    pthread_mutex_t lock; /* of states and lives; never held while anything is waited for */
    pthread_cond_t freed; /* a call was given back, or all is being closed */
    pthread_t thread;
    int started, closing, kick_fd;
    uint32_t held; /* callers that wait for a call, or are about to */
    struct gw_pd *pd;
    struct gw_cq *recv_cq;
    struct gw_mem in, out;
    struct gw_mr *in_mr, *out_mr;
    uint64_t in_stride, out_stride;
    uint64_t ids;
    struct gw_lane *lane;
    struct gw_slot *slot; /* of all lanes */
    struct gw_say_limit said;
};

static inline uint32_t gw_calls_total(const struct gw_calls *c)
{
    return c->opts.sessions * c->opts.slots;
}

static inline struct gw_serve_request *gw_calls_request(const struct gw_slot *s)
{
    uint64_t at = (uint64_t)(s - s->calls->slot) * s->calls->in_stride;
    return (struct gw_serve_request *)((uint8_t *)s->calls->in.host + at);
}

static inline const struct gw_serve_reply *gw_calls_reply(const struct gw_slot *s)
{
    uint64_t at = (uint64_t)(s - s->calls->slot) * s->calls->out_stride;
    return (const struct gw_serve_reply *)((const uint8_t *)s->calls->out.host + at);
}

/* Is it the worker's? */
static inline bool gw_calls_is_out(const struct gw_slot *s)
{
    GW_ASSERT_HELD(&s->calls->lock);
    return s->state == CALL_SENT || s->state == CALL_LEFT;
}

static inline struct timespec gw_calls_time(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

/* Opens the session of a lane that the caller has made LANE_OPENING: no other thread touches it. As
 * gw_session_open. */
int gw_calls_open_lane(struct gw_calls *c, struct gw_lane *l);
/* The lane's session is over: the calls' thread ends its calls, and closes it. */
void gw_calls_break_lane(struct gw_calls *c, struct gw_lane *l);

#endif
