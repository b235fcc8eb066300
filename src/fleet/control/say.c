/* SPDX-License-Identifier: Apache-2.0 */
/* What the controller says: lines for people, and the audit log's lines. */
#include <stdarg.h>
#include <stdio.h>

#include "src/fleet/control/impl.h"

const char *const ctl_action_names[] = {"LOAD",   "EVICT", "DROP",  "GRANT", "RESIZE",
                                        "REVOKE", "SHED",  "INFER", "REFUSE"};

void ctl_say(struct fleet_control *c, const char *format, ...)
{
    char line[512];
    va_list args;
    if (!c->o.say) return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    c->o.say(c->o.ctx, line);
}

void ctl_audit(struct fleet_control *c, const char *what, uint32_t worker, uint32_t model, json_t *more)
{
    json_t *line = c->o.audit ? json_object() : NULL;
    if (line) {
        json_object_set_new(line, "term", json_integer((json_int_t)c->term));
        json_object_set_new(line, "action", json_string(what));
        if (worker != FLEET_NONE && c->workers[worker])
            json_object_set_new(line, "worker", json_string(c->workers[worker]->name));
        if (model != FLEET_NONE) json_object_set_new(line, "model", json_string(c->models[model].name));
        if (more) json_object_update(line, more);
        c->o.audit(c->o.ctx, line);
        json_decref(line);
    }
    json_decref(more);
}
