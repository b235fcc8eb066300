/* SPDX-License-Identifier: Apache-2.0 */
/* What `gpuwire fleet` asks: a table, a drain, a dry run. The answer is JSON. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/fleet/control/impl.h"

enum { TOOL_LINE = 256, TOOL_PIECE = 64 << 10 };

static void tool_tell(struct ctl_conn *k, uint64_t seq, json_t *answer)
{
    char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
    const char *out = text ? text : "{\"error\":\"no memory\"}";
    for (size_t left = strlen(out), n; left; left -= n, out += n) {
        n = left < TOOL_PIECE ? left : TOOL_PIECE;
        fleet_send(k->conn, FLEET_TOLD, seq, out, n, NULL, 0, NULL);
    }
    fleet_send(k->conn, FLEET_TOLD, seq, NULL, 0, NULL, 0, NULL);
    free(text);
    json_decref(answer);
}

static json_t *tool_drain(struct fleet_control *c, const char *worker, bool drains)
{
    if (!ctl_worker_find(c, worker) && drains)
        return json_pack("{s:s}", "error", "no such worker; `gpuwire fleet` lists them");
    if (c->keeper.drain) c->keeper.drain(c->keeper.ctx, worker, drains);
    int err = fleet_control_drain(c, worker, drains);
    return err ? json_pack("{s:s}", "error", gw_last_error()) : json_pack("{s:b}", "ok", 1);
}

void ctl_tool_message(struct ctl_conn *k, const struct fleet_frame *f, const void *body)
{
    struct fleet_control *c = k->control;
    char line[TOOL_LINE] = "";
    json_t *answer = NULL;
    if (f->kind == FLEET_ASK && f->bytes < sizeof(line)) memcpy(line, body, f->bytes);
    if (f->kind != FLEET_ASK || strlen(line) != f->bytes || !fleet_text_ok(line, sizeof(line))) {
        fleet_conn_close(k->conn, -EPROTO, "a question that is no line of text");
        ctl_link_remove(&k->link);
        free(k);
        return;
    }
    if (!strcmp(line, "table"))
        answer = fleet_control_table(c);
    else if (!strcmp(line, "models"))
        answer = fleet_control_models(c);
    else if (!strcmp(line, "plan"))
        answer = fleet_control_plan(c);
    else if (!strncmp(line, "drain ", 6))
        answer = tool_drain(c, line + 6, true);
    else if (!strncmp(line, "undrain ", 8))
        answer = tool_drain(c, line + 8, false);
    else
        answer = json_pack("{s:s}", "error", "no such question");
    tool_tell(k, f->seq, answer);
}
