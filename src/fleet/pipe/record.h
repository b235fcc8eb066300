/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h: a worker's telemetry in the leader's memory: struct fleet_telemetry and its models, at the start
 * of a pipe's memory. The worker overwrites it again and again, also while the leader reads it.
 */
#ifndef GW_FLEET_PIPE_RECORD_H
#define GW_FLEET_PIPE_RECORD_H

#include "src/fleet/pipe/pipe.h"

enum {
    FLEET_RECORD_MODELS = 256,
    FLEET_RECORD =
        sizeof(struct fleet_telemetry) + FLEET_RECORD_MODELS * sizeof(struct fleet_telemetry_model),
};

/* Writes what lies in the pipe's memory; `reserved` gets its sum. No write may be under way. As
 * fleet_pipe_write. */
int fleet_record_write(struct fleet_pipe *p, const struct fleet_target *to);

enum fleet_record_is {
    FLEET_RECORD_OLD,  /* it is the one that was read last */
    FLEET_RECORD_TORN, /* the worker writes it just now, or writes nonsense: look again later */
    FLEET_RECORD_NEW,
};
/* Copies the record to `to`, FLEET_RECORD bytes at a multiple of 8, unless its number is *seen, which it
 * sets. Its content is a stranger's, but `models` is at most FLEET_RECORD_MODELS. */
enum fleet_record_is fleet_record_read(const struct fleet_pipe *p, uint64_t *seen,
                                       struct fleet_telemetry *to);

#endif
