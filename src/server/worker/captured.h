/* SPDX-License-Identifier: Apache-2.0 */
/* Models that a program has captured as CUDA graphs: a back-end whose plans are those graphs. A graph works
 * at fixed addresses, so the server copies requests there and back. */
#ifndef GW_SERVER_WORKER_CAPTURED_H
#define GW_SERVER_WORKER_CAPTURED_H

#include <gpuwire/serve.h>

#include "src/server/device/shared.h"
#include "src/server/worker/worker.h"

/* Copies graphs and names into a model. 0; -EINVAL, -ENOMEM, -ENODEV (built without CUDA), -EIO: the reason
 * is in gw_last_error(). `name` is the model's, for messages. */
int gw_captured_open(const char *name, const struct gw_serving_captured *captured, struct gw_model **model);

/* Sets where the graph for v->rows rows works; ctx is what gw_captured_open was given. For
 * gw_worker_source. */
int gw_captured_place(void *ctx, struct gw_serve_variant *v);

/* Runs the graph for f->v->rows rows once, on tensors in host memory. No kernel of the server runs during the
 * call. And the inputs that lie where the graph reads them. For gw_worker_source, too. */
int gw_captured_run(const struct gw_worker_fixed *f, const void *const in[], void *const out[]);
int gw_captured_example(const struct gw_worker_fixed *f, void *const in[]);

#endif
