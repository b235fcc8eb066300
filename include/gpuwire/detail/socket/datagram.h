/* SPDX-License-Identifier: Apache-2.0 */
/*
 * datagram.h: datagram sockets over RDMA, as kernels see them: rsocket's datagrams (rsocket_datagram.h).
 * Included by socket.h; names that end in _ are private.
 *
 * An *end* is a UD queue pair with its receives and send buffers, one for each such socket. Kernels post and
 * poll themselves. A thread that looks at the completion queues keeps the next datagram for the receiver
 * whose turn it is. The helper finds out the place of a peer (src/socket/datagram_udp.c), and writes it to a
 * table in host memory. No other writes there. A datagram for a peer that is not in the table yet goes to the
 * helper, and by UDP.
 */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_DATAGRAM_H
#define GPUWIRE_DETAIL_SOCKET_DATAGRAM_H

enum {
    GW_DATAGRAM_PEERS_ = 64, /* places in an end's table */
    GW_DATAGRAM_LEAD_ =
        24, /* in a receive's place, before what the network said, so that messages are aligned */
    GW_DATAGRAM_NAP_ = 10000000, /* ns: another thread may take the completion that a sleeper waits for */
};

/* Where a peer is. seq: odd while it is written; 0: it was never used. */
struct gw_datagram_peer_ {
    uint64_t seq;
    struct gw_datagram_addr addr;
    uint64_t qpn;
    uint64_t ah[sizeof(struct gw_ah_handle) / 8];
    uint64_t pad[3];
} __attribute__((aligned(128)));

/* The helper and kernels tell each other of an end here, in host memory. */
struct gw_datagram_shared_ {
    struct gw_datagram_peer_ peer[GW_DATAGRAM_PEERS_];
    uint32_t dropped;                                              /* by the helper */
    uint8_t out[GW_DATAGRAM_MESSAGE] __attribute__((aligned(64))); /* a datagram for the helper to send */
};

struct gw_datagram_end_ {
    struct gw_qp_handle *qp;
    struct gw_cq_handle *send_cq, *recv_cq;
    struct gw_datagram_shared_ *shared;
    uint8_t *rbuf, *wbuf;
    uint64_t rbuf_addr, wbuf_addr;
    uint32_t lkey, recvs, sends;
    uint32_t place; /* bytes from one receive to the next */
    uint32_t most;  /* bytes of a message, head included */

    uint32_t lock; /* of looking at the completion queues, and of what follows up to `dropped` */
    uint32_t failed;
    uint32_t have, slot;          /* a message that has not been received yet: where, … */
    uint32_t head, bytes;         /* … of its bytes its head, and all; … */
    struct gw_datagram_addr from; /* … and whose it is */
    uint64_t done;                /* sends that have completed */
    uint32_t dropped;
    uint32_t joined;              /* connected: messages of others are dropped, … */
    struct gw_datagram_addr peer; /* … than of this one */

    /* The sender's. */
    uint64_t put;
    struct gw_datagram_addr self; /* what heads say; all 0: not known yet */
    uint32_t shut;                /* enum gw_host_stream_shut_ */
} __attribute__((aligned(64)));

GW_FN struct gw_datagram_end_ *gw_datagram_(struct gw_net *net, int s)
{
    return &net->datagrams[gw_ld_relaxed_u32(&net->info[s].datagram)];
}

/* ---- where peers are ---------------------------------------------------------------------------------- */

GW_FN uint32_t gw_datagram_hash_(const struct gw_datagram_addr *a)
{
    uint64_t h = (a->w[0] ^ (a->w[1] + (a->w[2] << 1))) * 0x9e3779b97f4a7c15u;

    return (uint32_t)(h >> 40) % GW_DATAGRAM_PEERS_;
}

/* Copies what is said of a peer. 0: it is not in the table, or just being written. */
GW_SLOW_FN int gw_datagram_find_(const struct gw_datagram_shared_ *t, const struct gw_datagram_addr *a,
                                 uint32_t *qpn, uint64_t *ah)
{
    uint32_t at = gw_datagram_hash_(a), i, k;
    struct gw_datagram_addr is;
    uint64_t seq;

    for (i = 0; i < GW_DATAGRAM_PEERS_; i++) {
        const struct gw_datagram_peer_ *p = &t->peer[(at + i) % GW_DATAGRAM_PEERS_];

        seq = gw_ld_acquire_u64(&p->seq); /* acquire: what it covers is read after it */
        if (!seq) return 0;
        for (k = 0; k < 3; k++) is.w[k] = gw_ld_relaxed_u64(&p->addr.w[k]);
        if (seq & 1 || !gw_datagram_same(&is, a)) continue;
        *qpn = (uint32_t)gw_ld_relaxed_u64(&p->qpn);
        for (k = 0; k < sizeof(p->ah) / 8; k++) ah[k] = gw_ld_relaxed_u64(&p->ah[k]);
        gw_fence_acquire(); /* all that was read before the second look at seq */
        return gw_ld_relaxed_u64(&p->seq) == seq;
    }
    return 0;
}

/* ---- completions -------------------------------------------------------------------------------------- */

GW_FN int gw_datagram_post_(struct gw_datagram_end_ *e, uint32_t slot)
{
    return gw_recv(e->qp, e->rbuf_addr + (uint64_t)slot * e->place + GW_DATAGRAM_LEAD_, e->lkey,
                   e->place - GW_DATAGRAM_LEAD_, slot);
}

GW_FN uint8_t *gw_datagram_message_(const struct gw_datagram_end_ *e, uint32_t slot)
{
    return e->rbuf + (size_t)slot * e->place + GW_DATAGRAM_LEAD_ + GW_GRH;
}

/* A message has come: keeps it, or drops it. */
GW_FN void gw_datagram_came_(struct gw_datagram_end_ *e, const struct ibv_wc *wc)
{
    uint32_t slot = (uint32_t)wc->wr_id, bytes = wc->byte_len - GW_GRH;
    int head = wc->byte_len < GW_GRH ? -EPROTO
                                     : gw_datagram_head_get(gw_datagram_message_(e, slot), bytes, &e->from);

    if (head < 0 || (e->joined && !gw_datagram_same(&e->from, &e->peer))) {
        gw_st_relaxed_u32_gpu(&e->dropped, e->dropped + 1);
        if (gw_datagram_post_(e, slot)) gw_st_relaxed_u32_gpu(&e->failed, 1);
        return;
    }
    e->slot = slot;
    e->head = (uint32_t)head;
    e->bytes = bytes;
    gw_st_release_u32_gpu(&e->have, 1); /* release: which one it is */
}

/* Takes in what has completed, up to the next message, unless another thread does so. */
GW_SLOW_FN void gw_datagram_look_(struct gw_datagram_end_ *e)
{
    struct ibv_wc wc;

    if (!gw_turn_try_(&e->lock)) return;
    while (gw_poll_cq(e->send_cq, 1, &wc) == 1) {
        if (wc.status != IBV_WC_SUCCESS) gw_st_relaxed_u32_gpu(&e->failed, 1);
        gw_st_release_u64_gpu(&e->done, e->done + 1); /* release: the NIC has read the place */
    }
    while (!gw_ld_acquire_u32_gpu(&e->have) && gw_poll_cq(e->recv_cq, 1, &wc) == 1) {
        if (wc.status == IBV_WC_SUCCESS)
            gw_datagram_came_(e, &wc);
        else
            gw_st_relaxed_u32_gpu(&e->failed, 1);
    }
    gw_turn_leave_(&e->lock);
}

struct gw_datagram_wait_ {
    uint64_t start;
    uint32_t round;
};

/* Between two looks for what comes by that queue. 0: look again; else the deadline has passed. */
GW_FN int gw_datagram_pause_(struct gw_cq_handle *cq, struct gw_datagram_wait_ *w, uint64_t deadline_ns)
{
    uint64_t now = deadline_ns ? gw_clock_ns() : 0, nap = now + GW_DATAGRAM_NAP_;

    if (now >= deadline_ns) return gw_expired_(deadline_ns);
    if (!w->round) w->start = now;
    if (!GW_CPU_HOST_(cq) || now - w->start < GW_WAIT_SPIN_NS_)
        gw_pause(w->round++);
    else
        (void)gw_cpu_sleep_(cq->host, nap < deadline_ns ? nap : deadline_ns, NULL, -1);
    if (!w->round) w->round = 1;
    return 0;
}

/* ---- what can be done now --------------------------------------------------------------------------- */

/* Is there a free place to send from? 1; 0: not yet; or an error. */
GW_FN int gw_datagram_may_send_(const struct gw_sock_ *k, struct gw_datagram_end_ *e)
{
    if (gw_ld_relaxed_u32_gpu(&k->closing)) return -EBADF;
    if (gw_ld_relaxed_u32_gpu(&e->shut) & GW_HOST_STREAM_SHUT_WR_) return -EPIPE;
    if (gw_ld_relaxed_u32_gpu(&e->failed)) return -ECONNRESET;
    /* Acquire: the NIC has read before the place is written again. */
    return gw_ld_relaxed_u64_gpu(&e->put) - gw_ld_acquire_u64_gpu(&e->done) < e->sends;
}

/* Is there a message? 1; 0: not yet. GW_STREAM_END_; or an error. */
GW_FN int64_t gw_datagram_may_recv_(const struct gw_sock_ *k, struct gw_datagram_end_ *e)
{
    if (gw_ld_relaxed_u32_gpu(&k->closing)) return -EBADF;
    if (gw_ld_acquire_u32_gpu(&e->have)) return 1; /* acquire: which one */
    if (gw_ld_relaxed_u32_gpu(&e->shut) & GW_HOST_STREAM_SHUT_RD_) return GW_STREAM_END_;
    return gw_ld_relaxed_u32_gpu(&e->failed) ? -ECONNRESET : 0;
}

/* The message has been read: its place is for the next one. */
GW_FN void gw_datagram_taken_(struct gw_datagram_end_ *e)
{
    if (gw_datagram_post_(e, e->slot)) gw_st_relaxed_u32_gpu(&e->failed, 1);
    gw_st_release_u32_gpu(&e->have, 0); /* release: the next thread that looks writes them again */
}

/* ---- anybody ------------------------------------------------------------------------------------------ */

/* What poll tells. */
GW_FN int gw_datagram_events_(const struct gw_sock_ *k, struct gw_datagram_end_ *e)
{
    uint32_t shut = gw_ld_relaxed_u32_gpu(&e->shut), failed;
    int events = 0;

    gw_datagram_look_(e);
    failed = gw_ld_relaxed_u32_gpu(&e->failed);
    if (gw_datagram_may_recv_(k, e)) events |= POLLIN;
    if (gw_datagram_may_send_(k, e)) events |= POLLOUT;
    if (failed) events |= POLLERR;
    return shut == (GW_HOST_STREAM_SHUT_RD_ | GW_HOST_STREAM_SHUT_WR_) ? events | POLLHUP : events;
}

/* With the sender's turn. */
GW_FN int gw_datagram_shutdown_(struct gw_datagram_end_ *e, int how)
{
    uint32_t shut = e->shut;

    if (how != SHUT_WR) shut |= GW_HOST_STREAM_SHUT_RD_;
    if (how != SHUT_RD) shut |= GW_HOST_STREAM_SHUT_WR_;
    gw_st_relaxed_u32_gpu(&e->shut, shut);
    return 0;
}

/* Before it is closed: until all that was sent has left. */
GW_SLOW_FN int gw_datagram_goodbye_(struct gw_datagram_end_ *e, uint64_t deadline_ns)
{
    struct gw_datagram_wait_ w = {0, 0};
    int err = 0;

    while (!err && e->put != gw_ld_acquire_u64_gpu(&e->done) && !gw_ld_relaxed_u32_gpu(&e->failed)) {
        gw_datagram_look_(e);
        err = gw_datagram_pause_(e->send_cq, &w, deadline_ns);
    }
    return err ? -ETIMEDOUT : 0;
}

/* It is connected, by the call of one thread. Datagrams of other senders that no thread has looked at are
 * dropped then. */
GW_FN void gw_datagram_join_(struct gw_datagram_end_ *e, const struct gw_sock_addr_ *a)
{
    (void)gw_turn_take_(&e->lock, UINT64_MAX); /* held for a moment */
    (void)gw_datagram_addr_of(a->bytes, a->len, &e->peer);
    gw_st_relaxed_u32_gpu(&e->joined, 1);
    gw_turn_leave_(&e->lock);
}

/* The socket is new, and so is its queue pair. */
GW_SLOW_FN void gw_datagram_begin_(struct gw_datagram_end_ *e)
{
    uint32_t i;

    e->failed = e->have = e->dropped = e->joined = e->shut = 0;
    e->put = e->done = 0;
    e->self.w[0] = e->self.w[1] = e->self.w[2] = 0;
    for (i = 0; i < e->recvs; i++)
        if (gw_datagram_post_(e, i)) e->failed = 1;
#ifndef __CUDACC__
    if (e->qp->host) gw_cpu_rang_(e->qp->host); /* a posting proxy that sleeps does not see receives come */
#endif
    gw_st_release_u32_gpu(&e->lock, 0); /* release: as above; the last user left it taken */
}

#endif
