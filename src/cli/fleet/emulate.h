/* SPDX-License-Identifier: Apache-2.0 */
/* What `gpuwire fleet emulate` was asked for. */
#ifndef GW_CLI_FLEET_EMULATE_H
#define GW_CLI_FLEET_EMULATE_H

#include <stdbool.h>
#include <stdint.h>

struct gw_emulate {
    uint32_t workers, models, threads;
    const char *profile;
    uint32_t gpu_pages, host_pages, slots, leases;
    bool cold, quiet;
    double slow;
    uint64_t seed;
    uint32_t drain_s;
    const char *controller, *etcd, *fleet, *name, *host, *token_file;
};

/* Reads the command line. -1: go on; else the exit code. */
int gw_emulate_args(int argc, char **argv, struct gw_emulate *e);

#endif
