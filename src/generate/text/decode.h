/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder of a tokenizer: what text each token becomes. Almost all is known when the tokenizer is
 * opened: a table has the bytes of each token. */
#ifndef GW_GENERATE_TEXT_DECODE_H
#define GW_GENERATE_TEXT_DECODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/door/text.h"

/* One stream of tokens that becomes text piece by piece. Zeroed, it is at its start. It owns no memory. One
 * thread at a time uses it. */
struct gen_decoder {
    unsigned char held[4]; /* bytes of a character that is not whole yet */
    uint8_t holds;
    bool begun;        /* a token came */
    uint32_t stripped; /* characters that were taken off the beginning */
    bool whole;        /* no more may be taken off */
};

struct gen_decode;

/* Makes it of tokenizer.json's part; `spec` may be null. 0 or a negative errno with gw_error's line. */
int gen_decode_open(const json_t *spec, struct gen_decode **out);
void gen_decode_close(struct gen_decode *d);
/* Says how token `id` is written: before the first of the calls below. 0 or -ENOMEM or -EINVAL with
 * gw_error's line. */
int gen_decode_put(struct gen_decode *d, uint32_t id, const char *text, size_t bytes);
/* The bytes that token `id` stands for; NULL: it was never put. */
const char *gen_decode_bytes(const struct gen_decode *d, uint32_t id, size_t *bytes);

/* Appends what a token adds to the stream; nothing for an id that was never put. 0 or -ENOMEM. */
int gen_decode_next(const struct gen_decode *d, struct gen_decoder *s, uint32_t id, struct gw_text *out);
/* Ends the stream. 0 or -ENOMEM. */
int gen_decode_end(const struct gen_decode *d, struct gen_decoder *s, struct gw_text *out);
/* Appends the text of all ids, as the reference decodes them at once. 0 or -ENOMEM. */
int gen_decode_all(const struct gen_decode *d, const uint32_t *ids, size_t count, struct gw_text *out);

#endif
