/* SPDX-License-Identifier: Apache-2.0 */
/* The client's insides: its connection, and what runs over it. */
#ifndef GW_FLEET_ETCD_STATE_H
#define GW_FLEET_ETCD_STATE_H

#include <sys/queue.h>

#include "src/fleet/etcd/etcd.h"
#include "src/fleet/etcd/urls.h"
#include "src/grpc/state.h"
#include "src/server/grpc/wire/arena.h"

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
    void (*turn)(void *client); /* looks around: what came, what is to be sent */
    bool is_turning, again;     /* inside `turn`; and there is more to do */
    bool is_ready;              /* connected, and etcd knows us */
    bool is_refused;            /* etcd does not let this user do what it asked for last */
    uint32_t failures;          /* since etcd answered last */
    uint64_t pause;             /* it connects, and starts calls, not before */

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

#endif
