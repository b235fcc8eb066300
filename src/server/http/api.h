/* SPDX-License-Identifier: Apache-2.0 */
/* The serving API's calls (docs/serving.md): what each path answers. */
#ifndef GW_SERVER_HTTP_API_H
#define GW_SERVER_HTTP_API_H

#include <stdbool.h>
#include <stddef.h>

#include "src/door/httpd.h"
#include "src/door/room.h"
#include "src/server/http/past.h"
#include "src/server/requests/infer.h"
#include "src/server/lifecycle/server.h"

/* The parts of the server that the calls need. It is constant while calls come. Only its table and `infer`
 * change, and these have locks of their own. So no call waits for another. */
struct gw_api {
    struct gw_server_view server; /* its sessions are NULL: no server of this process has the models */
    struct gw_infer *infer;
    uint64_t max_body;   /* bytes of an inference's body */
    struct gw_room room; /* for those whose JSON is being received */
    struct gw_past past; /* what the models did in the last minutes */
    /* NULL, or what another part of this server adds to its metrics; with `beside`. */
    int (*beside_metrics)(const void *beside, struct gw_text *t);
    const void *beside;
};

/* The functions of a gw_httpd_handler; ctx is the gw_api. Any thread. */
unsigned gw_api_call(void *ctx, const struct gw_http_request *request, json_t **reply);
/* The same for a port that has nothing but `metrics`. */
unsigned gw_api_call_metrics(void *ctx, const struct gw_http_request *request, json_t **reply);
void gw_api_connection_closed(void *ctx, const void *connection);
bool gw_api_connection_stays(void *ctx, const void *connection);

/* Inferences, whose bodies may be long. */
void *gw_api_open(void *ctx, const struct gw_http_request *request);
void gw_api_piece(void *stream, const char *data, size_t bytes);
void gw_api_finish(void *stream, struct gw_http_answer *answer);
void gw_api_refuse(void *stream, unsigned status, const char *why);
void gw_api_drop(void *stream);

#endif
