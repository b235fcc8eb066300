/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_write.c: telemetry by RDMA, into the memory that the leader named in WELCOME. The agent makes its end
 * of the pipe, tells its endpoint, and writes once the leader has said that its end is connected. When that
 * fails, the agent sends telemetry until a leader names memory again.
 */
#include "src/fleet/worker/agent_impl.h"

#include <string.h>

#include <gpuwire/error.h>

#define WRITE_PATIENCE AGENT_SECOND /* for a write; after that it counts as lost */

void agent_write_start(struct fleet_agent *a, const struct fleet_target *to)
{
    agent_write_stop(a);
    if (!a->o.pipes || !to->addr || to->bytes < sizeof(struct fleet_telemetry)) return;
    uint32_t bytes = to->bytes < FLEET_RECORD ? to->bytes : FLEET_RECORD;
    a->write.to = *to;
    a->write.pipe = fleet_pipe_make(a->o.pipes, bytes, false);
}

void agent_write_stop(struct fleet_agent *a)
{
    fleet_pipe_end(a->write.pipe);
    memset(&a->write, 0, sizeof(a->write));
}

static void write_fail(struct fleet_agent *a, const char *why)
{
    agent_say(a, "sends its telemetry over TCP: %s", why);
    agent_write_stop(a);
}

void agent_write_targeted(struct fleet_agent *a)
{
    a->write.targeted = a->write.told;
}

/* One step towards a pipe that is open on both sides. */
static void write_advance(struct fleet_agent *a)
{
    struct fleet_target own;
    switch (fleet_pipe_state(a->write.pipe)) {
    case FLEET_PIPE_MADE: fleet_pipe_connect(a->write.pipe, &a->write.to.at); break;
    case FLEET_PIPE_OPEN:
        if (a->write.told) break;
        a->write.told = true;
        fleet_pipe_target(a->write.pipe, &own);
        agent_send(a, FLEET_TARGETED, 0, &own.at, sizeof(own.at));
        break;
    case FLEET_PIPE_FAILED: write_fail(a, fleet_pipe_why(a->write.pipe)); break;
    default: break;
    }
}

enum agent_way agent_write_way(struct fleet_agent *a)
{
    if (a->write.pipe && !a->write.targeted) write_advance(a);
    if (!a->write.targeted) return AGENT_SENDS;
    int busy = fleet_pipe_busy(a->write.pipe);
    if (!busy) return AGENT_WRITES;
    if (busy > 0 && agent_now(a) - a->write.at < WRITE_PATIENCE) return AGENT_WAITS;
    write_fail(a, busy < 0 ? gw_last_error() : "a write to the leader does not end");
    return AGENT_SENDS_AGAIN;
}

bool agent_write(struct fleet_agent *a, const void *record, size_t bytes)
{
    memcpy(fleet_pipe_memory(a->write.pipe), record, bytes);
    a->write.at = agent_now(a);
    if (!fleet_record_write(a->write.pipe, &a->write.to)) return true;
    write_fail(a, gw_last_error());
    return false;
}

uint32_t agent_write_models(const struct fleet_agent *a)
{
    uint32_t bytes = fleet_pipe_bytes(a->write.pipe) - (uint32_t)sizeof(struct fleet_telemetry);
    return bytes / (uint32_t)sizeof(struct fleet_telemetry_model);
}
