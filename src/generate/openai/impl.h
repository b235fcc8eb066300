/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a service share. */
#ifndef GW_GENERATE_OPENAI_IMPL_H
#define GW_GENERATE_OPENAI_IMPL_H

#include <pthread.h>

#include "src/door/text.h"
#include "src/generate/openai/service.h"
#include "src/generate/text/stop.h"

/* Arrays that grow, of tokens and of what is told of them. */
struct gen_tokens {
    struct gen_token *at;
    uint32_t count, room;
    struct gen_top *top;
    uint32_t tops, top_room;
    uint16_t last; /* enum gen_status that came after these */
    uint16_t detail;
    uint32_t cached;
};

struct gen_choice {
    struct gen_answer *answer;
    uint32_t index;
    struct gen_stream *stream; /* NULL: submit has not returned */
    struct gen_choice *next;   /* in the pool's queue */
    struct gen_choice *next_dirty;
    /* Under the answer's lock. */
    struct gen_tokens came; /* what the pool has not seen */
    bool queued;            /* for the pool, or at work there */
    bool dirty;             /* in the list of what can be taken */
    bool over;              /* its last piece is there; what still comes is dropped */
    bool by_text;           /* a stop string was the end */
    struct gw_text text;    /* what can be taken */
    struct gen_tokens shown;
    struct gen_piece end; /* its finish, and numbers */
    /* The pool's alone. */
    struct gen_decoder decoder;
    struct gen_stop *stop;
};

struct gen_answer {
    struct gen_service *service;
    pthread_mutex_t lock; /* held for short copies: the source's thread takes it */
    pthread_cond_t idle;
    uint32_t working; /* choices that are `queued` */
    uint32_t left;    /* choices whose last piece was not taken */
    bool closed;
    struct gen_choice *dirty, **dirty_end;
    int fd;
    bool keep_stop, control, logprobs;
    uint32_t min_tokens, eos_stops, n;
    uint32_t *prompt_tokens; /* of each prompt; they lie after the choices */
    uint32_t choices;
    struct gen_choice choice[];
};

struct gen_service {
    struct gen_service_opts opts;
    char *name;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct gen_choice *first, **end; /* that have tokens */
    bool ends;
    uint32_t draining, answers;     /* atomic; each stands alone */
    struct gen_service_stats stats; /* each number atomic: it stands alone */
    uint32_t threads;
    pthread_t thread[];
};

/* Appends a token and its likeliest ones, or remembers that it could not: `last` is GEN_FAILED then. */
void gen_tokens_add(struct gen_tokens *t, const struct gen_token *one, const struct gen_top *top);
void gen_tokens_free(struct gen_tokens *t);

/* Counts a choice that is given back. */
void gen_service_count(struct gen_service *s, uint32_t prompt, uint32_t made, bool text_stop);

/* Puts a choice into the pool's queue. */
void gen_service_push(struct gen_service *s, struct gen_choice *c);
/* A pool's thread: makes text of what has come. */
void gen_choice_work(struct gen_choice *c);

#endif
