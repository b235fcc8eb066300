/* SPDX-License-Identifier: Apache-2.0 */
/* The serving API's calls (docs/serving.md): what each path answers. */
#ifndef GW_HTTP_API_H
#define GW_HTTP_API_H

#include <stddef.h>

#include "src/http/httpd.h"
#include "src/infer/infer.h"
#include "src/serve/server.h"

/* What they need of the server; constant while calls come, but for the table and the infer, which have locks of
 * their own. So no call waits for another. */
struct gw_api {
    struct gw_server_view server;
    struct gw_infer *infer;
};

/* The functions of a gw_httpd_handler; ctx is the gw_api. Any thread. */
unsigned gw_api_call(void *ctx, const struct gw_http_request *request, json_t **reply);
void gw_api_connection_closed(void *ctx, const void *connection);
int gw_api_connection_stays(void *ctx, const void *connection);

#endif
