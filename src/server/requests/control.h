/* SPDX-License-Identifier: Apache-2.0 */
/* Models that clients load and unload: doors ask on their threads, and the thread of gw_server_run does
 * it. */
#ifndef GW_SERVER_REQUESTS_CONTROL_H
#define GW_SERVER_REQUESTS_CONTROL_H

#include "src/server/requests/error.h"
#include "src/server/lifecycle/server.h"

struct gw_control;

/* `repository` is the folder that models are loaded from; NULL: clients load and unload none. It and the
 * server outlive the control. */
int gw_control_create(struct gw_server *server, const char *repository, struct gw_control **out);
/* When no door is open any more. NULL is allowed. */
void gw_control_destroy(struct gw_control *c);

/* Readable while a caller asks: one of the descriptors of gw_server_run. */
int gw_control_fd(const struct gw_control *c);
/* Does what was asked for. On the thread of gw_server_run, between two runs. */
void gw_control_do(struct gw_control *c);
/* Refuses all that is asked for from now on. Before the server is stopped. */
void gw_control_close(struct gw_control *c);

enum gw_control_what {
    GW_CONTROL_LOAD, /* the highest version that the repository has now, in place of the one that is served */
    GW_CONTROL_UNLOAD, /* requests that wait are answered first */
    GW_CONTROL_RUN     /* gw_control_paused's */
};
/* Asks, and waits until it is done. Any thread. NULL: models are fixed. 0 or -1 with *error. */
int gw_control_ask(struct gw_control *c, enum gw_control_what what, const char *model,
                   struct gw_infer_error *error);

/* Has `run` called while no model runs on the GPU, and requests wait: CUDA maps no memory beside a resident
 * kernel. Any thread but the server's; it waits. NULL: it is called at once. `run` returns 0, or -1 with
 * *error, as this does. */
int gw_control_paused(struct gw_control *c, int (*run)(void *arg, struct gw_infer_error *error), void *arg,
                      struct gw_infer_error *error);

#endif
