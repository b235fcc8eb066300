/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/generate/client: sessions, their slots, and streams. */
#ifndef GW_GENERATE_CLIENT_IMPL_H
#define GW_GENERATE_CLIENT_IMPL_H

#include <pthread.h>
#include <stdbool.h>

#include <gpuwire/detail/held.h>

#include "src/door/limit.h"
#include "src/generate/client/client.h"
#include "src/generate/client/owners.h"

enum gen_peer_life {
    PEER_CLOSED,
    PEER_OPENING, /* the keeper opens it */
    PEER_OPEN,
    PEER_BROKEN /* the events' thread is about to reset its queue pair */
};

/* A request that has not ended: the caller holds it, and its slot does. */
struct gen_stream {
    struct gen_client *client;
    struct gen_place *place; /* NULL: it has ended */
    struct gen_owner *owner;
    void (*event)(void *ctx, const struct gen_event *e);
    void *ctx;
    uint32_t refs;
    bool released;  /* its holder takes no more events */
    bool cancelled; /* its holder has taken it back */
    bool calling;   /* its callback runs, on the thread `caller` */
    pthread_t caller;
};

/* A slot of a session. */
struct gen_place {
    struct gen_peer *peer;
    struct gen_stream *stream; /* NULL: it is free, if its session is open */
    struct gen_place *next;    /* of those that are free */
    uint32_t index;
    uint32_t events; /* of its request, so far */
    /* Written under the session's `post`: */
    uint32_t posts; /* of its request; 2 at most */
    uint32_t bytes; /* of its request; 0: it is not written yet */
    bool posted;    /* the generator has it */
    uint64_t id;    /* of its request */
};

/* A session. */
struct gen_peer {
    struct gen_client *client;
    struct gw_cq *send_cq;
    struct gw_qp *qp;
    pthread_mutex_t post; /* held while something is posted: one thread at a time does */
    uint32_t sent;        /* under `post` */
    bool ready;           /* under `post`: the queue pair takes requests */
    enum gen_peer_life life;
    bool granted; /* the link has it open, or must be told of its end */
    struct gen_grant grant;
    struct gen_place *free;
    uint32_t frees, uses;          /* slots that are free; that have a stream */
    uint64_t heard;                /* when it last had an event, or a request began to wait */
    uint64_t request_at, event_at; /* its slots in our memory, as the NIC names them */
    uint8_t *request, *events;     /* and as we do */
    struct gen_place *place;
};

struct gen_client {
    struct gen_client_opts opts;
    char *name;
    pthread_mutex_t lock; /* of lives and streams; never held while anything is waited for */
    pthread_cond_t freed; /* a slot is free, a stream has ended, a callback has returned, or all is closed */
    pthread_cond_t work;  /* for the keeper */
    pthread_t taker, keeper;
    bool taking, keeping; /* the threads run */
    uint32_t closing;     /* 1: nothing new; 2: the threads end */
    uint32_t waiting;     /* callers that wait for a slot */
    uint32_t submitting;  /* that have one, and are about to send */
    uint64_t open_at;     /* no session is asked for before */
    char why[256];        /* the last one could not be opened; "": it could */
    int kick_fd;          /* wakes the taker */
    struct gw_pd *pd;
    struct gw_cq *recv_cq;
    struct gw_mem request, event;
    struct gw_mr *request_mr, *event_mr;
    uint64_t request_stride, event_stride;
    uint32_t receives; /* posted in each session */
    uint64_t ids;
    uint32_t streams; /* that have not ended */
    struct gen_peer *peer;
    struct gen_place *place; /* of all sessions */
    struct gen_owners owners;
    struct gw_say_limit said;
};

static inline struct gen_request *gen_place_request(const struct gen_place *p)
{
    return (struct gen_request *)(p->peer->request + p->index * p->peer->client->request_stride);
}

/* place.c: what is posted. `post` of the peer is held. 0 or a negative errno: the session is broken. */
int gen_place_post(struct gen_place *p);
int gen_place_recall(struct gen_place *p); /* its request is taken back */

/* peer.c: sessions. */
int gen_peer_make(struct gen_client *c, uint32_t i);
/* The session is over: the taker resets it, and its streams end or are submitted again. `lock` is free. */
void gen_peer_break(struct gen_peer *peer);
/* On the taker's thread. */
void gen_peer_mend(struct gen_peer *peer);
/* Opens one that is PEER_OPENING; 0 or a negative errno. No lock is held. */
int gen_peer_open(struct gen_peer *peer);

/* keep.c, take.c: the two threads, until the client closes. */
void *gen_client_keep(void *client);
void *gen_client_take(void *client);
/* take.c: tells a stream; the last event frees its slot. No lock is held. */
void gen_place_event(struct gen_place *p, const struct gen_event *e);
/* The same with a last event of the client's own. */
void gen_place_end(struct gen_place *p, enum gen_status status);

/* stream.c */
void gen_stream_drop(struct gen_stream *s); /* one reference less; `lock` is held */
extern const struct gen_source_ops gen_client_ops;

#endif
