/* SPDX-License-Identifier: Apache-2.0 */
/* CPU threads that ring, and that wait for a completion queue. They help a NIC inside the process along, and
 * sleep until the queue has an event for them. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>

#include "src/verbs/impl.h"
#include "src/trace/trace.h"

int gw_channel_make(struct gw_device *dev, struct ibv_comp_channel **out)
{
    struct ibv_comp_channel *c = ibv_create_comp_channel(dev->ctx);
    int flags;

    *out = c;
    if (!c) return gw_error_errno(-errno, "%s: cannot make a completion channel", dev->info.name);
    flags = fcntl(c->fd, F_GETFL);
    if (flags >= 0 && !fcntl(c->fd, F_SETFL, flags | O_NONBLOCK)) return 0;
    return gw_error_errno(-errno, "%s: completion channel", dev->info.name);
}

static bool verbs_sleep_ready(const struct gw_cq *cq)
{
    return gw_cq_ready_(cq->handle, gw_ld_relaxed_u32_gpu(&cq->handle->ci));
}

/* Either the NIC has to be told of the ring (gw_device_ops.ring_through), or the proxy thread. */
void gw_cpu_rang_(struct gw_qp *qp)
{
    struct ibv_send_wr *bad;

    GW_TRACE(verbs, ring, qp->sq.qpn);
    if (qp->tell)
        (void)ibv_post_send(qp->tell, NULL, &bad);
    else
        gw_proxy_rang(qp->dev);
}

void gw_cpu_nudge_(struct gw_cq *cq)
{
    gw_device_progress(cq->dev);
}

void gw_cq_leave(struct gw_cq *cq)
{
    cq->dev->ops->leave(cq->dev);
}

/* One sleep: 1 when the CQ is not empty, 0 after any wake-up or the deadline, negative to give up. */
int gw_cpu_sleep_(struct gw_cq *cq, uint64_t deadline_ns, const uint32_t *stop, int stop_fd)
{
    int fds[3] = {cq->event_fd, stop_fd, cq->alarm_fd};
    int64_t woken;

    if (cq->event_fd < 0) {
        sched_yield();
        return verbs_sleep_ready(cq);
    }
    cq->ops->cq_arm(cq);
    if (verbs_sleep_ready(cq)) return 1;
    gw_cq_leave(cq);
    if (verbs_sleep_ready(cq)) return 1;
    if (stop && gw_ld_relaxed_u32(stop)) return -ECANCELED;
    woken = gw_wait_fds(fds, 3, deadline_ns);
    if (woken == -EINTR) return 0;
    if (woken < 0) return (int)woken;
    if (woken & 1) cq->ops->cq_event(cq);
    return woken & 2 ? -ECANCELED : woken & 4 && !verbs_sleep_ready(cq) ? -EIO : 0;
}

int gw_cq_wait(struct gw_cq *cq, uint64_t deadline_ns, const uint32_t *stop, int stop_fd)
{
    if (gw_exec_kind(cq->dev->exec) != GW_EXEC_CPU)
        return gw_error(-EOPNOTSUPP,
                        "completion queue: its kernels run on a GPU, the CPU cannot wait for it");
    for (;;) {
        int got = verbs_sleep_ready(cq);

        if (got) return got;
        if (cq->event_fd < 0) return -EAGAIN;
        if (stop && gw_ld_relaxed_u32(stop)) return -ECANCELED;
        if (gw_ld_relaxed_u32(&cq->handle->dead)) return -EIO;
        if (gw_clock_ns() >= deadline_ns) return gw_expired_(deadline_ns);
        got = gw_cpu_sleep_(cq, deadline_ns, stop, stop_fd);
        if (got) return got;
    }
}
