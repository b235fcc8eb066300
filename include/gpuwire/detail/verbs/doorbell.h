/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doorbell.h: how the NIC is told of WQEs. Included by verbs_device.h, after sq.h, which says what must be
 * ordered; names that end in _ are private.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_DOORBELL_H
#define GPUWIRE_DETAIL_VERBS_DOORBELL_H

/* Stores one word of the doorbell record after a release fence. On CPU threads the store releases once more,
 * which is free there, so that a NIC in the process which loads it with acquire order needs no fence. */
GW_FN void gw_dbrec_store_(uint32_t *dbrec, uint32_t word, uint32_t count)
{
#ifdef __CUDACC__
    gw_st_relaxed_u32(&dbrec[word], gw_mlx5_dbrec_be(count));
#else
    gw_st_release_u32(&dbrec[word], gw_mlx5_dbrec_be(count));
#endif
}

/* Rings, after the record. */
GW_HOT_FN void gw_sq_register_(const struct gw_sq_ *q, uint64_t next)
{
    /* Record before register: a NIC that was rung reads the record once, and must not find the old count
     * there. Two stores of ours: a release is enough. On x86 it is none but for the compiler, which must not
     * swap them. The processor makes stores to ordinary memory visible in the order of the program. A record
     * is ordinary memory, and so is the register of a NIC inside the process. Only a register that is mapped
     * write-combining may be written before a record, and stay in its buffer for long. */
    gw_fence_release();
    if (q->flags & GW_DB_IO_) gw_mmio_flush();
    gw_mmio_st64(q->db, gw_mlx5_sq_db_be((uint32_t)next, q->sq.qpn));
    if (q->flags & GW_DB_IO_) gw_mmio_flush();
}

/* Tells the NIC about everything up to `next`, after a release fence that covers those WQEs. */
GW_HOT_FN void gw_sq_doorbell_(const struct gw_sq_ *q, uint64_t next)
{
    gw_dbrec_store_(q->dbrec, GW_MLX5_DBREC_SEND, (uint32_t)next);
    gw_sq_register_(q, next);
}

/* With one owner: nothing to agree on. */
GW_HOT_FN void gw_sq_ring_alone_(const struct gw_sq_ *q, uint64_t next)
{
    /* WQEs before the record. A release is enough. They are our own stores, or happened before our call (a
     * barrier). There are no other posters, whose records we would have to acquire. */
    gw_fence_release();
    gw_sq_doorbell_(q, next);
    if (q->host) gw_cpu_rang_(q->host);
}

#endif
