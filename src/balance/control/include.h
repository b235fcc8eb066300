/* SPDX-License-Identifier: Apache-2.0 */
/* include.h: the files of a configuration: their texts, with the values of parameters in them. */
#ifndef GW_BALANCE_CONTROL_INCLUDE_H
#define GW_BALANCE_CONTROL_INCLUDE_H

#include <stddef.h>
#include <stdint.h>

#include "src/balance/control/parse.h"

/* gw_bal_parse.include, where files may include others. */
int gw_bal_parse_include(struct gw_bal_parse *p, const struct gw_bal_keyword *keywords,
                         const struct gw_bal_statement *s);
/* Reads on from `text`, with the values of its parameters in it. -EINVAL with words. */
int gw_bal_parse_from(struct gw_bal_parse *p, const char *text);
void gw_bal_parse_free(struct gw_bal_parse *p);
/* The text of a file, which the caller frees; NULL with words: none, too long, or no text. */
char *gw_bal_parse_text(const char *file, size_t most, size_t *bytes);
/* FNV-1a, from the hash of what stood before: it tells edits apart, and is no protection against attacks. */
uint64_t gw_bal_config_hash(uint64_t before, const char *text);

#endif
