/* SPDX-License-Identifier: Apache-2.0 */
/* The inference server: a model repository, one worker per model, and the HTTP calls that set sessions up. */
#ifndef GW_SERVE_SERVER_H
#define GW_SERVE_SERVER_H

#include <stdint.h>

struct gw_server;

#define GW_SERVER_MODEL_MEMORY ((uint64_t)2 << 30)
#define GW_SERVER_UNUSED_NS    10000000000u /* a session without any request is closed, unless idle_ns is less */

struct gw_server_opts {
    const char *models;     /* the repository's folder */
    const char *only;       /* NULL: every model in it; else this one */
    const char *exec;       /* "cpu", "gpu", "auto" */
    const char *device;     /* an RDMA device's name, "softnic", or NULL to choose */
    const char *http_host;  /* numeric; NULL: 127.0.0.1 */
    uint16_t http_port;     /* 0: any free one */
    uint32_t sessions;      /* of each model at once */
    uint32_t sessions_each; /* of them, what one client may have; 0: all but a quarter */
    uint32_t slots;         /* of each session */
    uint64_t idle_ns;       /* a session without requests for so long is closed; 0: never */
    uint64_t
        model_memory; /* bytes that a model may take with its sessions' slots; 0: GW_SERVER_MODEL_MEMORY */
    uint32_t threads; /* CPU executor: that one inference uses */
    uint32_t gpu;     /* which, by its CUDA number */
};

/* Starts everything; the server then answers until gw_server_stop. 0 or a negative errno, see
 * gw_last_error(). */
int gw_server_start(const struct gw_server_opts *opts, struct gw_server **out);

uint16_t gw_server_port(const struct gw_server *s);
/* For people: "superresolution/1, identity/1 on cpu over mlx5_0 (softnic)". Lives as long as the server. */
const char *gw_server_text(const struct gw_server *s);

/* Keeps the house until one of the descriptors in `fds` is readable (returns 0) or a worker has failed (a
 * negative errno): frees what closed sessions held, closes sessions whose peer is gone. Sleeps meanwhile. */
int gw_server_run(struct gw_server *s, const int *fds, uint32_t n);

/* Ends it, within a second; the longest time that a loop took to stop goes to *stop_ns. NULL is allowed.
 * 0; -EBUSY: a model is still at work on a request (gw_last_error() says which) and nothing was freed:
 * only the process's end ends it. */
int gw_server_stop(struct gw_server *s, uint64_t *stop_ns);

#endif
