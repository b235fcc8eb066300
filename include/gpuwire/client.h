/* SPDX-License-Identifier: Apache-2.0 */
/* The inference client: inputs are written by RDMA straight into the worker's memory, answers come back the
 * same way.
 *
 * A client is used by one thread at a time; a program opens as many as it wants. All functions are for the
 * host. Functions return 0 or a negative errno, with the reason in gw_last_error() (<gpuwire/error.h>). Times
 * are nanoseconds, sizes bytes.
 *
 *     struct gw_client *c;
 *     struct gw_client_opts opts = {.server = "worker7:8000", .model = "superresolution"};
 *     gw_client_open(&opts, &c);
 *     memcpy(gw_client_slot_input(c, 0), picture, gw_client_input(c)->bytes);
 *     gw_client_submit(c, 0, 42);
 *     struct gw_client_reply r;
 *     gw_client_wait(c, deadline, &r); // r.id == 42; r.output points to the answer until slot 0 is submitted again
 */
#ifndef GPUWIRE_CLIENT_H
#define GPUWIRE_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include <gpuwire/error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gw_client;

struct gw_client_opts {
    const char *server; /* HOST, HOST:PORT or [IPV6]:PORT; the port is 8000 when absent */
    const char *model;
    uint32_t slots;      /* requests in flight at most; 0: as many as the worker gives */
    uint64_t timeout_ns; /* for each step of set-up; 0: 10 s */
    int (*give_up)(
        void); /* NULL, or asked every 0.1 s while a call over HTTP waits: not 0 ends it with -EINTR */
};

struct gw_client_tensor {
    char name[64];
    uint32_t ndim;
    int64_t dim[8];
    size_t bytes; /* all tensors are FP32, little-endian, C order */
};

/* Where a request's time went, in nanoseconds. On one machine client and worker (on CPU threads) read the
 * same clock. Else the clocks' difference is estimated from the exchange itself, from the request with the
 * least time on the network so far, as NTP does; until the first answers are in, net_in and net_out are
 * halves of what the network took in all. A worker that runs the model sees no arrivals meanwhile: what then
 * waits in its NIC counts as net_in. */
struct gw_client_times {
    int64_t total;  /* submit to answer, on the client's clock */
    int64_t net_in; /* from submit until the worker's NIC had announced the request */
    int64_t wait;   /* until the model took it */
    int64_t model;
    int64_t post;    /* until the answer's work request was written */
    int64_t net_out; /* until the client saw the answer */
};

struct gw_client_reply {
    uint64_t id;
    uint32_t slot;
    int error;           /* 0; -EINVAL: the worker refused the request; -EREMOTEIO: the model failed */
    const float *output; /* in the slot, until it is submitted again; NULL on error */
    struct gw_client_times times;
};

/* CPU time the worker has spent since it started. */
struct gw_client_cpu {
    uint64_t own_ns; /* the worker's own threads */
    uint64_t nic_ns; /* its software NIC's threads */
};

/* Opens a session at the worker. -ENOENT: no such model there. -EBUSY: all its sessions are taken. -EINVAL:
 * bad arguments. -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT: no worker there. -EINTR: give_up said so. */
GW_API int gw_client_open(const struct gw_client_opts *opts, struct gw_client **out);
/* Ends the session. NULL is allowed. */
GW_API void gw_client_close(struct gw_client *c);

/* What the model takes and gives, and how many slots the session has. They live as long as the client. */
GW_API const struct gw_client_tensor *gw_client_input(const struct gw_client *c);
GW_API const struct gw_client_tensor *gw_client_output(const struct gw_client *c);
GW_API uint32_t gw_client_slots(const struct gw_client *c);

/* The slot's input buffer: fill it, then submit. It must stay unchanged until the answer is there. */
GW_API float *gw_client_slot_input(struct gw_client *c, uint32_t slot);

/* Sends what is in the slot's input buffer. It waits, a second at most (-ETIMEDOUT), only when the
 * network has lost the acknowledgements of all the last requests. A worker ends sessions that nobody
 * uses. So the first request after a long pause asks over HTTP for the session, and opens another one
 * when it has ended. Errors are then as from gw_client_open. -EINVAL: no such slot. -EBUSY: the slot's
 * last request has not been answered. -EIO and others: the connection is broken, as gw_last_error()
 * says; close the client. */
GW_API int gw_client_submit(struct gw_client *c, uint32_t slot, uint64_t id);

/* Waits for one answer, until `deadline_ns` on CLOCK_MONOTONIC. The thread sleeps while it waits. -ETIMEDOUT:
 * none came. -EIO and others: the connection is broken; close the client. */
GW_API int gw_client_wait(struct gw_client *c, uint64_t deadline_ns, struct gw_client_reply *reply);

/* Asks the worker (over HTTP) what CPU time it has spent. */
GW_API int gw_client_worker_cpu(struct gw_client *c, struct gw_client_cpu *out);

#ifdef __cplusplus
}
#endif

#endif
