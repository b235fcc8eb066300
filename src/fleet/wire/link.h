/* SPDX-License-Identifier: Apache-2.0 */
/* A connection from the inside. */
#ifndef GW_FLEET_WIRE_LINK_H
#define GW_FLEET_WIRE_LINK_H

#include "src/fleet/wire/address.h"
#include "src/fleet/wire/clock.h"
#include "src/fleet/wire/inbox.h"
#include "src/fleet/wire/outbox.h"
#include "src/fleet/wire/side.h"

enum fleet_link_state {
    FLEET_LINK_DIALS, /* TCP is not there yet */
    FLEET_LINK_GREETS,
    FLEET_LINK_PROVES,
    FLEET_LINK_OPEN,
    FLEET_LINK_ENDS, /* what was sent leaves; the handler hears nothing */
    FLEET_LINK_OVER, /* freed at the end of the turn */
};

struct fleet_conn {
    struct fleet_member member;
    struct fleet_errand errand; /* sends what waits, or frees it */
    struct fleet_loop *loop;
    struct fleet_side *side;
    struct fleet_listener *listener;     /* that let it in; NULL: none, or it is closed */
    void (*known)(struct fleet_conn *c); /* the listener's, or NULL: it has proved itself */
    void (*left)(struct fleet_conn *c);  /* the listener's, or NULL: it is over */
    struct fleet_conn *prev, *next;      /* of the listener's strangers, the oldest first */
    struct fleet_handler handler;
    void *ctx;
    int fd;
    struct fleet_watch *watch;
    enum fleet_link_state state;
    bool dialled, stranger, writes; /* writes: the loop tells when the socket takes more */
    int failure;                    /* what ends it at the end of the turn */
    struct fleet_timer timer;
    int64_t heard_at, tick_at;
    uint32_t ticks;
    uint64_t seq;
    struct fleet_hello ours, theirs;
    struct fleet_inbox in;
    struct fleet_outbox out;
    struct fleet_clock clock;
    char text[FLEET_ADDRESS];
};

/* As fleet_send, in any state. */
int fleet_link_put(struct fleet_conn *c, uint16_t kind, uint64_t seq, const void *body, size_t bytes);
/* Ends it and tells the handler; `refuse` tells the peer too, whose fault it is. */
void fleet_link_fail(struct fleet_conn *c, int err, const char *why);
void fleet_link_refuse(struct fleet_conn *c, int err, const char *why);
/* Nothing is heard or sent any more; the memory lasts until the end of the turn. */
void fleet_link_over(struct fleet_conn *c);
/* Sends what waits. */
void fleet_link_flush(struct fleet_conn *c);
/* Has the loop tell when the peer's bytes come, and, if it `writes`, when the socket takes more. */
void fleet_link_watch(struct fleet_conn *c, bool writes);
/* Those of its errand and its member. */
void fleet_link_errand(struct fleet_errand *e);
void fleet_link_destroy(struct fleet_member *m);

#endif
