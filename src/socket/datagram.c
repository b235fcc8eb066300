/* SPDX-License-Identifier: Apache-2.0 */
/* Datagram sockets over RDMA: the ends of a set, made once, and given to sockets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/socket/datagram.h"

#define MIN_UNDER_WAY 4u    /* receives and sends under way, … */
#define MAX_UNDER_WAY 1024u /* … and at most */

static uint32_t datagram_between(uint32_t n)
{
    return n < MIN_UNDER_WAY ? MIN_UNDER_WAY : n > MAX_UNDER_WAY ? MAX_UNDER_WAY : n;
}

/* A device of RoCE has an IP address for its GID: IPv4's last four bytes, or all sixteen of IPv6's. */
static void datagram_address_of(const uint8_t gid[16], struct gw_datagram_addr *a)
{
    static const uint8_t four[12] = {[10] = 0xff, [11] = 0xff};

    memset(a, 0, sizeof(*a));
    a->w[0] = memcmp(gid, four, sizeof(four)) ? 6 : 4;
    memcpy(&a->w[1], a->w[0] == 4 ? gid + 12 : gid, a->w[0] == 4 ? 4 : 16);
}

int gw_datagram_create(struct gw_sockets *set)
{
    struct gw_sockets_attr *a = &set->attr;
    struct gw_datagrams *datagrams;

    if (!a->datagrams) return 0;
    if (!set->dev || a->rdma != GW_RDMA_ONLY)
        return gw_error(-EINVAL,
                        "sockets: datagrams over RDMA need a set with a device, made for GW_RDMA_ONLY");
    if (a->datagrams > a->count)
        return gw_error(-EINVAL, "sockets: %u may have datagrams, of %u", a->datagrams, a->count);
    datagrams = set->datagrams = calloc(1, sizeof(*datagrams));
    if (datagrams) datagrams->epoll = -1;
    if (datagrams) datagrams->end = calloc(a->datagrams, sizeof(*datagrams->end));
    if (!datagrams || !datagrams->end) return gw_error_errno(-ENOMEM, "sockets: datagrams");
    for (uint32_t i = 0; i < a->datagrams; i++) datagrams->end[i].fd = -1;
    gw_device_query(set->dev, &datagrams->info);
    if (datagrams->info.lid)
        return gw_error(-EOPNOTSUPP,
                        "%s: datagrams over RDMA need RoCE, where a peer's GID is its IP address",
                        datagrams->info.name);
    datagram_address_of(datagrams->info.gid, &datagrams->self);
    /* A peer may send as much as goes through the wire: a receive that is too short would end the queue pair.
     */
    datagrams->place = (GW_DATAGRAM_LEAD_ + GW_GRH + datagrams->info.mtu + 63) & ~63u;
    datagrams->most = datagrams->info.mtu < GW_DATAGRAM_MESSAGE ? datagrams->info.mtu : GW_DATAGRAM_MESSAGE;
    datagrams->recvs = datagram_between(a->rbuf / datagrams->place);
    datagrams->sends = datagram_between(a->wbuf / GW_DATAGRAM_MESSAGE);
    return 0;
}

size_t gw_datagram_buffers(const struct gw_sockets *set)
{
    const struct gw_datagrams *datagrams = set->datagrams;

    return (size_t)datagrams->recvs * datagrams->place + (size_t)datagrams->sends * GW_DATAGRAM_MESSAGE;
}

/* Its queues. Send queues are rounded up, and a datagram takes two places of them. */
static int make_end(struct gw_sockets *set, struct datagram_end *e)
{
    struct gw_datagrams *datagrams = set->datagrams;
    struct gw_cq_attr ca = {.cqe = 4 * datagrams->sends,
                            .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP,
                            .qps = 1,
                            .post_mode = set->attr.post_mode};
    struct gw_qp_attr qa = {.max_send_wr = datagrams->sends,
                            .max_recv_wr = datagrams->recvs,
                            .post_mode = set->attr.post_mode,
                            .type = GW_QP_UD};
    int err = gw_cq_create(set->dev, &ca, &e->send_cq);

    ca.cqe = 2 * datagrams->recvs;
    if (!err) err = gw_cq_create(set->dev, &ca, &e->recv_cq);
    qa.send_cq = e->send_cq;
    qa.recv_cq = e->recv_cq;
    return err ? err : gw_qp_create(set->pd, &qa, &e->qp);
}

int gw_datagram_make(struct gw_sockets *set, struct gw_datagram_end_ *kernels,
                     struct gw_datagram_shared_ *shared, struct gw_datagram_shared_ *shared_host, size_t at)
{
    struct gw_datagrams *datagrams = set->datagrams;
    int err = gw_datagram_post_create(set);

    datagrams->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!err && datagrams->epoll < 0) err = gw_error_errno(-errno, "sockets: datagrams");
    for (uint32_t i = 0; !err && i < set->attr.datagrams; i++, at += gw_datagram_buffers(set)) {
        struct datagram_end *e = &datagrams->end[i];
        struct gw_datagram_end_ k = {
            .shared = shared + i,
            .rbuf = (uint8_t *)set->bytes.dev + at,
            .wbuf = (uint8_t *)set->bytes.dev + at + (size_t)datagrams->recvs * datagrams->place,
            .rbuf_addr = set->mr->addr + at,
            .wbuf_addr = set->mr->addr + at + (uint64_t)datagrams->recvs * datagrams->place,
            .lkey = set->mr->lkey,
            .recvs = datagrams->recvs,
            .sends = datagrams->sends,
            .place = datagrams->place,
            .most = datagrams->most};

        e->shared = shared_host + i;
        err = make_end(set, e);
        if (err) break;
        k.qp = gw_qp_handle(e->qp);
        k.send_cq = gw_cq_handle(e->send_cq);
        k.recv_cq = gw_cq_handle(e->recv_cq);
        err = gw_copy_in(set->exec, kernels + i, &k, sizeof(k));
    }
    return err;
}

void gw_datagram_destroy(struct gw_sockets *set)
{
    struct gw_datagrams *datagrams = set->datagrams;

    if (!datagrams) return;
    for (uint32_t i = 0; datagrams->end && i < set->attr.datagrams; i++) {
        struct datagram_end *e = &datagrams->end[i];

        if (e->fd >= 0) close(e->fd);
        gw_qp_destroy(e->qp);
        if (e->send_cq) gw_cq_destroy(e->send_cq);
        if (e->recv_cq) gw_cq_destroy(e->recv_cq);
    }
    gw_datagram_hosts_destroy(datagrams);
    gw_datagram_post_destroy(set);
    if (datagrams->epoll >= 0) close(datagrams->epoll);
    free(datagrams->end);
    free(datagrams);
    set->datagrams = NULL;
}

/* ---- the device's removal ----------------------------------------------------------------------------- */

/* Datagrams need no rdma_cm. But it tells of a device's removal to programs that have an id at one of its
 * addresses. */
int gw_datagram_watch(struct gw_sockets *set)
{
    struct gw_datagrams *datagrams = set->datagrams;
    struct sockaddr_storage sa;

    (void)gw_datagram_addr_tell(&datagrams->self, &sa);
    if (rdma_create_id(set->channel, &datagrams->id, NULL, RDMA_PS_UDP) ||
        rdma_bind_addr(datagrams->id, (struct sockaddr *)&sa))
        return gw_error_errno(-errno, "%s: rdma_cm, at the device's address", datagrams->info.name);
    return 0;
}

void gw_datagram_unwatch(struct gw_sockets *set)
{
    if (set->datagrams && set->datagrams->id) rdma_destroy_id(set->datagrams->id);
    if (set->datagrams) set->datagrams->id = NULL;
}

/* Arrived datagrams stay; then kernels see that their receives are flushed. */
void gw_datagram_removed(struct gw_sockets *set)
{
    gw_datagram_unwatch(set);
    set->datagrams->removed = true;
    for (uint32_t i = 0; i < set->attr.datagrams; i++)
        if (set->datagrams->end[i].owner) gw_qp_abort(set->datagrams->end[i].qp);
}

/* ---- a socket's --------------------------------------------------------------------------------------- */

static struct datagram_end *free_end(struct gw_sockets *set)
{
    for (uint32_t i = 0; i < set->attr.datagrams; i++)
        if (!set->datagrams->end[i].owner && !set->datagrams->end[i].broken) return &set->datagrams->end[i];
    return NULL;
}

int gw_datagram_open(struct gw_sockets *set, struct sock *k, int domain)
{
    struct gw_datagram_addr any = {{domain == AF_INET ? 4 : 6, 0, 0}};
    struct epoll_event ev = {.events = EPOLLIN};
    struct datagram_end *e;
    int err = 0;

    if (!set->datagrams) return -ESOCKTNOSUPPORT;
    if (set->datagrams->self.w[0] != any.w[0]) return -EAFNOSUPPORT;
    if (set->datagrams->removed) return -ENETDOWN;
    e = free_end(set);
    if (!e) return -EMFILE;
    e->fd = socket(domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ev.data.ptr = e;
    if (e->fd < 0 || epoll_ctl(set->datagrams->epoll, EPOLL_CTL_ADD, e->fd, &ev)) err = -errno;
    if (!err) err = gw_qp_activate(e->qp, GW_DATAGRAM_QKEY);
    e->owner = k;
    k->datagram = e;
    if (err) {
        gw_datagram_close(set, k);
        return err;
    }
    memset(e->shared->peer, 0, sizeof(e->shared->peer)); /* no kernel looks: the socket is not open yet */
    e->shared->dropped = e->victim = 0;
    gw_st_relaxed_u32(&k->info->datagram, (uint32_t)(e - set->datagrams->end));
    gw_st_relaxed_u32(&k->info->kind, GW_SOCK_DATAGRAM_);
    k->info->local.len = gw_datagram_addr_tell(&any, k->info->local.bytes);
    return 0;
}

void gw_datagram_close(struct gw_sockets *set, struct sock *k)
{
    struct datagram_end *e = k->datagram;

    (void)set;
    if (!e) return;
    if (e->fd >= 0) close(e->fd); /* and out of the epoll set */
    e->fd = -1;
    e->broken = gw_qp_reset(e->qp, GW_RESET_QUIET, 0) != 0;
    e->owner = NULL;
    k->datagram = NULL;
}
