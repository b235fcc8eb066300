/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drops the completions of a queue pair that went back to RESET from a CQ. The NIC writes no more of them.
 * But those that are still unpolled would pass for completions of the queue pair's next life.
 *
 * When no thread polls (or the poller's lock can be taken) they are squeezed out of the ring. Otherwise the
 * poller cannot be stopped. They are made out to belong to no queue pair, and the poller drops such entries.
 * Since it may have read one just before, the caller waits until its consumer index has passed them.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "src/verbs/impl.h"

/* The ring as the CPU sees it. */
static struct gw_mlx5_cqe *entry(const struct gw_cq *cq, uint32_t at)
{
    return cq->ring + (at & (cq->cqes - 1));
}

static bool valid(const struct gw_cq *cq, uint32_t at)
{
    return gw_mlx5_cqe_ready(gw_ld_acquire_u8(&entry(cq, at)->op_own), at, cq->cqes);
}

static bool belongs(const struct gw_mlx5_cqe *cqe, uint32_t qpn)
{
    return (gw_be32(gw_ld_relaxed_u32(&cqe->wqe_opcode_qpn_be)) & 0xffffff) == qpn;
}

static uint32_t cq_clean_end_of(const struct gw_cq *cq, uint32_t ci)
{
    uint32_t n = 0;

    while (n < cq->cqes && valid(cq, ci + n)) n++;
    return ci + n;
}

/* No thread polls: moves the other queue pairs' completions up, from the newest down, and the consumer index
 * with them. */
static int cq_clean_squeeze(struct gw_cq *cq, uint32_t qpn)
{
    struct gw_exec *exec = cq->dev->exec;
    uint32_t ci, at, freed = 0;
    int err = gw_copy_out(exec, &ci, &cq->handle->ci, sizeof(ci));

    if (err) return err;
    for (at = cq_clean_end_of(cq, ci); at-- != ci;) {
        struct gw_mlx5_cqe *from = entry(cq, at), *to = entry(cq, at + freed);
        uint8_t owner = to->op_own & 1;

        if (belongs(from, qpn) || belongs(from, 0)) { /* 0: disowned by an earlier call that no poll ended */
            freed++;
        } else if (freed) {
            /* Pollers look at the owner byte before they take the lock, so it is stored last and in one
             * piece. Its owner bit is that of the lap that its new place is in. */
            memcpy(to, from, offsetof(struct gw_mlx5_cqe, op_own));
            gw_st_release_u8(&to->op_own, (uint8_t)((from->op_own & ~1) | owner));
        }
    }
    if (!freed) return 0;
    ci += freed;
    gw_st_release_u32(&cq->dbrec[GW_MLX5_DBREC_CQ_CI], gw_mlx5_cq_ci_be(ci));
    if (gw_exec_kind(exec) != GW_EXEC_CPU) return gw_copy_in(exec, &cq->handle->ci, &ci, sizeof(ci));
    gw_st_release_u32(&cq->handle->ci, ci);
    return 0;
}

static uint32_t record_ci(const struct gw_cq *cq)
{
    return gw_be32(gw_ld_acquire_u32(&cq->dbrec[GW_MLX5_DBREC_CQ_CI]));
}

/* Must the poller pass this entry before the queue pair starts again? The poller may do so at any time, and
 * the NIC may then write another queue pair's completion there. So the word is exchanged only while it names
 * this queue pair; the NIC writes nothing more that does. An entry of no queue pair counts: an earlier call
 * may have given up waiting for it. */
static bool disown_one(struct gw_mlx5_cqe *cqe, uint32_t qpn)
{
    uint32_t word = gw_ld_relaxed_u32(&cqe->wqe_opcode_qpn_be), owner = gw_be32(word) & 0xffffff;

    if (owner != qpn) return owner == 0;
    return gw_cas_relaxed_u32(&cqe->wqe_opcode_qpn_be, word, 0) == word;
}

static int disown(struct gw_cq *cq, uint32_t qpn, uint64_t deadline_ns)
{
    const struct timespec nap = {.tv_nsec = 20000};
    uint32_t ci = record_ci(cq), end = cq_clean_end_of(cq, ci), at, last = ci;

    for (at = ci; at != end; at++)
        if (disown_one(entry(cq, at), qpn)) last = at + 1;
    /* 24 bits count in the record, and the ring is smaller than half of that. */
    while (((last - record_ci(cq)) & 0xffffff) - 1 < 1u << 23) {
        if (gw_clock_ns() >= deadline_ns)
            return gw_error(
                -ETIMEDOUT,
                "queue pair %06x: its completion queue is not being polled; poll it, or reset with "
                "GW_RESET_QUIET",
                qpn);
        nanosleep(&nap, NULL);
    }
    return 0;
}

int gw_cq_clean(struct gw_cq *cq, uint32_t qpn, bool quiet, uint64_t deadline_ns)
{
    struct gw_cq_handle *h = cq->handle;
    uint32_t round = 0;
    int err;

    if (quiet) return cq_clean_squeeze(cq, qpn);
    if (gw_exec_kind(cq->dev->exec) != GW_EXEC_CPU || h->flags & GW_CQ_ONE_POLLER)
        return disown(cq, qpn, deadline_ns);
    /* Pollers on CPU threads take a lock, so this can too, and be a poller for a moment. */
    while (gw_exch_acquire_u32_gpu(&h->lock, 1)) {
        if (gw_clock_ns() >= deadline_ns)
            return gw_error(-ETIMEDOUT,
                            "queue pair %06x: another thread has been polling its completion queue", qpn);
        gw_pause(round++);
    }
    err = cq_clean_squeeze(cq, qpn);
    gw_st_release_u32_gpu(&h->lock, 0);
    return err;
}
