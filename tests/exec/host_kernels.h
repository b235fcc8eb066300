/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that ask the host for launches, print, and tell the time. */
#ifndef GW_TESTS_EXEC_HOST_KERNELS_H
#define GW_TESTS_EXEC_HOST_KERNELS_H

#include <gpuwire/host.h>

/* Places in the servers' table. */
enum { HK_ADD, HK_AGAIN, HK_WRONG, HK_KERNELS };

/* Adds `add` to *to, once per thread of the grid. */
struct add_args {
    uint64_t *to;
    uint64_t add;
    uint8_t pad[600]; /* a large argument: several threads copy it */
    uint64_t check;   /* must be ~add */
};

/* Launches itself `depth` times more, each waiting for the next, the outer ones longer; then adds. */
struct again_args {
    struct gw_host *h;
    struct add_args add;
    uint32_t depth;
    uint64_t limit_ns;
    int32_t *result; /* [depth] */
};

enum ask_how { ASK_LAUNCH, ASK_START, ASK_START_ONLY };

struct ask_args {
    struct gw_host *h;
    uint32_t how, form; /* enum ask_how, enum gw_group */
    uint32_t kernel, grid, block, times;
    uint64_t limit_ns;    /* of each call; 0: do not wait */
    struct add_args *add; /* in the executor's memory */
    int32_t *result;      /* first error, or 0; and a stale ticket's result */
    uint64_t *seen;       /* *add->to, by each thread of the block, after the last launch */
};

struct print_args {
    struct gw_host *h;
    uint32_t lines;
    uint64_t *refused; /* lines that found no room */
};

struct time_args {
    const struct gw_host *h;
    uint64_t *at; /* one per thread of the grid, before and after 1 ms */
};

#endif
