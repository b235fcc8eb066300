/* SPDX-License-Identifier: Apache-2.0 */
/* The door counts what each client has of it, and what all have together: calls, streams, memory of messages,
 * and work that came to nothing. It counts from the first byte of a connection, before any token.
 *
 * A message has its place from the moment its length is known until its answer has left. One client gets
 * three quarters of the memory at most. Calls whose message has no place yet wait, in the order in which they
 * came.
 *
 * Work that came to nothing is paid for. A client has credit that comes back with time. Frames, calls and
 * connections cost some; a call that is answered gives it back, and more. */
#ifndef GW_SERVER_GRPC_ACCOUNT_H
#define GW_SERVER_GRPC_ACCOUNT_H

#include <pthread.h>
#include <stdint.h>

#include "src/door/who.h"

/* One client, as src/door/who.h tells clients apart. It lives while it is used. */
struct gw_grpc_client {
    struct gw_grpc_client *next;
    uint32_t users; /* its connections */
    uint32_t calls, streams;
    uint32_t running; /* jobs that threads work on; the pool's */
    uint64_t bytes;
    int64_t credit;
    uint64_t credited; /* when it last got some */
    char who[GW_WHO_TEXT];
};

/* A call that waits for its message's place: a member of the call. */
struct gw_grpc_waiter {
    struct gw_grpc_waiter *next;
    struct gw_grpc_client *client;
    uint64_t bytes;
};

struct gw_grpc_accounts {
    pthread_mutex_t lock; /* of everything in here, and of the clients; no other lock is taken under it */
    struct gw_grpc_client *clients;
    uint32_t calls, max_calls, calls_each;
    uint32_t streams, max_streams;
    uint64_t bytes, max_bytes, bytes_each;
    struct gw_grpc_waiter *head, **tail;
};

struct gw_grpc_limits {
    uint32_t calls, calls_each; /* under way, in all and of one client */
    uint32_t streams;           /* in all; a quarter of them is the most of one client */
    uint64_t bytes;             /* of messages and answers in all */
};

void gw_grpc_accounts_open(struct gw_grpc_accounts *a, const struct gw_grpc_limits *limits);
void gw_grpc_accounts_close(struct gw_grpc_accounts *a);

/* NULL: no memory. gw_grpc_client_leave follows. */
struct gw_grpc_client *gw_grpc_client_join(struct gw_grpc_accounts *a, const char *who);
void gw_grpc_client_leave(struct gw_grpc_accounts *a, struct gw_grpc_client *c);

/* Work that came to nothing, or with `cost` below 0 work that was of use. 0: the client's credit is used up.
 */
int gw_grpc_client_pay(struct gw_grpc_accounts *a, struct gw_grpc_client *c, int64_t cost);

/* A call begins. NULL, or why it may not. */
const char *gw_grpc_call_enter(struct gw_grpc_accounts *a, struct gw_grpc_client *c, int is_stream);
void gw_grpc_call_leave(struct gw_grpc_accounts *a, struct gw_grpc_client *c, int is_stream);

/* 1: there is a place for w->bytes. 0: w waits, until gw_grpc_place_next returns it or it is withdrawn. */
int gw_grpc_place_take(struct gw_grpc_accounts *a, struct gw_grpc_waiter *w);
/* 1: it waits no more. 0: it has been given its place, and gw_grpc_place_next returns it, or has. */
int gw_grpc_place_withdraw(struct gw_grpc_accounts *a, struct gw_grpc_waiter *w);
/* More bytes at once, or none: 0. */
int gw_grpc_place_grow(struct gw_grpc_accounts *a, struct gw_grpc_client *c, uint64_t bytes);
void gw_grpc_place_give(struct gw_grpc_accounts *a, struct gw_grpc_client *c, uint64_t bytes);
/* One that has waited and has its place now. NULL: there is none. */
struct gw_grpc_waiter *gw_grpc_place_next(struct gw_grpc_accounts *a);

#endif
