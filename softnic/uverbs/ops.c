/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting and polling make no system call, so the NIC would not know that anybody waits. These wrap libmlx5's
 * own entry points and let the calling thread do the NIC's work itself. A thread that posts to a peer on the
 * same host completes it without any other thread.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "softnic/base/clock.h"
#include "softnic/runtime/process.h"
#include "softnic/uverbs/object.h"
#include "softnic/uverbs/uverbs.h"

/* All contexts of one libmlx5 have the same entry points. */
static struct {
    int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
    int (*post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
    int (*post_srq_recv)(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **);
    int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
    int (*req_notify_cq)(struct ibv_cq *, int);
} real;

unsigned uv_wrapped;

const void *uv_real_ops(void)
{
    return (const void *)(uintptr_t)real.poll_cq;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct sn_nic *nic = uv_driven(qp->context);
    if (!nic) {
        *bad = wr;
        return EIO;
    }
    int err = real.post_send(qp, wr, bad);
    if (err) sn_qp_post_refused(nic, qp->qp_num);
    sn_process_nic_posted(nic);
    return err;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    if (!uv_driven(qp->context)) {
        *bad = wr;
        return EIO;
    }
    /* Nothing to do: a message that finds no receive is tried again by its sender. */
    return real.post_recv(qp, wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    if (!uv_driven(srq->context)) {
        *bad = wr;
        return EIO;
    }
    return real.post_srq_recv(srq, wr, bad);
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
    struct sn_nic *nic = uv_driven(cq->context);
    if (!nic) return -EIO;
    int n = real.poll_cq(cq, room, wc);
    if (n == room || n < 0) return n;
    sn_process_nic_drive(nic);
    return n ? n : real.poll_cq(cq, room, wc);
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
    struct sn_nic *nic = uv_driven(cq->context);
    if (!nic) return EIO;
    int err = real.req_notify_cq(cq, solicited);
    uv_streams_flush();
    sn_process_nic_drive(nic);
    sn_process_nic_kick(nic); /* this thread may be about to sleep until the event */
    return err;
}

/* libmlx5 would read a register of the device. The NIC's time stamps are this clock's. */
static int query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values)
{
    uint32_t asked = values->comp_mask;

    if (asked & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK) return EINVAL;
    if (!uv_driven(ctx)) return EIO;
    if (asked) {
        /* A count of cycles, as libmlx5 gives it: not seconds and nanoseconds. */
        values->raw_clock.tv_sec = 0;
        values->raw_clock.tv_nsec = (long)sn_now_ns();
    }
    return 0;
}

/* A second copy of libmlx5 has entry points of its own. */
static void name_foreign_context(void)
{
    static int said;

    if (__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED)) return;
    fprintf(stderr,
            "gpuwire: this process has a second libmlx5: for its contexts the NIC's own thread does all "
            "of the work, so each request takes longer; have the program load one of them only\n");
}

void uv_wrap_context(struct ibv_context *ctx)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct ibv_context_ops *ops = &ctx->ops;
    bool foreign = false;

    pthread_mutex_lock(&lock);
#define WRAP(name)                                                                                           \
    do {                                                                                                     \
        if (!real.name) real.name = ops->name;                                                               \
        if (real.name == ops->name) ops->name = name;                                                        \
        if (name != ops->name) foreign = true;                                                               \
    } while (0)
    WRAP(post_send);
    WRAP(post_recv);
    WRAP(post_srq_recv);
    WRAP(req_notify_cq);
    WRAP(poll_cq);
#undef WRAP
    struct verbs_context *vctx = verbs_get_ctx_op(ctx, query_rt_values);
    if (vctx) vctx->query_rt_values = query_rt_values;
    __atomic_fetch_add(&uv_wrapped, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    if (foreign) name_foreign_context();
}
