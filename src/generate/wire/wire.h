/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format of what clients and a generator write into each other's memory.
 *
 * A session has K slots. In the generator's memory slot k starts at `request_addr + k * request_stride` and
 * holds a request: header, then token ids. The client writes both with one RDMA WRITE_WITH_IMM, whose
 * immediate names the slot. A slot has at most one request at a time: the client owns it until it writes, the
 * generator until it has posted the request's last event.
 *
 * In the client's memory slot k has a ring of `ring` events at `event_addr + k * event_stride`. The generator
 * writes event n of a request at place n % ring, with one WRITE_WITH_IMM whose immediate names the slot. A
 * request asks for at most `ring` tokens, and so no event is ever overwritten unread. The client keeps
 * receives posted: one for each event that may be under way. Events of a request arrive in order.
 *
 * A client that takes no events (its queue pair stays full for GEN_STALL_NS) loses its requests: the
 * generator ends them, and the session with them. Others do not wait for it.
 *
 * Byte order: little-endian, whatever the hosts are.
 */
#ifndef GW_GENERATE_WIRE_WIRE_H
#define GW_GENERATE_WIRE_WIRE_H

#include <assert.h>
#include <stdint.h>

#define GEN_MAGIC     0x4e525747u /* "GWRN" */
#define GEN_VERSION   1
#define GEN_MAX_SLOTS 256u
#define GEN_MAX_STOPS 16u  /* token ids that end a request */
#define GEN_MAX_BIAS  512u /* tokens whose logits a request changes */
#define GEN_MAX_TOPS  20u  /* most likely tokens that an event names */
#define GEN_STALL_NS  UINT64_C(10000000000)

/* How a request, or its latest token, stands. */
enum gen_status {
    GEN_GOING = 0, /* more events follow */
    GEN_STOPPED,   /* its last token is one of its stops; that token is in the event */
    GEN_LENGTH,    /* it has its most tokens, or the longest context */
    GEN_CANCELLED, /* the client has taken it back; the event has no token, as with all below */
    GEN_LATE,      /* a deadline has passed, or would pass for certain */
    GEN_INVALID,   /* the request makes no sense: `detail` says why */
    GEN_CLOSING,   /* the generator is being stopped: ask elsewhere */
    GEN_FULL,      /* the queue is full, or the prompt needs more pages than there are */
    GEN_FAILED,    /* the network failed */
};

/* Why a request is GEN_INVALID: what is wrong. */
enum gen_detail {
    GEN_BAD_HEADER = 1, /* magic, version, slot, flags, or numbers that are out of the session's bounds */
    GEN_BAD_TOKEN,      /* of the prompt, a stop or a bias: not below the vocabulary */
    GEN_TOO_LONG,       /* prompt and max_tokens exceed the context */
    GEN_BAD_SAMPLING,   /* not a number, or out of range */
};

/* Flags of a request. */
#define GEN_NO_SHARE 1u /* no other request shares its pages */
#define GEN_FLAGS    GEN_NO_SHARE

/*
 * After the header come, as uint32_t: prompt token ids; then `stops` token ids; then `biases` pairs of a
 * token id and a float. Pages of equal prompts are shared among requests with the same salt alone.
 *
 * Sampling: logits, then bias, then penalties (repetition divides or multiplies the logits of tokens of
 * prompt and answer; frequency and presence are subtracted for tokens of the answer), then temperature, then
 * top_k, top_p and min_p in that order. temperature 0: the most likely token, of equal ones the lowest.
 */
struct gen_request {
    uint32_t magic;
    uint16_t version;
    uint16_t slot;  /* repeats the immediate */
    uint64_t id;    /* the client's own, not 0; in each event */
    uint64_t taken; /* the client writes the id here alone, without an immediate, to take the request back */
    uint64_t salt, seed;
    uint64_t first_ns, each_ns; /* the first token by then, counted from arrival; each further one; 0: none */
    uint32_t prompt, stops, biases; /* how many; prompt: at least 1 */
    uint32_t max_tokens;            /* 1 … the session's ring */
    uint32_t min_tokens;            /* before these no stop counts: their logits are not taken */
    uint32_t priority;              /* 1 is served first; 0: 2 */
    uint32_t flags;
    uint32_t tops;                   /* events name that number of most likely tokens: 0 … GEN_MAX_TOPS */
    float temperature, top_p, min_p; /* 0 … ; 0 < top_p <= 1; 0 <= min_p < 1 */
    uint32_t top_k;                  /* 0: all */
    float repetition, presence, frequency; /* 1, 0, 0: none */
    uint32_t reserved[3];
};
static_assert(sizeof(struct gen_request) == 128, "a request's header");

struct gen_top {
    uint32_t token;
    float logprob;
};

/* Logprobs are of the logits before temperature and cuts, after bias and penalties. Times are the
 * generator's clock in nanoseconds: only differences mean anything elsewhere. */
struct gen_event {
    uint64_t id;
    uint32_t number; /* 0, 1, … of this request */
    uint32_t token;  /* GEN_NO_TOKEN: none */
    uint16_t status; /* enum gen_status */
    uint16_t detail;
    float logprob;
    uint32_t tops;     /* that follow */
    uint32_t cached;   /* tokens of the prompt whose pages were there */
    uint64_t arrived;  /* when the request became visible */
    uint64_t posted;   /* just before this event was written */
    uint64_t admitted; /* when it first got a lane */
    uint64_t reserved;
    struct gen_top top[GEN_MAX_TOPS + 4]; /* `tops` of them are written; the rest stays as it was */
};
#define GEN_NO_TOKEN 0xffffffffu
static_assert(sizeof(struct gen_event) == 256, "an event of the ring");

#endif
