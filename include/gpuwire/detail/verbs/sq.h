/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sq.h: what posting knows of a send queue, and what it leaves there for the ringer and the poller. How it is
 * reserved stands in reserve.h, and how it is rung for in ring.h. CPU threads may take turns instead: lock.h.
 * Included by verbs_device.h; names that end in _ are private.
 *
 * The queue, its record and the register are the NIC's too; the handle and the slots are touched by the
 * executor's threads alone. Hence two scopes. Stores that the NIC must see in order are ordered for the
 * system. Words that only threads of the executor share are ordered for the GPU (_gpu: cheaper there, the
 * same on a CPU).
 *
 * A NIC that reads host memory needs this order, and no more:
 *
 *   1. A WQE before the count that covers it. Whenever the NIC has been rung, it reads the record and takes
 *      everything that the record counts.
 *   2. The record before the ring for it. The NIC reads the record once per ring.
 *   3. A ring before the next one of the queue pair, by whichever thread: the NIC may look at its index.
 *
 * The first two are stores by one thread to host memory across the bus, which may arrive in any order. So
 * each needs a release to the system: two for a submit, however many WQEs it has. A WQE whose ring is
 * deferred needs none. The third matters where several threads post, and needs a release to them (ring.h).
 *
 * Indices are 64-bit counts of WQEBBs that never wrap; the NIC sees their low 16 bits.
 */
#include <gpuwire/verbs_device.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_VERBS_SQ_H
#define GPUWIRE_DETAIL_VERBS_SQ_H

/* gw_qp_handle.flags, gw_cq_handle.flags: the values of gw_qp_flags and gw_cq_flags in verbs.h, and some
 * more. */
enum {
    GW_ONE_USER_ = 1,
    GW_SIGNAL_ALL_ = 2,
    GW_LOCK_FREE_ = 4,
    GW_NO_ATOMICS_ = 0x100,
    GW_NO_MASKED_ = 0x200,
    GW_DB_IO_ = 0x400, /* CPU threads ring a device's register, which may be mapped write-combining */
    GW_UD_ = 0x800,
    GW_AH_NUMBER_ = 0x1000, /* the reader of the queue knows address handles by their numbers */
    GW_LOCKED_ = 0x2000,    /* CPU threads post in turn: lock.h */
    GW_LATE_ = 0x4000,      /* fetched data may come later than its completion: flush.h */
};

#ifdef __CUDACC__
/* A GPU never drives a NIC that lives in the process and cannot sleep: its handles have no host side. The
 * compiler knows that, and takes the CPU's steps out of the code. */
#define GW_CPU_HOST_(handle) NULL
GW_FN void gw_cpu_nudge_(struct gw_cq *cq)
{
    (void)cq;
}
GW_FN void gw_cpu_rang_(struct gw_qp *qp)
{
    (void)qp;
}
GW_FN int gw_cpu_sleep_(struct gw_cq *cq, uint64_t deadline_ns, const uint32_t *stop, int stop_fd)
{
    (void)cq, (void)deadline_ns, (void)stop, (void)stop_fd;
    return 0;
}
#else
#define GW_CPU_HOST_(handle) ((handle)->host)
#ifdef __cplusplus
extern "C" {
#endif
GW_API void gw_cpu_nudge_(struct gw_cq *cq);
GW_API void gw_cpu_rang_(struct gw_qp *qp);
GW_API int gw_cpu_sleep_(struct gw_cq *cq, uint64_t deadline_ns, const uint32_t *stop, int stop_fd);
#ifdef __cplusplus
}
#endif
#endif

/* The fields of a handle that posting reads, and never changes. In a local variable they stay in
 * registers. */
struct gw_sq_ {
    struct gw_qp_handle *qp;
    struct gw_mlx5_sq sq;
    uint32_t *dbrec;
    uint64_t *db;
    struct gw_sq_slot *slot;
    struct gw_qp *host;
    uint32_t flags;
    uint32_t sink_lkey;
    uint64_t sink;
};

GW_HOT_FN struct gw_sq_ gw_sq_of_(struct gw_qp_handle *qp)
{
    struct gw_sq_ q;

    q.qp = qp;
    q.sq = qp->sq;
    q.dbrec = qp->dbrec;
    q.db = qp->db;
    q.slot = qp->slot;
    q.host = GW_CPU_HOST_(qp);
    q.flags = qp->flags;
    q.sink_lkey = qp->sink_lkey;
    q.sink = qp->sink;
    return q;
}

/* A READ or an atomic is written: pollers flush before they tell of this queue pair's completions from now
 * on. Relaxed: the ring's fence releases it, and the NIC's completion comes after the ring. */
GW_HOT_FN void gw_sq_fetches_(const struct gw_sq_ *q)
{
    if (q->flags & GW_LATE_) gw_st_relaxed_u32_gpu(&q->qp->fetches, 1);
}

/* ---- slots --------------------------------------------------------------------------------------------- */

/*
 * A slot's second word has the index after its WQE (47 bits), and a bit that says that there is a word. Above
 * them it has how many WQEBBs are ready from here on (0: not said). The bit is needed because a queue pair
 * that has known tickets alone writes no word. Its slots are zeros when 2^47 WQEBBs have been posted. Only
 * the slot of a reservation's first WQE ever says so, after its WQEs have been released to the system. As
 * each slot's index grows from round to round, an old word is never taken for a new one.
 */
#define GW_SLOT_READY_ 48
#define GW_SLOT_SET_   ((uint64_t)1 << (GW_SLOT_READY_ - 1))
#define GW_SLOT_END_   (GW_SLOT_SET_ - 1)

GW_HOT_FN uint64_t gw_sq_slot_word_(uint64_t end)
{
    return (end & GW_SLOT_END_) | GW_SLOT_SET_;
}

GW_HOT_FN void gw_sq_slot_(const struct gw_sq_ *q, uint64_t first, uint32_t bbs, uint64_t wr_id)
{
    gw_st_relaxed_2u64(&q->slot[first & (q->sq.wqebbs - 1)], wr_id, gw_sq_slot_word_(first + bbs));
}

/* Does the word belong to the WQE that begins at `at`, and not to one of an earlier round? */
GW_FN int gw_sq_slot_of_(uint64_t word, uint64_t at)
{
    return word & GW_SLOT_SET_ && ((word - at - 1) & GW_SLOT_END_) < GW_MLX5_MAX_WQEBBS;
}

/* How many WQEBBs the word says are ready from `at` on. */
GW_FN uint32_t gw_sq_ready_(uint64_t word, uint64_t at)
{
    return gw_sq_slot_of_(word, at) ? (uint32_t)(word >> GW_SLOT_READY_) : 0;
}

#endif
