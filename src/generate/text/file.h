/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a model's folder. */
#ifndef GW_GENERATE_TEXT_FILE_H
#define GW_GENERATE_TEXT_FILE_H

#include <jansson.h>

#include "src/door/text.h"

/* The longest file that is read, in bytes. The largest tokenizers of today have 40 MB. */
#define GEN_MAX_FILE (256u << 20)

/* Appends the file's bytes. 0, or a negative errno with gw_error's line: -ENOENT, -E2BIG, -ENOMEM or what
 * reading gave. */
int gen_file_read(const char *folder, const char *name, struct gw_text *text);
/* Reads a JSON object. The same, and -EINVAL. The caller drops the reference. */
int gen_file_json(const char *folder, const char *name, json_t **out);
/* Parses a JSON object; errors name it `name`. */
int gen_file_parse(const char *name, const char *text, size_t bytes, json_t **out);

#endif
