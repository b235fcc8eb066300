/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h: frames from one process to another through a channel's ring: one puts them in, the other takes them
 * out.
 *
 * Each side keeps its own place to itself and trusts the other's only as far as it makes sense. A peer that
 * writes nonsense breaks its own ring, and the reader is told.
 */
#ifndef SOFTNIC_LOCAL_RING_H
#define SOFTNIC_LOCAL_RING_H

#include <stdbool.h>

#include "softnic/local/share.h"

/* The side that puts in. tail is its own count. False: full. -> len is at most SN_FRAME_MAX. */
bool sn_ring_put(struct sn_channel *ch, uint32_t *tail, const uint8_t *data, uint32_t len, bool rndv);
/* Frames that the other has not taken out; more than SN_SHARE_FRAMES if it wrote nonsense. */
uint32_t sn_ring_used(const struct sn_channel *ch, uint32_t tail);

/* The side that takes out. head is its own count. Copies a frame to `to`, which has room for SN_FRAME_MAX
 * bytes, and returns its length; 0: there is none; -EPROTO: the other wrote nonsense, and nothing of it is to
 * be used. */
int sn_ring_take(struct sn_channel *ch, uint32_t *head, uint8_t *to, bool *rndv);
/* As sn_ring_take would find it, for other threads of that side too. */
bool sn_ring_empty(const struct sn_channel *ch, const uint32_t *head);

#endif
