/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h: what a worker of a fleet computes with. The agent (agent.h) talks to controllers and clients,
 * and drives one engine: an emulated one, or the real one with its device and pages.
 *
 * Threads. One thread at a time makes all calls of one engine: the agent's, which is its fleet_loop's. No
 * call waits for a device, a disk or a peer, but for `stop`. What takes time is a struct of the caller
 * with a `done`. The engine may call `done` from any thread, also before the call that began it returns, and
 * calls it exactly once. A `done` calls nothing of the engine: the agent's hands the struct over to the
 * loop's thread (fleet_loop_call).
 *
 * Ownership. Such a struct is the caller's. The engine alone uses it from the call on until it calls `done`;
 * the fields marked "result" are then the engine's last word.
 *
 * Windows and terms are the agent's to check, but for `latest_at`: a move that cannot begin by then, because
 * others are before it, ends with FLEET_TOO_LATE.
 *
 * Times are CLOCK_MONOTONIC in nanoseconds. Functions return 0 or a negative errno unless they say otherwise,
 * and gw_last_error() says why.
 */
#ifndef GW_FLEET_WORKER_ENGINE_H
#define GW_FLEET_WORKER_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/fleet/wire/message.h"

struct fleet_engine {
    const struct fleet_engine_ops *ops; /* the first field of an engine's own struct */
};

/* A LOAD, EVICT or DROP. */
struct fleet_move {
    void (*done)(struct fleet_move *m);
    uint32_t kind; /* enum fleet_kind (plan.h) */
    uint32_t model;
    int64_t latest_at;          /* when it may begin at the latest */
    struct fleet_result result; /* result; `why` is "" if it is DONE */
    struct fleet_move *next;    /* the engine's */
    void *state;                /* the engine's */
};

/* A request over TCP. The engine looks at its lease, its budget and its deadline itself, as it does with
 * those that come by RDMA. */
struct fleet_call {
    void (*done)(struct fleet_call *c);
    struct fleet_call *next;      /* the engine's */
    struct fleet_request request; /* as the client sent it; `bytes` are the input's */
    uint8_t client[FLEET_ID];     /* of the connection that it came on */
    const void *input;            /* valid during `submit` alone: the engine copies what it keeps */
    int64_t arrived_at;
    struct fleet_answer answer; /* result; `id` is the request's */
    const void *output;         /* result: answer.bytes of tensors, the engine's until `release` */
    void *state;                /* the engine's */
};

/* An RDMA session of one client, which may use all leases of that client. */
struct fleet_session {
    void (*done)(struct fleet_session *s);
    struct fleet_open open; /* as the client sent it; the lease is looked at with its first request */
    uint8_t client[FLEET_ID];
    int err;                    /* result: 0, or why there is none: `why` */
    struct fleet_opened opened; /* result */
    char why[FLEET_WHY];        /* result */
    void *state;                /* the engine's */
};

struct fleet_engine_ops {
    /* What the worker tells of itself: pages, slots, leases, models, emulated. `address` is the agent's.
     * Only the number of models may change in the engine's life: it may grow. */
    void (*facts)(const struct fleet_engine *e, struct fleet_hello_worker *out);

    /* Bytes of the largest request that a model takes, with all samples. */
    uint64_t (*largest)(const struct fleet_engine *e);

    /* The facts of a model, with where it is now. Models have the numbers 0 to facts.models - 1. */
    void (*model)(const struct fleet_engine *e, uint32_t model, struct fleet_has_model *out);

    /* The number of the model of that name, or a negative errno. */
    int64_t (*find)(const struct fleet_engine *e, const char *name);

    /* The model's metadata as JSON, as the Open Inference Protocol has it: up to `max` bytes, without a final
     * zero. Returns the length, which may exceed `max`, or a negative errno. */
    int (*describe)(const struct fleet_engine *e, uint32_t model, char *out, size_t max);

    /* Begins a LOAD, EVICT or DROP, in the order of the calls. A LOAD of a model that is on the GPU, an EVICT
     * of one that is not, and a DROP of one on disk are DONE at once. From EVICT on requests of the model are
     * refused with GW_SERVE_NOT_THERE, and its pages are free when the batch that runs has ended. DROP of a
     * model on the GPU evicts it first. */
    void (*move)(struct fleet_engine *e, struct fleet_move *m);

    /* Makes or changes a lease, or ends it if until_at is 0. The device honours it from the moment on when
     * this returns; what lies in the queue by an old lease of that number with another key is refused. Does
     * not look at `term` and `left_ns`. -EINVAL: no such lease, model or number of slots. */
    int (*lease)(struct fleet_engine *e, const struct fleet_lease *lease, int64_t until_at);

    /* Opens an RDMA session. An engine without RDMA answers -ENOTSUP. */
    void (*open)(struct fleet_engine *e, struct fleet_session *s);
    /* Ends a session that was opened; its requests get no answers. The struct is the caller's again when this
     * returns. */
    void (*close)(struct fleet_engine *e, struct fleet_session *s);

    /* Takes a request. A refusal is an answer too. */
    void (*submit)(struct fleet_engine *e, struct fleet_call *c);
    /* Its client wants no answer any more. The engine may drop it, or go on; `done` follows in any case. */
    void (*recall)(struct fleet_engine *e, struct fleet_call *c);
    /* After `done`: the output is the engine's again. Must follow each `done`. */
    void (*release)(struct fleet_engine *e, struct fleet_call *c);

    /* A snapshot: all fields of *t but seq, seq_again, told_at and models. Returns how many models it wrote
     * to `models`, `max` at most: those that had requests since the last call; the others come with the next
     * call. */
    uint32_t (*telemetry)(struct fleet_engine *e, struct fleet_telemetry *t,
                          struct fleet_telemetry_model *models, uint32_t max);

    /* True: nothing waits and nothing runs, of any lease, by TCP or RDMA. */
    bool (*idle)(const struct fleet_engine *e);

    /* Ends all: what waits is refused with GW_SERVE_CLOSING, and what runs is waited for. All `done`s have
     * been called when it returns. Only `model`, `release`, `close` and `destroy` may follow. */
    void (*stop)(struct fleet_engine *e);
    /* After `stop` and all `release`s. */
    void (*destroy)(struct fleet_engine *e);
};

#endif
