/* SPDX-License-Identifier: Apache-2.0 */
/* Lines for the log, and things that must wait until the handlers have returned. */
#include "src/fleet/registry/say.h"

#include <stdarg.h>
#include <stdio.h>

#include <gpuwire/exec.h>

void fleet_registry_trouble(struct fleet_registry *r, const char *format, ...)
{
    char line[640];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (r->handler.trouble) r->handler.trouble(r->ctx, line);
}

void fleet_registry_settle(struct fleet_registry *r)
{
    fleet_timer_set(r->loop, &r->later, (int64_t)gw_deadline(0), r->settle, r);
}
