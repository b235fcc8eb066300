/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stop.h: strings that end an answer.
 *
 * Text comes in pieces, and a stop string may lie across them. So text that may be the beginning of one is
 * held back until more is known. The time is linear in the text, whatever the strings are.
 */
#ifndef GW_GENERATE_TEXT_STOP_H
#define GW_GENERATE_TEXT_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/door/text.h"

/* How many stop strings one request may have, and their bytes in all. */
#define GEN_MAX_STOP_STRINGS 16
#define GEN_MAX_STOP_BYTES   65536

struct gen_stop;

/* Prepares the strings for one stream. 0; -E2BIG (too many, or too long), -EINVAL (an empty string) or
 * -ENOMEM with gw_error's line. The strings are copied. */
int gen_stop_open(const char *const *strings, const size_t *bytes, unsigned count, struct gen_stop **out);
/* Frees it. NULL is fine. */
void gen_stop_close(struct gen_stop *s);

/*
 * Takes the next piece, and appends what can be shown by now. 1: a stop string ended in this piece; what
 * came before it was appended, and the stream is at its end (further calls give 1 and append nothing). 0:
 * go on. -ENOMEM. Of several strings that end at the same byte, the one that begins first counts. One
 * thread at a time.
 */
int gen_stop_feed(struct gen_stop *s, const char *piece, size_t bytes, struct gw_text *text);
/* The stream ended without one: appends what was held back. 0 or -ENOMEM. */
int gen_stop_end(struct gen_stop *s, struct gw_text *text);
/* Which string ended the stream (its index), or -1. */
int gen_stop_which(const struct gen_stop *s);

#endif
