/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `gpuwire router`. */
#ifndef GW_CLI_ROUTER_ARGS_H
#define GW_CLI_ROUTER_ARGS_H

#include "src/cli/doors.h"
#include "src/fleet/router/router.h"

struct gw_cli_router {
    struct gw_cli_doors doors;
    struct fleet_router_opts fleet;
    const char *fleet_token_file; /* NULL: the fleet has no token */
};

/* -1: go on; else the exit code. */
int gw_cli_router_args(int argc, char **argv, struct gw_cli_router *all);

#endif
