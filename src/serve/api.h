/* SPDX-License-Identifier: Apache-2.0 */
/* The serving API's calls (docs/serving.md): what each path answers. */
#ifndef GW_SERVE_API_H
#define GW_SERVE_API_H

#include <stddef.h>

#include "src/serve/clock.h"
#include "src/serve/httpd.h"
#include "src/serve/table.h"

/* Constant while calls come, but for the table, which has a lock of its own: so no call waits for another. */
struct gw_api {
    char clock[GW_CLOCK_TEXT]; /* that workers stamp answers with; "" when it is no process's (a GPU's) */
    struct gw_worker **worker;
    size_t workers;
    struct gw_table sessions;
};

/* The functions of a gw_httpd_handler; ctx is the gw_api. Any thread. */
unsigned gw_api_call(void *ctx, const struct gw_http_request *request, json_t **reply);
void gw_api_connection_closed(void *ctx, const void *connection);
int gw_api_connection_stays(void *ctx, const void *connection);

#endif
