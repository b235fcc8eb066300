/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and copies the options of connections. */
#include "src/fleet/wire/side.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#define SECOND INT64_C(1000000000)

static int side_check(const struct fleet_conn_opts *o)
{
    if (strlen(o->fleet) >= FLEET_NAME || !fleet_text_ok(o->fleet, FLEET_NAME))
        return gw_error(-EINVAL, "a fleet's name has at most %d bytes, all printable", FLEET_NAME - 1);
    if (strlen(o->name) >= FLEET_NAME || !fleet_text_ok(o->name, FLEET_NAME))
        return gw_error(-EINVAL, "a name has at most %d bytes, all printable", FLEET_NAME - 1);
    if (o->most > FLEET_MAX_FRAME) return gw_error(-EINVAL, "frames have at most %d bytes", FLEET_MAX_FRAME);
    return 0;
}

int fleet_side_make(const struct fleet_conn_opts *opts, struct fleet_side **out)
{
    int err = side_check(opts);
    if (err) return err;
    struct fleet_side *s = calloc(1, sizeof(*s));
    char *token = opts->token ? strdup(opts->token) : NULL;
    if (!s || (opts->token && !token)) {
        free(s);
        free(token);
        return gw_error(-ENOMEM, "no memory for a connection");
    }
    s->refs = 1;
    s->opts = *opts;
    strcpy(s->fleet, opts->fleet);
    strcpy(s->name, opts->name);
    memcpy(s->id, opts->id, FLEET_ID);
    s->opts.fleet = s->fleet;
    s->opts.name = s->name;
    s->opts.id = s->id;
    s->opts.token = token;
    if (!s->opts.most) s->opts.most = 1 << 20;
    if (!s->opts.backlog) s->opts.backlog = 16 << 20;
    if (!s->opts.silent_ns) s->opts.silent_ns = 5 * SECOND;
    if (!s->opts.handshake_ns) s->opts.handshake_ns = 5 * SECOND;
    if (!s->opts.connections) s->opts.connections = 4096;
    *out = s;
    return 0;
}

void fleet_side_release(struct fleet_side *s)
{
    if (--s->refs) return;
    char *token = (char *)s->opts.token;
    if (token) explicit_bzero(token, strlen(token));
    free(token);
    free(s);
}
