/* SPDX-License-Identifier: Apache-2.0 */
/* sreq.h: a send request: a WQE that was read, and how far it has come. */
#ifndef SOFTNIC_OBJECT_SREQ_H
#define SOFTNIC_OBJECT_SREQ_H

#include <stdbool.h>
#include <stdint.h>

#include "softnic/object/limits.h"
#include "src/mlx5/wqe.h"

/* A position in a work request's list of memory pieces, remembered so that the next packet need not search.
 */
struct sn_cursor {
    uint32_t offset; /* in the message; of the position */
    uint32_t unit;   /* what comes after piece */
    uint32_t used;   /* bytes of piece before the position */
    struct gw_mlx5_piece piece;
};

/* A send request: a WQE that was read. */
struct sn_sreq {
    struct gw_mlx5_wqe *wqe; /* in the arena, as far as gw_mlx5_wqe_size */
    uint32_t arena_bytes;    /* that are free again once it is complete */
    uint16_t index, wqebbs;  /* its place in the queue */
    uint32_t psn, packets;   /* PSNs that it takes; none for a NOP */
    uint64_t request;        /* names it to DMA functions */
    uint8_t error;           /* enum gw_mlx5_syndrome: fails when everything before it is complete */
    bool copying;            /* in a batch of direct accesses, gathered or under way */
    bool executed;           /* a UMR: its bind was made */
    bool by_packets;         /* direct access to its memory failed, or its offer was refused */
    bool rndv;               /* some of it; or it was sent as placed */
    bool eager;              /* its bytes are where they belong: what is sent says so */
    uint32_t copied;         /* bytes that direct accesses have moved so far */
    bool looped;             /* UC, UD: which ring its last frame stands in, */
    uint32_t tx_end;         /* and the ring's position after that */
    struct sn_cursor cursor; /* of the sender, or for READs the receiver */
};

#endif
