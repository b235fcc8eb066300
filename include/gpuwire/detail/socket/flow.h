/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow.h: what channels and sockets have in common: a reliable queue pair whose messages are writes with
 * an immediate, and threads that take turns at it. Included by channel.h and socket.h; names that end in _
 * are private.
 *
 * Receivers that wait for data and senders that wait for credits both take from the receive CQ. The flow's
 * lock makes the takers follow one another, so that immediates are understood in the order in which they
 * came. The send CQ is the fast calls' (verbs_tx.h) and is shared by all flows of a set.
 */
#ifndef GPUWIRE_DETAIL_SOCKET_FLOW_H
#define GPUWIRE_DETAIL_SOCKET_FLOW_H

#include <gpuwire/group.h>
#include <gpuwire/detail/exec/turn.h>
#include <gpuwire/verbs_device.h>

struct gw_flow_ {
    struct gw_qp_handle *qp;
    struct gw_cq_handle *cq; /* of receives */
    uint64_t keepalive_ns;   /* who waits, or would, asks so often whether the peer is there; 0: never */
    uint64_t give_up_ns; /* … and for how long it goes without an answer; 0: for as long as the NIC tries */
    uint64_t ask_ns;     /* when it is asked next; 0: that has not been said yet */
    uint64_t asked, since; /* ticket of the question that is unanswered, 0: none; and when it was posted */
    uint32_t asking;       /* of the two fields before */
    uint32_t lock;         /* of the fields below, and of the takers' own state */
    uint32_t unposted;     /* receives that have completed and were not posted again */
    uint32_t error;        /* errno of the first failure; 0: none */
    uint32_t brief;        /* CPU threads: the last wait that slept was over soon */
};

/* Messages taken at a time; on a GPU, whose stack is small, one, since there is rarely more than one. */
#ifdef __CUDACC__
enum { GW_FLOW_TAKE_ = 1 };
#else
enum { GW_FLOW_TAKE_ = 8 };
#endif
enum { GW_FLOW_NAP_NS_ = 10000000, GW_FLOW_SPIN_NS_ = 15000, GW_FLOW_BRIEF_NS_ = 100000 };

/* An arrived message: an immediate, and how many bytes the write had. */
struct gw_flow_msg_ {
    uint32_t imm, bytes;
};

/* ---- receiving ---------------------------------------------------------------------------------------- */

/* 0, or why the flow is unusable. Acquire, if it is: what was understood before it failed can be seen. */
GW_FN int gw_flow_error_(const struct gw_flow_ *l)
{
    return gw_ld_relaxed_u32_gpu(&l->error) ? -(int)gw_ld_acquire_u32_gpu(&l->error) : 0;
}

GW_FN void gw_flow_fail_(struct gw_flow_ *l, int err)
{
    gw_cas_release_u32_gpu(&l->error, 0, (uint32_t)-err); /* release: as above */
}

/* A look without the lock: at which completion, and the last 8 bytes of that. */
struct gw_flow_seen_ {
    struct gw_cq_handle *cq;
    struct gw_qp_handle *qp;
    const struct gw_mlx5_cqe *entry;
    uint64_t tail;
    uint32_t ci, cqes, qpn;
};

#ifdef __CUDACC__
/*
 * Where to look. Ask for everything else between this and gw_flow_there_. It then has a microsecond or two to
 * arrive. A load that waits for another takes another quarter of a microsecond.
 */
GW_FN void gw_flow_at_(const struct gw_flow_ *l, struct gw_flow_seen_ *seen)
{
    seen->cq = l->cq;
    seen->qp = l->qp;
    seen->ci = gw_ld_relaxed_u32_gpu(&seen->cq->ci);
    seen->cqes = seen->cq->cqes;
    seen->qpn = seen->qp->sq.qpn;
    seen->entry = gw_cq_entry_(seen->cq, seen->ci);
}

/* Has anything arrived? Anybody, at any time: most looks find nothing, and take no lock for it. */
GW_FN int gw_flow_there_(struct gw_flow_seen_ *seen)
{
    /* Acquire: the owner byte, which is the last, before the entry's other bytes and the payload. */
    seen->tail = gw_ld_acquire_u64(&seen->entry->wqe_opcode_qpn_be);
    return gw_mlx5_cqe_ready((uint8_t)(seen->tail >> 56), seen->ci, seen->cqes);
}

/*
 * Takes a completion of the usual kind, a good one of a write with an immediate. 0: it is of another kind, or
 * not there. The host's memory is a microsecond or two away, so only the needed part of the entry is read:
 * the tail, which was seen before, and the 16 bytes that name the message. Under the flow's lock. It orders
 * these reads before the thread that posts the receive again, and so before the NIC writes there again. The
 * CQ's record waits for that, too: gw_flow_record_.
 */
GW_FN int gw_flow_take_one_(struct gw_flow_ *l, struct gw_flow_seen_ *seen, struct gw_flow_msg_ *msg)
{
    uint32_t ci = gw_ld_relaxed_u32_gpu(&seen->cq->ci);
    uint64_t rq_ci = gw_ld_relaxed_u64_gpu(&seen->qp->rq_ci), lo, hi;

    if (!gw_mlx5_cqe_ready((uint8_t)(seen->tail >> 56), seen->ci, seen->cqes)) return 0;
    gw_ld_relaxed_2u64(&seen->entry->srqn_uidx_be, &lo, &hi);
    if (ci != seen->ci) { /* another thread has taken it by now */
        gw_flow_at_(l, seen);
        if (!gw_flow_there_(seen)) return 0;
        gw_ld_relaxed_2u64(&seen->entry->srqn_uidx_be, &lo, &hi);
    }
    if (seen->tail >> 60 != GW_MLX5_CQE_RESP_WR_IMM ||
        (gw_be32((uint32_t)seen->tail) & 0xffffff) != seen->qpn)
        return 0;
    gw_st_relaxed_u32_gpu(&seen->cq->ci, seen->ci + 1);
    gw_st_relaxed_u64_gpu(&seen->qp->rq_ci, rq_ci + 1);
    msg->imm = gw_be32((uint32_t)(lo >> 32));
    msg->bytes = gw_be32((uint32_t)(hi >> 32));
    return 1;
}

/* Tells the NIC how far the CQ has been taken. */
GW_FN void gw_flow_record_(struct gw_flow_ *l)
{
    gw_cq_taken_(l->cq, gw_ld_relaxed_u32_gpu(&l->cq->ci), 0);
}
#else
/* On CPU threads gw_poll_cq does all that, and drives a NIC in the process besides. */
GW_FN void gw_flow_at_(const struct gw_flow_ *l, struct gw_flow_seen_ *seen)
{
    (void)l;
    (void)seen;
}

GW_FN int gw_flow_there_(struct gw_flow_seen_ *seen)
{
    (void)seen;
    return 1;
}

GW_FN int gw_flow_take_one_(struct gw_flow_ *l, struct gw_flow_seen_ *seen, struct gw_flow_msg_ *msg)
{
    (void)l;
    (void)seen;
    (void)msg;
    return 0;
}

GW_FN void gw_flow_record_(struct gw_flow_ *l)
{
    (void)l;
}
#endif

/* Posts the receives again that have completed. It is the caller's affair that the peer never meets an empty
 * queue. Under the flow's lock. */
GW_FN void gw_flow_repost_(struct gw_flow_ *l)
{
    if (!l->unposted) return;
    gw_flow_record_(l);
    if (gw_recv_empty(l->qp, l->unposted, 0) == 0) l->unposted = 0;
}

/*
 * Takes up to GW_FLOW_TAKE_ messages that have arrived, and returns how many. It sets *failed to the error
 * after them, for gw_flow_fail_ once they have been understood. The receives that have completed are added to
 * *unposted, which the caller keeps in l->unposted. The call of gw_flow_repost_ is left to the caller. Under
 * the flow's lock.
 */
GW_FN uint32_t gw_flow_take_(struct gw_flow_ *l, struct gw_flow_seen_ *seen, uint32_t *unposted,
                             struct gw_flow_msg_ msg[GW_FLOW_TAKE_], int *failed)
{
    struct ibv_wc wc[GW_FLOW_TAKE_];
    uint32_t got = 0;
    int n, i;

    if (gw_flow_take_one_(l, seen, msg)) {
        *unposted += 1;
        return 1;
    }
    n = gw_poll_cq(l->cq, GW_FLOW_TAKE_, wc);

    for (i = 0; i < n && !*failed; i++) {
        if (wc[i].status != IBV_WC_SUCCESS) {
            *failed = -ECONNRESET;
        } else if (wc[i].opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
            *failed = -EPROTO; /* a send, into a receive that has no buffer */
        } else {
            msg[got].imm = gw_wc_imm(&wc[i]);
            msg[got++].bytes = wc[i].byte_len;
        }
    }
    *unposted = *failed ? 0 : *unposted + (uint32_t)n; /* a queue pair that has failed only flushes them */
    return got;
}

/* ---- sending ------------------------------------------------------------------------------------------ */

/* The result of a post through a view, as the flow's callers know it. */
GW_FN int gw_flow_posted_(struct gw_flow_ *l, int err)
{
    if (err != -EIO) return err;
    gw_flow_fail_(l, -ECONNRESET);
    return -ECONNRESET;
}

/* Posts one operation. 0, -EAGAIN: the queue is full; -ECONNRESET: the queue pair has failed; -ENOTCONN. */
GW_FN int gw_flow_post_(struct gw_flow_ *l, struct gw_op op, uint32_t flags, uint64_t *ticket)
{
    struct gw_tx tx;
    int err = gw_tx_open(&tx, l->qp);

    if (!err) err = gw_tx_post(&tx, op, flags, ticket);
    return gw_flow_posted_(l, err);
}

/* ---- waiting ------------------------------------------------------------------------------------------ */

struct gw_flow_wait_ {
    uint64_t start, ask; /* ask: as the flow's ask_ns at some time */
    uint32_t round;
};

/* A wait that begins with its first pause: what is there already costs no look at the clock. */
GW_FN struct gw_flow_wait_ gw_flow_wait_(void)
{
    struct gw_flow_wait_ w = {0, 0, 0};

    return w;
}

/* Has the question that was posted last been answered? */
GW_FN int gw_flow_answered_(struct gw_flow_ *l)
{
    struct gw_tx tx;

    if (gw_tx_open(&tx, l->qp)) return 0;
    while (!gw_tx_good_(&tx, l->asked) && gw_cq_retire_(tx.cq)) continue;
    return gw_tx_good_(&tx, l->asked);
}

/* Asks the peer's NIC for a sign of life: an empty write, which it answers without its program. Whose turn it
 * is. */
GW_FN void gw_flow_ask_(struct gw_flow_ *l, uint64_t now)
{
    uint64_t every = gw_ld_relaxed_u64_gpu(&l->keepalive_ns), limit = gw_ld_relaxed_u64_gpu(&l->give_up_ns),
             next = every ? now + every : UINT64_MAX;

    if (l->ask_ns && every) {
        if (l->asked && gw_flow_answered_(l)) l->asked = 0;
        if (l->asked && limit && now - l->since >= limit) gw_flow_fail_(l, -ETIMEDOUT);
        if (!l->asked && !gw_flow_post_(l, gw_put_op(0, 0, 0, 0, 0), GW_SIGNALED, &l->asked)) l->since = now;
        if (l->asked && limit && next > l->since + limit) next = l->since + limit;
    }
    gw_st_relaxed_u64_gpu(&l->ask_ns, next);
}

/* It is time to ask, or was: the time is the flow's, not that of one wait, so that short waits add up. */
GW_FN uint64_t gw_flow_tend_(struct gw_flow_ *l, uint64_t now)
{
    if (now >= gw_ld_relaxed_u64_gpu(&l->ask_ns) && gw_turn_try_(&l->asking)) {
        if (now >= l->ask_ns) gw_flow_ask_(l, now);
        gw_turn_leave_(&l->asking);
    }
    return gw_ld_relaxed_u64_gpu(&l->ask_ns);
}

/*
 * Between two looks. 0: look again; else the deadline has passed. Every keepalive_ns it asks the peer's NIC.
 * If that is gone the queue pair fails, and its requests are flushed, which the next look sees. The awaited
 * request will complete in cq.
 */
GW_FN int gw_flow_pause_on_(struct gw_flow_ *l, struct gw_flow_wait_ *w, struct gw_cq_handle *cq,
                            uint64_t deadline_ns)
{
    uint64_t now = gw_clock_ns();

    if (!w->start) {
        w->start = now;
        w->ask = gw_ld_relaxed_u64_gpu(&l->keepalive_ns) ? gw_ld_relaxed_u64_gpu(&l->ask_ns) : UINT64_MAX;
    }
    if (now >= w->ask) w->ask = gw_flow_tend_(l, now);
    if (now >= deadline_ns) return gw_expired_(deadline_ns);
    (void)cq; /* a GPU's code does not use it */
    if (!GW_CPU_HOST_(cq)) {
        gw_pause(w->round++);
        return 0;
    }
    /* A CPU thread looks for 15 us and sleeps then: while others want the processor, to spin on or to give it
     * up takes milliseconds. But while such sleeps turn out to be short it looks for as long as they would
     * take. */
    if (now - w->start < (gw_ld_relaxed_u32_gpu(&l->brief) ? GW_FLOW_BRIEF_NS_ : GW_FLOW_SPIN_NS_)) {
        gw_pause(0);
        return 0;
    }
    /* Not for long: a thread that uses the flow in the other direction may take the completion that this one
     * waits for. */
    if (deadline_ns - now > GW_FLOW_NAP_NS_) deadline_ns = now + GW_FLOW_NAP_NS_;
    (void)gw_cpu_sleep_(GW_CPU_HOST_(cq), deadline_ns, NULL, -1);
    gw_st_relaxed_u32_gpu(&l->brief, gw_clock_ns() - w->start < GW_FLOW_BRIEF_NS_);
    return 0;
}

/* The same, for a message. */
GW_FN int gw_flow_pause_(struct gw_flow_ *l, struct gw_flow_wait_ *w, uint64_t deadline_ns)
{
    return gw_flow_pause_on_(l, w, l->cq, deadline_ns);
}

#endif
