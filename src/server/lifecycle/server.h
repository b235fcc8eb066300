/* SPDX-License-Identifier: Apache-2.0 */
/* The inference server: a model repository, and one worker per model. Clients come in by doors (HTTP, gRPC),
 * which the program that starts the server adds to it. */
#ifndef GW_SERVER_LIFECYCLE_SERVER_H
#define GW_SERVER_LIFECYCLE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>

#include <gpuwire/serve.h>

#include "src/door/access.h"
#include "src/server/wire/clock.h"
#include "src/server/lifecycle/missing.h"
#include "src/server/lifecycle/table.h"

struct gw_server;
struct gw_worker_own;

#define GW_SERVER_MODEL_MEMORY ((uint64_t)2 << 30)
#define GW_SERVER_UNUSED_NS    10000000000u /* a session without requests ends, unless idle_ns is less */

struct gw_server_opts {
    const char *models;     /* the repository's folder; NULL: no models at first */
    const char *only;       /* NULL: every model in it; else this one */
    const char *exec;       /* "cpu", "gpu", "auto" */
    const char *device;     /* an RDMA device's name, "softnic", or NULL to choose */
    uint32_t sessions;      /* of each model at once */
    uint32_t sessions_each; /* of them, what one client may have; 0: all but a quarter */
    uint32_t slots;         /* of each session */
    uint64_t idle_ns;       /* how long a session may have no requests; 0: forever */
    /* bytes that a model may take with its sessions' slots; 0: GW_SERVER_MODEL_MEMORY */
    uint64_t model_memory;
    uint32_t threads; /* CPU executor: that one inference uses */
    uint32_t gpu;     /* which, by its CUDA number */
    /* Requests share runs of the models that allow it: how many samples together at most, 0 or 1: none; and
     * how long each waits for others. */
    uint32_t max_batch;
    uint64_t batch_delay_ns;
    /* where sessions that open and close are logged; it outlives the server. NULL: nowhere */
    struct gw_access *access;
    enum gw_resident_mode resident; /* which models the kernel that waits for requests runs itself */
};

/* Starts the models, which then answer until gw_server_stop. 0 or a negative errno, see gw_last_error(). */
int gw_server_start(const struct gw_server_opts *opts, struct gw_server **out);

/* A way in. The server calls `tend` now and then, on the thread of gw_server_run (NULL: never), and `stop`
 * once, before the models stop: it ends the door and frees it. `busy` says whether answers are on their way
 * out that no model's call stands for any more (NULL: never). */
struct gw_server_door {
    void *door;
    void (*tend)(void *door);
    void (*stop)(void *door);
    bool (*busy)(void *door);
};
#define GW_SERVER_DOORS 4
/* Before gw_server_run. -ENOSPC: there are GW_SERVER_DOORS, and nothing was added. */
int gw_server_add_door(struct gw_server *s, const struct gw_server_door *door);

/* The parts of the server that doors use; all of it lives until their `stop`. */
struct gw_server_view {
    const char *clock; /* that workers stamp answers with; "" when it is no process's (a GPU's) */
    struct gw_worker *const *worker; /* the models, and how many there are */
    const size_t *workers;
    struct gw_table *sessions;
    int on_gpu; /* models run on a GPU; else on CPU threads */
    /* A door read-locks it while it looks at `worker`, and until it has no pointer out of it any more. A
     * model of which the door has taken a call stays until the call is given back. */
    pthread_rwlock_t *lock;
    const struct gw_missing *missing; /* what the repository has beside them; under the same lock */
};
void gw_server_view(struct gw_server *s, struct gw_server_view *view);

/* ---- models that come and go ---- */

struct gw_server_model {
    const char *name;
    unsigned version;
    const char *path;                           /* a file, or NULL: */
    const struct gw_serving_captured *captured; /* graphs, which give the batch sizes, too */
    uint32_t batch[GW_SERVE_VARIANTS], batches;
    uint64_t delay_ns;
    int as_at_start; /* a file's batch sizes and delay are those that the server's own models have */
    const struct gw_worker_own *own; /* neither: a model that the program runs itself; else NULL */
    int replace; /* it may take the place of the model of that name, which ends as by gw_server_remove */
};

/* Adds a model and serves it. On a GPU the others pause during that: their requests wait. On the thread of
 * gw_server_run, which must have returned. -EEXIST: there is one of that name; -ENOSPC: there are
 * GW_SERVER_MODELS; and as gw_worker_create, gw_captured_open. */
int gw_server_add(struct gw_server *s, const struct gw_server_model *model);
#define GW_SERVER_MODELS 64

/* Serves what waits for the model, answers what comes with GW_SERVE_CLOSING, and frees it. On the thread of
 * gw_server_run, as above. -ENOENT; -EBUSY: a model is still at work after 10 s, and nothing was freed. */
int gw_server_remove(struct gw_server *s, const char *name);

/* The version of that name that is served; 0: none is. On the thread of gw_server_run, as the
 * next two. */
unsigned gw_server_version(const struct gw_server *s, const char *name);
/* Notes why a model is not served: the doors list such models, too. gw_server_add notes each
 * file that cannot be served. It forgets a model's note when the model is served, and gw_server_remove does
 * when it goes. */
void gw_server_miss(struct gw_server *s, const char *name, unsigned version, const char *why);
void gw_server_forget(struct gw_server *s, const char *name);

/* Pauses all models, so that a program may use CUDA as it likes; nothing happens on CPU threads. Requests
 * wait. gw_server_add and gw_server_remove end the pause, as gw_server_resume does. On the thread of
 * gw_server_run, as above. -EBUSY: a model is still at work after 10 s, and there is no pause. */
int gw_server_pause(struct gw_server *s);
int gw_server_resume(struct gw_server *s);
/* True: there is a pause, which on CPU threads there never is. */
bool gw_server_is_paused(const struct gw_server *s);

/* True: on a GPU; false: on CPU threads. */
bool gw_server_on_gpu(const struct gw_server *s);

/* For people: "superresolution/1, identity/1 on cpu over mlx5_0 (softnic)". Lives as long as the server. */
const char *gw_server_text(const struct gw_server *s);

/* Does the housekeeping until one of the descriptors in `fds` is readable (returns 0) or a worker has failed
 * (a negative errno). It frees what closed sessions held, and closes sessions whose peer is gone. Sleeps in
 * between. */
int gw_server_run(struct gw_server *s, const int *fds, uint32_t n);

/* Serves what is under way until the deadline, before gw_server_stop. The doors refuse what comes by them
 * already (gw_infer_drain). When theirs is done, RDMA clients are told that the models close. On the thread
 * of gw_server_run, which must have returned. 0; -ETIMEDOUT: something is under way still, and
 * gw_last_error() says what. */
int gw_server_drain(struct gw_server *s, uint64_t deadline_ns);

/* Ends it, within a second; the longest time that a loop took to stop goes to *stop_ns. NULL is allowed.
 * 0; -EBUSY: a model is still at work on a request (gw_last_error() says which) and nothing was freed:
 * only the process's end ends it. */
int gw_server_stop(struct gw_server *s, uint64_t *stop_ns);

#endif
