/* SPDX-License-Identifier: Apache-2.0 */
/* The normalizer of a tokenizer: what a text goes through first. */
#ifndef GW_GENERATE_TEXT_NORMALIZE_H
#define GW_GENERATE_TEXT_NORMALIZE_H

#include <jansson.h>

#include "src/generate/text/pieces.h"

struct gen_normalizer;

/* Makes it of tokenizer.json's part; `spec` may be null. 0 or a negative errno with gw_error's line. */
int gen_normalizer_open(const json_t *spec, struct gen_normalizer **out);
void gen_normalizer_close(struct gen_normalizer *n);
/* Normalizes `m` in place, with `spare` for help. 0; -EINVAL or -ENOMEM with gw_error's line. Any thread. */
int gen_normalizer_apply(const struct gen_normalizer *n, struct gen_marked *m, struct gen_marked *spare);

#endif
