/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP door of a server. */
#ifndef GW_SERVER_HTTP_HTTP_H
#define GW_SERVER_HTTP_HTTP_H

#include <stdint.h>

#include "src/door/http_door.h"
#include "src/server/requests/infer.h"
#include "src/server/lifecycle/server.h"

struct gw_http_door;

/* Listens. *door is for gw_server_add_door, or for another owner that tends and stops it. `infer` outlives
 * the door. `server` is that of the models, for RDMA sessions; NULL: they are on other hosts. 0 or a negative
 * errno with the reason in gw_last_error(). */
int gw_http_door_start(const struct gw_server_view *server, struct gw_infer *infer,
                       const struct gw_http_door_opts *opts, struct gw_server_door *door,
                       struct gw_http_door **out);
uint16_t gw_http_door_port(const struct gw_http_door *h);

#endif
