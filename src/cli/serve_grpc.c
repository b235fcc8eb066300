/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the gRPC door of `gpuwire serve` and `gpuwire router`, where it is built. */
#include "src/cli/serve_grpc.h"

#include <errno.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/cli/options.h"
#ifdef GW_HAVE_GRPC
#include "src/server/grpc/door.h"
#endif

int gw_cli_grpc_port(const char *command, const char *name, const char *text, struct gw_cli_grpc *o)
{
    uint64_t n = 0;
    o->asked = text;
    if (!strcmp(text, "off")) return 0;
    int wrong = gw_option_number(command, name, text, 0, 65535, &n);
    o->port = (uint16_t)n;
    return wrong;
}

int gw_cli_grpc_open(struct gw_infer *infer, const struct gw_http_door_opts *http,
                     const struct gw_cli_grpc *o, struct gw_server_door *door, uint16_t *port)
{
    *port = 0;
    if (o->asked && !strcmp(o->asked, "off")) return 0;
#ifdef GW_HAVE_GRPC
    struct gw_grpc *own;
    struct gw_grpc_opts opts = {.host = http->host,
                                .port = o->port,
                                .max_body = http->max_body,
                                .connections_each = http->connections_each,
                                .trusted_proxies = http->trusted_proxies,
                                .cert = http->cert,
                                .key = http->key,
                                .token_file = http->token_file,
                                .open_health = http->open_health};
    int err = gw_grpc_start(infer, &opts, door, &own);
    if (!err) *port = gw_grpc_port(own);
    return err;
#else
    (void)infer, (void)http, (void)door;
    if (!o->asked) return 0;
    return gw_error(-ENOTSUP,
                    "--grpc: built without gRPC; install libnghttp2-dev and libssl-dev and build again");
#endif
}
