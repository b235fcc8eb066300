/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of the kernels of `gpuwire perf`. Pointers are as the executor sees them. */
#ifndef GW_CLI_PERF_KERNELS_H
#define GW_CLI_PERF_KERNELS_H

#include <gpuwire/verbs_device.h>

/* Those from FETCH_ADD on are atomics. SIGNAL and DATAGRAM are for ping-pong alone. */
enum perf_op {
    PERF_PUT,
    PERF_PUT_IMM,
    PERF_GET,
    PERF_SEND,
    PERF_SIGNAL,   /* a put with a signal, for which the peer polls */
    PERF_DATAGRAM, /* a send between UD queue pairs */
    PERF_FETCH_ADD,
    PERF_CMP_SWAP,
    PERF_MASKED_ADD,
    PERF_MASKED_SWAP,
    PERF_OPS
};

/* For masked atomics: two fields, of which the lower one overflows with every fourth operation. And a compare
 * that fails unless its upper bits are masked out. */
#define PERF_FIELDS_ADD      UINT64_C(0x0000000140000000)
#define PERF_FIELDS_BOUNDARY UINT64_C(0x8000000080000000)
#define PERF_SWAP_MASK       UINT64_C(0x0000ffffffffffff)
#define PERF_SWAP_OUTSIDE    UINT64_C(0x5a5a000000000000)

#define PERF_GRH       40u        /* bytes before a datagram's payload */
#define PERF_REPEAT_NS 200000000u /* a datagram without an answer is sent again */
#define PERF_QKEY      0x00667067u

/* The threads that post together: one reservation and one doorbell for all of them. Such a group is a
 * *poster*. */
enum perf_by { PERF_BY_THREAD, PERF_BY_WARP, PERF_BY_BLOCK };

/* The result of a poster. */
struct perf_out {
    uint64_t start, stop; /* by the executor's clock */
    uint64_t ops;
    uint64_t checked, wrong; /* bytes of what arrived, looked at as soon as it had: ping-pong with verify */
    int32_t err;
    uint32_t pad;
};

/* Where operations read and write: each queue pair has a span of the buffer, cut into slots. */
struct perf_place {
    uint64_t base, span; /* bytes */
    uint32_t stride, slots;
    uint32_t key, pad;
};

struct perf_post_args {
    struct gw_qp_handle *const *qp;
    uint32_t qps, by, op, size;
    uint32_t batch;     /* posts for each doorbell */
    uint32_t signal;    /* every Nth post is signalled beside those that the library signals; 0: none */
    uint32_t post_only; /* time posting alone, without the wait for the last completions */
    uint32_t inl;       /* the payload goes into the request */
    uint64_t count;     /* operations of each poster; 0: until limit_ns is over */
    uint64_t limit_ns;
    uint64_t patience_ns; /* how long nothing may complete before that is an error */
    uint64_t pace;        /* 1/1024 ns between a poster's operations at least; 0: as fast as it goes */
    uint64_t swap;        /* what compare-and-swap writes, where 0 is */
    struct perf_place here, there;
    const uint32_t *stop;
    struct perf_out *out;   /* of each poster */
    uint32_t *sends, *done; /* of each queue pair: signalled sends that were posted, and that completed */
};

/* Ping-pong on one queue pair; get and atomics need no answer, and each is a round of its own.
 */
struct perf_lat_args {
    struct gw_qp_handle *qp;
    struct gw_cq_handle *recv_cq;
    uint32_t op, size;
    uint32_t answer;   /* 1: the side that answers */
    uint32_t capacity; /* of ns: later rounds overwrite the earliest */
    uint64_t count, limit_ns, patience_ns;
    uint64_t outbox, inbox; /* ours */
    uint64_t target;        /* the peer's inbox, or what get and atomics work on */
    uint32_t lkey, rkey;
    uint32_t room; /* bytes of the inbox: receives have this size, whatever the size of this run */
    uint32_t inl;
    int32_t stop_fd; /* CPU threads: readable when they are to stop */
    /* each message has bytes of its own, and all of them are looked at before it is answered */
    uint32_t verify;
    uint64_t signal, signal_target; /* where the peer's signal comes, and ours goes */
    struct gw_ah_handle ah;         /* datagrams: to the peer's host, */
    uint32_t peer_qpn;              /* and its queue pair there */
    uint32_t pad;
    const uint32_t *stop;
    uint32_t *ns; /* of each round, there and back */
    struct perf_out *out;
};

/* The side that takes in sends and immediates. */
struct perf_recv_args {
    struct gw_qp_handle *const *qp;
    struct gw_cq_handle *const *cq;
    uint32_t qps, op;
    struct perf_place here;
    const uint32_t *stop;
    uint64_t *posted, *got; /* receives of each queue pair, ever */
    int32_t *err;
};

#endif
