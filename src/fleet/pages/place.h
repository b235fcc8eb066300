/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h: the memory that pages are made of, and the addresses that they are mapped to. It is a GPU's, or
 * with CPU threads the host's. Each has a table of functions; pages.c knows nothing else of either.
 *
 * A page has a number, from 0 on. Addresses are the executor's. All but `open` and `close` may be called
 * while loops run: none of it waits for a kernel.
 */
#ifndef GW_FLEET_PAGES_PLACE_H
#define GW_FLEET_PAGES_PLACE_H

#include <stddef.h>
#include <stdint.h>

#include <gpuwire/exec.h>

struct fleet_place_ops;

struct fleet_place_memory {
    const struct fleet_place_ops *ops; /* the first field of a place's own struct */
};

struct fleet_place_opts {
    struct gw_exec *exec;
    uint32_t pages;   /* that are there from the start */
    size_t page;      /* bytes of one; a multiple of what the place maps at least */
    int64_t delay_ns; /* CPU: a page's copy takes as long at least; as a bus would */
    size_t piece;     /* GPU: bytes that are copied at once */
};

/* Functions return 0 or a negative errno, and say why in gw_last_error(). */
struct fleet_place_ops {
    int (*open)(const struct fleet_place_opts *opts, struct fleet_place_memory **out);
    /* Nothing is mapped any more, and no loop runs. */
    void (*close)(struct fleet_place_memory *m);
    /* Addresses without memory. */
    int (*reserve)(struct fleet_place_memory *m, size_t bytes, char **at);
    void (*unreserve)(struct fleet_place_memory *m, char *at, size_t bytes);
    /* One page more than there are; its number is the next one. -ENOMEM. */
    int (*more)(struct fleet_place_memory *m);
    /* A page appears at an address; and all pages of a range go. */
    int (*map)(struct fleet_place_memory *m, char *at, uint32_t page);
    int (*unmap)(struct fleet_place_memory *m, char *at, size_t bytes);
    /* Begins to copy from pinned host memory, or waits until it can. `wait` returns when all copies are done.
     */
    int (*copy)(struct fleet_place_memory *m, char *at, const void *from, size_t bytes);
    int (*wait)(struct fleet_place_memory *m);
};

extern const struct fleet_place_ops fleet_place_cpu, fleet_place_gpu;

#endif
