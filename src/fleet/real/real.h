/* SPDX-License-Identifier: Apache-2.0 */
/*
 * real.h: the engine that computes. One loop serves all models (src/server/worker/many.h), and their weights
 * lie in pages (src/fleet/pages). So a model is loaded and evicted while others answer.
 *
 * The models are those of a repository, laid out as for `gpuwire serve`. Each is planned for batches of 1, 2,
 * 4, 8 and 16 when the engine is made, and measured; what was measured is kept beside the weights. If a model
 * cannot be served so, it is left out, and a line says why.
 */
#ifndef GW_FLEET_REAL_H
#define GW_FLEET_REAL_H

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "src/fleet/worker/engine.h"

struct fleet_real_opts {
    struct gw_exec *exec; /* these three outlive the engine */
    struct gw_device *dev;
    struct gw_device *own_dev; /* of a CPU executor: requests by TCP go through it */
    const char *models;        /* the repository */
    const char *folder;        /* where weights and measurements are kept; it exists */
    uint32_t gpu_pages, host_pages;
    uint32_t page;            /* bytes; 0: FLEET_PAGE */
    int64_t load_delay_ns;    /* CPU threads: what the copy of a page takes at least */
    uint32_t sessions, slots; /* RDMA sessions, and slots of each */
    uint32_t calls;           /* requests by TCP under way, at most */
    uint32_t leases;
    uint32_t max_models;                      /* with those that come later; 0: 1,024 */
    uint32_t max_batch;                       /* 1 to 16; 0: 16 */
    uint32_t threads;                         /* CPU threads of one batch; 0: 1 */
    uint64_t memory;                          /* bytes that a model may take; 0: 8 GiB */
    int64_t scan_ns;                          /* how often it looks for new models; 0: 2 s */
    void (*say)(void *ctx, const char *line); /* for the log; any thread; NULL: no one reads it */
    void *ctx;
};

/* -ENOENT: no model of the repository can be served; -ENOMEM: the arenas are not to be had; others as
 * gw_last_error() says. */
int fleet_real_create(const struct fleet_real_opts *opts, struct fleet_engine **out);
/* Readable when the engine answers nothing any more, because its NIC or its GPU has failed. `stop` says
 * why. */
int fleet_real_fd(const struct fleet_engine *e);

#endif
