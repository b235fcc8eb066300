/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the client: its connection (client.c), and what runs over it. */
#ifndef GW_FLEET_ETCD_CLIENT_H
#define GW_FLEET_ETCD_CLIENT_H

#include <sys/queue.h>

#include "etcd.pb-c.h"
#include "src/fleet/etcd/etcd.h"
#include "src/fleet/etcd/urls.h"
#include "src/grpc/call.h"
#include "src/server/grpc/wire/arena.h"
#include "src/server/grpc/wire/pack.h"

enum {
    FLEET_ETCD_MAX_ANSWER = 64 << 20, /* bytes */
    FLEET_ETCD_MAX_RUNNING = 64,      /* calls under way; more wait */
    FLEET_ETCD_MAX_TOKEN = 4096,      /* bytes of what etcd gives for a password */
};

/* Reads an answer into *a, with memory of the arena. False: it is none. */
typedef bool fleet_etcd_read(const uint8_t *message, size_t bytes, struct gw_grpc_arena *arena,
                             struct fleet_etcd_answer *a);

struct fleet_etcd_call {
    struct gw_rpc rpc;
    struct fleet_etcd *e;
    TAILQ_ENTRY(fleet_etcd_call) entry;
    struct fleet_etcd_calls *list; /* the one it is in */
    const char *method;
    fleet_etcd_read *read;
    struct gw_grpc_message *message; /* NULL: it was sent, and must not be sent again */
    struct fleet_timer timer;        /* its deadline */
    uint64_t deadline, started;      /* gw_deadline */
    bool again;
    fleet_etcd_done *done;
    void *ctx;
};

TAILQ_HEAD(fleet_etcd_calls, fleet_etcd_call);

/* A call of many messages, which its owner makes on each connection. */
struct fleet_etcd_stream {
    struct gw_rpc rpc;
    LIST_ENTRY(fleet_etcd_stream) entry;
    /* There is a connection: start it. */
    void (*ready)(void *owner);
    void (*message)(void *owner, const uint8_t *message, size_t bytes);
    /* It has ended, and `ready` follows on the next connection. is_gone: with the connection; otherwise etcd
     * ended it, and gave the reason. */
    void (*ended)(void *owner, bool is_gone, const char *why);
    void *owner;
};

struct fleet_etcd {
    struct fleet_loop *loop;
    struct fleet_etcd_urls urls;
    uint32_t at; /* the URL that it uses */
    char *user, *password, *ca_file, *all;
    int64_t silent_ns;
    void (*state)(void *ctx, bool up, const char *line);
    void *ctx;

    struct gw_link link;
    int epoll; /* it is readable when the link's socket has news, of whatever kind */
    struct fleet_watch *watch;
    struct fleet_timer step, down;
    bool is_turning, again; /* inside fleet_etcd_turn; and there is more to do */
    bool is_ready;          /* connected, and etcd knows us */
    uint32_t failures;      /* since etcd answered last */
    uint64_t pause;         /* it connects, and starts calls, not before */

    struct fleet_etcd_resolve *resolve;
    char address[64]; /* of the URL's name, as a number; "" before it is known */

    char *token; /* what etcd gave for the password; NULL: none yet, or there is no password */
    struct fleet_etcd_call *login;

    int up; /* -1: nothing was said yet */
    char why[GW_RPC_WHY];

    struct fleet_etcd_calls waiting, running;
    uint32_t runs;
    LIST_HEAD(, fleet_etcd_stream) streams;
};

/* ---- client.c */

/* Has the client look around soon: there is something to send. */
void fleet_etcd_kick(struct fleet_etcd *e);
/* etcd answered: it is there. */
void fleet_etcd_well(struct fleet_etcd *e);
/* This member is of no use now: goes on to the next one. A silent one is left even when it is the only one:
 * another connection may do better. */
void fleet_etcd_leave(struct fleet_etcd *e, bool is_silent, const char *why);
/* How long a member may be silent now: longer after failures, so that a slow one is not left each time. */
uint64_t fleet_etcd_patience(const struct fleet_etcd *e);
/* The owner is set in *s; it hears `ready` soon. */
void fleet_etcd_stream_add(struct fleet_etcd *e, struct fleet_etcd_stream *s);
/* It hears no more. */
void fleet_etcd_stream_drop(struct fleet_etcd *e, struct fleet_etcd_stream *s);

/* ---- calls.c */

struct fleet_etcd_ask {
    const char *method;
    fleet_etcd_read *read;
    const ProtobufCMessage *message;
};
/* Makes a call of any kind; it waits until the client is ready. 0, -ENOMEM or -EINVAL (it is too large). */
int fleet_etcd_ask(struct fleet_etcd *e, const struct fleet_etcd_ask *ask, const struct fleet_etcd_how *how,
                   struct fleet_etcd_call **call);
/* Sends what waits. */
void fleet_etcd_calls_start(struct fleet_etcd *e);
/* Deals with those that have ended. */
void fleet_etcd_calls_look(struct fleet_etcd *e);
/* When the oldest answer is overdue; GW_NEVER: none is expected. */
uint64_t fleet_etcd_calls_overdue(const struct fleet_etcd *e);
/* Frees all, without a word. */
void fleet_etcd_calls_close(struct fleet_etcd *e);

/* ---- login.c */

/* Asks for a token, where there is a user. 0: there is one, or none is needed. -EAGAIN: later. */
int fleet_etcd_login(struct fleet_etcd *e);
/* etcd knows the token no more. */
void fleet_etcd_logout(struct fleet_etcd *e);

/* ---- status.c */

/* What a refusal means, as an errno of fleet_etcd_done. */
int fleet_etcd_errno(unsigned status, const char *why);
/* Is it the member's fault, so that another one may do better? */
bool fleet_etcd_is_members_fault(unsigned status, const char *why);

#endif
