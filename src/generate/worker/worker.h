/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A generator at work: a network, its cache, the sessions of clients, and the loop that makes tokens. The CPU
 * sleeps, but for what the network itself runs on CPU threads.
 *
 *     gen_cpu_net(program, &cpu, &net);
 *     gen_worker_create(&opts, &w); // opts.net = net
 *     gen_worker_start(w);
 *     struct gen_source source = gen_client_source(gen_worker_client(w)); // for doors
 *
 * One thread at a time makes, starts, stops and destroys it. The other calls are for any thread.
 */
#ifndef GW_GENERATE_WORKER_WORKER_H
#define GW_GENERATE_WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "src/generate/client/client.h"
#include "src/generate/net/net.h"
#include "src/generate/source/source.h"
#include "src/generate/worker/pool.h"

struct gen_worker;

struct gen_worker_opts {
    const char *name; /* of the model: for messages, and for clients; copied */
    struct gw_exec *exec;
    struct gw_device *dev; /* made for `exec`; it outlives the worker */
    struct gen_net net;    /* the worker's from now on, also when it cannot be made */
    uint32_t lanes;        /* requests that are at work at a time; 0: 32, or what the network fixes */
    uint32_t context;     /* tokens of prompt and answer together; 0: what the network knows, 4,096 at most */
    uint32_t max_tokens;  /* of an answer: events of the own client's slots; 0: the context */
    uint32_t prompt_rows; /* of a step in which some lane makes tokens, for prompts: beside a row for each
                              lane; 0: 256 on a GPU, 32 on CPU threads */
    uint64_t cache_bytes; /* for keys and values; 0: as much as all lanes take with their longest context,
                              1 GiB at most */
    uint32_t sessions;    /* clients' own, over RDMA */
    uint32_t slots;       /* of a session, at most: 1 … GEN_MAX_SLOTS */
    uint32_t requests;    /* that wait or run, at most; 0: 1,024, or as many as there are slots */
    /* For the doors of this process: sessions beside the clients', and a device for a CPU executor that they
     * are used from; it outlives the worker. */
    uint32_t own_sessions;
    struct gw_device *own_dev;
};

/* Makes all of it. 0 or a negative errno with the reason in gw_last_error(): -ENOMEM says how much memory it
 * needs, and what to lower. */
int gen_worker_create(const struct gen_worker_opts *opts, struct gen_worker **out);
/* Starts making tokens, also after gen_worker_stop. */
int gen_worker_start(struct gen_worker *w);
/* Ends requests that come or wait with GEN_CLOSING (how: 1), and those that run, too (2). */
void gen_worker_close(struct gen_worker *w, uint32_t how);
/* Do requests wait, or are any at work? */
bool gen_worker_busy(struct gen_worker *w);
/* Stops the loop and waits for it; requests stay where they are. -ETIMEDOUT: a step lasts beyond the
 * deadline. Another error: what the loop had ended with. */
int gen_worker_stop(struct gen_worker *w, uint64_t deadline_ns);
/* -EBUSY: the loop still runs, and nothing was freed. NULL is allowed. */
int gen_worker_destroy(struct gen_worker *w);

/* Readable when the loop has ended by itself, which only an error does. */
int gen_worker_fd(const struct gen_worker *w);

const char *gen_worker_name(const struct gen_worker *w);
void gen_worker_shape(const struct gen_worker *w, struct gen_source_shape *out);
void gen_worker_net(const struct gen_worker *w, struct gen_net_shape *out);
void gen_worker_stats(const struct gen_worker *w, struct gen_source_stats *out);
/* Bytes that the cache takes. */
uint64_t gen_worker_cache_bytes(const struct gen_worker *w);
struct gen_pool *gen_worker_pool(const struct gen_worker *w);
/* The client whose source doors submit to; NULL: there are no own sessions. */
struct gen_client *gen_worker_client(const struct gen_worker *w);

#endif
