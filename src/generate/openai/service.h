/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service: text in front of a source of tokens. Doors ask it with token ids, and get pieces of text.
 *
 * The source's thread hands tokens to a pool, which makes text of them and looks for stop strings. A door
 * takes the pieces when it likes to: a slow one holds neither the source nor others. What waits for it is
 * bounded by the request's max_tokens.
 */
#ifndef GW_GENERATE_OPENAI_SERVICE_H
#define GW_GENERATE_OPENAI_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/generate/source/source.h"
#include "src/generate/text/chat.h"
#include "src/generate/text/tokenizer.h"

struct gen_service;
struct gen_answer;

/* Sampling of requests that do not say. */
struct gen_defaults {
    float temperature, top_p, min_p, repetition;
    uint32_t top_k; /* 0: all */
};
#define GEN_DEFAULTS ((struct gen_defaults){.temperature = 1, .top_p = 1, .repetition = 1})

/* All of it stays the caller's, and outlives the service. */
struct gen_service_opts {
    const char *name; /* of the model, for clients */
    const struct gen_source *source;
    const struct gen_tokenizer *tokenizer;
    const struct gen_chat *chat; /* NULL: the model knows no chats */
    struct gen_defaults defaults;
    uint32_t threads;     /* of the pool; 0: 2 */
    uint64_t patience_ns; /* how long a request waits for a free slot; 0: 5 s */
};
/* 0, or a negative errno with gw_last_error()'s line. */
int gen_service_open(const struct gen_service_opts *opts, struct gen_service **out);
/* When all answers are freed. NULL is allowed. */
void gen_service_close(struct gen_service *s);

/* From now on nothing new is taken. Any thread. */
void gen_service_drain(struct gen_service *s);
bool gen_service_draining(const struct gen_service *s);
/* Answers that are not freed. */
uint32_t gen_service_answers(const struct gen_service *s);
const struct gen_service_opts *gen_service_of(const struct gen_service *s);

/* Lengths in tokens: bucket i counts those up to gen_length_end(i) that fit into no lower one; the last has
 * no end. */
#define GEN_LENGTHS 19u
struct gen_lengths {
    uint64_t count[GEN_LENGTHS], sum;
};
/* 1, 2, 5, 10, 20, 50, … */
uint64_t gen_length_end(uint32_t bucket);

/* Counts since the start. */
struct gen_service_stats {
    uint64_t text_stops; /* requests that a stop string ended: the source says that they were taken back */
    struct gen_lengths prompts, made; /* of requests that have ended, whether well or not */
};
void gen_service_stats(const struct gen_service *s, struct gen_service_stats *out);

/* One request: prompts, each of which gets `n` answers. begin copies what it needs. */
struct gen_ask {
    struct gen_request request;   /* sampling and limits; what the source or the fields below say stays 0 */
    const struct gen_ids *prompt; /* `prompts` of them */
    uint32_t prompts, n;
    const uint32_t *stop; /* token ids that end it, beside the model's own */
    uint32_t stops;
    bool ignore_eos; /* the model's own do not end it */
    const struct gen_top *bias;
    uint32_t biases;
    const char *const *stop_text; /* strings that end it, with their bytes */
    const size_t *stop_bytes;
    uint32_t stop_texts;
    bool keep_stop; /* the text has what ended it */
    bool control;   /* the text has control tokens */
    bool logprobs;  /* pieces have tokens */
    bool seeded;    /* request.seed counts; answer i of a prompt gets seed + i */
    const char *who;
};

/* How a choice ended. */
enum gen_finish { GEN_OPEN, GEN_FINISH_STOP, GEN_FINISH_LENGTH, GEN_FINISH_ERROR };

/* A token of a piece. */
struct gen_token {
    uint32_t id;
    float logprob;
    uint32_t tops; /* in the piece's `top`, one token's after the other's */
};

/* Where the next token's likeliest ones lie, after those of this token. NULL, where there are none at all. */
static inline const struct gen_top *gen_top_after(const struct gen_top *top, const struct gen_token *token)
{
    return token->tops ? top + token->tops : top;
}

/* What has come of one choice since the last piece of it. */
struct gen_piece {
    uint32_t choice; /* prompt * n + which of its answers */
    char *text;      /* UTF-8 with a final zero; NULL: none */
    size_t bytes;
    struct gen_token *token; /* where the ask said logprobs */
    uint32_t tokens;
    struct gen_top *top;
    enum gen_finish finish;
    uint32_t made, cached;   /* tokens made until now; of its prompt, those that were in the cache */
    uint16_t status, detail; /* GEN_FINISH_ERROR: why, as wire.h says */
    int stopped_by;          /* GEN_FINISH_STOP: the stop string's number; -1: a token */
    uint32_t stop_token;     /* or that token; GEN_NO_TOKEN: the end of the model's own turn */
};

/*
 * Submits all. 0; or a negative errno with gw_last_error()'s line, and nothing goes on: as
 * gen_source_ops.submit; -ENOMEM; -EMFILE; -EINVAL and -E2BIG: stop strings, or too many stop tokens. It
 * waits for free slots. Any thread.
 */
int gen_answer_begin(struct gen_service *s, const struct gen_ask *ask, struct gen_answer **out);
/* Readable when there may be something to take. */
int gen_answer_fd(const struct gen_answer *a);
/* 1: *out is the next piece, which gen_piece_free frees. 0: there is none now. -ENODATA: all is taken. One
 * thread. */
int gen_answer_take(struct gen_answer *a, struct gen_piece *out);
void gen_piece_free(struct gen_piece *p);
/* Cancels what goes on, and frees it. NULL is allowed. */
void gen_answer_free(struct gen_answer *a);

#endif
