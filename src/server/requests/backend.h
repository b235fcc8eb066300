/* SPDX-License-Identifier: Apache-2.0 */
/* What stands behind the doors: a table of the operations that requests need. A server's own models are one
 * (local.h); models that lie on other hosts are another.
 *
 * Functions that can fail return 0, or -1 with *error filled in, unless they say otherwise. Any thread may
 * call all of it; a call belongs to the thread that has taken it. Times are on CLOCK_MONOTONIC. */
#ifndef GW_SERVER_REQUESTS_BACKEND_H
#define GW_SERVER_REQUESTS_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include <gpuwire/model.h>

#include "src/door/text.h"
#include "src/server/lifecycle/missing.h"
#include "src/server/requests/error.h"
#include "src/server/requests/stats.h"
#include "src/server/wire/layout.h"

struct gw_infer_call; /* one inference: the backend's own */

/* A model as the doors see it. What it points to stays between `enter` and `leave`, and while it is held. */
struct gw_infer_model {
    const char *name;
    unsigned version;
    const struct gw_model *model; /* says what its tensors are */
    uint32_t max_batch;           /* samples of one request at most; 0: none of its tensors is batched */
    uint32_t rdma_slots;          /* of an RDMA session with this process; 0: it has none */
    void *own;                    /* the backend's: a server has its struct gw_worker here */
};

/* How a call is to be run. */
struct gw_infer_ask {
    uint32_t rows, priority; /* priority 1 is served first; 0: the model's default */
    uint64_t budget_ns;      /* an answer later than this is worth nothing; 0: no deadline */
    uint32_t flags;          /* GW_SERVE_PLACED, GW_SERVE_STAY, GW_SERVE_RECALL (wire.h) */
};

/* How long a call that was answered waited, and was in the model. */
struct gw_infer_times {
    uint64_t queue_ns, compute_ns;
};

struct gw_infer_backend {
    /* ---- models. Those that find and model give stay between enter and leave. */
    void (*enter)(void *ctx);
    void (*leave)(void *ctx);
    /* It may wait for another host. */
    int (*find)(void *ctx, const char *name, struct gw_infer_model *out, struct gw_infer_error *error);
    /* False: there are fewer. A backend on other hosts leaves `model` NULL until it knows the tensors. It
     * adds models at the end while others look. */
    bool (*model)(void *ctx, size_t i, struct gw_infer_model *out);
    /* The i-th one that is there and not served; NULL: there are fewer. */
    const struct gw_missing_model *(*missing)(void *ctx, size_t i);
    void (*stats)(void *ctx, const struct gw_infer_model *m, struct gw_infer_stats *out);

    /* ---- a call. A model that is held stays until it is released; from `take` on the call keeps it. */
    int (*hold)(void *ctx, const struct gw_infer_model *m, struct gw_infer_error *error);
    void (*release)(void *ctx, const struct gw_infer_model *m);
    /* For `rows` samples. Waits until the deadline. 0, -ETIMEDOUT, or another negative errno with the reason
     * in gw_last_error(). */
    int (*take)(void *ctx, const struct gw_infer_model *m, uint32_t rows, const char *who, uint64_t deadline,
                struct gw_infer_call **out);
    void (*give)(struct gw_infer_call *call); /* also while it is at work; NULL is allowed */
    const struct gw_layout *(*layout)(const struct gw_infer_call *call, int output);
    /* Where input `tensor` goes when the call has `rows` samples; where an output is, once it has ended. */
    void *(*input)(struct gw_infer_call *call, uint32_t tensor, uint32_t rows, uint64_t *bytes);
    const void *(*output)(const struct gw_infer_call *call, uint32_t tensor, uint64_t *bytes);
    int (*submit)(struct gw_infer_call *call, const struct gw_infer_ask *ask); /* as `take` */
    int (*wait)(struct gw_infer_call *call, uint64_t deadline);                /* 0, or -ETIMEDOUT */
    int (*cancel)(struct gw_infer_call *call); /* what has not begun ends soon; 0 or a negative errno */
    /* Of a call that has ended: did it succeed? *times stays as it is when no model has answered. */
    int (*result)(struct gw_infer_call *call, const struct gw_infer_model *m, struct gw_infer_times *times,
                  struct gw_infer_error *error);
    /* As gw_call_enter_slot and gw_call_leave_slot. NULL: tensors lie in the call's own memory alone. */
    int (*enter_slot)(struct gw_infer_call *call, uint8_t **in, uint8_t **out);
    void (*leave_slot)(struct gw_infer_call *call);

    /* ---- the whole */
    int (*ready)(void *ctx, struct gw_infer_error *error); /* NULL: it always is */
    void (*metrics)(void *ctx, struct gw_text *t);         /* adds to those of all doors; NULL: nothing */
    const char *(*executor)(void *ctx);                    /* where models run, for metrics */
    enum gw_infer_code late;                               /* of requests whose time is over */
    const char *no_control; /* why clients load and unload no models; NULL: gw_control_ask decides */
};

#endif
