/* SPDX-License-Identifier: Apache-2.0 */
/* reset.h: the kernel before a round: all chunks are free, all buckets, queues and tables are empty. */
#include "mapreduce.h"

/* This thread's share of `bytes` zeros, a multiple of 8. */
GW_DEV void reset_zero(void *at, uint64_t bytes)
{
    uint64_t i;

    for (i = gw_global_idx(); i < bytes / 8; i += gw_global_dim()) ((uint64_t *)at)[i] = 0;
}

GW_KERNEL(mr_reset_kernel, struct mr_args_, a)
{
    uint64_t buckets = (uint64_t)a->mappers * a->groups * a->parts, i;

    for (i = gw_global_idx(); i < buckets; i += gw_global_dim())
        a->bucket[i].word = (uint64_t)MR_NO_CHUNK << 32 | MR_ROOM;
    for (i = gw_global_idx(); i < a->chunks; i += gw_global_dim())
        a->next[i] = i + 1 < a->chunks ? (uint32_t)i + 2 : 0;
    for (i = gw_global_idx(); i < (uint64_t)a->peers * a->chunks; i += gw_global_dim()) a->ring[i] = 0;
    reset_zero(a->queue, a->peers * sizeof(struct mr_queue));
    reset_zero(a->table, a->table_bytes);
    if (gw_global_idx()) return;
    memset(a->dev, 0, sizeof(*a->dev));
    a->dev->free_head = 1; /* chunk 0 */
    a->dev->flight = a->chunks - a->store_max;
}
