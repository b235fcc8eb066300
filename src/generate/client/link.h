/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a client reaches a generator: a session is asked for here; requests and events then go by RDMA
 * (src/generate/wire/wire.h). The worker of the same process is a link, HTTP to another host is one.
 */
#ifndef GW_GENERATE_CLIENT_LINK_H
#define GW_GENERATE_CLIENT_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include <gpuwire/verbs.h>

#include "src/generate/source/source.h"

#define GEN_SESSION_ID 33 /* bytes of a session's name, with the final zero */

/* A client's own side of a session. */
struct gen_wish {
    uint32_t slots;              /* 0: the generator's most */
    uint32_t ring;               /* events of a slot: the most tokens that a request asks for */
    uint32_t own;                /* 1: one of those that are kept for the server itself */
    struct gw_endpoint endpoint; /* of the client's queue pair */
    uint64_t event_addr, event_stride;
    uint32_t event_rkey;
};

/* The session. */
struct gen_grant {
    uint32_t index, life;    /* name it at the worker of this process */
    char id[GEN_SESSION_ID]; /* names it over HTTP */
    uint32_t slots;
    struct gw_endpoint endpoint; /* of the generator's queue pair */
    uint64_t request_addr, request_stride;
    uint32_t request_rkey;
};

struct gen_link_ops {
    /* 0; -EAGAIN: some will be free soon; -EBUSY: all are taken; others, with the reason in
     * gw_last_error(). It may wait for seconds. */
    int (*open)(void *ctx, const struct gen_wish *wish, struct gen_grant *grant);
    /* Also of a session that has ended. */
    void (*close)(void *ctx, const struct gen_grant *grant);
    /* Nothing has come for some time. 0: the generator has the session still, or that cannot be known. */
    int (*confirm)(void *ctx, const struct gen_grant *grant);
    void (*stats)(void *ctx, struct gen_source_stats *out);
};

struct gen_link {
    const struct gen_link_ops *ops;
    void *ctx;
};

#endif
