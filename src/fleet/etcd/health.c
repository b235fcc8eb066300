/* SPDX-License-Identifier: Apache-2.0 */
/* Notices when etcd answers and when it does not, says so, and leaves a member that is of no use. */
#include "src/fleet/etcd/health.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <gpuwire/exec.h>

#include "src/grpc/link.h"

#define MAX_PATIENCE 3          /* doublings */
#define DOWN_NS      1000000000 /* without an answer, until we say so */

void fleet_etcd_kick(struct fleet_etcd *e)
{
    e->again = true;
    if (!e->is_turning) fleet_timer_set(e->loop, &e->step, (int64_t)gw_deadline(0), e->turn, e);
}

uint64_t fleet_etcd_patience(const struct fleet_etcd *e)
{
    uint32_t rounds = e->failures / e->urls.n;
    return (uint64_t)e->silent_ns << (rounds < MAX_PATIENCE ? rounds : MAX_PATIENCE);
}

/* ---- is etcd there? ---- */

static void health_say(struct fleet_etcd *e, bool up)
{
    char line[1024];
    if (e->up == up) return;
    e->up = up;
    if (!e->state) return;
    if (up)
        snprintf(line, sizeof(line), "etcd answers at %s", e->urls.base[e->at]);
    else
        snprintf(line, sizeof(line),
                 "etcd (%s) cannot be used: %s; what was granted goes on, and nothing new is granted; is "
                 "it running there?",
                 e->all, *e->why ? e->why : "no answer in time");
    e->state(e->ctx, up, line);
}

static void health_down(void *ctx)
{
    health_say(ctx, false);
}

void fleet_etcd_doubt(struct fleet_etcd *e)
{
    if (e->up && !e->down.at)
        fleet_timer_set(e->loop, &e->down, (int64_t)gw_deadline(DOWN_NS), health_down, e);
}

void fleet_etcd_well(struct fleet_etcd *e)
{
    e->failures = 0;
    if (e->is_refused) return;
    fleet_timer_clear(e->loop, &e->down);
    health_say(e, true);
}

/* ---- leaving a member ---- */

void fleet_etcd_leave(struct fleet_etcd *e, bool is_silent, const char *why)
{
    if (e->link.room && (e->urls.n > 1 || is_silent)) gw_link_drop(&e->link, -ETIMEDOUT, why);
    fleet_etcd_doubt(e);
    fleet_etcd_kick(e);
}

void fleet_etcd_logout(struct fleet_etcd *e)
{
    e->is_ready = false;
    e->link.opts.header[1][0] = NULL;
    e->link.opts.header[1][1] = NULL;
    free(e->token);
    e->token = NULL;
    fleet_etcd_kick(e);
}
