/* SPDX-License-Identifier: Apache-2.0 */
/* pieces.h: copying between two lists of pieces of memory, any of which may be gone. */
#ifndef SOFTNIC_MEM_PIECES_H
#define SOFTNIC_MEM_PIECES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "softnic/nic/nic.h"

/* As the copy of struct sn_peer_ops, plain memory being this process's; -EFAULT if it stopped at the first.
 * Of a piece that failed in the middle nothing counts as copied. */
int64_t sn_pieces_copy(const struct sn_copy *c, struct sn_copying *under_way);

#endif
