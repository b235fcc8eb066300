/* SPDX-License-Identifier: Apache-2.0 */
/* Counts times, so that percentiles can be read: exact below 64 ns, within 1.6 % above. */
#ifndef FACE_LOAD_TIMES_H
#define FACE_LOAD_TIMES_H

#include <stdint.h>

enum { FACE_TIMES_CELLS = 60 * 64 };

/* All zero is an empty one. */
struct face_times {
    uint64_t count, most; /* most is exact */
    uint64_t cell[FACE_TIMES_CELLS];
};

void face_times_add(struct face_times *t, uint64_t ns);
void face_times_merge(struct face_times *to, const struct face_times *from);
/* A time that `percent` of all do not exceed; 0: it is empty. */
uint64_t face_times_at(const struct face_times *t, double percent);

#endif
