/* SPDX-License-Identifier: Apache-2.0 */
/* Inside make.c and worker.c: what a generator consists of. */
#ifndef GW_GENERATE_WORKER_WORKER_IMPL_H
#define GW_GENERATE_WORKER_WORKER_IMPL_H

#include <pthread.h>

#include <gpuwire/loop.h>

#include "src/generate/worker/worker.h"

struct gen_worker {
    char *name;
    struct gen_worker_opts opts;
    struct gen_net_shape net;
    struct gen_device_shape shape;
    struct gen_source_shape source;
    struct gen_net_memory memory;
    struct gw_mem host, dev, cache, logits; /* the cache and logits may be the network's own */
    uint64_t cache_bytes;
    struct gen_pool *pool;
    struct gen_client *client;
    struct gw_loop *loop;
    struct gen_args args;
    bool started;
    pthread_t house;
    bool housed;  /* the house's thread runs */
    int leave_fd; /* an eventfd: it ends */
};

/* Chooses the numbers that the options leave open, and checks them all. */
int gen_worker_choose(struct gen_worker *w);
/* Makes memory, sessions and the loop. */
int gen_worker_make(struct gen_worker *w);

#endif
