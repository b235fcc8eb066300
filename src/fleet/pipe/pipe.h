/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipe.h: a queue pair with a piece of memory of its own, for telemetry: a worker writes into the leader's.
 *
 * A NIC's driver takes its time to make and to connect a queue pair, so a thread does both, and ends pipes,
 * too. A loop asks how far a pipe is (fleet_pipe_state), and never waits.
 *
 * Each pipe has a protection domain of its own. So the key of its memory opens nothing to the peers of other
 * pipes.
 *
 * Who may call: one thread. Functions return 0 or a negative errno, and say why in gw_last_error().
 */
#ifndef GW_FLEET_PIPE_H
#define GW_FLEET_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/fleet/wire/message.h"

struct gw_device;
struct fleet_pipes; /* a device, and the thread */
struct fleet_pipe;

enum fleet_pipe_state {
    FLEET_PIPE_MAKING,
    FLEET_PIPE_MADE, /* it has an endpoint */
    FLEET_PIPE_CONNECTING,
    FLEET_PIPE_OPEN,
    FLEET_PIPE_FAILED, /* fleet_pipe_why() */
};

/* Opens the device of that name ("softnic" is one), or takes an open one, which outlives the pipes. */
int fleet_pipes_open(const char *name, struct fleet_pipes **out);
int fleet_pipes_on(struct gw_device *dev, struct fleet_pipes **out);
/* All pipes must have been ended. It waits for the thread. NULL is allowed. */
void fleet_pipes_close(struct fleet_pipes *ps);

/* Begins one, with that number of bytes, all zero. `target`: the peer may write them. NULL: no memory. */
struct fleet_pipe *fleet_pipe_make(struct fleet_pipes *ps, uint32_t bytes, bool target);
/* It is gone for the caller; the thread frees it. NULL is allowed. */
void fleet_pipe_end(struct fleet_pipe *p);

/* An acquire: what the thread did before is seen. */
enum fleet_pipe_state fleet_pipe_state(const struct fleet_pipe *p);
const char *fleet_pipe_why(const struct fleet_pipe *p);
/* Of one that is MADE, or further: what the peer needs. */
void fleet_pipe_target(const struct fleet_pipe *p, struct fleet_target *t);
/* Of one that is MADE. */
void fleet_pipe_connect(struct fleet_pipe *p, const struct fleet_endpoint *peer);

/* Its memory. */
void *fleet_pipe_memory(const struct fleet_pipe *p);
uint32_t fleet_pipe_bytes(const struct fleet_pipe *p);

/* Of one that is OPEN: writes a part of its memory to the same place of the peer's. It does not wait.
 * -EAGAIN: too many writes have not ended. */
int fleet_pipe_write(struct fleet_pipe *p, const struct fleet_target *to, uint32_t from, uint32_t bytes);
/* Writes that have not ended; their bytes must stay as they are. Negative: the queue pair has failed. */
int fleet_pipe_busy(struct fleet_pipe *p);

#endif
