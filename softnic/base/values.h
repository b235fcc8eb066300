/* SPDX-License-Identifier: Apache-2.0 */
/* values.h: numbers as people write them in settings. Each reader returns whether it took the whole text. */
#ifndef SOFTNIC_BASE_VALUES_H
#define SOFTNIC_BASE_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits alone. */
bool sn_read_u64(const char *text, uint64_t *value);
/* "0.01", "1", ".5" or "1%": 0 to 1. Whatever the locale says of decimal points. */
bool sn_read_probability(const char *text, double *value);
/* A number with ns (or nothing), us, ms or s, up to max_ns. */
bool sn_read_time(const char *text, uint64_t max_ns, uint64_t *ns);
/* A number with k, M or G for powers of `base` (1000 or 1024), or none of them. */
bool sn_read_size(const char *text, uint64_t base, uint64_t *value);

/* The shortest text that sn_read_time reads back. */
const char *sn_time_text(uint64_t ns, char *buf, size_t room);

#endif
