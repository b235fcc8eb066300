/* SPDX-License-Identifier: Apache-2.0 */
/* What the controller knows, beyond the planner's state. Numbers of workers, models and places are the
 * planner's. */
#ifndef GW_FLEET_CONTROL_IMPL_H
#define GW_FLEET_CONTROL_IMPL_H

#include "src/fleet/control/control.h"
#include "src/fleet/pipe/record.h"
#include "src/fleet/wire/table.h"

#define CTL_MS          INT64_C(1000000)
#define CTL_SECOND      INT64_C(1000000000)
#define CTL_ROUND_PAUSE (10 * CTL_MS) /* between two rounds, if something has changed */
enum { CTL_MAX_ACTIONS = 4096 };
#define CTL_OF(type, field, p) ((type *)(void *)((char *)(p)-offsetof(type, field)))

/* A list through its members; a head is a link, too. */
struct ctl_link {
    struct ctl_link *prev, *next;
};

static inline void ctl_link_init(struct ctl_link *l)
{
    l->prev = l->next = l;
}

static inline bool ctl_link_alone(const struct ctl_link *l)
{
    return l->next == l;
}

static inline void ctl_link_add(struct ctl_link *head, struct ctl_link *l)
{
    l->prev = head->prev;
    l->next = head;
    l->prev->next = l;
    head->prev = l;
}

static inline void ctl_link_remove(struct ctl_link *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    ctl_link_init(l);
}

/* ---- models */

/* What clients count, since the controller leads. */
struct ctl_count {
    uint64_t offered, answered, late, refused;
};

struct ctl_model {
    struct fleet_entry entry; /* by its name */
    char name[FLEET_MODEL];
    uint32_t version;
    uint8_t digest[32];
    uint32_t number, workers; /* workers: that have it */
    uint64_t request_bytes, answer_bytes;
    int64_t told_ns[FLEET_SIZES];    /* its profile as a worker told it first */
    int64_t edge_ns[FLEET_CLASSES];  /* the longest deadline of each class */
    double offered[FLEET_CLASSES];   /* requests a second now, of all clients */
    uint64_t waiting[FLEET_CLASSES]; /* requests that wait for a lease, of all clients */
    struct ctl_count count;
    struct ctl_link wants; /* of clients */
    uint32_t nwants;
    struct ctl_link dirty; /* in the controller's list of models whose leases are to be shared again */
    int64_t shared_at;
};

/* ---- workers */

/* A message to a worker that has no answer yet. */
struct ctl_pending {
    struct fleet_entry entry; /* by its seq */
    struct ctl_link link;     /* of its worker's */
    struct fleet_timer timer; /* of an action */
    struct ctl_worker *worker;
    uint64_t seq, key; /* key: of the lease; 0: it is an action */
    uint32_t lease;    /* the lease's number */
    uint32_t kind, model, place;
};

struct ctl_has {
    uint32_t model, number; /* the planner's; the worker's */
};

struct ctl_worker {
    struct fleet_entry entry; /* by its name */
    struct ctl_link link;     /* of all */
    struct fleet_control *control;
    char name[FLEET_NAME];
    uint8_t id[FLEET_ID];
    struct fleet_conn *conn;                  /* NULL: it is not here */
    uint32_t number;                          /* the planner's */
    bool ready, leaves, drains, lies, wanted; /* wanted: the registry has it */
    int64_t left_at, gone_at;
    struct fleet_hello_worker facts;
    uint32_t *model_of; /* by its own number; FLEET_NONE: not told */
    uint32_t *place_of; /* the same: the planner's place, as far as it was looked up; ctl_worker_place() */
    struct ctl_has *has;
    uint32_t nhas, told;                 /* told: HAS_MODEL messages */
    struct ctl_lease **lease;            /* by number; NULL: free */
    uint32_t *free_number, nfree, slots; /* slots: of all its leases */
    struct fleet_table pending;
    struct ctl_link pendings;
    struct fleet_telemetry told_last;
    int64_t told_at;
    uint64_t *requests;        /* by its own number: what it told last */
    struct fleet_pipe *pipe;   /* what it writes its telemetry to; NULL: it sends it */
    struct ctl_link pipe_link; /* of the controller's list of those */
    bool offered, targeted;    /* WELCOME told of the pipe; TARGETED told that it is open */
    uint64_t record_seq;       /* of the record that was read last */
};

struct ctl_place {
    struct ctl_link leases;
    uint32_t nleases;
    bool busy;        /* an action is under way */
    bool renews;      /* its leases get a new end */
    int64_t retry_at; /* the worker had no room for a lease */
};

/* ---- clients and leases */

struct ctl_client {
    struct fleet_entry entry; /* by its identity */
    struct fleet_control *control;
    uint8_t id[FLEET_ID];
    char name[FLEET_NAME];
    struct fleet_conn *conn; /* NULL: it is not here, or not yet */
    struct ctl_link wants, leases;
    struct fleet_timer timer; /* it does not come back */
};

struct ctl_want {
    struct fleet_entry entry; /* by client and model */
    struct ctl_link of_client, of_model;
    struct ctl_client *client;
    uint32_t model;
    uint32_t class, slots;
    uint64_t waiting, seq;  /* seq: of its last DEMAND */
    double offered, weight; /* weight: by which the leases were shared last */
    uint32_t nleases;
    int64_t nothing_at;       /* when it was told that there is no lease */
    struct fleet_timer timer; /* it asks no more */
};

struct ctl_lease {
    struct ctl_link of_place, of_client;
    struct ctl_worker *worker;
    struct ctl_client *client;
    struct ctl_want *want; /* NULL: its client has not asked for the model here */
    uint32_t number, place, model;
    uint64_t key, seq; /* seq: of the LEASE that has no answer yet; 0: none */
    uint32_t slots;
    float rate;
    uint8_t max_batch;
    bool spill, keeps; /* keeps: the split that runs has found it right */
    int64_t until;
    struct fleet_timer timer;
};

/* How telemetry comes. */
enum ctl_way { CTL_BY_TCP, CTL_BY_RDMA, CTL_WAYS };

/* A model that shall be on a worker's GPU, as etcd has it. */
struct ctl_kept {
    struct fleet_entry entry; /* by worker and model */
    struct ctl_link link;     /* of its worker's */
    char model[FLEET_MODEL];
};

struct ctl_keeps {
    struct fleet_entry entry; /* by the worker's name */
    char worker[FLEET_NAME];
    struct fleet_table by_model;
    struct ctl_link all;
};

struct ctl_wish {
    struct fleet_entry entry; /* by its name */
    struct fleet_control_wish is;
};

struct ctl_drain {
    struct fleet_entry entry;
    char worker[FLEET_NAME];
};

/* Every connection here, whatever its peer is. */
struct ctl_conn {
    struct ctl_link link;
    struct fleet_control *control;
    struct fleet_conn *conn;
    struct ctl_worker *worker;
    struct ctl_client *client;
};

struct fleet_control {
    struct fleet_control_opts o;
    struct ctl_conn stranger; /* stands for all that have not proved themselves */
    struct fleet_listener *listener;
    uint64_t term; /* 0: it does not lead */
    bool frozen, settled;
    int64_t lead_at;
    char leader[FLEET_ADDRESS];
    uint64_t seed; /* of hashes */
    void *memory, *dry_memory;
    struct fleet_state *state, *dry;
    struct fleet_tuning tuning;
    struct fleet_action *actions;
    uint32_t nmodels;
    struct ctl_model *models;
    struct ctl_worker **workers; /* by number */
    struct ctl_place *places;
    struct fleet_table models_by_name, workers_by_name, clients_by_id, wants, drains;
    struct ctl_link all_workers, dirty, conns;
    uint32_t nclients, nleases, nworkers, nwishes;
    struct fleet_table kept; /* struct ctl_keeps of each worker */
    uint32_t nkept;          /* of all workers */
    bool expects;            /* a model's `expected` may not be 0 */
    struct ctl_wish *wishes;
    struct fleet_table wishes_by_name;
    struct fleet_timer round;
    void (*run_round)(void *control);
    int64_t round_at, demand_at; /* of the last round */
    uint64_t rounds, nactions[FLEET_REFUSE + 1], failures;
    int64_t round_ns, longest_ns; /* time of the last round, and of the longest */
    uint64_t dry_hash;
    struct fleet_control_keeper keeper;
    struct fleet_pipes *pipes; /* NULL: workers send their telemetry */
    struct ctl_link piped;     /* workers with a pipe */
    struct fleet_timer look;   /* at their records */
    uint64_t told[CTL_WAYS];   /* records of telemetry that were taken */
};

static inline int64_t ctl_now(const struct fleet_control *c)
{
    return fleet_loop_now(c->o.loop);
}

/* say.c */
extern const char *const ctl_action_names[]; /* by enum fleet_kind */
void ctl_say(struct fleet_control *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The line of an action in the audit log: what was sent, or how it ended. */
void ctl_audit(struct fleet_control *c, const char *what, uint32_t worker, uint32_t model, json_t *more);

/* names.c */
struct ctl_model *ctl_model_find(struct fleet_control *c, const char *name, uint32_t version);
/* The model that the worker told of, a new one if need be. NULL with why not. */
struct ctl_model *ctl_model_take(struct fleet_control *c, const struct fleet_has_model *m, const char **why);
/* Measured times of batches; a time that cannot be right is left out. */
void ctl_model_learn(struct fleet_control *c, uint32_t model, const int64_t p99_ns[FLEET_SIZES]);
void ctl_model_dirty(struct fleet_control *c, uint32_t model);
/* The wish for that model, or NULL. version 0: any. */
const struct fleet_control_wish *ctl_wish_find(const struct fleet_control *c, const char *name,
                                               uint32_t version);
/* GPUs that it shall be on at least. */
uint32_t ctl_wish_replicas(const struct fleet_control *c, const char *name, uint32_t version);

/* kept.c */
/* Counts what workers have that are expected and not here: for the planner, before a round. */
void ctl_kept_expect(struct fleet_control *c);
/* The keeper hears what differs from what the worker has, which is here now. */
void ctl_kept_correct(struct ctl_worker *k);
void ctl_kept_close(struct fleet_control *c);

/* wishes.c */
/* No worker has it. */
bool ctl_wish_is_missing(struct fleet_control *c, const struct fleet_control_wish *w);
/* A line about those that no worker has, if there are any. */
void ctl_wishes_say(struct fleet_control *c);
void ctl_wishes_close(struct fleet_control *c);

/* grants.c: leases */
struct ctl_lease *ctl_lease_make(struct fleet_control *c, struct ctl_want *w, uint32_t place);
/* A lease that a worker holds; NULL with why it cannot be. */
struct ctl_lease *ctl_lease_adopt(struct ctl_worker *k, const struct fleet_held *h, const char **why);
/* Sends the lease as it is now to its worker. */
void ctl_lease_send(struct fleet_control *c, struct ctl_lease *l);
/* Ends it; `tells`: its worker and its client hear of it. */
void ctl_lease_end(struct fleet_control *c, struct ctl_lease *l, bool tells);
void ctl_lease_result(struct ctl_worker *k, const struct ctl_pending *p, const struct fleet_result *r);
void ctl_place_end_leases(struct fleet_control *c, uint32_t place, bool tells);

/* pending.c */
int ctl_pending_add(struct ctl_worker *k, const struct ctl_pending *what);
struct ctl_pending *ctl_pending_take(struct ctl_worker *k, uint64_t seq);
void ctl_pending_free(struct ctl_worker *k, struct ctl_pending *p);
void ctl_pending_forget(struct ctl_worker *k);

/* split.c */
void ctl_split(struct fleet_control *c);

/* clients.c */
void ctl_client_open(struct ctl_conn *k);
bool ctl_client_message(struct ctl_conn *k, const struct fleet_frame *f, const void *body);
void ctl_client_closed(struct ctl_client *client);
/* The client of that identity, a new one if need be. */
struct ctl_client *ctl_client_take(struct fleet_control *c, const uint8_t id[FLEET_ID]);
struct ctl_want *ctl_want_find(struct fleet_control *c, const struct ctl_client *client, uint32_t model);
void ctl_client_drop(struct fleet_control *c, struct ctl_client *client);
/* Tells the clients of a model what is shed. */
void ctl_sheds(struct fleet_control *c, uint32_t model, uint32_t class);

/* workers.c */
bool ctl_worker_message(struct ctl_conn *k, const struct fleet_frame *f, const void *body);
/* The worker is not here any more. */
void ctl_worker_gone(struct ctl_worker *k, const char *why);
void ctl_worker_free(struct ctl_worker *k);
struct ctl_worker *ctl_worker_find(struct fleet_control *c, const char *name);
struct ctl_worker *ctl_worker_make(struct fleet_control *c, const char *name);
void ctl_worker_health(struct ctl_worker *k);
uint32_t ctl_worker_number(const struct ctl_worker *k, uint32_t model);
/* The place of a model by the worker's own number, or FLEET_NONE. Looking again takes no walk through the
 * places of the model. */
uint32_t ctl_worker_place(struct ctl_worker *k, uint32_t number);
/* It did what no worker does: it is cut off. */
void ctl_worker_cut(struct ctl_worker *k, const char *why);

/* telemetry.c */
/* A record: struct fleet_telemetry and its models. It may cut the worker off. */
void ctl_telemetry(struct ctl_worker *k, const void *record, size_t bytes, enum ctl_way way);

/* targets.c: telemetry that workers write into this process's memory */
int ctl_targets_open(struct fleet_control *c);
void ctl_targets_close(struct fleet_control *c);
void ctl_target_begin(struct ctl_worker *k);
void ctl_target_end(struct ctl_worker *k);
/* The worker's end of the pipe. NULL, or what is wrong. */
const char *ctl_target_connect(struct ctl_worker *k, const struct fleet_endpoint *peer);

/* acts.c: actions and their results */
void ctl_act(struct fleet_control *c, const struct fleet_action *a);
void ctl_act_result(struct ctl_worker *k, const struct ctl_pending *p, const struct fleet_result *r);
/* The model is there now on the worker, as it says. */
void ctl_place_is(struct ctl_worker *k, uint32_t model, uint32_t where);
void ctl_place_drop(struct fleet_control *c, uint32_t place);
/* The keeper hears where the model shall be. */
void ctl_place_told(struct fleet_control *c, uint32_t worker, uint32_t model, bool on_gpu);

/* soon.c */
void ctl_round_soon(struct fleet_control *c);

/* drains.c */
/* Shall that worker get nothing new? */
bool ctl_drains(struct fleet_control *c, const char *worker);
void ctl_drains_close(struct fleet_control *c);

/* rounds.c */
void ctl_rounds_start(struct fleet_control *c);

/* tool.c */
void ctl_tool_message(struct ctl_conn *k, const struct fleet_frame *f, const void *body);

#endif
