/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fleet_client.h: requests to the models of a fleet, wherever they lie.
 *
 * A client knows the fleet's controllers. It asks them for leases, keeps these in a thread of its own, and
 * sends each request straight to a worker that it has a lease of. No tensor passes a controller.
 *
 *     struct fleet_client_opts opts = {.controllers = "10.0.0.1:7400,10.0.0.2:7400"};
 *     fleet_client_open(&opts, &c);
 *     fleet_client_model(c, "resnet50", 0, &m);
 *     fleet_client_submit(m, &(struct fleet_client_request){.in = picture, .bytes = 602112, .rows = 1,
 *                         .deadline_at = now + 20000000, .done = answered, .ctx = me});
 *
 * Who may call: any thread, but for close, which is the last call. Callbacks come from the client's own
 * thread. They must not block, and may submit; they must not close the client. Every request that was
 * submitted has its callback exactly once, at its deadline at the latest.
 *
 * Functions return 0 or a negative errno, and say why in gw_last_error(). Times are nanoseconds, `_at` on
 * CLOCK_MONOTONIC.
 */
#ifndef GW_FLEET_CLIENT_H
#define GW_FLEET_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "src/fleet/wire/message.h"

enum { FLEET_TROUBLE = FLEET_ADDRESS + FLEET_WHY + 32 }; /* bytes of a line about a peer */

struct fleet_client;
struct fleet_client_model;

struct fleet_client_opts {
    const char *controllers; /* "HOST:PORT[,HOST:PORT]": any of them; the others are found */
    const char *etcd;        /* or "http://HOST:PORT[,...]" of etcd, where the leader stands; one of both */
    const char *fleet;       /* its name; NULL: "default" */
    const char *token;       /* its secret; NULL: none */
    const char *name;        /* of this client, for tables and logs; NULL: none */
    int64_t patience_ns;     /* of requests without a deadline; 0: 10 s */
    uint32_t max_waiting;    /* requests of one model that wait for a lease or a slot; 0: 4,096 */
    uint32_t max_answer;     /* bytes of an answer; 0: 64 MiB */
    uint32_t rdma;           /* 1: requests are written straight into workers, where both sides can */
};

/* -EINVAL: `controllers` is no such list. A controller that does not answer is no error: requests wait for
 * one until their deadlines. */
int fleet_client_open(const struct fleet_client_opts *opts, struct fleet_client **out);
/* What is under way ends with -ECANCELED first. NULL is allowed. */
void fleet_client_close(struct fleet_client *c);

/* The model of that name; it lives as long as the client, and the same name gives the same model. Asks
 * for a lease at once, so that the first request finds one. version 0: any. -EINVAL: no name. */
int fleet_client_model(struct fleet_client *c, const char *name, uint32_t version,
                       struct fleet_client_model **out);

struct fleet_client_reply {
    /* 0, or:
     *   -ETIME       no answer by the deadline, or a worker knew that it would be late
     *   -ETIMEDOUT   the same without a deadline: none within `patience_ns`
     *   -EAGAIN      refused: no lease, no slot or no budget in time, or the class is shed; retry_ns is set
     *   -ENOENT      no worker has such a model
     *   -EACCES      the controllers refuse this client, for its token or its fleet's name
     *   -ECONNRESET  the worker that had it died, and no time was left to ask another
     *   -EINVAL      the worker refused its form       -EREMOTEIO   the model failed
     *   -EPROTO      the answer makes no sense         -EMSGSIZE    it is longer than `max_answer`
     *   -ECANCELED   the client is being closed */
    int error;
    const char *why;                    /* one line; "" on success */
    int64_t retry_ns;                   /* of a refusal: when to try again; 0: unknown */
    const void *data;                   /* tensors, laid out as in a slot; valid until the callback returns */
    uint64_t bytes;                     /* of data */
    uint32_t rows, batch;               /* samples of this request; samples that ran together */
    uint32_t tries;                     /* workers that it was sent to */
    int64_t begun_at, sent_at, seen_at; /* submit; when it left for the worker that answered; the answer */
    int64_t queued_ns, model_ns;        /* at the worker: from arrival to start, from start to end */
    char worker[FLEET_NAME];            /* that answered; "" when none did */
};

struct fleet_client_request {
    const void *in;    /* tensors, laid out as in a slot (src/server/wire/layout.h); must stay until `done` */
    uint64_t bytes;    /* of `in` */
    uint32_t rows;     /* samples; 0: 1 */
    uint32_t priority; /* 1 is served first; 0: the model's default */
    int64_t deadline_at; /* an answer later than this is worth nothing; 0: none */
    void (*done)(void *ctx, const struct fleet_client_reply *reply);
    void *ctx;
};

/* Sends it as soon as there is a lease with a free slot. -ENOMEM: `done` is not called. */
int fleet_client_submit(struct fleet_client_model *m, const struct fleet_client_request *r);

/* Asks a worker for the model's metadata: the JSON of the Open Inference Protocol in reply.data, with no
 * final zero. Later calls get what the first one got. deadline_at 0: as of requests. */
int fleet_client_describe(struct fleet_client_model *m, int64_t deadline_at,
                          void (*done)(void *ctx, const struct fleet_client_reply *reply), void *ctx);

/* What a client has now, for pages, tables and tests. */
struct fleet_client_stats {
    uint64_t offered, answered, late, refused, lost, shed, retried; /* requests since the start */
    uint64_t written;                                               /* over RDMA */
    uint32_t flying, waiting;                                       /* at workers; here */
    uint32_t leases, workers;  /* that are valid; that it is connected to */
    uint32_t models;           /* that it asked for */
    uint64_t granted, revoked; /* leases, renewals included */
    uint64_t demands;          /* messages to controllers */
    uint32_t has_controller;   /* 1: the leader answers */
    char controller[FLEET_ADDRESS];
    char trouble[FLEET_TROUBLE]; /* why none does, when all were asked; "": one does, or it is not known */
};
void fleet_client_stats(struct fleet_client *c, struct fleet_client_stats *out);

#endif
