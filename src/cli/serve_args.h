/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `gpuwire serve`: its command line, and the file of --config. */
#ifndef GW_CLI_SERVE_ARGS_H
#define GW_CLI_SERVE_ARGS_H

#include <stdint.h>

#include "src/cli/serve_balancer.h"
#include "src/cli/doors.h"
#include "src/server/lifecycle/server.h"

/* This server is a worker of a fleet. */
struct gw_cli_fleet_opts {
    const char *fleet;   /* controllers: "HOST:PORT,...", or etcds: "http://HOST:PORT,..."; NULL: none */
    const char *name;    /* the fleet's */
    const char *worker;  /* this worker's name; NULL: the host's */
    const char *address; /* that clients are told; NULL: where it listens */
    const char *folder;  /* where weights and measurements are kept; NULL: the user's cache */
    uint32_t gpu_pages, host_pages, leases;
    uint32_t load_delay_us; /* CPU threads: what a page's copy takes at least */
};

struct gw_cli_serving {
    struct gw_server_opts server;
    struct gw_cli_doors doors;
    struct gw_cli_balancer_opts balancer;
    struct gw_cli_fleet_opts fleet;
    int control;      /* clients may load and unload models */
    int watch;        /* the repository's changes are served */
    uint64_t in_file; /* a bit for each option that the file has set */
};

/* Sets `all` to the defaults, and then to what the file and the command line say. -1: go on; else the exit
 * code. */
int gw_cli_serve_args(int argc, char **argv, struct gw_cli_serving *all);

#endif
