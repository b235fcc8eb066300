/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what came on streams, and starts them again on each connection. */
#include "src/fleet/etcd/streams.h"

#include <stdlib.h>

#include "src/fleet/etcd/health.h"
#include "src/fleet/etcd/status.h"
#include "src/grpc/call.h"

void fleet_etcd_stream_add(struct fleet_etcd *e, struct fleet_etcd_stream *s)
{
    LIST_INSERT_HEAD(&e->streams, s, entry);
    fleet_etcd_kick(e);
}

void fleet_etcd_stream_drop(struct fleet_etcd *e, struct fleet_etcd_stream *s)
{
    gw_rpc_end(&e->link, &s->rpc);
    LIST_REMOVE(s, entry);
    fleet_etcd_kick(e);
}

static void streams_read(struct fleet_etcd *e, struct fleet_etcd_stream *s)
{
    struct gw_grpc_message *m;
    char why[GW_RPC_WHY];
    while (s->rpc.link && (m = gw_rpc_take(&s->rpc))) {
        fleet_etcd_well(e);
        s->message(s->owner, gw_grpc_message_body(m), gw_grpc_message_length(m));
        free(m);
    }
    if (!s->rpc.link || !s->rpc.seen || s->rpc.is_gone) return; /* streams_lose tells of the last */
    gw_rpc_said(&s->rpc, why, sizeof(why));
    unsigned status = s->rpc.status;
    gw_rpc_end(&e->link, &s->rpc);
    s->ended(s->owner, false, why);
    if (status == GW_GRPC_UNAUTHENTICATED) fleet_etcd_logout(e);
    if (fleet_etcd_is_members_fault(status, why)) fleet_etcd_leave(e, false, why);
}

void fleet_etcd_streams_look(struct fleet_etcd *e)
{
    struct fleet_etcd_stream *s;
    LIST_FOREACH(s, &e->streams, entry) streams_read(e, s);
}

void fleet_etcd_streams_lose(struct fleet_etcd *e)
{
    struct fleet_etcd_stream *s;
    LIST_FOREACH(s, &e->streams, entry)
    {
        if (!s->rpc.link) continue;
        gw_rpc_end(&e->link, &s->rpc);
        s->ended(s->owner, true, e->why);
    }
}

void fleet_etcd_streams_start(struct fleet_etcd *e)
{
    struct fleet_etcd_stream *s;
    LIST_FOREACH(s, &e->streams, entry)
    if (!s->rpc.link) s->ready(s->owner);
}
