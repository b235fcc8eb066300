/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.h: an unkind network: frames are lost, doubled, overtaken, damaged and late, by seeded chance.
 *
 * It stands between a sender and any sink that takes frames, on any clock: the process's UDP wire, or a
 * simulation on virtual time. The same seed, calls and times give the same result. One thread at a time.
 */
#ifndef SN_WIRE_FAULT_H
#define SN_WIRE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

struct sn_fault_params {
    double loss, dup, reorder, corrupt; /* probabilities, 0 to 1, per frame and independent of each other */
    uint64_t delay_ns;                  /* of every frame */
};

static inline bool sn_fault_any(const struct sn_fault_params *p)
{
    return p->loss > 0 || p->dup > 0 || p->reorder > 0 || p->corrupt > 0 || p->delay_ns;
}

enum {
    SN_FAULT_HELD = 2048, /* frames that can be under way; more are lost */
    SN_FAULT_FRAME = 4096 + 128,
};

/* A frame that is overtaken stays behind for up to this long. */
#define SN_FAULT_BEHIND_NS 300000

struct sn_fault_stats {
    uint64_t passed; /* frames handed to the sink */
    uint64_t lost, doubled, overtaken, damaged;
    uint64_t overflowed; /* lost because too many were under way, or the sink was full when they were due */
};

/* Takes a frame for the NIC whose GID is `to`; false when it cannot now. The bytes are the caller's again on
 * return. */
typedef bool sn_fault_sink(void *ctx, const uint8_t to[16], const void *frame, uint32_t len);

struct sn_fault;

/* NULL when out of memory (it takes 9 MiB, only touched as far as frames are under way). */
struct sn_fault *sn_fault_new(const struct sn_fault_params *params, uint64_t seed, sn_fault_sink *sink,
                              void *ctx);
void sn_fault_free(struct sn_fault *fault); /* frames under way are lost; NULL is fine */

/* Sends one frame at time `now`. False when the sink takes none now: offer it again (its luck may be another
 * then). */
bool sn_fault_send(struct sn_fault *fault, uint64_t now, const uint8_t to[16], const void *frame,
                   uint32_t len);
/* Hands over the frames that are due. */
void sn_fault_run(struct sn_fault *fault, uint64_t now);
/* When the next frame is due, UINT64_MAX if none is under way. */
uint64_t sn_fault_next(const struct sn_fault *fault);
const struct sn_fault_stats *sn_fault_stats(const struct sn_fault *fault);

#endif
