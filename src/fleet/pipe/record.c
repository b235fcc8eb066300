/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of telemetry. One RDMA WRITE carries all but the first word, `seq`, and a second one carries that.
 * Without relaxed ordering the second is placed after the first, so a new `seq` says that its record is
 * there. But nothing is promised of the order in which the bytes of one WRITE are placed. And the next WRITE
 * may change the record while it is read: then `seq_again` may differ, or not yet. So a sum over all other
 * words decides; the pair of numbers finds most of it sooner. What does not fit is read again.
 */
#include "src/fleet/pipe/record.h"

#include <stddef.h>

#define RECORD_HEAD sizeof(struct fleet_telemetry)
#define RECORD_BODY offsetof(struct fleet_telemetry, seq_again)

static_assert(RECORD_HEAD % 8 == 0 && sizeof(struct fleet_telemetry_model) % 8 == 0, "whole words");
static_assert(offsetof(struct fleet_telemetry, reserved) % 8 == 4, "the sum is the upper half of a word");

static uint32_t record_bytes(const struct fleet_telemetry *t)
{
    return (uint32_t)(RECORD_HEAD + t->models * sizeof(struct fleet_telemetry_model));
}

/* FNV-1a of all 64-bit words, the one with the sum without it. */
static uint32_t record_sum(const struct fleet_telemetry *t)
{
    const uint64_t *word = (const void *)t;
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    size_t own = offsetof(struct fleet_telemetry, reserved) / 8;
    for (size_t i = 0; i < record_bytes(t) / 8; i++)
        sum = (sum ^ (i == own ? word[i] & UINT32_MAX : word[i])) * UINT64_C(0x100000001b3);
    return (uint32_t)(sum >> 32);
}

int fleet_record_write(struct fleet_pipe *p, const struct fleet_target *to)
{
    struct fleet_telemetry *t = fleet_pipe_memory(p);
    t->reserved = record_sum(t);
    int err = fleet_pipe_write(p, to, RECORD_BODY, (uint32_t)(record_bytes(t) - RECORD_BODY));
    return err ? err : fleet_pipe_write(p, to, 0, RECORD_BODY);
}

/* The NIC writes while this reads. */
static void record_copy(uint64_t *to, const uint64_t *from, size_t bytes)
{
    for (size_t i = 0; i < bytes / 8; i++) to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

enum fleet_record_is fleet_record_read(const struct fleet_pipe *p, uint64_t *seen, struct fleet_telemetry *to)
{
    const uint64_t *from = fleet_pipe_memory(p);
    uint64_t seq = __atomic_load_n(from, __ATOMIC_ACQUIRE); /* all else is read after it */
    if (seq == *seen) return FLEET_RECORD_OLD;
    record_copy((uint64_t *)to, from, RECORD_HEAD);
    if (to->seq != seq || to->seq_again != seq || to->models > FLEET_RECORD_MODELS) return FLEET_RECORD_TORN;
    record_copy((uint64_t *)(to + 1), from + RECORD_HEAD / 8, record_bytes(to) - RECORD_HEAD);
    if (record_sum(to) != to->reserved) return FLEET_RECORD_TORN;
    *seen = seq;
    return FLEET_RECORD_NEW;
}
