/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.h: what controllers, workers and clients of a fleet tell each other over TCP.
 *
 * A message is a frame: struct fleet_frame, the struct of its kind, and for some kinds more bytes after it.
 * All is little-endian. Texts are UTF-8 and end with a zero inside their field. Every field comes from a
 * stranger until conn.h has checked it, and the meaning of a number is the receiver's to check.
 *
 * Who speaks to whom:
 *
 *     worker  -> controller   WORKER; after WELCOME: HAS_MODEL ..., HELD ..., READY; then RESULT, TELEMETRY,
 *                             HAS_MODEL again, LEAVES, TARGETED; ELSEWHERE before it goes to
 *                             another leader
 *     controller -> worker    WELCOME or ELSEWHERE, which answer WORKER; ACTION, LEASE; WELCOME again with a
 *                             target, TARGETED
 *     client  -> controller   DEMAND, again and again
 *     controller -> client    WELCOME or ELSEWHERE; GRANT, REVOKE, SHED, NONE
 *     client  -> worker       DESCRIBE, OPEN, REQUEST
 *     worker  -> client       DESCRIBED, or NOTHING if it has no such model; OPENED, ANSWER
 *     tool    -> controller   ASK (a table, a drain, a dry run)      controller -> tool   TOLD
 *
 * The baseline (bench/fleet/baseline.c): a client sends REQUEST to the controller, with the model's number in
 * `lease`. The controller sends BATCH to a worker, which answers BATCHED. The controller's ANSWER follows.
 *
 * Each connection begins with HELLO and PROOF in both directions (conn.h). PING and PONG may come at any
 * time, for clocks and to see that a peer lives.
 *
 * After READY, HAS_MODEL says that a model is elsewhere than the worker told this controller, or is new. So
 * the end of an ACTION of an earlier leader is told, which gets no RESULT.
 *
 * Times: `_ns` is a length of time, `_at` a moment on the receiver's CLOCK_MONOTONIC, which the sender
 * knows by PING. So no wall clock matters.
 */
#ifndef GW_FLEET_WIRE_MESSAGE_H
#define GW_FLEET_WIRE_MESSAGE_H

#include <assert.h>
#include <stdint.h>

enum {
    FLEET_WIRE_VERSION = 1,
    FLEET_NAME = 64,            /* bytes of a worker's name, with its final zero */
    FLEET_MODEL = 128,          /* the same of a model's */
    FLEET_ADDRESS = 80,         /* of "HOST:PORT" */
    FLEET_WHY = 160,            /* of a reason, one line */
    FLEET_ID = 16,              /* bytes of an identity, from getrandom */
    FLEET_PROOF = 32,           /* of a proof that a peer knows the fleet's token */
    FLEET_GID = 16,             /* of an RDMA address */
    FLEET_MAX_FRAME = 64 << 20, /* the longest frame; a connection may allow less */
};

struct fleet_frame {
    uint32_t bytes; /* that follow this header */
    uint16_t kind;  /* enum fleet_message */
    uint16_t flags; /* 0 */
    uint64_t seq;   /* of the sender's messages; an answer repeats that of the message it answers */
};

enum fleet_message {
    FLEET_HELLO = 1,
    FLEET_PROVE,
    FLEET_WELCOME,
    FLEET_ELSEWHERE, /* this controller does not lead: struct fleet_elsewhere */
    FLEET_GOODBYE,   /* why the sender closes the connection: struct fleet_goodbye */
    FLEET_PING,
    FLEET_PONG,
    FLEET_WORKER = 16,
    FLEET_HAS_MODEL,
    FLEET_HELD,
    FLEET_READY, /* the worker has told all it has; no struct */
    FLEET_RESULT,
    FLEET_TELEMETRY,
    FLEET_LEAVES, /* the worker ends soon: it gets nothing new, its leases are ended; no struct. It goes when
                   * it has no leases and no requests, or when it will wait no longer */
    FLEET_TARGETED, /* the worker's endpoint, for the target of WELCOME: struct fleet_endpoint. The controller
                     * answers with its own when it is connected; from then on the worker may write */
    FLEET_ACTION = 32,
    FLEET_LEASE,
    FLEET_DEMAND = 48,
    FLEET_GRANTED,
    FLEET_REVOKED,
    FLEET_SHEDS,
    FLEET_NOTHING, /* no lease can be had now: struct fleet_nothing */
    FLEET_DESCRIBE = 64,
    FLEET_DESCRIBED, /* the model's metadata as JSON, as the Open Inference Protocol has it; no struct */
    FLEET_OPEN,
    FLEET_OPENED,
    FLEET_REQUEST,
    FLEET_ANSWER,
    FLEET_ASK = 80,   /* a line of text, as `gpuwire fleet` sends it; no struct */
    FLEET_TOLD,       /* its answer: JSON, in one or more frames; an empty frame ends it */
    FLEET_BATCH = 96, /* the baseline's: tensors that pass the controller */
    FLEET_BATCHED,
};

enum fleet_role { FLEET_IS_CONTROLLER = 1, FLEET_IS_WORKER, FLEET_IS_CLIENT, FLEET_IS_TOOL };

/* ---- every connection */

struct fleet_hello {
    uint32_t version; /* FLEET_WIRE_VERSION */
    uint8_t role;     /* enum fleet_role */
    uint8_t reserved[3];
    uint8_t nonce[FLEET_PROOF];
    uint8_t id[FLEET_ID]; /* of this life of the sender: another one after a restart */
    char fleet[FLEET_NAME];
    char name[FLEET_NAME]; /* a worker's name; others may be empty */
};

struct fleet_proof {
    uint8_t proof[FLEET_PROOF]; /* zeros where the fleet has no token */
};

/* How a peer reaches a queue pair. */
struct fleet_endpoint {
    uint8_t gid[FLEET_GID];
    uint32_t qpn, psn, mtu, lid;
};

/* Where a worker writes its telemetry by RDMA. All zero: it sends TELEMETRY instead. */
struct fleet_target {
    struct fleet_endpoint at;
    uint64_t addr;
    uint32_t rkey, bytes;
};

/* Comes first without a target, and again when the controller's NIC is ready for this worker. */
struct fleet_welcome {
    uint64_t term;        /* the leader's fencing token: actions of a smaller one are refused */
    int64_t telemetry_ns; /* how often the worker shall tell */
    struct fleet_target target;
};

struct fleet_elsewhere {
    char leader[FLEET_ADDRESS]; /* "" when none is known: ask again */
    int64_t retry_ns;
};

struct fleet_goodbye {
    int32_t error; /* a negative errno */
    uint32_t reserved;
    char why[FLEET_WHY];
};

struct fleet_ping {
    int64_t sent_at;               /* the sender's clock; comes back */
    int64_t heard_at, answered_at; /* PONG: the answerer's clock */
};

/* ---- worker to controller */

struct fleet_hello_worker {
    uint32_t gpu_pages, host_pages; /* of 16 MiB */
    uint32_t slots;                 /* for requests, of all leases together */
    uint32_t leases;                /* that its table can hold */
    uint32_t models;                /* MODEL messages that follow */
    uint32_t emulated;              /* 1: it computes nothing, and takes the time that a model would */
    char address[FLEET_ADDRESS];    /* where clients reach it */
    uint64_t reply_bytes;           /* of its longest answer; 0: it takes no RDMA sessions */
};

/* One of the worker's models. `model` is the worker's own number of it, in all messages to this worker. */
struct fleet_has_model {
    uint32_t model;
    uint32_t version;
    uint32_t pages;
    uint32_t where;     /* enum fleet_where (plan.h); UINT32_MAX: on disk alone */
    int64_t exec_ns[5]; /* p99 of batches of 1, 2, 4, 8 and 16; 0: it makes no such batches */
    int64_t spread_ns, load_ns, disk_ns;
    uint64_t request_bytes, answer_bytes; /* of one sample */
    uint32_t max_batch;
    uint32_t reserved;
    uint8_t digest[32]; /* of the file: equal names with other digests are other models */
    char name[FLEET_MODEL];
};

/* A lease that the worker honours: so a new leader learns what its predecessor granted. */
struct fleet_held {
    uint32_t lease, model;
    uint64_t key;
    uint8_t client[FLEET_ID];
    uint32_t slots;
    float rate;
    int64_t left_ns; /* until it ends */
    uint32_t max_batch, spill;
};

/* How an action ended. Its frame repeats the action's seq. */
enum fleet_outcome {
    FLEET_DONE,
    FLEET_TOO_LATE, /* it could not begin before `latest` */
    FLEET_OLD_TERM, /* another leader has a larger one */
    FLEET_NO_ROOM,  /* no free pages, or no free lease */
    FLEET_NO_MODEL, /* no such model here, or its file is gone */
    FLEET_BAD,      /* the message makes no sense in this state */
    FLEET_BROKEN,   /* it was tried and failed: `why` */
};

struct fleet_result {
    uint32_t outcome; /* enum fleet_outcome */
    uint32_t model;
    uint32_t where; /* as in fleet_has_model, afterwards */
    uint32_t reserved;
    int64_t began_at, ended_at;
    char why[FLEET_WHY];
};

/* What a worker tells of itself: `models` of struct fleet_telemetry_model follow, those that had requests. */
struct fleet_telemetry {
    uint64_t seq, seq_again; /* equal; by RDMA the first is written last: an unequal pair is read again */
    int64_t told_at;         /* by the worker's own clock */
    uint32_t gpu_used, host_used;
    uint32_t queue;                   /* requests that wait, of all models */
    uint32_t sessions;                /* that clients have open */
    uint64_t answered, late, refused; /* requests since the start; one is counted once */
    uint32_t models;
    uint32_t reserved; /* by RDMA a sum of the record (src/fleet/pipe/record.h), else 0 */
};

struct fleet_telemetry_model {
    uint32_t model;
    uint32_t queue;
    uint64_t requests, refused; /* since the start */
    int64_t p99_ns[5];          /* as in fleet_has_model.exec_ns; 0: nothing new */
};

/* ---- controller to worker */

struct fleet_act {
    uint64_t term;
    uint32_t kind; /* enum fleet_kind (plan.h): LOAD, EVICT or DROP */
    uint32_t model;
    int64_t earliest_at, latest_at; /* when it may begin */
};

/* Makes, renews, changes or (left_ns 0) ends the lease of that number. */
struct fleet_lease {
    uint64_t term;
    uint32_t lease; /* below fleet_hello_worker.leases */
    uint32_t model;
    uint64_t key;             /* random; 0 is none */
    uint8_t client[FLEET_ID]; /* only its sessions may use it */
    uint32_t slots;           /* requests in flight at most */
    float rate;               /* requests a second at most; the device allows bursts of `slots` */
    int64_t left_ns;
    uint32_t max_batch; /* batches on the worker are no larger while this lease lives */
    uint32_t spill;
};

/* ---- client and controller */

/* What a client has to do with one model, since its last DEMAND. The first one asks for leases, all others
 * renew them. The controller's answer is any number of its messages; there may be none. */
struct fleet_demand_message {
    char model[FLEET_MODEL];
    uint32_t version; /* 0: any */
    uint32_t slots;   /* that it would like to have in flight */
    int64_t deadline_ns;
    int64_t since_ns;                          /* the time that the counts cover */
    uint64_t offered, answered, late, refused; /* requests in it; late ones are not among the answered */
    uint32_t waiting;                          /* requests that wait for a lease */
    uint32_t over;                             /* 1: it wants no leases any more */
};

struct fleet_granted {
    char model[FLEET_MODEL];
    char worker[FLEET_NAME];
    char address[FLEET_ADDRESS]; /* of the worker */
    uint8_t worker_id[FLEET_ID]; /* this life of it */
    uint32_t lease, version;
    uint64_t key;
    uint32_t slots;
    float rate;
    int64_t left_ns; /* from when the client sent the DEMAND that this answers, or got this one */
    uint32_t spill;  /* 1: for requests that other leases refuse */
    uint32_t max_batch;
    uint64_t request_bytes, answer_bytes; /* of one sample */
    int64_t exec_ns;                      /* p99 of one sample alone */
    uint64_t reply_bytes; /* of the worker's longest answer: a session's slot has room for it; 0: no RDMA */
};

struct fleet_revoked {
    uint8_t worker_id[FLEET_ID];
    uint32_t lease;
    uint32_t reserved;
};

/* Of requests with deadlines up to this one, send `admitted` of 255. */
struct fleet_sheds {
    char model[FLEET_MODEL];
    int64_t deadline_ns;
    uint32_t admitted;
    uint32_t reserved;
};

struct fleet_nothing {
    char model[FLEET_MODEL];
    int32_t error; /* -ENOENT: no worker has such a model; -EAGAIN: not now */
    uint32_t reserved;
    int64_t retry_ns;
    char why[FLEET_WHY];
};

/* ---- client and worker */

struct fleet_describe {
    char model[FLEET_MODEL];
};

/* Opens an RDMA session for the client that the lease names. The worker answers OPENED or GOODBYE. */
struct fleet_open {
    uint32_t lease, slots;
    uint64_t key;
    uint8_t gid[FLEET_GID];
    uint32_t qpn, psn, mtu, reply_rkey;
    uint64_t reply_addr, reply_stride;
};

struct fleet_opened {
    uint32_t slots, request_rkey;
    uint8_t gid[FLEET_GID];
    uint32_t qpn, psn, mtu, reserved;
    uint64_t request_addr, request_stride;
};

/* A request over TCP; `bytes` of tensors follow, laid out as in a slot (src/server/wire/layout.h). */
struct fleet_request {
    uint32_t lease, rows;
    uint64_t key;
    uint64_t id;
    uint64_t budget_ns; /* an answer later than this after arrival is worth nothing; 0: no deadline */
    uint32_t priority, reserved;
    uint64_t bytes;
};

struct fleet_answer {
    uint64_t id;
    uint32_t status;                         /* enum gw_serve_status (src/server/wire/wire.h) */
    uint32_t batch;                          /* samples that ran together */
    int64_t arrived_at, started_at, done_at; /* the worker's clock */
    int64_t retry_ns;                        /* of a refusal: when to try again */
    uint64_t bytes;                          /* of tensors that follow */
};

/* ---- the baseline: tensors pass the controller */

/* One sample of a batch; `bytes` of its tensors follow. The frames of a batch repeat its seq and come in
 * order, with no other BATCH between them. */
struct fleet_batch {
    uint32_t model;
    uint32_t sample, samples; /* which one, 0 and up; how many there are */
    uint32_t reserved;
    int64_t earliest_at, latest_at; /* when the batch may begin */
    uint64_t bytes;
};

/* How a batch ended; its frame repeats the seq. `bytes` follow for each sample, in their order. */
struct fleet_batched {
    uint32_t outcome; /* enum fleet_outcome */
    uint32_t samples;
    int64_t began_at, ended_at;
    uint64_t bytes; /* of one sample's answer; 0 unless DONE */
};

static_assert(sizeof(struct fleet_batch) == 40, "no padding");
static_assert(sizeof(struct fleet_batched) == 32, "no padding");
static_assert(sizeof(struct fleet_frame) == 16, "a frame's header");
static_assert(sizeof(struct fleet_hello) == 184, "no padding");
static_assert(sizeof(struct fleet_has_model) == 264, "no padding");
static_assert(sizeof(struct fleet_lease) == 64, "no padding");
static_assert(sizeof(struct fleet_request) == 48, "no padding");

#endif
