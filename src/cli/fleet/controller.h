/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `gpuwire controller`. */
#ifndef GW_CLI_FLEET_CONTROLLER_H
#define GW_CLI_FLEET_CONTROLLER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/fleet/plan/plan.h"

struct gw_controller_args {
    const char *listen, *address; /* address: where others reach it; NULL: `listen` */
    const char *etcd;             /* NULL: it leads alone */
    const char *models;           /* NULL: no names */
    bool standalone;
    const char *fleet, *name, *token_file, *audit, *http_token_file;
    char http_host[INET6_ADDRSTRLEN];
    uint16_t http_port;
    bool http, dry_run;
    uint32_t telemetry_ms;
    const char *device; /* NULL: none */
    struct fleet_limits limits;
};

/* 0, an exit code, or -1: it printed its help. */
int gw_controller_parse(int argc, char **argv, struct gw_controller_args *a);

#endif
