/* SPDX-License-Identifier: Apache-2.0 */
/* What a folder says of tokens that begin and end texts, and of sampling. */
#ifndef GW_GENERATE_IMPORT_SAMPLING_H
#define GW_GENERATE_IMPORT_SAMPLING_H

#include "src/generate/import/info.h"
#include "src/generate/import/json.h"

/* Nothing is said: greedy, no token begins or ends. */
void gen_sampling_init(struct gen_model_info *info);
/* bos_token_id and eos_token_id, a number or several. 0, -EBADMSG. */
int gen_sampling_tokens(const struct gen_json *j, uint32_t vocab, struct gen_model_info *info);
/* do_sample, temperature, top_p, top_k, min_p and repetition_penalty. */
int gen_sampling_read(const struct gen_json *j, struct gen_model_info *info);

#endif
