/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of tokens: what doors submit requests to. The generator of this process is one, a generator on
 * another host, reached by RDMA, is another one; tests have their own.
 *
 * Any thread may call all of it.
 */
#ifndef GW_GENERATE_SOURCE_SOURCE_H
#define GW_GENERATE_SOURCE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "src/generate/wire/wire.h"

/* Numbers of a source that stay. */
struct gen_source_shape {
    uint32_t vocab;
    uint32_t context;    /* tokens of prompt and answer together, at most */
    uint32_t max_tokens; /* of an answer */
    uint32_t lanes;
};

/* Times: bucket i counts those below GEN_BUCKET_NS << i that fit into no lower one; the last has no end. */
#define GEN_BUCKETS   24u
#define GEN_BUCKET_NS UINT64_C(62500)
struct gen_histogram {
    uint64_t count[GEN_BUCKETS];
    uint64_t sum_ns, n;
};

/* Counts since the start, and how it stands now. */
struct gen_source_stats {
    uint32_t running, waiting;
    uint64_t pages, pages_used, pages_shared;
    uint64_t prompt_tokens, prompt_cached, tokens, steps, preempted;
    uint64_t ended[GEN_FAILED + 1]; /* requests, by enum gen_status */
    struct gen_histogram first, between, whole, queued;
};

struct gen_stream; /* a request that was submitted */

/* What a request is; the source copies all of it. */
struct gen_source_ask {
    struct gen_request request; /* id, slot, magic and version are the source's to set */
    const uint32_t *prompt;     /* request.prompt of them */
    const uint32_t *stop;       /* request.stops */
    const struct gen_top *bias; /* request.biases: token, and what is added (in logprob) */
    const char *who;            /* as src/door/who.h names clients: shares are per client */
    uint64_t deadline_ns;       /* wait for a free slot until then; 0: not at all */
    /*
     * Called for each event, in order, on a thread of the source's: it must not wait for anything. The event
     * with a status other than GEN_GOING is the last one. Not called when submit fails.
     */
    void (*event)(void *ctx, const struct gen_event *e);
    void *ctx;
};

struct gen_source_ops {
    void (*shape)(void *own, struct gen_source_shape *out);
    /*
     * 0; -EINVAL: numbers out of bounds (gw_last_error() says which); -EAGAIN, -ETIMEDOUT: no slot is free;
     * -EDQUOT: this client has its share of slots; -ESHUTDOWN: it is being stopped; -EIO: the session broke.
     */
    int (*submit)(void *own, const struct gen_source_ask *ask, struct gen_stream **out);
    /* Takes it back: a last event comes soon. Also when it has ended. */
    void (*cancel)(struct gen_stream *s);
    /* Lets go of a stream: after that no event comes. It is cancelled, if it has not ended. It may wait for a
     * callback that runs; from within the callback it returns at once. NULL is allowed. */
    void (*release)(struct gen_stream *s);
    void (*stats)(void *own, struct gen_source_stats *out);
};

struct gen_source {
    const struct gen_source_ops *ops;
    void *own;
};

#endif
