/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors as JSON: arrays of numbers, flat or nested, to elements in C order and back. */
#ifndef GW_SERVER_HTTP_ELEMENTS_H
#define GW_SERVER_HTTP_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/door/text.h"

/* Can elements of that type be numbers in JSON? FP16 and BF16 cannot. */
bool gw_elements_in_json(uint32_t dtype);

/* Reads an array of exactly `count` elements. `text` ends after `bytes` with a character that belongs to no
 * number (a bracket, a brace, a zero). 0, or -1 and *why. */
int gw_elements_read(const char *text, size_t bytes, uint32_t dtype, uint64_t count, void *to,
                     const char **why);

/* Appends `count` elements as a flat array. Values without a number in JSON (NaN, infinities) become null. */
void gw_elements_write(struct gw_text *t, uint32_t dtype, uint64_t count, const void *from);

#endif
