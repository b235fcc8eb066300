/* SPDX-License-Identifier: Apache-2.0 */
/* The models of this process's own server, as what stands behind the doors. */
#ifndef GW_SERVER_REQUESTS_LOCAL_H
#define GW_SERVER_REQUESTS_LOCAL_H

#include <pthread.h>

#include "src/server/lifecycle/server.h"
#include "src/server/requests/backend.h"
#include "src/server/worker/worker.h"

/* gw_infer_local's ctx: parts of the gw_server_view. It and they outlive the gw_infer. */
struct gw_infer_local {
    struct gw_worker *const *worker;
    const size_t *workers;
    pthread_rwlock_t *lock;           /* NULL: models neither come nor go */
    const struct gw_missing *missing; /* NULL: it does not matter */
    int on_gpu;
};

void gw_infer_local_of(const struct gw_server_view *view, struct gw_infer_local *out);

extern const struct gw_infer_backend gw_infer_local;

#endif
