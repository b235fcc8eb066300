/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as OpenAI's API writes them: whole, or as chunks of a stream. */
#ifndef GW_GENERATE_OPENAI_WRITE_H
#define GW_GENERATE_OPENAI_WRITE_H

#include "src/door/text.h"
#include "src/generate/openai/ask.h"

/* What is written of one choice, until now. */
struct gen_written {
    bool begun;
    uint32_t offset;  /* characters before the next token */
    json_t *logprobs; /* of a whole answer; NULL: none */
    struct gw_text text;
    struct gen_piece end; /* the last piece's numbers; its arrays are freed */
};

struct gen_writer {
    enum gen_openai_kind kind;
    char id[48];
    int64_t created; /* seconds since 1970 */
    const char *model;
    const struct gen_tokenizer *tokenizer;
    const struct gen_openai_ask *ask;
    const struct gen_ids *prompt;
    struct gen_written *written; /* one for each choice */
    uint32_t choices;
};

/* 0; -ENOMEM. The pointers stay the caller's, and outlive it. */
int gen_writer_open(struct gen_writer *w, const struct gen_service_opts *s, const struct gen_openai_ask *ask,
                    const struct gen_ids *prompt);
void gen_writer_close(struct gen_writer *w);

/* Appends the events of a stream for one piece. */
void gen_write_chunk(struct gen_writer *w, const struct gen_piece *p, struct gw_text *to);
/* Appends how a stream ends: its usage, if the request asks for it, and [DONE]. */
void gen_write_done(struct gen_writer *w, struct gw_text *to);
/* Appends an event with an error. */
void gen_write_error(const struct gen_refusal *r, struct gw_text *to);

/* Keeps a piece for a whole answer. */
void gen_write_keep(struct gen_writer *w, const struct gen_piece *p);
/* Appends the whole answer. */
void gen_write_whole(struct gen_writer *w, struct gw_text *to);

#endif
