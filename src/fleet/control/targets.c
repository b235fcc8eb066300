/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telemetry by RDMA: each worker has a pipe, and writes its record into the pipe's memory. WELCOME is sent
 * again when the pipe is made, TARGETED when it is connected to the worker's. Until then, and after a
 * failure, the worker sends TELEMETRY.
 *
 * The controller looks at the number of each record twice as often as workers write, so that it misses none
 * as a rule. One that it misses takes nothing with it but measured times: counts are since the start.
 */
#include "src/fleet/control/impl.h"

static void targets_look(void *ctx);

static void targets_look_again(struct fleet_control *c)
{
    fleet_timer_set(c->o.loop, &c->look, ctl_now(c) + c->o.telemetry_ns / 2, targets_look, c);
}

int ctl_targets_open(struct fleet_control *c)
{
    return c->o.device ? fleet_pipes_open(c->o.device, &c->pipes) : 0;
}

void ctl_targets_close(struct fleet_control *c)
{
    fleet_timer_clear(c->o.loop, &c->look);
    fleet_pipes_close(c->pipes);
}

void ctl_target_begin(struct ctl_worker *k)
{
    struct fleet_control *c = k->control;
    if (!c->pipes || !(k->pipe = fleet_pipe_make(c->pipes, FLEET_RECORD, true))) return;
    k->offered = k->targeted = false;
    k->record_seq = 0;
    if (ctl_link_alone(&c->piped)) targets_look_again(c);
    ctl_link_add(&c->piped, &k->pipe_link);
}

void ctl_target_end(struct ctl_worker *k)
{
    if (!k->pipe) return;
    fleet_pipe_end(k->pipe);
    k->pipe = NULL;
    ctl_link_remove(&k->pipe_link);
}

const char *ctl_target_connect(struct ctl_worker *k, const struct fleet_endpoint *peer)
{
    if (!k->pipe) return NULL; /* it failed here just now */
    if (!k->offered || fleet_pipe_state(k->pipe) != FLEET_PIPE_MADE) return "a TARGETED out of place";
    fleet_pipe_connect(k->pipe, peer);
    return NULL;
}

static void targets_offer(struct ctl_worker *k)
{
    struct fleet_control *c = k->control;
    struct fleet_welcome w = {.term = c->term, .telemetry_ns = c->o.telemetry_ns};
    fleet_pipe_target(k->pipe, &w.target);
    k->offered = true;
    fleet_send(k->conn, FLEET_WELCOME, 0, &w, sizeof(w), NULL, 0, NULL);
}

static void targets_read(struct ctl_worker *k)
{
    static _Alignas(8) uint8_t room[FLEET_RECORD]; /* of the loop's thread */
    struct fleet_telemetry *t = (void *)room;
    struct fleet_target own;
    if (!k->targeted) {
        k->targeted = true;
        fleet_pipe_target(k->pipe, &own);
        fleet_send(k->conn, FLEET_TARGETED, 0, &own.at, sizeof(own.at), NULL, 0, NULL);
    }
    if (fleet_record_read(k->pipe, &k->record_seq, t) == FLEET_RECORD_NEW)
        ctl_telemetry(k, t, sizeof(*t) + t->models * sizeof(struct fleet_telemetry_model), CTL_BY_RDMA);
}

static void targets_look_at(struct ctl_worker *k)
{
    switch (fleet_pipe_state(k->pipe)) {
    case FLEET_PIPE_MADE:
        if (!k->offered) targets_offer(k);
        break;
    case FLEET_PIPE_OPEN: targets_read(k); break;
    case FLEET_PIPE_FAILED:
        ctl_say(k->control, "worker %s tells over TCP: %s", k->name, fleet_pipe_why(k->pipe));
        ctl_target_end(k);
        break;
    default: break;
    }
}

static void targets_look(void *ctx)
{
    struct fleet_control *c = ctx;
    for (struct ctl_link *l = c->piped.next, *next; l != &c->piped; l = next) {
        next = l->next; /* the worker may be cut off */
        targets_look_at(CTL_OF(struct ctl_worker, pipe_link, l));
    }
    if (!ctl_link_alone(&c->piped)) targets_look_again(c);
}
