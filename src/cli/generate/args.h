/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `gpuwire generate`. */
#ifndef GW_CLI_GENERATE_ARGS_H
#define GW_CLI_GENERATE_ARGS_H

#include <stdint.h>

#include "src/cli/doors.h"
#include "src/cli/serve_balancer.h"

#define GW_CLI_GENERATE_MODELS 64u

/* A folder with a model, and what clients call it. */
struct gw_cli_generate_model {
    const char *folder;
    char name[128]; /* "": as the folder is called */
};

struct gw_cli_generate {
    struct gw_cli_generate_model model[GW_CLI_GENERATE_MODELS];
    uint32_t models;
    struct gw_cli_doors doors;
    const char *exec, *device;
    uint32_t gpu, threads;
    uint32_t lanes, context, max_tokens, rows; /* 0: chosen */
    uint64_t kv_bytes;                         /* 0: chosen */
    uint32_t kv;                               /* GW_DTYPE_F32, F16 or BF16; 0: the network's choice */
    uint32_t sessions, sessions_each, slots;
    struct gw_cli_balancer_opts balancer;
};

/* Sets `all` to the defaults, and then to what the command line says. -1: go on; else the exit code. */
int gw_cli_generate_args(int argc, char **argv, struct gw_cli_generate *all);

#endif
