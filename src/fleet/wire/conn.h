/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h: one thread's connections, timers and descriptors, and the frames of message.h over TCP.
 *
 * A loop belongs to one thread, which alone calls what is here, but for fleet_loop_call. Nothing blocks, but
 * the look-up of a name in fleet_dial. What cannot be sent waits in the connection, up to its limit, and a
 * peer that does not read is cut off. A token proves who is there when a connection opens; what follows is in
 * the clear.
 * Functions return 0 or a negative errno, and say why in gw_last_error().
 */
#ifndef GW_FLEET_WIRE_CONN_H
#define GW_FLEET_WIRE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/fleet/wire/message.h"

/* ---- the loop */

struct fleet_loop;

int fleet_loop_create(struct fleet_loop **out);
/* Closes all connections first, without a word to their handlers. NULL is allowed. */
void fleet_loop_destroy(struct fleet_loop *l);
/* Until fleet_loop_stop was called, or the time has come (CLOCK_MONOTONIC; INT64_MAX: never). One turn at
 * least. 0 or why it cannot go on. */
int fleet_loop_run(struct fleet_loop *l, int64_t until_at);
void fleet_loop_stop(struct fleet_loop *l);
/* The time, read once a turn. */
int64_t fleet_loop_now(const struct fleet_loop *l);
/* Any thread: has the loop's thread call f(ctx) soon. Calls of one thread stay in their order. -ENOMEM. */
int fleet_loop_call(struct fleet_loop *l, void (*f)(void *ctx), void *ctx);

/* A timer is part of the caller's struct. All zero at first. */
struct fleet_timer {
    int64_t at; /* the loop's: when; 0: it is not set */
    uint32_t place;
    void (*f)(void *ctx);
    void *ctx;
};
/* Sets it, or sets it to another time. -ENOMEM. */
int fleet_timer_set(struct fleet_loop *l, struct fleet_timer *t, int64_t at, void (*f)(void *ctx), void *ctx);
void fleet_timer_clear(struct fleet_loop *l, struct fleet_timer *t);

/* Calls f when the descriptor can be read, until it is dropped. The descriptor stays the caller's. */
struct fleet_watch;
int fleet_watch_add(struct fleet_loop *l, int fd, void (*f)(void *ctx), void *ctx, struct fleet_watch **out);
void fleet_watch_drop(struct fleet_loop *l, struct fleet_watch *w);

/* ---- connections */

struct fleet_conn;

struct fleet_handler {
    /* The peer has proved itself: fleet_conn_peer() says who it is. */
    void (*open)(void *ctx, struct fleet_conn *c);
    /* A frame. `body` has frame->bytes bytes, at a multiple of 8, and is the loop's again afterwards. HELLO,
     * PROVE, PING and PONG do not get here, nor does GOODBYE: it ends the connection, and `closed` gets its
     * error and reason. */
    void (*message)(void *ctx, struct fleet_conn *c, const struct fleet_frame *frame, const void *body);
    /* The connection is over, for whatever reason but fleet_conn_close(); it is freed afterwards. Also for
     * one that never was open. Never called within fleet_send or fleet_dial. `err` is a negative errno. */
    void (*closed)(void *ctx, struct fleet_conn *c, int err, const char *why);
};

struct fleet_conn_opts {
    uint8_t role;         /* enum fleet_role, ours */
    uint32_t peers;       /* 1 << role of those that may be there */
    const char *fleet;    /* its name; another fleet's peers are refused */
    const char *name;     /* ours, or "" */
    const uint8_t *id;    /* FLEET_ID bytes: this life of ours */
    const char *token;    /* the fleet's secret; NULL: none, and then only loopback peers are let in */
    uint32_t most;        /* bytes of a frame that we take; 0: 1 MiB */
    size_t backlog;       /* bytes that may wait for a peer to read; 0: 16 MiB */
    int64_t silent_ns;    /* a peer that is silent for this long is gone; 0: 5 s. PING keeps it alive */
    int64_t handshake_ns; /* 0: 5 s */
    uint32_t connections; /* of a listener, at most; 0: 4,096 */
};

/* Connects. `handler` is told how it went. -EINVAL: not "HOST:PORT", "[IPV6]:PORT" or a name that resolves.
 */
int fleet_dial(struct fleet_loop *l, const struct fleet_conn_opts *opts, const char *address,
               const struct fleet_handler *handler, void *ctx, struct fleet_conn **out);

struct fleet_listener;
/* Port 0: any free one. */
int fleet_listen(struct fleet_loop *l, const struct fleet_conn_opts *opts, const char *address,
                 const struct fleet_handler *handler, void *ctx, struct fleet_listener **out);
uint16_t fleet_listener_port(const struct fleet_listener *s);
/* Its connections stay. NULL is allowed. */
void fleet_listener_close(struct fleet_listener *s);

/* Sends a frame: the struct of its kind, and what follows it. seq 0: the next of this connection; returns
 * the frame's in *used (NULL is allowed). -ENOBUFS: the peer does not read, and the connection is about to
 * be closed; -ENOTCONN: it is not open. */
int fleet_send(struct fleet_conn *c, uint16_t kind, uint64_t seq, const void *body, size_t bytes,
               const void *tail, size_t tail_bytes, uint64_t *used);

/* Ends it when what was sent has left, within a second; the handler hears no more of it. A `why` goes as
 * GOODBYE. */
void fleet_conn_close(struct fleet_conn *c, int err, const char *why);

/* Whose frames these are: the HELLO that came. Valid from `open` on. */
const struct fleet_hello *fleet_conn_peer(const struct fleet_conn *c);
/* "HOST:PORT" of the peer, for messages. */
const char *fleet_conn_text(const struct fleet_conn *c);
/* What the handler's calls get. */
void *fleet_conn_ctx(const struct fleet_conn *c);
void fleet_conn_set_ctx(struct fleet_conn *c, void *ctx);
/* The peer's clock less ours, from the PING of least delay lately, and how wrong it may be at most.
 * -EAGAIN: no PONG has come yet. */
int fleet_conn_clock(const struct fleet_conn *c, int64_t *offset_ns, int64_t *error_ns);

/* ---- reading frames */

/* A body of that struct, or NULL when it is too short. Texts inside still need fleet_text_ok. */
#define FLEET_BODY(type, frame, body) ((frame)->bytes < sizeof(type) ? NULL : (const type *)(body))
/* True: the field holds UTF-8 without control characters, and a final zero. */
bool fleet_text_ok(const char *field, size_t size);

#endif
