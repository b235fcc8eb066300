/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h: peers' GPU memory, opened in this process.
 *
 * An allocation is opened when something in it was asked for. A thread of its own opens it, since the driver
 * may make that wait for a kernel that never ends. Until then, and where it cannot be opened, packets are
 * used. It is closed when the region by which it was reached last is gone, or its process.
 *
 * "Inside": inside the NIC's lock.
 */
#ifndef SOFTNIC_LOCAL_GPU_H
#define SOFTNIC_LOCAL_GPU_H

#include <stdbool.h>

#include "softnic/local/share.h"

struct sn_gpu;
struct sn_peer;

/* NULL: no memory, and then everything goes by packets. Makes no thread before one is needed. */
struct sn_gpu *sn_gpu_new(void);
/* Closes what is open, in the background, and does not wait for it. */
void sn_gpu_end(struct sn_gpu *g);

/* Inside. The allocation that region `key` of the peer is in: how it is reached, and *at, where it is here.
 * False: not (yet). */
bool sn_gpu_find(struct sn_gpu *g, const struct sn_peer *peer, uint32_t key, const struct sn_gpu_share *share,
                 struct sn_reach *by, uint64_t *at);
/* Inside. Closes what was opened of a peer and is no region of its table any more; table NULL: all of it. */
void sn_gpu_sweep(struct sn_gpu *g, const struct sn_peer *peer, const struct sn_table *table);

#endif
