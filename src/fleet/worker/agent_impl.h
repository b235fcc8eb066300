/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the agent share. All on the loop's thread, but for the engine's `done`. */
#ifndef GW_FLEET_WORKER_AGENT_IMPL_H
#define GW_FLEET_WORKER_AGENT_IMPL_H

#include "src/fleet/pipe/record.h"
#include "src/fleet/plan/plan.h"
#include "src/fleet/sim/random.h"
#include "src/fleet/worker/agent.h"
#include "src/fleet/worker/handover.h"

#define AGENT_MS     INT64_C(1000000)
#define AGENT_SECOND INT64_C(1000000000)

enum {
    AGENT_ADDRESSES = 16,             /* of controllers */
    AGENT_MAX_MOVES = 1 << 16,        /* ACTIONs under way */
    AGENT_TOLD = FLEET_RECORD_MODELS, /* models of one TELEMETRY */
};

struct agent_lease {
    struct fleet_lease lease; /* key 0: there is none */
    int64_t until_at;
};

/* Lists of clients, calls, sessions and moves are rings. */
struct agent_ring {
    struct agent_ring *prev, *next;
};

/* The context of a data port's connection: the agent's own until the peer has proved itself, then the
 * client's. */
struct agent_guest {
    struct fleet_agent *agent;
    bool is_client;
};

struct fleet_agent {
    struct fleet_agent_opts o;
    char fleet[FLEET_NAME], name[FLEET_NAME];
    char *token;
    uint8_t id[FLEET_ID];
    struct fleet_hello_worker facts;
    struct fleet_handover *done; /* the engine's threads hand over here */
    struct sim_random random;

    /* the leader: agent_control.c */
    char controllers[AGENT_ADDRESSES][FLEET_ADDRESS];
    uint32_t ncontrollers, next_controller;
    char leader[FLEET_ADDRESS];  /* as the registry says; "": it says nothing */
    char hint[FLEET_ADDRESS];    /* as another controller says; for one attempt */
    char dialled[FLEET_ADDRESS]; /* where `control` goes */
    struct fleet_conn *control;  /* NULL: none */
    uint64_t connection;         /* counts them */
    bool open;                   /* WORKER has been sent */
    bool welcome;                /* the leader has welcomed us: it knows all we have */
    uint64_t term;
    bool troubled; /* the log knows that no leader is there */
    int64_t backoff_ns;
    struct fleet_timer dial_timer, grow_timer;

    /* ACTIONs: agent_moves.c */
    struct agent_ring moves;
    uint32_t nmoves;

    /* agent_leases.c */
    struct agent_lease *lease;
    uint32_t leases; /* room in the table */
    uint32_t live;
    uint64_t slots;      /* of those in force */
    int64_t next_end_at; /* no lease ends sooner */
    struct fleet_timer lease_timer;

    /* telemetry: agent_tell.c */
    int64_t telemetry_ns;
    struct fleet_timer tell_timer;
    struct {
        struct fleet_telemetry t;
        struct fleet_telemetry_model model[AGENT_TOLD];
    } told;
    uint64_t tells;

    /* the same by RDMA: agent_write.c */
    struct {
        struct fleet_target to;
        struct fleet_pipe *pipe; /* NULL: telemetry is sent */
        bool told, targeted;     /* the leader knows our end; its own is connected */
        int64_t at;              /* of the last write */
    } write;

    /* the data port: agent_door.c */
    struct agent_guest stranger;
    struct fleet_listener *listener;
    struct agent_ring clients;
    uint32_t nclients, ncalls;
    struct agent_ring orphans; /* calls and sessions whose client has gone */

    /* the orderly end: agent_leave.c */
    bool leaving, left;
    int64_t leave_by_at, empty_at;
    struct fleet_timer leave_timer;
    void (*on_left)(void *ctx);
    void *left_ctx;
};

#define AGENT_OF(type, member, pointer) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void agent_ring_init(struct agent_ring *r)
{
    r->prev = r->next = r;
}

static inline void agent_ring_add(struct agent_ring *head, struct agent_ring *r)
{
    r->prev = head->prev;
    r->next = head;
    head->prev->next = r;
    head->prev = r;
}

static inline void agent_ring_remove(struct agent_ring *r)
{
    r->prev->next = r->next;
    r->next->prev = r->prev;
    agent_ring_init(r);
}

static inline int64_t agent_now(const struct fleet_agent *a)
{
    return fleet_loop_now(a->o.loop);
}

/* ---- agent_send.c */

/* A line for the log. */
void agent_say(const struct fleet_agent *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sends to the leader, if one has welcomed us. */
void agent_send(struct fleet_agent *a, uint16_t kind, uint64_t seq, const void *body, size_t bytes);
/* Answers an ACTION or a LEASE. */
void agent_result(struct fleet_agent *a, uint64_t seq, uint32_t model, enum fleet_outcome outcome,
                  const char *why);

/* ---- agent_control.c: the connection to the leader */

void agent_control_start(struct fleet_agent *a);
/* Says goodbye. */
void agent_control_stop(struct fleet_agent *a, const char *why);

/* ---- agent_moves.c */

void agent_moves_action(struct fleet_agent *a, uint64_t seq, const struct fleet_act *act);
/* The connection is over: what has not begun is forgotten. */
void agent_moves_forget(struct fleet_agent *a);

/* ---- agent_leases.c */

void agent_leases_set(struct fleet_agent *a, uint64_t seq, const struct fleet_lease *l);
/* Tells the leader of each lease in force: HELD. */
void agent_leases_tell(struct fleet_agent *a);
/* Ends those whose time is over. */
void agent_leases_end(struct fleet_agent *a);

/* ---- agent_tell.c */

void agent_tell_start(struct fleet_agent *a, const struct fleet_welcome *w);
void agent_tell_stop(struct fleet_agent *a);

/* ---- agent_write.c */

/* How the next record goes. */
enum agent_way {
    AGENT_SENDS,       /* over TCP */
    AGENT_SENDS_AGAIN, /* the same, and so does the last one, which may be lost */
    AGENT_WRITES,      /* by agent_write */
    AGENT_WAITS,       /* the last write has not ended: there is none now */
};
void agent_write_start(struct fleet_agent *a, const struct fleet_target *to);
void agent_write_stop(struct fleet_agent *a);
/* The leader's end is connected. */
void agent_write_targeted(struct fleet_agent *a);
enum agent_way agent_write_way(struct fleet_agent *a);
/* False: it has failed. */
bool agent_write(struct fleet_agent *a, const void *record, size_t bytes);
/* That fit into a record. */
uint32_t agent_write_models(const struct fleet_agent *a);

/* ---- agent_door.c */

int agent_door_open(struct fleet_agent *a);
/* Says goodbye to all clients, and takes no new ones. */
void agent_door_close(struct fleet_agent *a, const char *why);

/* ---- agent_leave.c */

void agent_leave_stop(struct fleet_agent *a);

#endif
