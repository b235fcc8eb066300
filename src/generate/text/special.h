/* SPDX-License-Identifier: Apache-2.0 */
/* The special ids of a model's folder. They stand in several files, which differ by who made the folder. */
#ifndef GW_GENERATE_TEXT_SPECIAL_H
#define GW_GENERATE_TEXT_SPECIAL_H

#include <stdint.h>

#include "src/generate/text/ids.h"

struct gen_special {
    uint32_t bos, pad; /* UINT32_MAX: none */
    struct gen_ids eos;
};

/* Reads tokenizer_config.json (which names texts: `find` gives the id of one), generation_config.json,
 * genai_config.json and config.json, those that are there. 0, or a negative errno with gw_error's line. */
int gen_special_read(const char *folder, uint32_t (*find)(const void *in, const char *text, size_t bytes),
                     const void *in, struct gen_special *out);

#endif
