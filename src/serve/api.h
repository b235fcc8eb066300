/* SPDX-License-Identifier: Apache-2.0 */
/* The serving API's calls (docs/serving.md): what each path answers, and which connection holds which
 * session. */
#ifndef GW_SERVE_API_H
#define GW_SERVE_API_H

#include <jansson.h>
#include <pthread.h>
#include <stddef.h>

#include "src/serve/clock.h"
#include "src/serve/worker.h"

struct gw_api_session {
    struct gw_api_session *next;
    const void *connection; /* it lives as long as this */
    struct gw_worker *worker;
    uint32_t index;
    char id[33];
};

struct gw_api {
    pthread_mutex_t lock; /* the HTTP thread and the housekeeper */
    struct gw_device *dev;
    char clock[GW_CLOCK_TEXT]; /* that workers stamp answers with; "" when it is no process's (a GPU's) */
    struct gw_worker **worker;
    size_t workers;
    struct gw_api_session *open;
};

/* The two functions of a gw_httpd_handler; ctx is the gw_api. */
unsigned gw_api_call(void *ctx, const char *method, const char *path, const json_t *body,
                     const void *connection, json_t **reply);
void gw_api_connection_closed(void *ctx, const void *connection);

/* Closes sessions whose queue pair has failed and frees closed ones that their loop has let go of. */
void gw_api_tend(struct gw_api *api);

/* Forgets everything; the workers are the caller's. */
void gw_api_free(struct gw_api *api);

#endif
