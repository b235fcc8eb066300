/* SPDX-License-Identifier: Apache-2.0 */
/* The post-processor of a tokenizer: the tokens that it puts around a text. */
#ifndef GW_GENERATE_TEXT_POST_H
#define GW_GENERATE_TEXT_POST_H

#include <jansson.h>

#include "src/generate/text/ids.h"

/* Zeroed it adds nothing. */
struct gen_post {
    struct gen_ids before, after;
};

/* Reads tokenizer.json's part; `spec` may be null. 0 or a negative errno with gw_error's line. */
int gen_post_open(const json_t *spec, struct gen_post *post);
void gen_post_close(struct gen_post *post);

#endif
