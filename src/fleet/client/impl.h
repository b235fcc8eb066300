/* SPDX-License-Identifier: Apache-2.0 */
/*
 * impl.h: a client's inside. All of it belongs to the client's own thread, which runs its loop; other
 * threads leave requests in `inbox` and look for models under the lock.
 *
 * A request waits in its model until a lease has a slot and budget, flies at a worker, and is over when its
 * callback was called. A request whose deadline comes while it flies keeps its slot until the worker answers.
 */
#ifndef GW_FLEET_CLIENT_IMPL_H
#define GW_FLEET_CLIENT_IMPL_H

#include <pthread.h>
#include <stdbool.h>

#include "src/fleet/client/admit.h"
#include "src/fleet/client/bucket.h"
#include "src/fleet/client/fleet_client.h"
#include "src/fleet/wire/table.h"
#include "src/fleet/wire/conn.h"

#define FLEET_SECOND 1000000000

enum {
    FLEET_QUERY_TRIES = 2,  /* workers that a request is sent to, when they refuse it */
    FLEET_QUERY_DEATHS = 3, /* the same, when they die: one that kills workers shall not kill all of them */
    FLEET_DEMANDS_KEPT = 4, /* of each model: a GRANTED may answer any of these */
};

struct fleet_queries {
    struct fleet_query *first, *last;
    uint32_t n;
};

/* ---- a request, or a question for metadata */

enum fleet_query_state { FLEET_QUERY_NEW, FLEET_QUERY_WAITS, FLEET_QUERY_FLIES };

struct fleet_query {
    struct fleet_client_request r;
    struct fleet_client_model *model;
    struct fleet_holding *lease;     /* it flies on; NULL for a question */
    struct fleet_peer *peer;         /* it flies to */
    struct fleet_query *next, *prev; /* in the inbox, its model's `waiting`, or its peer's `flying` */
    struct fleet_timer timer;
    uint64_t id;  /* its place in the client's `query` and that place's generation */
    uint64_t seq; /* of a question's frame */
    int64_t begun_at, sent_at;
    int64_t limit_at;    /* the deadline, or when patience ends */
    bool written;        /* it went over RDMA */
    uint64_t refused_by; /* the worker that has refused it: its `serial` */
    uint32_t tries;
    uint8_t state;  /* enum fleet_query_state */
    bool describes; /* the question */
    bool later;     /* it was refused for what a moment mends: its lease's budget or end */
    bool told;      /* its callback was called, and only the slot is not free yet */
    int refusal;    /* of the last try: a negative errno */
    int64_t retry_ns;
    const char *why;
};

/* ---- leases */

struct fleet_holding {
    struct fleet_entry entry; /* client->leases, by worker and number */
    struct fleet_client_model *model;
    struct fleet_peer *peer;
    uint32_t number, slots, flying, max_batch;
    uint64_t key;
    struct fleet_bucket bucket;
    struct fleet_timer timer; /* its end */
    int64_t until_at, avoid_at;
    uint32_t at; /* in the model's held[spill] */
    bool spill;
    bool dropped; /* nothing is sent on it any more; it is freed when nothing flies */
};

struct fleet_holdings {
    struct fleet_holding **at;
    uint32_t n, most;
};

/* ---- models */

struct fleet_client_model {
    struct fleet_entry entry; /* client->models, by name */
    struct fleet_client *client;
    struct fleet_client_model *next; /* of all */
    char name[FLEET_MODEL];
    uint32_t version;
    struct fleet_holdings held[2]; /* leases: for all requests, and for those that others refuse */
    struct fleet_queries waiting;
    struct fleet_timer wake; /* when a lease has budget again, while requests wait */
    struct fleet_admit admit;
    int64_t exec_ns;       /* p99 of one sample, as the last grant says */
    uint64_t sample_bytes; /* of a request, the same; 0: not known */
    int64_t absent_until;  /* no worker has it, the leader said: requests fail until then */
    const char *why;       /* why there is no lease, as far as is known */
    int64_t retry_ns;
    char *json; /* its metadata; NULL: not asked yet */
    size_t json_bytes;
    /* What DEMAND says. */
    struct fleet_timer tick;
    bool asking; /* it has told the leader that it wants leases */
    struct fleet_demand_count {
        uint64_t offered, answered, late, refused;
        uint32_t flying; /* the most at a time */
    } count;             /* since `told_at` */
    uint32_t flying;
    int64_t told_at, used_at, deadline_ns;
    struct fleet_told {
        uint64_t seq;
        int64_t at;
    } told[FLEET_DEMANDS_KEPT];
    uint32_t told_next;
};

/* ---- workers */

struct fleet_peer {
    struct fleet_entry entry; /* client->peers, by identity */
    struct fleet_client *client;
    uint8_t id[FLEET_ID];
    char name[FLEET_NAME], address[FLEET_ADDRESS];
    uint64_t serial;
    struct fleet_conn *conn; /* NULL: none now */
    bool open;
    struct fleet_timer timer; /* when it is dialled again, or forgotten */
    int64_t pause_ns;
    struct fleet_rdma *rdma; /* a session over RDMA; NULL: none */
    int64_t rdma_at;         /* none is tried before */
    uint32_t holds;          /* leases, and functions that are at work on it */
    struct fleet_queries flying;
};

/* ---- the controllers */

struct fleet_leader {
    char (*address)[FLEET_ADDRESS]; /* that the user gave; or none, and etcd tells */
    uint32_t addresses, at;
    char leader[FLEET_ADDRESS]; /* that a controller named; "": none did */
    char found[FLEET_ADDRESS];  /* the leader's, as etcd has it; "": not yet, or there is no etcd */
    struct fleet_registry *registry;
    uint32_t hops; /* of such names, one after the other */
    struct fleet_conn *conn;
    bool welcome; /* it leads, and takes DEMAND */
    /* Since the last one that took us: how many came to nothing, and why the last one did, or the first that
     * refuses us. */
    uint32_t failed;
    bool refusal;            /* one of them refuses us: time alone does not mend that */
    bool refused;            /* and all have been tried: requests learn it at once */
    char why[FLEET_TROUBLE]; /* "": all is well, or it is not known */
    struct fleet_timer timer;
    int64_t pause_ns, heard_at;
    int64_t missed_at; /* since then a request waits for a lease, and the leader says nothing; 0: none */
};

struct fleet_client {
    struct fleet_loop *loop;
    pthread_t thread;
    uint8_t id[FLEET_ID];
    char name[FLEET_NAME], fleet[FLEET_NAME], *token;
    int64_t patience_ns;
    uint32_t max_waiting, max_answer;
    uint64_t seed, random, serial;
    struct fleet_leader leader;
    struct fleet_table models, peers, leases; /* models: under the lock */
    struct fleet_client_model *all;           /* under the lock */
    /* Requests by number: an answer names one. */
    struct fleet_query_place {
        struct fleet_query *query;
        uint32_t generation, next_free;
    } * query;
    uint32_t queries, queries_free;
    struct fleet_client_stats stats;
    struct fleet_rdma *sessions; /* also those whose threads have not ended yet */
    bool rdma;                   /* sessions are wished for */
    pthread_mutex_t lock;
    pthread_cond_t answered;    /* a question for statistics was */
    struct fleet_queries inbox; /* under the lock */
    bool ended;                 /* under the lock: the thread runs no more */
};

/* ---- client.c */

uint32_t fleet_client_random(struct fleet_client *c, uint32_t below);
/* The model that a message names, or NULL. */
struct fleet_client_model *fleet_client_named(struct fleet_client *c, const char *name);

/* ---- query.c */

void fleet_queries_add(struct fleet_queries *l, struct fleet_query *j);
void fleet_queries_take(struct fleet_queries *l, struct fleet_query *j);
/* A request comes from its thread. */
void fleet_query_begin(struct fleet_query *j);
/* Calls back, and frees it unless a worker still has it. */
void fleet_query_end(struct fleet_query *j, const struct fleet_client_reply *reply);
/* The same without an answer. */
void fleet_query_fail(struct fleet_query *j, int err, const char *why, int64_t retry_ns);
/* The request of that id which flies to this worker, or NULL. */
struct fleet_query *fleet_query_flying(const struct fleet_peer *p, uint64_t id);
/* It has come back: its slot is free. False: its callback was called before, and it is freed. */
bool fleet_query_landed(struct fleet_query *j);
/* It came back without an answer, and goes elsewhere if time is left; or fails with what j->refusal says. */
void fleet_query_again(struct fleet_query *j);
/* Sends what waits, as far as leases allow. */
void fleet_query_drain(struct fleet_client_model *m);

/* ---- lease.c */

void fleet_lease_granted(struct fleet_client *c, uint64_t seq, const struct fleet_granted *g);
void fleet_lease_revoked(struct fleet_client *c, const struct fleet_revoked *r);
/* Takes it from its model: it ended, or its worker knows nothing of it. */
void fleet_lease_drop(struct fleet_holding *h);
/* Frees a dropped lease on which nothing flies. */
void fleet_lease_put(struct fleet_holding *h);
/* A lease for this request, with a slot and a token of its budget taken; or NULL, and in *when a time when
 * one may have budget again (0: unknown). */
struct fleet_holding *fleet_lease_pick(struct fleet_query *j, int64_t now, int64_t *when);

/* ---- peer.c */

/* The worker of that grant, with a hold for the caller; a new one is dialled. NULL: no memory. */
struct fleet_peer *fleet_peer_of(struct fleet_client *c, const struct fleet_granted *g);
/* A hold less. */
void fleet_peer_left(struct fleet_peer *p);
void fleet_peer_free(struct fleet_peer *p);
/* Half of the time of a round trip, as far as is known. */
int64_t fleet_peer_way(const struct fleet_peer *p);
/* How long an answer is worth something at the worker; 0: there is no deadline. */
uint64_t fleet_peer_budget(const struct fleet_peer *p, const struct fleet_query *j, int64_t now);
/* The request's way back is gone: it is tried elsewhere. */
void fleet_peer_lost_query(struct fleet_query *j);
/* The answer to a request which flies to this worker; a->bytes of data. */
void fleet_peer_answered(struct fleet_peer *p, struct fleet_query *j, const struct fleet_answer *a,
                         const void *data);
/* Sends a request on its lease (a question: on any connection). 0, or it was not sent. */
int fleet_peer_send(struct fleet_peer *p, struct fleet_query *j, int64_t now);

/* ---- leader.c */

/* One of both: the controllers' addresses, or etcd's URL. */
int fleet_leader_begin(struct fleet_client *c, const char *controllers, const char *etcd);
/* Etcd says who leads. */
void fleet_leader_found(struct fleet_client *c, const char *address);
/* Why etcd does not say it. */
void fleet_leader_trouble(struct fleet_client *c, const char *why);
void fleet_leader_end(struct fleet_client *c);
/* The options of all our connections, to peers of that role. */
void fleet_leader_opts(const struct fleet_client *c, uint8_t role, struct fleet_conn_opts *o);

/* ---- found.c, or found_none.c */

int fleet_found_begin(struct fleet_client *c, const char *etcd);
void fleet_found_end(struct fleet_client *c);

/* ---- demand.c */

/* A request was submitted: the leader shall know soon. */
void fleet_demand_used(struct fleet_client_model *m, int64_t now);
/* Tells it now, and then in time again. */
void fleet_demand_tell(struct fleet_client_model *m);
/* A leader is there: tells it all. */
void fleet_demand_all(struct fleet_client *c);

#endif
