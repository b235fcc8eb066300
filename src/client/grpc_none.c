/* SPDX-License-Identifier: Apache-2.0 */
/* In place of grpc.c, where there is no nghttp2. */
#include <errno.h>

#include "src/client/impl.h"

static int grpc_none_ask(struct gw_client *c, enum gw_client_question what, json_t **answer)
{
    (void)what, (void)answer;
    return gw_error(-ENOTSUP,
                    "server %s: this client was built without gRPC; install libnghttp2-dev and libssl-dev "
                    "and build again, or "
                    "give an http:// URL",
                    c->url.base);
}

static void grpc_none_close_door(struct gw_client *c)
{
    (void)c; /* it never opens */
}

const struct gw_client_door gw_client_grpc = {
    .name = "grpc", .ask = grpc_none_ask, .close = grpc_none_close_door};
