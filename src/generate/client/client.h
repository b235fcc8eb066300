/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of a generator: a source of tokens (src/generate/source/source.h) over RDMA sessions.
 *
 * One thread takes events and calls the streams' callbacks; it sleeps when none comes. A second one opens
 * sessions: the first when the client is made, others when slots run short. When a session breaks, its
 * streams that have had no event yet are submitted once more in a new one. The others end with GEN_FAILED.
 */
#ifndef GW_GENERATE_CLIENT_CLIENT_H
#define GW_GENERATE_CLIENT_CLIENT_H

#include "src/generate/client/link.h"

struct gen_client;

struct gen_client_opts {
    const char *name;      /* of the model, for messages; copied */
    struct gw_device *dev; /* made for a CPU executor; it outlives the client */
    struct gen_link link;
    struct gen_source_shape shape; /* max_tokens: events of a slot */
    uint32_t sessions;             /* at most */
    uint32_t slots;                /* of a session: 1 … GEN_MAX_SLOTS */
    uint32_t share;                /* slots that one `who` may have; 0: three quarters of all */
    uint32_t own;                  /* as in struct gen_wish */
    bool quiet;                    /* it logs nothing: for programs that are not ours */
};

/* Makes memory and queue pairs and opens the first session. 0 or a negative errno with the reason in
 * gw_last_error(). */
int gen_client_create(const struct gen_client_opts *opts, struct gen_client **out);
/* Takes no stream any more, and waits until all have ended. At the deadline it ends the rest with
 * GEN_CLOSING. NULL is allowed. */
void gen_client_close(struct gen_client *c, uint64_t deadline_ns);
/* Closes it, if need be, and frees it. All streams must have been released. NULL is allowed. */
void gen_client_destroy(struct gen_client *c);
/* The source that doors submit to. The client must outlive it. */
struct gen_source gen_client_source(struct gen_client *c);
/* Streams that have not ended. Any thread. */
uint32_t gen_client_streams(struct gen_client *c);

/* Is what a request asks for within bounds? 0, or -EINVAL with the reason in gw_last_error(). */
int gen_source_check(const struct gen_source_shape *shape, const struct gen_source_ask *ask);

#endif
