/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of a server of kernels. */
#ifndef GW_HOST_SERVER_H
#define GW_HOST_SERVER_H

#include <pthread.h>
#include <stdbool.h>

#include <gpuwire/host.h>

#include "src/exec/helper.h"

#define GW_HOST_AT_ONCE 16

/* Where one launch at a time runs. */
struct gw_host_runner {
    struct gw_exec *exec;
    struct gw_host_ask_ *ask; /* NULL: it is free */
};

struct gw_host_server {
    struct gw_exec *exec;
    struct gw_host_attr attr;
    struct gw_host_runner runner[GW_HOST_AT_ONCE];
    struct gw_exec *clock_exec; /* GPU only */
    struct gw_mem kernels;      /* struct gw_host and the table */
    struct gw_mem shared;       /* page, slots, lines: host memory */
    struct gw_mem clock;        /* struct gw_clock_page */
    struct gw_host_page_ *page; /* in shared, as the CPU sees it */
    struct gw_host_ask_ *ask;
    struct gw_print_line_ *line;
    struct gw_helper helper;
    uint32_t next;             /* slot to begin with */
    uint64_t clock_due;        /* when the GPU's time is asked for again */
    uint64_t launches, failed; /* atomic: read by others, as what follows */
    uint64_t printed;          /* number of the next line; page->printed says the same to kernels */
    uint64_t lost, texts;      /* lines known to be lost; lines printed */
};

/* launch.c: starts what is asked for and ends what has ended; whether there was anything. */
bool gw_host_launches(struct gw_host_server *s);
/* Slots whose launch is asked for or under way. */
uint32_t gw_host_pending(const struct gw_host_server *s);

/* print.c: prints what is there; whether there was anything. */
bool gw_host_prints(struct gw_host_server *s);
/* Says how many lines were lost since that was said last. */
void gw_host_tell_lost(struct gw_host_server *s, uint64_t lost);
/* format.c: makes text of a line; how long it is, at most room - 1. */
size_t gw_host_format(const struct gw_print_line_ *l, char *to, size_t room);

/* clock.c: finds out how far the epoch is ahead of the GPU's clock. 0; -ETIMEDOUT: the GPU did not answer. */
int gw_host_ask_clock(struct gw_host_server *s);

#endif
