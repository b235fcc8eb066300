/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the parts of a tokenizer.json. Each part is an object with a "type"; some types hold a list of
 * parts. */
#ifndef GW_GENERATE_TEXT_SPEC_H
#define GW_GENERATE_TEXT_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gen_regex;

/* How deep lists of parts may stand in each other, and how many parts one kind may have in all. */
#define GEN_MAX_SPEC_DEPTH 8
#define GEN_MAX_SPEC_PARTS 64

/* The part's "type", or "" . */
const char *gen_spec_type(const json_t *part);
/* A member that says yes or no; `otherwise` where it is absent or no boolean. */
bool gen_spec_flag(const json_t *part, const char *name, bool otherwise);
/* A member that is text; NULL where it is absent or no text. */
const char *gen_spec_text(const json_t *part, const char *name, size_t *bytes);
/* The first character of a member; `otherwise` where it has none. */
uint32_t gen_spec_char(const json_t *part, const char *name, uint32_t otherwise);
/* Makes the pattern of a part: {"String": text} or {"Regex": text}. 0 or a negative errno with gw_error's
 * line. */
int gen_spec_pattern(const json_t *part, struct gen_regex **out);

/* Calls `each` for the part, or where its type is Sequence, for each part of the list `name`, in order, to
 * any depth. null is no part. 0 or what failed first. */
int gen_spec_each(const json_t *part, const char *name, int (*each)(void *to, const json_t *part), void *to);

/* Records that a kind of part is not supported: -ENOTSUP. */
int gen_spec_unknown(const char *what, const json_t *part);

#endif
