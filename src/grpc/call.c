/* SPDX-License-Identifier: Apache-2.0 */
/* Calls over a connection to a gRPC server: their start, what more they send, and what they end with. */
#include "src/grpc/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/door/plain.h"
#include "src/grpc/rpc.h"

/* ---- a call's life ---- */

static int call_begin(struct gw_link *l, struct gw_rpc *r, const char *method,
                      struct gw_grpc_message *message)
{
    if (!message) return gw_error_errno(-ENOMEM, "client");
    int err = gw_link_connect(l);
    r->link = l;
    r->next = l->calls;
    r->place = &l->calls;
    gw_rpc_append(&r->out, message);
    if (r->next) r->next->place = &r->next;
    l->calls = r;
    if (err) {
        gw_rpc_lost(r, l->why);
        return 0;
    }
    err = gw_rpc_submit(l, r, method);
    if (!err) return 0;
    gw_rpc_end(l, r);
    return gw_error_errno(err, "client");
}

int gw_rpc_start(struct gw_link *l, struct gw_rpc *r, const char *method, struct gw_grpc_message *message,
                 uint64_t deadline_ns)
{
    *r = (struct gw_rpc){.deadline = deadline_ns};
    return call_begin(l, r, method, message);
}

int gw_rpc_start_stream(struct gw_link *l, struct gw_rpc *r, const char *method,
                        struct gw_grpc_message *message)
{
    *r = (struct gw_rpc){.deadline = GW_NEVER, .is_stream = 1};
    return call_begin(l, r, method, message);
}

int gw_rpc_send(struct gw_link *l, struct gw_rpc *r, struct gw_grpc_message *message)
{
    if (!message) return -ENOMEM;
    if (!r->link || r->seen || !r->stream) {
        free(message);
        return -ENOTCONN;
    }
    gw_rpc_append(&r->out, message);
    if (!r->is_deferred) return 0;
    r->is_deferred = 0;
    return nghttp2_session_resume_data(l->h2.session, r->stream) ? -ENOMEM : 0;
}

struct gw_grpc_message *gw_rpc_take(struct gw_rpc *r)
{
    return r->in ? gw_grpc_message_first(&r->in) : NULL;
}

void gw_rpc_end(struct gw_link *l, struct gw_rpc *r)
{
    if (!r->link) return;
    int under_way = !r->seen;
    gw_rpc_forget(r);
    if (under_way) gw_link_pump(l, 0); /* the server gets it */
    *r->place = r->next;
    if (r->next) r->next->place = r->place;
    gw_grpc_inbox_free(&r->inbox);
    while (r->out) free(gw_grpc_message_first(&r->out));
    while (r->in) free(gw_grpc_message_first(&r->in));
    *r = (struct gw_rpc){0};
}

/* ---- what they end with ---- */

static int call_errno_of(const struct gw_rpc *r)
{
    switch (r->status) {
    case GW_GRPC_UNAUTHENTICATED:
    case GW_GRPC_PERMISSION_DENIED: return -EACCES;
    case GW_GRPC_DEADLINE_EXCEEDED: return -ETIME;
    case GW_GRPC_RESOURCE_EXHAUSTED: return strstr(r->why, "larger than max") ? -EINVAL : -EBUSY;
    case GW_GRPC_UNAVAILABLE:
        return strcasestr(r->why, "timeout") || strcasestr(r->why, "deadline") ? -ETIME : -ESHUTDOWN;
    case GW_GRPC_INVALID_ARGUMENT:
    case GW_GRPC_NOT_FOUND:
    case GW_GRPC_ALREADY_EXISTS:
    case GW_GRPC_FAILED_PRECONDITION:
    case GW_GRPC_OUT_OF_RANGE:
    case GW_GRPC_UNIMPLEMENTED: return -EINVAL;
    default: return -EREMOTEIO;
    }
}

const char *gw_rpc_said(const struct gw_rpc *r, char *to, size_t size)
{
    return gw_plain_text(to, size, *r->why ? r->why : "no reason given");
}

int gw_rpc_error(const struct gw_link *l, const struct gw_rpc *r, char *why, size_t size)
{
    char plain[240];
    if (r->is_gone && l->error == -EBUSY) {
        snprintf(why, size, "refused the connection: %s", gw_rpc_said(r, plain, sizeof(plain)));
        return -EBUSY;
    }
    if (r->is_gone) {
        snprintf(why, size, "server %s has gone: %s", l->opts.base, gw_rpc_said(r, plain, sizeof(plain)));
        return -ECONNRESET;
    }
    if (r->status == GW_GRPC_OK) return 0;
    snprintf(why, size, "refused with status %s: %s", gw_grpc_status_name(r->status),
             gw_rpc_said(r, plain, sizeof(plain)));
    return call_errno_of(r);
}
