/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.h: an unkind network: frames are lost, doubled, overtaken, damaged and late, by seeded chance; the
 * link is slow, or down for a while.
 *
 * It stands between a source of frames and a sink, in one direction, on any clock. There is one before and
 * one after the process's wire, or in a simulation on virtual time. The same seed, calls and times give the
 * same result. One thread at a time, save sn_fault_stats.
 */
#ifndef SOFTNIC_WIRE_FAULT_H
#define SOFTNIC_WIRE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/config/faults.h"
#include "softnic/nic/nic.h"

enum {
    SN_FAULT_HELD = 2048, /* frames that can be under way; more are lost */
    SN_FAULT_FRAME = 4096 + 128,
    SN_FAULT_GAPS = 66, /* bytes that a frame takes on Ethernet besides its own: headers, preamble, gap */
};

/* A frame that is overtaken is held back for up to this long. */
#define SN_FAULT_BEHIND_NS 300000

struct sn_fault_stats {
    uint64_t passed; /* frames handed to the sink */
    uint64_t lost, doubled, overtaken, damaged;
    uint64_t cut;        /* lost because the link was down */
    uint64_t overflowed; /* lost because too many were under way */
};

/* Takes a frame; false when it cannot now. The bytes are the caller's again on return. */
typedef bool sn_fault_sink(void *ctx, const struct sn_frame *frame);

struct sn_fault;

/* NULL when out of memory (it takes 9 MiB, only touched as far as frames are under way). */
struct sn_fault *sn_fault_new(const struct sn_fault_params *params, uint64_t seed, uint64_t now,
                              sn_fault_sink *sink, void *ctx);
void sn_fault_free(struct sn_fault *fault); /* frames under way are lost; NULL is fine */

/* From now on as `params` say. Frames under way stay so; chance goes on where it was. */
void sn_fault_set(struct sn_fault *fault, const struct sn_fault_params *params, uint64_t now);

/* Random numbers start again. */
void sn_fault_seed(struct sn_fault *fault, uint64_t seed);

/* Sends one frame at time `now`. False when the sink takes none now: offer it again (its luck may be another
 * then). */
bool sn_fault_send(struct sn_fault *fault, uint64_t now, const struct sn_frame *frame);
/* Hands over the frames that are due, as far as the sink takes them. */
void sn_fault_run(struct sn_fault *fault, uint64_t now);
/* When the next frame is due, UINT64_MAX if none is under way. */
uint64_t sn_fault_next(const struct sn_fault *fault);
/* Does it do nothing to frames, and is none under way? */
bool sn_fault_idle(const struct sn_fault *fault);
/* Each number by itself is right. Any thread. */
void sn_fault_stats(const struct sn_fault *fault, struct sn_fault_stats *stats);

#endif
