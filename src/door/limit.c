/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a line that strangers can provoke, once a second at most. */
#include "src/door/limit.h"

#include <stdarg.h>
#include <stdio.h>

#include <gpuwire/exec.h>
#include <gpuwire/sync.h>

#include "src/door/log.h"

#define PAUSE_NS 1000000000u

void gw_say(struct gw_say_limit *limit, const char *format, ...)
{
    uint64_t now = gw_deadline(0), next = gw_ld_relaxed_u64(&limit->next);
    char line[400];
    va_list args;
    /* One thread gets to say it. The numbers stand alone, so no order is needed. */
    if (now < next || gw_cas_relaxed_u64(&limit->next, next, now + PAUSE_NS) != next) {
        gw_add_relaxed_u64(&limit->unsaid, 1);
        return;
    }
    uint64_t unsaid = gw_exch_relaxed_u64(&limit->unsaid, 0);
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (unsaid)
        gw_log(GW_LOG_WARNING, "%s (and %llu lines like it)", line, (unsigned long long)unsaid);
    else
        gw_log(GW_LOG_WARNING, "%s", line);
}
