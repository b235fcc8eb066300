/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU threads that wait for a completion queue: they help a NIC inside the process along, and sleep on the
 * completion channel.
 *
 * The CQ's ring is polled by us and not by libmlx5 (mlx5dv_init_obj has told it so), so its arm sequence
 * number and consumer index are ours too: ibv_req_notify_cq would arm with libmlx5's, which never move.
 */
#include <errno.h>
#include <sched.h>

#include "src/verbs/impl.h"

static bool ready(const struct gw_cq *cq)
{
    return gw_cq_ready_(cq->handle, gw_ld_relaxed_u32_gpu(&cq->handle->ci));
}

void gw_cpu_nudge_(struct gw_cq *cq)
{
    gw_device_progress(cq->dev);
}

/* Asks the NIC for an event at the next completion beyond the consumer index. Once is enough until the event
 * has come. */
static void arm(struct gw_cq *cq)
{
    uint32_t word;

    pthread_mutex_lock(&cq->sleep);
    if (!cq->armed) {
        word = gw_mlx5_cq_arm_be(cq->arm_sn, 0, gw_ld_relaxed_u32_gpu(&cq->handle->ci));
        gw_st_relaxed_u32(&cq->copy.dbrec[GW_MLX5_DBREC_CQ_ARM], word);
        gw_fence_release(); /* record before register: the NIC reads the record when it is rung */
        gw_mmio_st64((uint8_t *)cq->dv.cq_uar + GW_MLX5_UAR_CQ, gw_mlx5_cq_db_be(word, cq->dv.cqn));
        cq->armed = true;
    }
    pthread_mutex_unlock(&cq->sleep);
    /* Out of the write-combining buffer; and armed before the caller looks at the ring once more, lest both
     * miss a completion. */
    gw_fence_sc();
}

static void take_event(struct gw_cq *cq)
{
    struct ibv_cq *which;
    void *context;

    pthread_mutex_lock(&cq->sleep);
    if (!ibv_get_cq_event(cq->channel, &which, &context)) {
        ibv_ack_cq_events(which, 1);
        cq->arm_sn++; /* tells the NIC's next event from this one */
        cq->armed = false;
    } /* else another thread has taken it */
    pthread_mutex_unlock(&cq->sleep);
}

/*
 * Polls the NIC inside the process once more, and tells it that it is on its own from now on: its thread stays away from
 * what application threads poll, for up to a millisecond. It knows who is about to sleep from ibv_req_notify_cq, of any CQ.
 */
static void take_leave(struct gw_cq *cq)
{
    if (cq->dev->info.soft) (void)ibv_req_notify_cq(cq->dev->nudge, 0);
}

/* One sleep: 1 when the CQ is not empty, 0 after any wake-up or the deadline, negative to give up. */
int gw_cpu_sleep_(struct gw_cq *cq, uint64_t deadline_ns, const uint32_t *stop, int stop_fd)
{
    int fds[2] = {cq->channel ? cq->channel->fd : -1, stop_fd};
    int64_t woken;

    if (!cq->channel) {
        sched_yield();
        return ready(cq);
    }
    arm(cq);
    if (ready(cq)) return 1;
    take_leave(cq);
    if (ready(cq)) return 1;
    if (stop && gw_ld_relaxed_u32(stop)) return -ECANCELED;
    woken = gw_wait_fds(fds, 2, deadline_ns);
    if (woken == -EINTR) return 0;
    if (woken < 0) return (int)woken;
    if (woken & 1) take_event(cq);
    return woken & 2 ? -ECANCELED : 0;
}

int gw_cq_wait(struct gw_cq *cq, uint64_t deadline_ns, const uint32_t *stop, int stop_fd)
{
    if (gw_exec_kind(cq->dev->exec) != GW_EXEC_CPU)
        return gw_error(-EOPNOTSUPP,
                        "completion queue: its kernels run on a GPU, the CPU cannot wait for it");
    for (;;) {
        int got = ready(cq);

        if (got || !cq->channel) return got;
        if (stop && gw_ld_relaxed_u32(stop)) return -ECANCELED;
        if (gw_clock_ns() >= deadline_ns) return 0;
        got = gw_cpu_sleep_(cq, deadline_ns, stop, stop_fd);
        if (got) return got;
    }
}
