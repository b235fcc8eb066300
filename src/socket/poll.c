/* SPDX-License-Identifier: Apache-2.0 */
/* How CPU threads that poll many sockets sleep: on the helper's news, and on the completion queues of sockets
 * over RDMA. */
#include <poll.h>
#include <string.h>

#include "src/socket/datagram.h"
#include "src/verbs/impl.h"

#define QUEUES_MAX 256u
#define NAP_NS     10000000u /* another thread may take the event that this one waits for */
#define BLIND_NS   500000u   /* … and so often it looks when it cannot wait for all */

/* The completion queues that a socket's events come to, if it is over RDMA; how many. */
static uint32_t queues_of(struct gw_sockets *set, const struct pollfd *f, struct gw_cq *cq[2])
{
    struct sock *k = f->fd >= 0 && (uint32_t)f->fd < set->attr.count ? &set->sock[f->fd] : NULL;
    uint32_t kind, datagrams;

    if (!k || !set->dev) return 0;
    kind = gw_ld_relaxed_u32(&k->info->kind);
    if (kind != GW_SOCK_STREAM_ && kind != GW_SOCK_DATAGRAM_) return 0;
    datagrams = gw_ld_relaxed_u32(&k->info->datagram);
    cq[0] = kind == GW_SOCK_DATAGRAM_ ? set->datagrams->end[datagrams].recv_cq : k->recv_cq;
    cq[1] = kind == GW_SOCK_DATAGRAM_ ? set->datagrams->end[datagrams].send_cq
                                      : k->send_cq; /* acknowledgements make room */
    return f->events & POLLOUT && cq[1]->event_fd >= 0 ? 2 : 1;
}

void gw_cpu_sock_arm_(struct gw_sockets *set, const struct pollfd *fds, uint32_t n)
{
    struct gw_cq *cq[2], *any = NULL;

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = queues_of(set, &fds[i], cq); j--; any = cq[j]) cq[j]->ops->cq_arm(cq[j]);
    if (any) gw_cq_leave(any);
}

void gw_cpu_sock_nap_(struct gw_sockets *set, const struct pollfd *fds, uint32_t n, uint32_t news,
                      uint64_t deadline_ns)
{
    struct pollfd wait[1 + QUEUES_MAX];
    struct gw_cq *cq[QUEUES_MAX + 2];
    uint64_t now = gw_clock_ns(), nap = NAP_NS;
    uint32_t count = 0;

    for (uint32_t i = 0; i < n && nap == NAP_NS; i++) {
        uint32_t more = queues_of(set, &fds[i], &cq[count]);

        if (count + more > QUEUES_MAX)
            nap = BLIND_NS;
        else
            count += more;
    }
    for (uint32_t i = 0; i < count; i++)
        wait[1 + i] = (struct pollfd){.fd = cq[i]->event_fd, .events = POLLIN};
    if (deadline_ns > now + nap) deadline_ns = now + nap;
    /* Only the helper has news for sockets of the host. A futex wakes everybody who waits. Of an event's
     * descriptor a thread that is fast may take another one's share. */
    if (!count) {
        gw_helper_wait(&set->helper, news, deadline_ns);
        return;
    }
    gw_helper_poll(&set->helper, news, wait, 1 + count, deadline_ns);
    for (uint32_t i = 0; i < count; i++)
        if (wait[1 + i].revents & POLLIN) cq[i]->ops->cq_event(cq[i]);
}
