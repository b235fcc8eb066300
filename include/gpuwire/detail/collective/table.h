/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h: which way an operation takes, by its size. Included by collective.h; names that end in _ are
 * private.
 *
 * The bounds come from `mpirun -n 4 build/bin/collective_bench --table`, which runs each operation in each
 * way over sizes, on one host of two processors. There a hop costs much, and the ring never wins. Between
 * hosts it saves what the links of one rank would have to carry: its bounds are estimates.
 */
#include <gpuwire/collective.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_COLLECTIVE_TABLE_H
#define GPUWIRE_DETAIL_COLLECTIVE_TABLE_H

enum {
    GW_DIRECT_MAX_ = 512 << 10, /* all-reduce: bytes times other ranks up to which all goes to all */
    GW_SPLIT_RANKS_ = 16, /* up to this number of ranks a large vector goes in parts, not round the ring */
    GW_CHAIN_MIN_ = 16 << 20, /* broadcast: bytes from which on a chain carries it, with */
    GW_CHAIN_RANKS_ = 4,      /* this number of ranks or more */
    GW_GATHER_RING_MIN_ =
        256 << 10 /* all-gather and reduce-scatter beyond GW_SPLIT_RANKS_: bytes of a part */
};

/* bytes: of the vector, or of one rank's part. */
GW_FN uint32_t gw_coll_way_(uint32_t kind, uint64_t bytes, uint32_t ranks)
{
    if (ranks <= 2) return GW_WAY_DIRECT;
    if (kind == GW_COLL_ALLREDUCE) {
        if (bytes * (ranks - 1) <= GW_DIRECT_MAX_) return GW_WAY_DIRECT;
        return ranks <= GW_SPLIT_RANKS_ ? GW_WAY_SPLIT : GW_WAY_RING;
    }
    if (kind == GW_COLL_BROADCAST)
        return bytes >= GW_CHAIN_MIN_ && ranks >= GW_CHAIN_RANKS_ ? GW_WAY_RING : GW_WAY_DIRECT;
    if (kind == GW_COLL_REDUCE_SCATTER || kind == GW_COLL_ALLGATHER)
        return bytes >= GW_GATHER_RING_MIN_ && ranks > GW_SPLIT_RANKS_ ? GW_WAY_RING : GW_WAY_DIRECT;
    return GW_WAY_DIRECT;
}

#endif
