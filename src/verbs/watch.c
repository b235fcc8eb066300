/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's asynchronous events, which tell of what no completion tells: that the device has died, or a
 * queue. A thread sleeps until there is one. It marks the handles, so that kernels which wait come to an end.
 *
 * An event names a queue, which cannot go while the event is not acknowledged: ibv_destroy_qp waits for that.
 * So who destroys a queue takes it out of the lists first. The lists have a lock of their own, and no thread
 * that holds it waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "src/exec/cpu.h"
#include "src/verbs/impl.h"

struct gw_watch {
    struct gw_device *dev;
    pthread_t thread;
    bool runs;
    int stop_fd;
    pthread_mutex_t lock;
    struct gw_qp *qps;
    struct gw_cq *cqs;
    bool dead;
};

/* ---- marking ------------------------------------------------------------------------------------------- */

static bool verbs_watch_on_gpu(const struct gw_device *dev)
{
    return gw_exec_kind(dev->exec) == GW_EXEC_GPU;
}

/* A kernel of a GPU may write its first error at the same moment: then the words may be of both. */
static void fail_on_gpu(struct gw_qp *qp)
{
    struct gw_exec *exec = qp->dev->exec;
    struct gw_qp_handle *h = qp->handle, fault = {.fault_claim = 1, .fault_status = IBV_WC_FATAL_ERR};
    uint32_t claimed = 0;
    const size_t from = offsetof(struct gw_qp_handle, fault_claim),
                 n = offsetof(struct gw_qp_handle, fault_wr_id) + sizeof(fault.fault_wr_id) - from;

    if (gw_copy_out(exec, &claimed, &h->fault_claim, sizeof(claimed)) || claimed) return;
    if (!gw_copy_in(exec, (uint8_t *)h + from, (uint8_t *)&fault + from, n))
        (void)gw_qp_set_state(qp, GW_QP_FAULTED); /* after the rest, as the poller does */
}

static void fail_on_cpu(struct gw_qp_handle *h)
{
    if (gw_cas_relaxed_u32_gpu(&h->fault_claim, 0, 1)) return;
    h->fault_status = IBV_WC_FATAL_ERR;
    gw_st_release_u32(&h->state, GW_QP_FAULTED); /* as in gw_qp_fail_ */
}

static void fail_qp(struct gw_qp *qp)
{
    if (verbs_watch_on_gpu(qp->dev))
        fail_on_gpu(qp);
    else
        fail_on_cpu(qp->handle);
}

static void fail_cq(struct gw_cq *cq)
{
    const uint32_t yes = 1;
    const uint64_t once = 1;

    if (verbs_watch_on_gpu(cq->dev))
        (void)gw_copy_in(cq->dev->exec, &cq->handle->dead, &yes, sizeof(yes));
    else
        gw_st_release_u32(&cq->handle->dead, yes);
    if (cq->alarm_fd >= 0) (void)!write(cq->alarm_fd, &once, sizeof(once));
}

static void fail_all(struct gw_watch *w)
{
    GW_ASSERT_HELD(&w->lock);
    w->dead = true;
    for (struct gw_qp *qp = w->qps; qp; qp = qp->next) fail_qp(qp);
    for (struct gw_cq *cq = w->cqs; cq; cq = cq->next) fail_cq(cq);
}

/* All that completes there gets no completions any more. */
static void fail_completions(struct gw_watch *w, const struct ibv_cq *dead)
{
    for (struct gw_qp *qp = w->qps; qp; qp = qp->next)
        if (qp->send_cq->cq == dead || qp->recv_cq->cq == dead) fail_qp(qp);
    for (struct gw_cq *cq = w->cqs; cq; cq = cq->next)
        if (cq->cq == dead) fail_cq(cq);
}

/* ---- events -------------------------------------------------------------------------------------------- */

static void verbs_watch_tell(const struct gw_watch *w, const char *what)
{
    fprintf(stderr, "gpuwire: %s: %s\n", w->dev->info.name, what);
}

static void died(struct gw_watch *w)
{
    if (w->dead) return;
    fail_all(w);
    verbs_watch_tell(
        w, "the device has failed, and its queues with it (dmesg may say why): close it and open it again");
}

static void happened(struct gw_watch *w, const struct ibv_async_event *e)
{
    GW_ASSERT_HELD(&w->lock);
    switch (e->event_type) {
    case IBV_EVENT_DEVICE_FATAL: died(w); break;
    case IBV_EVENT_QP_FATAL:
        for (struct gw_qp *qp = w->qps; qp; qp = qp->next)
            if (qp->qp == e->element.qp) fail_qp(qp);
        break;
    case IBV_EVENT_CQ_ERR: fail_completions(w, e->element.cq); break;
    case IBV_EVENT_PORT_ERR:
        verbs_watch_tell(w, "the link is down; requests are repeated for as long as their timeouts say");
        break;
    case IBV_EVENT_PORT_ACTIVE: verbs_watch_tell(w, "the link is up"); break;
    default: break; /* completions report it, or we have not asked for it */
    }
}

/* False: no more will come. */
static bool verbs_watch_hear(struct gw_watch *w)
{
    struct ibv_async_event e;

    if (ibv_get_async_event(w->dev->ctx, &e)) {
        if (errno == EAGAIN || errno == EINTR) return true;
        pthread_mutex_lock(&w->lock);
        died(w); /* its driver has been taken away */
        pthread_mutex_unlock(&w->lock);
        return false;
    }
    pthread_mutex_lock(&w->lock);
    happened(w, &e);
    pthread_mutex_unlock(&w->lock);
    ibv_ack_async_event(&e);
    return true;
}

static void *verbs_watch_run(void *arg)
{
    struct gw_watch *w = arg;
    struct pollfd fds[2] = {{.fd = w->dev->ctx->async_fd, .events = POLLIN},
                            {.fd = w->stop_fd, .events = POLLIN}};

    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR) return NULL;
        if (fds[1].revents) return NULL;
        if (fds[0].revents && !verbs_watch_hear(w)) fds[0].fd = -1;
    }
}

/* ---- the thread ---------------------------------------------------------------------------------------- */

static int verbs_watch_start(struct gw_watch *w)
{
    int fd = w->dev->ctx->async_fd, flags = fcntl(fd, F_GETFL);

    w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* Another reader may take the event that woke us. */
    if (w->stop_fd < 0 || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK)) return -errno;
    return gw_cpu_thread_start(&w->thread, "gw-events", 0, verbs_watch_run, w);
}

int gw_watch_start(struct gw_device *dev)
{
    struct gw_watch *w = calloc(1, sizeof(*w));
    int err;

    if (!w) return gw_error_errno(-ENOMEM, "network device");
    w->dev = dev;
    w->stop_fd = -1;
    pthread_mutex_init(&w->lock, NULL);
    dev->watch = w;
    err = verbs_watch_start(w);
    w->runs = !err;
    return err ? gw_error_errno(err, "%s: cannot monitor the device", dev->info.name) : 0;
}

void gw_watch_stop(struct gw_device *dev)
{
    struct gw_watch *w = dev->watch;
    const uint64_t one = 1;

    if (!w) return;
    if (w->runs) {
        (void)!write(w->stop_fd, &one, sizeof(one));
        pthread_join(w->thread, NULL);
    }
    if (w->stop_fd >= 0) close(w->stop_fd);
    pthread_mutex_destroy(&w->lock);
    free(w);
    dev->watch = NULL;
}

/* ---- queues -------------------------------------------------------------------------------------------- */

void gw_watch_cq(struct gw_cq *cq)
{
    struct gw_watch *w = cq->dev->watch;

    pthread_mutex_lock(&w->lock);
    cq->next = w->cqs;
    w->cqs = cq;
    if (w->dead) fail_cq(cq);
    pthread_mutex_unlock(&w->lock);
}

void gw_watch_cq_del(struct gw_cq *cq)
{
    struct gw_watch *w = cq->dev->watch;
    struct gw_cq **at;

    pthread_mutex_lock(&w->lock);
    for (at = &w->cqs; *at && *at != cq;) at = &(*at)->next;
    if (*at) *at = cq->next;
    pthread_mutex_unlock(&w->lock);
}

void gw_watch_qp(struct gw_qp *qp)
{
    struct gw_watch *w = qp->dev->watch;

    pthread_mutex_lock(&w->lock);
    qp->next = w->qps;
    w->qps = qp;
    if (w->dead) fail_qp(qp);
    pthread_mutex_unlock(&w->lock);
}

void gw_watch_qp_del(struct gw_qp *qp)
{
    struct gw_watch *w = qp->dev->watch;
    struct gw_qp **at;

    pthread_mutex_lock(&w->lock);
    for (at = &w->qps; *at && *at != qp;) at = &(*at)->next;
    if (*at) *at = qp->next;
    pthread_mutex_unlock(&w->lock);
}
