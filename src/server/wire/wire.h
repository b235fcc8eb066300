/* SPDX-License-Identifier: Apache-2.0 */
/* The format of what a serving client and worker write into each other's memory.
 *
 * A session has K slots. In the worker's memory slot k starts at `request_addr + k * request_stride` and
 * holds a request header and the input tensor. In the client's memory it starts at `reply_addr + k *
 * reply_stride` and holds a reply header and the output tensor. Both directions are one RDMA WRITE_WITH_IMM
 * of header and tensor. The immediate names the slot. So one completion queue announces every request of
 * every client, and no one polls memory. A slot has at most one request in flight: the client owns it until
 * it writes, the worker until it has answered.
 *
 * Byte order of headers and tensors: little-endian, whatever the hosts are.
 */
#ifndef GW_SERVER_WIRE_WIRE_H
#define GW_SERVER_WIRE_WIRE_H

#include <assert.h>
#include <stdint.h>

#define GW_SERVE_MAGIC     0x53525747u /* "GWRS" */
#define GW_SERVE_VERSION   2
#define GW_SERVE_MAX_SLOTS 256
#define GW_SERVE_ALIGN     64u /* bytes; a slot's tensors begin at multiples, counted from the header */

/*
 * Both ends' timeout (4.096 us << 18: a second, eight times) where the NIC is the software NIC. That one
 * answers only while its process is let run. On a busy machine a live peer may have to wait for seconds. It
 * repeats lost packets long before, and the HTTP connection tells of a dead client. Other NICs have the usual
 * one.
 */
#define GW_SERVE_SOFT_TIMEOUT 18

/* Outcome of one request, in the reply header. */
enum gw_serve_status {
    GW_SERVE_OK = 0,
    GW_SERVE_BAD_REQUEST = 1, /* header or length is not what the session agreed on */
    GW_SERVE_FAILED = 2,      /* the model failed; the worker says why in its log */
    GW_SERVE_LATE = 3,        /* its answer would have come after its deadline: refused at once */
    GW_SERVE_CLOSING = 4,     /* the model is being stopped or replaced: ask again elsewhere, or later */
    GW_SERVE_RECALLED = 5,    /* the client has taken it back before the model began with it */
    /* Of a worker that serves several models by leases. `done` less `arrived` says when to try again. */
    GW_SERVE_NO_LEASE = 6,    /* there is no such lease, it has ended, or it is another client's */
    GW_SERVE_OVER_BUDGET = 7, /* more than the lease's slots, rate or batch size */
    GW_SERVE_NOT_THERE = 8,   /* the model is not on this GPU now */
};

/* After the header come the input tensors, in the model's order. Each holds `rows` samples and begins at
 * the next multiple of GW_SERVE_ALIGN. The answer's tensors lie likewise. */
struct gw_serve_request {
    uint32_t magic;
    uint16_t version;
    uint16_t slot;      /* repeats the immediate: a write that landed in another slot is refused */
    uint64_t id;        /* the client's own; comes back in the reply */
    uint64_t bytes;     /* of all that follows the header */
    uint32_t rows;      /* samples: 1 up to the session's most; a model without open batch has 1 */
    uint32_t priority;  /* 1 is served first; 0: the model's default */
    uint64_t budget_ns; /* an answer later than this after arrival is worth nothing; 0: no deadline */
    uint32_t flags;     /* GW_SERVE_PLACED and so on; a request with others is refused */
    uint32_t lease;     /* number + 1 of the lease that it comes on; 0: none. Ignored where there are none */
    uint64_t recalled;  /* the id, once the client wants no answer any more: with GW_SERVE_RECALL */
    uint64_t key; /* the lease's. Without a lease, the number of the model: the server's own may say so */
};

/* The server's own sessions need not send what already lies on the GPU. The slots are the session's alone, so
 * these do no harm in a stranger's hands. */
#define GW_SERVE_PLACED 1u /* the inputs are in the slot already: the header comes alone, and `bytes` is 0 */
#define GW_SERVE_STAY   2u /* the outputs stay in the worker's slot: so does the answer's header */
#define GW_SERVE_RECALL 4u /* the header's `recalled` is looked at before the model gets the request */
#define GW_SERVE_FLAGS  (GW_SERVE_PLACED | GW_SERVE_STAY | GW_SERVE_RECALL)

/* Times are the worker's clock in nanoseconds; only differences mean anything elsewhere. At `arrived` the
 * request's completion became visible to the worker, at `started` the model got it, and at `done` the model
 * had finished. A request that a worker with leases has refused may be sent again at `done`. `posted` is just
 * before the reply's work request was written. The time to write it and to ring the doorbell cannot be in the
 * header that it sends. So the header has that time of the session's previous answer. */
struct gw_serve_reply {
    uint32_t magic;
    uint16_t version;
    uint16_t status; /* enum gw_serve_status */
    uint64_t id;
    uint64_t bytes; /* of the output tensors that follow; 0 unless status is GW_SERVE_OK */
    uint64_t arrived, started, done, posted;
    uint32_t last_post_ns; /* 4.2 s at most */
    uint32_t batch;        /* samples that the model ran together, this request's among them */
};

static_assert(sizeof(struct gw_serve_request) == 64, "the request header is one cache line");
static_assert(sizeof(struct gw_serve_reply) == 64, "the reply header is one cache line");

#endif
