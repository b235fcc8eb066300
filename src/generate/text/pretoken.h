/* SPDX-License-Identifier: Apache-2.0 */
/* The pre-tokenizer: cuts a text into the words that the model then works on one by one. */
#ifndef GW_GENERATE_TEXT_PRETOKEN_H
#define GW_GENERATE_TEXT_PRETOKEN_H

#include <jansson.h>

#include "src/generate/text/pieces.h"

struct gen_pretokenizer;

/* Makes it of tokenizer.json's part; `spec` may be null. 0 or a negative errno with gw_error's line. */
int gen_pretokenizer_open(const json_t *spec, struct gen_pretokenizer **out);
void gen_pretokenizer_close(struct gen_pretokenizer *p);
/* Cuts the pieces of `pieces` further, in place, with `spare` for help. None of them is a token. 0; -EINVAL
 * or -ENOMEM with gw_error's line. Any thread. */
int gen_pretokenizer_apply(const struct gen_pretokenizer *p, struct gen_pieces *pieces,
                           struct gen_pieces *spare);

#endif
