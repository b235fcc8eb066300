/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC door of gpuwire serve and gpuwire router, where it is built. */
#ifndef GW_CLI_SERVE_GRPC_H
#define GW_CLI_SERVE_GRPC_H

#include <stdint.h>

#include "src/server/http/http.h"
#include "src/server/requests/infer.h"
#include "src/server/lifecycle/server.h"

#define GW_CLI_GRPC_PORT 8001 /* Triton's */

struct gw_cli_grpc {
    const char *asked; /* what --grpc says: a port, or "off"; NULL: nothing */
    uint16_t port;     /* 0: any free one */
};

/* Reads --grpc's value: 0, or an exit code after saying what was expected. That calls the option `name`. */
int gw_cli_grpc_port(const char *command, const char *name, const char *text, struct gw_cli_grpc *o);
/* Opens the door unless it is off. It has the address, the limits and the secrets of the HTTP door. *port is
 * where it listens, and *door the owner's; 0: nowhere. Returns 0, or a negative errno with the reason in
 * gw_last_error(). */
int gw_cli_grpc_open(struct gw_infer *infer, const struct gw_http_door_opts *http,
                     const struct gw_cli_grpc *o, struct gw_server_door *door, uint16_t *port);

#endif
