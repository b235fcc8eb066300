/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.h: models' weights in pages. There are two arenas of pages, taken at the start. One is where plans
 * run: on the GPU, or with CPU threads in a second part of the host's memory. The other one is pinned host
 * memory. Each model has a range of addresses for its life. LOAD maps free pages there and copies the
 * weights; EVICT takes the pages away. So plans and graphs are made once, and nothing is freed while loops
 * run.
 *
 *     fleet_pages_create(&opts, &pages);
 *     fleet_weights_create(pages, "resnet50", user, &w);
 *     gw_weights_create(fleet_weights_range(w), &shared);    // plans are made with it
 *     fleet_weights_seal(w, gw_weights_bytes(shared));       // from now on the pages come and go
 *     fleet_weights_move(w, &move);                          // move.done is called
 *
 * Three threads do all moves: one reads files, one copies, one maps pages ahead of it. Moves of one model
 * keep their order.
 *
 * Threads: fleet_weights_move, _where and fleet_pages_used may be called by any; the others by one at a time.
 * Functions return 0 or a negative errno, and say why in gw_last_error().
 */
#ifndef GW_FLEET_PAGES_H
#define GW_FLEET_PAGES_H

#include <stdint.h>

#include <gpuwire/exec.h>
#include <gpuwire/model.h>

#include "src/fleet/wire/message.h"

struct fleet_pages;
struct fleet_weights;

struct fleet_pages_opts {
    struct gw_exec *exec;           /* outlives it */
    uint32_t gpu_pages, host_pages; /* of the two arenas */
    uint32_t page;                  /* bytes of a page; 0: FLEET_PAGE */
    int64_t delay_ns;               /* CPU threads: what the copy of a page takes at least */
    uint32_t piece; /* GPU: bytes that are copied at once, so that others' copies get in between; 0: 2 MiB */
    const char *folder; /* where files of weights are kept; it exists */
    /* The weights are in place: the model may run. Called by a move. */
    void (*arrived)(void *ctx, void *user);
    /* Keeps the model from running, and returns when it does not: 0. An error: it may still run, and the
     * weights stay. Called by a move. */
    int (*leave)(void *ctx, void *user);
    void *ctx;
};

/* Takes the arenas. -ENOMEM: they are not to be had. */
int fleet_pages_create(const struct fleet_pages_opts *opts, struct fleet_pages **out);
/* Loads begin: plans of further models are made in pages beside the arena, which is all for loads now. Those
 * are taken when they are needed, as many as the largest of these models wants. */
void fleet_pages_serve(struct fleet_pages *p);
/* Ends the move that is under way; those that have not begun end with FLEET_BROKEN. No move may follow. */
void fleet_pages_stop(struct fleet_pages *p);
/* The same, and gives all memory back. All models' plans must be gone, and no loop may run. NULL is allowed.
 */
void fleet_pages_destroy(struct fleet_pages *p);
/* Pages of either arena that models have now. */
void fleet_pages_used(const struct fleet_pages *p, uint32_t *gpu, uint32_t *host);

/* ---- a model's weights ---- */

/* Reserves addresses: as many as the arena has. They are the model's until fleet_pages_destroy. */
int fleet_weights_create(struct fleet_pages *p, const char *name, void *user, struct fleet_weights **out);
/* For gw_weights_create. While plans are made, there is memory. */
const struct gw_range *fleet_weights_range(const struct fleet_weights *w);
/* Plans have been made; the range's first `bytes` bytes are the weights. Puts them into a file, unless it is
 * there, and takes their memory away. So they are on disk. -EFBIG: more than the arena has; -ENOSPC: the
 * disk is full. */
int fleet_weights_seal(struct fleet_weights *w, uint64_t bytes);
uint32_t fleet_weights_pages(const struct fleet_weights *w);
/* An enum fleet_where, or FLEET_ON_DISK. */
#define FLEET_ON_DISK UINT32_MAX
uint32_t fleet_weights_where(const struct fleet_weights *w);

/* ---- moves ---- */

enum fleet_weights_move {
    FLEET_TO_GPU,  /* from where they are; through host memory */
    FLEET_OFF_GPU, /* they stay in host memory */
    FLEET_TO_HOST, /* from disk, if they are there alone */
    FLEET_TO_DISK, /* they are on disk in any case: pages are given back */
};

struct fleet_pages_move {
    void (*done)(struct fleet_pages_move *m); /* on one of the threads; once */
    enum fleet_weights_move kind;
    int64_t earliest_at, latest_at; /* when it may begin, by CLOCK_MONOTONIC; 0 and INT64_MAX: any time */
    struct fleet_result result;     /* but `model` */
    void *ctx;                      /* the caller's */
    /* The module's: */
    struct fleet_pages_move *next;
};

/* Begins a move; *m is the module's until it calls m->done. */
void fleet_weights_move(struct fleet_weights *w, struct fleet_pages_move *m);

#endif
