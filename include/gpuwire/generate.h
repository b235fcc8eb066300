/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generate.h: tokens from a generator on this host or another one (gpuwire generate).
 *
 * A session is opened over HTTP. From then on the client writes its requests straight into the generator's
 * memory by RDMA, and each token is written back the same way. The processors of the generator's host take no
 * part in it. Both sides speak of token ids: text is the client's own business.
 *
 *     struct gw_generate *g;
 *     gw_generate_open(&(struct gw_generate_opts){.server = "http://worker7:8000"}, &g);
 *     struct gw_generate_request r = {.prompt = ids, .prompt_tokens = n, .max_tokens = 100};
 *     gw_generate_submit(g, &r, gw_deadline(1000000000), &stream);
 *     struct gw_generate_event e;
 *     do {
 *         gw_generate_next(g, gw_deadline(10000000000), &e);
 *         … e.stream, e.token …
 *     } while (e.status == GW_GENERATE_GOING);
 *     gw_generate_close(g);
 *
 * All functions are for the host, and for any thread, many at once. They return 0 or a negative errno, with
 * the reason in gw_last_error() (<gpuwire/error.h>). Times are nanoseconds; deadlines are on CLOCK_MONOTONIC.
 */
#ifndef GPUWIRE_GENERATE_H
#define GPUWIRE_GENERATE_H

#include <stdint.h>

#include <gpuwire/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GW_GENERATE_NO_TOKEN 0xffffffffu
#define GW_GENERATE_MAX_TOPS 20 /* most likely tokens that an event names */

struct gw_generate;

struct gw_generate_opts {
    const char *server;  /* http://HOST:PORT or https://HOST:PORT */
    const char *model;   /* NULL: the server has one alone */
    const char *token;   /* NULL, or sent with every call as "Authorization: Bearer TOKEN" */
    const char *ca_file; /* NULL: the system's. PEM file of who may sign the server's certificate */
    uint32_t sessions;   /* that are opened as they are needed; 0: 1 */
    uint32_t slots;      /* requests of a session at the same time; 0: as many as the server gives */
    uint32_t max_tokens; /* of an answer, at most; 0: 4,096, or the model's context. 256 bytes for each token
                            of each slot are set apart. */
};

struct gw_generate_model {
    char name[256];
    uint32_t vocab;      /* token ids are below */
    uint32_t context;    /* tokens of prompt and answer together, at most */
    uint32_t max_tokens; /* of an answer, at most */
    uint32_t slots;      /* requests at the same time */
    uint32_t lanes;      /* of the generator: requests that make tokens at the same time */
};

/* A token, and what is added to its logit; or its logarithmic probability. */
struct gw_generate_top {
    uint32_t token;
    float logprob;
};

/* What a request asks for. Zeros: no limit, no penalty, the most likely token. */
struct gw_generate_request {
    const uint32_t *prompt;
    uint32_t prompt_tokens; /* at least 1 */
    uint32_t max_tokens;
    uint32_t min_tokens;  /* stops do not count before */
    const uint32_t *stop; /* tokens that end it: 16 at most */
    uint32_t stops;
    const struct gw_generate_top *bias; /* 512 at most; logprob is what is added */
    uint32_t biases;
    float temperature; /* 0: the most likely token */
    float top_p;       /* 0: 1 */
    float min_p;
    uint32_t top_k;
    float repetition; /* 0: 1 */
    float presence, frequency;
    uint64_t seed;     /* the same seed gives the same tokens, whatever else runs */
    uint64_t salt;     /* requests with equal salts alone share the memory of equal prompts */
    uint64_t first_ns; /* the first token by then, from its arrival on; 0: no deadline */
    uint64_t each_ns;  /* each further token; 0: no deadline */
    uint32_t priority; /* 1 is served first; 0: 2 */
    uint32_t tops;     /* that number of most likely tokens in each event: GW_GENERATE_MAX_TOPS at most */
};

/* How a stream, or its latest token, stands. */
enum gw_generate_status {
    GW_GENERATE_GOING = 0, /* more events follow */
    GW_GENERATE_STOPPED,   /* its last token is one of its stops */
    GW_GENERATE_LENGTH,    /* it has its most tokens */
    GW_GENERATE_CANCELLED, /* gw_generate_cancel; no token, as with all below */
    GW_GENERATE_LATE,      /* a deadline has passed, or would pass for certain */
    GW_GENERATE_INVALID,   /* the generator refuses the request */
    GW_GENERATE_CLOSING,   /* the generator is being stopped */
    GW_GENERATE_FULL,      /* its queue is full, or the prompt does not fit */
    GW_GENERATE_FAILED     /* the network failed, or the session broke */
};

struct gw_generate_event {
    uint64_t stream; /* as gw_generate_submit has named it */
    uint32_t number; /* 0, 1, … of this stream */
    uint32_t token;  /* or GW_GENERATE_NO_TOKEN */
    uint32_t status; /* enum gw_generate_status */
    float logprob;
    uint32_t cached; /* tokens of the prompt that needed no computing */
    uint32_t tops;   /* that follow */
    struct gw_generate_top top[GW_GENERATE_MAX_TOPS];
};

/*
 * Asks the server for its model, and opens the first session. -EINVAL: an address or a number that makes no
 * sense. -ENOENT: no such model, or no generator answers there. -EACCES: the token. -EBUSY: all sessions are
 * taken. -ENODEV: no RDMA device. -ENOMEM. Also what the connection says: -ECONNREFUSED, -ETIMEDOUT.
 */
GW_API int gw_generate_open(const struct gw_generate_opts *opts, struct gw_generate **out);
/* Takes back what runs, and frees all. No other call may be under way. NULL is allowed. */
GW_API void gw_generate_close(struct gw_generate *g);
/* Tells what it talks to. */
GW_API void gw_generate_describe(const struct gw_generate *g, struct gw_generate_model *out);

/*
 * Sends a request; *stream names it in its events. It waits for a free slot until the deadline; 0: not at
 * all.
 * -EINVAL: a number out of bounds. -EAGAIN, -ETIMEDOUT: no slot is free. -EIO: there is no session.
 */
GW_API int gw_generate_submit(struct gw_generate *g, const struct gw_generate_request *request,
                              uint64_t deadline_ns, uint64_t *stream);
/* Takes a stream back. Its last event comes soon. 0; -ENOENT: it has ended already. */
GW_API int gw_generate_cancel(struct gw_generate *g, uint64_t stream);

/* Sleeps until some stream has an event, and takes it. Events of a stream come in order. -ETIMEDOUT; with
 * deadline 0 it looks once: -EAGAIN. */
GW_API int gw_generate_next(struct gw_generate *g, uint64_t deadline_ns, struct gw_generate_event *event);
/* Readable while gw_generate_next has an event. It belongs to g. */
GW_API int gw_generate_fd(const struct gw_generate *g);

#ifdef __cplusplus
}
#endif

#endif
