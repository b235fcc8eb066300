/* SPDX-License-Identifier: Apache-2.0 */
/* In place of fleet.c, where fleets are not built. */
#include <errno.h>

#include "src/client/impl.h"

static int fleet_none_ask(struct gw_client *c, enum gw_client_question what, json_t **answer)
{
    (void)what, (void)answer;
    return gw_error(-ENOTSUP,
                    "server %s: this client was built without fleets; install libssl-dev and build again, or "
                    "give an http:// URL",
                    c->url.base);
}

static void fleet_none_close_door(struct gw_client *c)
{
    (void)c; /* it never opens */
}

const struct gw_client_door gw_client_fleet = {
    .name = "fleet", .ask = fleet_none_ask, .close = fleet_none_close_door};
