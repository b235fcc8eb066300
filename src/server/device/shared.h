/* SPDX-License-Identifier: Apache-2.0 */
/* The host and the serving kernels share this: one record per session, model and lease, the requests that
 * wait, and those in work.
 *
 * Two kinds of memory. `gw_serve_notice` lies in host memory that both sides see: the host writes it when a
 * session opens or closes, the kernel answers in `seen`. The rest lies in the executor's own memory, and only
 * kernels touch it once the loop runs. So serving a request reads nothing across the bus but the request
 * itself.
 */
#ifndef GW_SERVER_DEVICE_SHARED_H
#define GW_SERVER_DEVICE_SHARED_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include <gpuwire/loop.h>
#include <gpuwire/model.h>
#include <gpuwire/serve.h>
#include <gpuwire/verbs_device.h>

#include "src/server/wire/layout.h"

enum gw_serve_state {
    GW_SESSION_FREE = 0,   /* the kernel does not touch it */
    GW_SESSION_OPEN = 1,   /* the kernel answers its requests; its receives were posted before */
    GW_SESSION_CLOSING = 2 /* the kernel lets go of it */
};

/* A completion's id names the session and the session's client: the latter by the notice's word that opened
 * the session. An answer's id also says how many answers the session had with this one. The host may reset a
 * session and open it again while the kernel still holds completions that it has polled. The kernel tells by
 * their client that they are stale. */
#define GW_SERVE_MAX_SESSIONS 0x10000u

/* The owner of sessions that may use all leases, and no lease: the server's own. */
#define GW_SERVE_OWN UINT32_MAX

/* Receives of a session with `slots` slots. One more than it needs: so the next request finds one when it
 * comes before the receive that is posted after the answer. */
GW_FN uint32_t gw_serve_receives(uint32_t slots)
{
    return slots + 1;
}

/* Places for requests that wait: as many as there are receives. */
GW_FN uint64_t gw_serve_arrivals(uint32_t sessions, uint32_t slots)
{
    return (uint64_t)sessions * gw_serve_receives(slots);
}

GW_FN uint64_t gw_serve_id(uint32_t session, uint32_t word, uint32_t answers)
{
    return (uint64_t)answers << 32 | (word >> 2 & 0xffff) << 16 | session;
}
GW_FN uint32_t gw_serve_id_session(uint64_t id)
{
    return (uint32_t)id & 0xffff;
}
GW_FN uint32_t gw_serve_id_answers(uint64_t id)
{
    return (uint32_t)(id >> 32);
}
/* Does it name a completion of the client that the word opened? */
GW_FN bool gw_serve_id_is(uint64_t id, uint32_t word)
{
    return ((uint32_t)id >> 16) == (word >> 2 & 0xffff);
}

/* Host to kernel. The host fills the fields, then release-stores `word`, then bumps
 * gw_serve_board.changes. An opened session needs no such bump: its first request makes the kernel look
 * at the notice. */
struct gw_serve_notice {
    uint32_t word; /* generation << 2 | enum gw_serve_state */
    uint32_t seen; /* kernel: the last word it has acted on, 0 at first */
    uint32_t slots;
    uint32_t reply_rkey;
    uint64_t reply_addr;
    uint64_t reply_stride;
    uint32_t ask;      /* host: bumped to ask whether the session is alive */
    uint32_t heard;    /* kernel: the last `ask` it has acted on, after taking what had arrived before */
    uint32_t activity; /* kernel: requests that came and answers that left since the session was opened */
    uint32_t owner;    /* that leases name */
    uint32_t reserved[4];
};

/* Whether a loop that serves several models has one of them. Only a present one's batches run. */
enum gw_model_state {
    GW_MODEL_ABSENT = 0,
    GW_MODEL_PRESENT = 1,
    GW_MODEL_LEAVING = 2 /* absent, as soon as the batch that runs is over */
};

#define GW_SERVE_PRIORITIES GW_SERVING_PRIORITIES
#define GW_SERVE_PRIORITY   5                      /* of a request that names none */
#define GW_SERVE_VARIANTS   GW_SERVING_MAX_BATCHES /* batch sizes of a model; a loop has as many */
static_assert(GW_SERVE_VARIANTS <= GW_LOOP_VARIANTS, "each batch size is a variant of the loop");

/* Sums since the worker was made. Times are nanoseconds, each request's added up. */
struct gw_serve_counters {
    uint64_t successes, failures; /* requests that the model answered, and that it failed on */
    uint64_t refused, late;       /* answered with GW_SERVE_BAD_REQUEST, GW_SERVE_LATE */
    uint64_t closing;             /* answered with GW_SERVE_CLOSING */
    uint64_t inferences;          /* rows of the successes */
    uint64_t executions;          /* runs of the model */
    uint64_t queue_ns;            /* from arrival until the request was put into a batch */
    uint64_t input_ns;            /* until its batch was in one place */
    uint64_t infer_ns;            /* until the model had finished */
    uint64_t output_ns;           /* until its answer was posted */
    uint64_t waiting;             /* requests that wait now */
};

/* Of one model, in a loop that serves several. Sums since the loop was made. */
struct gw_serve_model_counters {
    uint64_t answered; /* requests that the model has answered */
    uint64_t failed;   /* that it has failed on */
    uint64_t late;     /* refused since they could not be answered in time */
    uint64_t refused;  /* refused for another reason */
    uint64_t waiting;  /* that wait now */
};

struct gw_serve_variant_counters {
    uint64_t executions, infer_ns; /* of the runs themselves */
    uint64_t p99_ns;               /* of the latest runs; 0: none yet */
};

#define GW_SERVE_BUCKETS 100 /* of histograms of times: by a quarter of an octave from 1 us on (cost.h) */

/* The kernel's reports are a word each, stored whole: the host reads them at any time. */
struct gw_serve_board {
    uint32_t changes; /* host: bumped after any notice, or `closing`, was written */
    uint32_t closing; /* host: not 0: requests are answered with GW_SERVE_CLOSING */
    uint32_t broken;  /* kernel: bumped when a session's queue pair failed; the host then asks gw_qp_fault */
    uint32_t orders;  /* host: how many orders it has given; bumped after the order was written */
    uint32_t taken;   /* kernel: how many of them it has read: their places are free again */
    uint32_t busy;    /* kernel: requests in work */
    uint64_t clock;   /* kernel: its own, when it last looked; only where there are orders */
    struct gw_serve_counters total; /* kernel */
    /* kernel: successes, by the time from arrival until the answer was posted */
    uint64_t latency[GW_SERVE_BUCKETS];
};

/* The kernel's own record of a session. The host fills the first part before the loop starts. */
struct gw_serve_session {
    struct gw_qp_handle *qp;
    const uint8_t *in; /* slot 0: request header, input tensor */
    uint8_t *out;      /* slot 0: reply header, output tensor */
    uint64_t out_addr; /* of slot 0, as the NIC names it */
    uint32_t out_lkey;
    uint32_t owner; /* as in the notice */

    uint32_t word; /* the notice's word that it has acted on */
    uint32_t open, slots, reply_rkey;
    uint32_t heard;        /* the notice's `ask` that it has acted on */
    uint32_t activity;     /* as in the notice */
    uint32_t in_work;      /* requests in the batch that is in work */
    uint32_t parked;       /* requests that wait until the peer's NIC has acknowledged answers */
    uint32_t posted;       /* answers since it was opened: one in a number of them is signalled */
    uint32_t last_post_ns; /* what posting its last answer took */
    uint32_t acked; /* how many of them the peer's NIC has acknowledged, as far as completions have told */
    uint64_t reply_addr, reply_stride;
};

/* A request that a completion has announced and that waits for the model. */
struct gw_serve_arrival {
    uint64_t rank; /* priority and deadline in one word: the smaller one is served first (queue.h) */
    uint64_t when, deadline; /* deadline: UINT64_MAX when it has none */
    uint64_t id;
    uint64_t retry_ns; /* of a refusal: when to try again */
    uint32_t order;    /* how many came before it, modulo 2^32 */
    uint32_t session, slot, rows, model;
    uint32_t priority; /* 1 is served first; 0: it is none that can be served, and is refused */
    uint32_t closing;  /* 1: it came when the model was being stopped */
    uint32_t flags;    /* as in its header */
    uint32_t status;   /* why it is refused, where priority is 0 */
    uint32_t lease;    /* number + 1 of the lease that it is counted on; 0: none */
    uint32_t life;     /* that lease's */
    uint32_t certain;  /* 1: it is run although the estimate makes it late */
    /* queue.h: its key's place in the heap, and its neighbours in its model's list, or among those that are
     * parked: numbers of arrivals + 1, 0 for none. */
    uint32_t at, next, prev;
    uint32_t bucket;   /* ahead.h */
    uint64_t share_ns; /* what it adds to the time that the queue takes */
};

/* What the queue sorts. */
struct gw_serve_key {
    uint64_t rank;
    uint32_t order, arrival;
};

/* A request that is in work. */
struct gw_serve_item {
    uint64_t id, arrived, posted; /* posted: when its answer was */
    uint32_t session, slot, rows;
    uint32_t at;     /* its first row in the batch */
    uint32_t failed; /* 1: its answer could not be posted */
    uint32_t flags;  /* as in its header */
    uint32_t bucket; /* of the histogram of times */
    uint32_t lease;  /* as in gw_serve_arrival */
};

/* How long runs of the model take: counts of the latest. */
struct gw_serve_cost {
    uint32_t count;   /* of all buckets */
    uint32_t refused; /* requests that the estimate alone has made late */
    uint64_t p99_ns;  /* 0: no run yet */
    uint32_t bucket[GW_SERVE_BUCKETS];
};

/* One batch size, for which there is a plan or a captured graph. */
struct gw_serve_variant {
    uint32_t rows;
    uint32_t fixed; /* 1: its model always reads and writes at the addresses below */
    /* Where requests are put together. The plan of a batch that is one whole request works in the slot
     * instead. */
    uint8_t *in[GW_MODEL_MAX_IO], *out[GW_MODEL_MAX_IO];
    struct gw_serve_cost cost;
    struct gw_serve_variant_counters total;
};

/* What the host says of a model before it is present. It stays so. */
struct gw_serve_shape {
    struct gw_layout in, out; /* the tensors of a slot */
    uint64_t delay_ns;        /* how long a request may wait for others to share its batch */
    uint32_t rows;            /* of a request, and of a batch, at most */
    uint32_t first, variants; /* the number of its first batch size; how many it has, ascending */
    const char *name;         /* for tracepoints on CPU threads: nothing else reads it */
};

/* The kernel's own record of a model. */
struct gw_serve_model {
    uint32_t state;  /* enum gw_model_state */
    uint32_t word;   /* the order's that set it */
    uint32_t queued; /* its requests in the heap */
    uint32_t parked; /* those that are parked */
    uint64_t queued_rows;
    uint32_t first, last; /* of those in the heap, as they came: number + 1; where there are several models */
    uint64_t retry_ns;    /* what refusals say while it is not there */
    /* Until when a lease keeps its batches at that batch size, or below. */
    uint64_t kept_until[GW_SERVE_VARIANTS];
    struct gw_serve_model_counters total;
};

/* The kernel's reports of a model, where there are several. */
struct gw_serve_model_board {
    uint32_t seen; /* the order's word that it has acted on: for a leaving model, after its last batch */
    uint32_t reserved;
    struct gw_serve_model_counters total;
};

/* The kernel's own record of a lease. */
struct gw_serve_lease {
    uint64_t key;         /* 0: there is none */
    uint64_t until;       /* its end, by the kernel's clock */
    uint64_t interval_ns; /* between two samples at its rate; 0: no limit */
    uint64_t next;        /* when it would have sent all so far at its rate: admit.h */
    uint32_t owner, model, slots, max_rows;
    uint32_t in_flight; /* requests that were admitted and not yet answered, of older leases too */
    uint32_t life;      /* counts leases of this number: each key is another one */
};

/* An order of the host: it fills one, then bumps gw_serve_board.orders. The kernel takes them in turn. */
struct gw_serve_order {
    uint32_t kind;   /* enum gw_serve_order_kind */
    uint32_t number; /* of the model, or of the lease */
    uint64_t key;    /* LEASE: as in gw_serve_lease, and so are those that follow */
    uint64_t until, interval_ns;
    uint32_t owner, model, slots, max_rows;
    uint64_t retry_ns; /* MODEL */
    uint32_t word;     /* MODEL: generation << 2 | enum gw_model_state */
    uint32_t reserved;
};
enum gw_serve_order_kind { GW_ORDER_MODEL, GW_ORDER_LEASE };
static_assert(sizeof(struct gw_serve_order) == 64, "an order is one cache line");

/* The time that the queue takes, by priority and deadline: ahead.h. */
#define GW_SERVE_AHEAD_SPANS  256 /* of 2^GW_SERVE_AHEAD_SHIFT ns each */
#define GW_SERVE_AHEAD_SHIFT  20
#define GW_SERVE_AHEAD_GROUPS 16 /* that many spans make one */
struct gw_serve_ahead {
    struct {
        uint64_t all; /* ns, also of those that are due later than all spans */
        uint64_t span[GW_SERVE_AHEAD_SPANS], group[GW_SERVE_AHEAD_SPANS / GW_SERVE_AHEAD_GROUPS];
    } priority[GW_SERVE_PRIORITIES + 1];
};

/* The requests that the loop's stages work on. */
struct gw_serve_work {
    uint32_t items; /* requests in work; 0: the loop is stopping, the stages after do nothing of note */
    uint32_t rows, variant, model;
    uint32_t end;              /* one after the last batch size that this batch may have */
    uint32_t direct;           /* 1: the model works in the slot of the only request */
    int32_t failed;            /* the model's error, CPU only */
    uint32_t closing, changes; /* as on the board, when it was last looked at */
    /* For the kernel beside the model: 1 when the first of the batch's kernels runs, and when the model has
     * finished. */
    uint32_t begun, over;
    uint32_t alone; /* batches whose kernels did not run beside it */
    uint64_t started, ready, done;
    /* The arrivals: a heap of the keys of those that can be served, and a list of those that must wait until
     * their peer has acknowledged answers. */
    uint32_t waiting, parked;
    uint32_t head;   /* where the heap begins */
    uint32_t sorted; /* 1: it is sorted: its first may be taken by moving its begin */
    uint32_t first_parked;
    uint32_t unused, fresh; /* the first arrival that is free again (+ 1); how many were ever in use */
    uint32_t arrived;
    uint32_t orders;  /* taken so far */
    uint32_t leaving; /* 1: the batch's model is leaving */
    uint64_t again;   /* when there may be something to do without a further arrival */
    uint64_t looked;  /* when the board was last looked at */
    struct gw_serve_counters total;
    uint64_t latency[GW_SERVE_BUCKETS];
};

/* Everything a serving kernel gets. */
struct gw_serve_args {
    struct gw_loop_ctl *ctl;
    struct gw_cq_handle *cq;
    struct gw_serve_board *board;   /* host memory */
    struct gw_serve_notice *notice; /* host memory, one per session */
    struct gw_serve_session *session;
    struct gw_serve_work *work;
    struct gw_serve_arrival *arrival; /* gw_serve_arrivals of them */
    struct gw_serve_key *heap;        /* twice as many (queue.h says why) */
    struct gw_serve_item *item;       /* room for the largest batch, each request of one row */
    struct gw_serve_variant *variant; /* of all models */
    const struct gw_serve_shape *shape;
    struct gw_serve_model *model;
    struct gw_plan_io *io;
    struct gw_serve_variant_counters
        *variant_board; /* host memory: the kernel's reports of each batch size */
    /* NULL where there is one model, which is always there. */
    struct gw_serve_model_board *model_board; /* host memory */
    const struct gw_serve_order *order;       /* host memory, `orders` of them */
    struct gw_serve_ahead *ahead;
    struct gw_serve_lease *lease;
    uint64_t in_stride, out_stride;
    uint32_t sessions;
    uint32_t slots; /* each session has at most; its send queue holds that number of answers */
    uint32_t models, leases, orders; /* orders: a power of two */
    uint32_t picks;                  /* 1: each batch size is a variant of the loop */
    int32_t wake_fd;                 /* CPU: readable when the loop is to end or a session opens; GPU: -1 */
    /* 1: a batch of one row is small. The kernel that waits copies its inputs, and the kernel that sends its
     * outputs. */
    uint16_t small_in, small_out;
};

/* Are there several models, and leases? */
GW_FN bool gw_serve_is_many(const struct gw_serve_args *a)
{
    return a->order != NULL;
}

#endif
