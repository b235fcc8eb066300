/* SPDX-License-Identifier: Apache-2.0 */
/* The inference client: one API for all doors of a server. Over RDMA the client writes its inputs straight
 * into the worker's memory, and the answers come back the same way. Over HTTP and gRPC it speaks the Open
 * Inference Protocol with binary tensors, to gpuwire's server or another one (Triton, KServe). What is said
 * of HTTP below holds for gRPC, too.
 *
 * A client is used by one thread at a time; a program opens as many as it wants. All functions are for the
 * host. Functions return 0 or a negative errno, with the reason in gw_last_error() (<gpuwire/error.h>). Times
 * are nanoseconds, sizes bytes.
 *
 *     struct gw_client *c;
 *     struct gw_client_opts opts = {.server = "rdma://worker7:8000", .model = "superresolution"};
 *     gw_client_open(&opts, &c);
 *     memcpy(gw_client_slot_input(c, 0, 0, 1), picture, gw_client_input(c, 0)->bytes);
 *     struct gw_client_request request = {.id = 42};
 *     gw_client_submit(c, 0, &request);
 *     struct gw_client_reply r;
 *     gw_client_wait(c, deadline, &r);     // r.id == 42; r.out[0].data is the answer, until slot 0 is used
 */
#ifndef GPUWIRE_CLIENT_H
#define GPUWIRE_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include <gpuwire/dtype.h>
#include <gpuwire/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GW_CLIENT_MAX_RANK  8   /* dimensions of a tensor */
#define GW_CLIENT_MAX_IO    16  /* inputs, and outputs, of a model */
#define GW_CLIENT_MAX_SLOTS 256 /* requests in flight */
#define GW_CLIENT_NAME      128 /* bytes of a tensor's name, with the final zero */

struct gw_client;

/* The dimensions of one input, for a model that leaves more open than the number of samples. */
struct gw_client_shape {
    const char *name; /* NULL: every input that has open dimensions */
    uint32_t rank;
    int64_t dims[GW_CLIENT_MAX_RANK]; /* where the model counts samples, dims[0] says nothing */
};

struct gw_client_opts {
    /* Where the server is, and which door:
     *   HOST, HOST:PORT, [IPV6]:PORT   an RDMA session, opened over HTTP
     *   rdma://HOST:PORT               the same
     *   rdmas://HOST:PORT              the same, opened over HTTPS
     *   http://HOST:PORT/PREFIX        the Open Inference Protocol; a prefix is what a proxy wants in front
     *   https://HOST:PORT/PREFIX       the same, encrypted
     *   grpc://HOST:PORT               the same protocol over gRPC, where this library was built with it
     *   grpcs://HOST:PORT              the same, encrypted
     *   fleet://HOST:PORT[,HOST:PORT]  a fleet's controllers: requests go straight to whichever workers these
     *                                  lease, and elsewhere when one dies or refuses
     *   fleet+etcd://HOST:PORT[,…]     the same, with the leader's address from etcd
     *   fleet://HOST:PORT/NAME         the same of a fleet with that name, which is not "default"
     * The port is 8000 when absent, 443 for https, and 8001 for gRPC; a fleet's must be given. */
    const char *server;
    const char *model;
    const char *version;  /* of the model; NULL: the server's choice */
    const char *token;    /* NULL, or sent with every call as "Authorization: Bearer TOKEN"; to a fleet it is
                             proved, and not sent */
    const char *ca_file;  /* NULL: the system's. PEM file of who may sign the server's certificate */
    uint32_t slots;       /* requests in flight at most. 0: as many as the worker gives; 16 over HTTP */
    uint32_t rows;        /* samples of one request at most. 0: as many as the server takes, 64 at most */
    uint64_t timeout_ns;  /* for each step of set-up, and for each question; 0: 10 s */
    int (*give_up)(void); /* NULL, or asked every 0.1 s while a question waits: not 0 ends it with -EINTR */
    const struct gw_client_shape *shapes; /* `shape_count` of them, for open dimensions */
    uint32_t shape_count;
};

/* An input or output, as the server describes it. Elements are little-endian, in C order. */
struct gw_client_tensor {
    char name[GW_CLIENT_NAME];
    uint32_t dtype;                   /* enum gw_dtype */
    uint32_t rank;                    /* 0 is a scalar */
    int64_t dims[GW_CLIENT_MAX_RANK]; /* of one sample. -1 (outputs over HTTP only): the answer tells */
    uint64_t bytes;                   /* of one sample; 0: a dimension is -1 */
    uint32_t batched; /* 1: dims[0] counts samples; it is 1 here, and n samples take n times as many bytes */
};

/* One request. Zero is a good value for everything. */
struct gw_client_request {
    uint64_t id;        /* yours; comes back in the reply */
    uint32_t rows;      /* samples; 0: 1. More than 1 needs a model whose tensors are batched */
    uint32_t priority;  /* 1 is served first; 0: the model's default */
    uint64_t budget_ns; /* an answer later than this is worth nothing: the server refuses what would be late;
                           0: no deadline. HTTP counts in microseconds. */
};

/* Where a request's time went, in nanoseconds. On one machine client and worker (on CPU threads) read the
 * same clock. Otherwise the client estimates the clocks' difference from the exchange itself, as NTP does:
 * from the request with the least time on the network so far. Until the first answers are in, net_in and
 * net_out are halves of what the network took in all. A worker sees no arrivals while it runs the model: what
 * then waits in its NIC counts as net_in. Over HTTP only `total` is known; the others are 0. */
struct gw_client_times {
    int64_t total;  /* submit to answer, on the client's clock */
    int64_t net_in; /* from submit until the worker's NIC had announced the request */
    int64_t wait;   /* until the model took it */
    int64_t model;
    int64_t post;    /* until the answer's work request was written */
    int64_t net_out; /* until the client saw the answer */
};

/* One tensor of an answer. It lies in the slot, at a multiple of 64, until the slot is submitted again. */
struct gw_client_output {
    const void *data;
    uint64_t bytes; /* of all samples */
    uint32_t dtype; /* enum gw_dtype */
    uint32_t rank;
    int64_t dims[GW_CLIENT_MAX_RANK]; /* where the tensor is batched, dims[0] is the number of samples */
};

struct gw_client_reply {
    uint64_t id;
    uint32_t slot;
    /* 0, or why this request has no answer, as `why` says:
     *   `-EINVAL`      The server refused the request.
     *   `-EREMOTEIO`   The model failed.
     *   `-ETIME`       The answer would have come after the deadline.
     *   `-ESHUTDOWN`   The model is being stopped or replaced: ask again later, or elsewhere.
     *   `-EKEYEXPIRED` The lease that it came on has ended, or is another client's.
     *   `-EDQUOT`      It is more than its lease allows: slots, rate, or samples at once.
     *   `-EAGAIN`      The model is not on that GPU now.
     *   `-EBUSY`       The server has too much to do (HTTP). A fleet refused it: `retry_ns` says when to ask
     *                  again.
     *   `-EACCES`      The server wants another token (HTTP); all controllers refuse ours (fleet).
     *   `-ECONNRESET`  The server has gone (HTTP; the next submit connects again).
     *   `-EPROTO`      The answer is not one of the protocol, or not this model's (HTTP, fleet).
     *   `-EHOSTDOWN`   The worker that had it died, and no time was left to ask another (fleet).
     *   `-ENOENT`      No worker has the model any more (fleet).
     *   `-ETIMEDOUT`   A request without a deadline has no answer within `timeout_ns` (fleet). */
    int error;
    const char *why;  /* one line, "" on success; lives as long as the tensors */
    uint32_t rows;    /* of the request */
    uint32_t batch;   /* samples that the model ran together, this request's among them; 0: not known */
    uint32_t outputs; /* 0 on error */
    struct gw_client_output out[GW_CLIENT_MAX_IO]; /* in the model's order */
    struct gw_client_times times;
    uint64_t retry_ns; /* -EBUSY of a fleet: how long to wait before the next try; 0: not known */
};

/* Opens a client: asks what the model takes and gives and, over RDMA, opens a session at the worker.
 *   `-ENOENT`        No such model there.
 *   `-EBUSY`         All its sessions are taken.
 *   `-EACCES`        The server wants another token, or the fleet another token or name.
 *   `-EINVAL`        Bad arguments, or an input whose shape must be given (`shapes`).
 *   `-ENOTSUP`       A URL that this library has no door for; elements of a type it does not know (BYTES).
 *   `-EFBIG`         Slots, rows and tensors take more than 4 GiB.
 *   `-ECONNREFUSED`, `-EHOSTUNREACH`, `-ETIMEDOUT`, `-EIO`   No server there.
 *   `-EPROTO`        Its answers make no sense.
 *   `-EINTR`         Give_up said so. */
GW_API int gw_client_open(const struct gw_client_opts *opts, struct gw_client **out);
/* Ends the session; what is in flight is lost. NULL is allowed. */
GW_API void gw_client_close(struct gw_client *c);

/* What the model takes and gives. The i-th tensor, or NULL when there are fewer; it lives as long as the
 * client. */
GW_API uint32_t gw_client_inputs(const struct gw_client *c);
GW_API uint32_t gw_client_outputs(const struct gw_client *c);
GW_API const struct gw_client_tensor *gw_client_input(const struct gw_client *c, uint32_t i);
GW_API const struct gw_client_tensor *gw_client_output(const struct gw_client *c, uint32_t i);
/* Requests in flight at most, and samples of one request at most. */
GW_API uint32_t gw_client_slots(const struct gw_client *c);
GW_API uint32_t gw_client_rows(const struct gw_client *c);
/* "rdma", "http", "grpc" or "fleet". */
GW_API const char *gw_client_door(const struct gw_client *c);

/* Where input i of a request with `rows` samples (0: 1) lies in the slot: fill it with rows * bytes, then
 * submit with that many rows. The place depends on `rows`. It must stay unchanged until the answer is there.
 * NULL: no such slot, input or number of rows. */
GW_API void *gw_client_slot_input(struct gw_client *c, uint32_t slot, uint32_t i, uint32_t rows);

/* Sends what is in the slot. It waits, a second at most (-ETIMEDOUT), only when the network has lost the
 * acknowledgements of all the last requests. A worker ends sessions that are not used. So the first request
 * after a long pause asks over HTTP for the session, and opens another one when it has ended. Errors are then
 * as from gw_client_open. -EINVAL: no such slot, or more rows than gw_client_rows. -EBUSY: the slot's last
 * request has not been answered. -ECONNRESET (the server has gone), -EIO and others: the connection is
 * broken, as gw_last_error() says; close the client. */
GW_API int gw_client_submit(struct gw_client *c, uint32_t slot, const struct gw_client_request *request);

/* The same with inputs that lie elsewhere: in[i] holds rows * bytes of input i. What lies in a registered
 * region is sent from there, without a copy. Other tensors must be host memory; they are copied into the
 * slot. All must stay unchanged until the answer is there. Errors as above. */
GW_API int gw_client_submit_from(struct gw_client *c, uint32_t slot, const struct gw_client_request *request,
                                 const void *const in[]);

/* Makes memory known, so that gw_client_submit_from sends from it: host memory or, over RDMA, a GPU's own (of
 * the CUDA driver that the process has loaded). Do it once for each buffer: it takes microseconds to
 * milliseconds. There may be 64 regions. -EINVAL: no bytes, or it overlaps another region. -ENOSPC: too many.
 * -ENOMEM: more than this process may lock. -EOPNOTSUPP: the NIC cannot reach that memory. */
GW_API int gw_client_register(struct gw_client *c, const void *addr, size_t bytes);
/* Forgets the region that begins at addr; -ENOENT: there is none. -EBUSY: a request is in flight. */
GW_API int gw_client_unregister(struct gw_client *c, const void *addr);

/* Waits for one answer, until `deadline_ns` on CLOCK_MONOTONIC. The thread sleeps while it waits. Over HTTP
 * it also sends what submits have left to send. Over RDMA it asks the server now and then whether the session
 * is there still. It may return up to a second late then. -ETIMEDOUT: none came. The connection is broken
 * after -ECONNRESET (the server has gone), -EIO and others: close the client. */
GW_API int gw_client_wait(struct gw_client *c, uint64_t deadline_ns, struct gw_client_reply *reply);

/* CPU time the worker has spent since it started. */
struct gw_client_cpu {
    uint64_t own_ns; /* the worker's own threads */
    uint64_t nic_ns; /* its software NIC's threads */
};
/* Asks the worker (over HTTP) what CPU time it has spent. Errors as from gw_client_open; -ENOTSUP: this
 * server does not tell. */
GW_API int gw_client_worker_cpu(struct gw_client *c, struct gw_client_cpu *out);

/* What the server has counted for the model since it started, all versions together. The times are sums over
 * requests. */
struct gw_client_stats {
    uint64_t success, fail, inferences, executions;
    uint64_t success_ns, queue_ns, input_ns, infer_ns, output_ns;
    uint32_t batches; /* entries of the next two */
    uint32_t batch[32];
    uint64_t batch_count[32]; /* executions with this number of samples */
};
/* Asks GET v2/models/M/stats. Errors as from gw_client_open; -ENOTSUP: this server does not tell. */
GW_API int gw_client_stats(struct gw_client *c, struct gw_client_stats *out);

#ifdef __cplusplus
}
#endif

#endif
