/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that a stranger can provoke: one a second, with how many were left out. */
#ifndef GW_DOOR_LIMIT_H
#define GW_DOOR_LIMIT_H

#include <stdint.h>

struct gw_say_limit {
    uint64_t next;   /* when the next line may come; atomic */
    uint64_t unsaid; /* since the last one; atomic */
};

/* Logs it as a warning (log.h), or counts it. Any thread. */
void gw_say(struct gw_say_limit *limit, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
