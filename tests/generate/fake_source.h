/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source without a model: tokens are a hash of the prompt, the seed and the place. So equal requests get
 * equal answers, whatever else runs, and everything of the request shows: stops, biases, lengths, deadlines,
 * cancellation.
 */
#ifndef GW_TESTS_GENERATE_FAKE_SOURCE_H
#define GW_TESTS_GENERATE_FAKE_SOURCE_H

#include <stdbool.h>

#include "src/generate/source/source.h"

struct fake_source;

struct fake_source_opts {
    struct gen_source_shape shape;
    uint32_t slots;         /* requests that may be there at a time */
    uint64_t token_ns;      /* from one token of each request to its next; 0: none */
    const uint32_t *letter; /* tokens that answers are made of; `letters` of them */
    uint32_t letters;
    uint32_t end;       /* comes now and then, where it is one of the request's stops */
    uint32_t end_every; /* on average one of that number of tokens; 0: never */
};

/* NULL: no memory, or no thread. The opts' letters stay the caller's. */
struct fake_source *fake_source_open(const struct fake_source_opts *opts);
/* When all streams are released. */
void fake_source_close(struct fake_source *f);
struct gen_source fake_source_of(struct fake_source *f);

/* From now on each stream ends with this status, before its next token. GEN_GOING: none does. */
void fake_source_fail(struct fake_source *f, enum gen_status status);
/* Streams that are not released. */
uint32_t fake_source_streams(struct fake_source *f);
/* The latest request that was taken. */
struct gen_request fake_source_latest(struct fake_source *f);

#endif
