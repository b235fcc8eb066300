/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes: their thread makes, connects and ends them; writing does not wait. */
#include "src/fleet/pipe/pipe.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/verbs.h>

#include "src/server/wire/wire.h"

enum { PIPE_WRITES = 4, PIPE_PAGE = 4096 };

struct fleet_pipe {
    struct fleet_pipes *of;
    struct fleet_pipe *next; /* in the thread's queue */
    bool queued, ended;      /* under the lock */
    uint32_t state;          /* enum fleet_pipe_state */
    bool target;
    uint32_t bytes;
    void *memory;
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mr *mr;
    struct gw_endpoint peer;
    int writes; /* that have not ended */
    char why[FLEET_WHY];
};

struct fleet_pipes {
    struct gw_exec *exec; /* NULL: the device is another's */
    struct gw_device *dev;
    uint8_t timeout;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct fleet_pipe *first, *last;
    bool stop;
};

/* ---- its thread ---- */

static int pipe_build(struct fleet_pipe *p)
{
    struct gw_device *dev = p->of->dev;
    const struct gw_cq_attr cq = {.cqe = 4 * PIPE_WRITES, .flags = GW_CQ_ONE_POLLER, .qps = 1};
    int err = gw_pd_create(dev, &p->pd);
    if (!err) err = gw_cq_create(dev, &cq, &p->cq);
    const struct gw_qp_attr qp = {.send_cq = p->cq,
                                  .recv_cq = p->cq,
                                  .max_send_wr = PIPE_WRITES,
                                  .max_recv_wr = 1,
                                  .max_send_sge = 1,
                                  .flags = GW_QP_ONE_POSTER};
    if (!err) err = gw_qp_create(p->pd, &qp, &p->qp);
    uint32_t access = p->target ? GW_MR_REMOTE_WRITE : GW_MR_LOCAL_WRITE;
    return err ? err : gw_mr_register(p->pd, p->memory, p->bytes, access, &p->mr);
}

static void pipe_free(struct fleet_pipe *p)
{
    if (p->qp) gw_qp_destroy(p->qp);
    gw_mr_free(p->mr);
    if (p->cq) gw_cq_destroy(p->cq);
    if (p->pd) gw_pd_destroy(p->pd);
    free(p->memory);
    free(p);
}

static void pipe_step(struct fleet_pipe *p)
{
    const struct gw_connect_opts with = {.timeout = p->of->timeout};
    bool makes = fleet_pipe_state(p) == FLEET_PIPE_MAKING;
    int err = makes ? pipe_build(p) : gw_qp_connect(p->qp, &p->peer, &with);
    uint32_t now = makes ? FLEET_PIPE_MADE : FLEET_PIPE_OPEN;
    if (err) {
        snprintf(p->why, sizeof(p->why), "%s", gw_last_error());
        now = FLEET_PIPE_FAILED;
    }
    __atomic_store_n(&p->state, now, __ATOMIC_RELEASE);
}

static void *pipes_run(void *ctx)
{
    struct fleet_pipes *ps = ctx;
    pthread_mutex_lock(&ps->lock);
    for (;;) {
        while (!ps->first && !ps->stop) pthread_cond_wait(&ps->more, &ps->lock);
        struct fleet_pipe *p = ps->first;
        if (!p) break;
        ps->first = p->next;
        p->queued = false;
        bool ended = p->ended;
        pthread_mutex_unlock(&ps->lock);
        if (ended)
            pipe_free(p);
        else
            pipe_step(p);
        pthread_mutex_lock(&ps->lock);
    }
    pthread_mutex_unlock(&ps->lock);
    return NULL;
}

static void pipe_queue(struct fleet_pipe *p, bool ends)
{
    struct fleet_pipes *ps = p->of;
    pthread_mutex_lock(&ps->lock);
    p->ended = ends;
    if (!p->queued) {
        p->queued = true;
        p->next = NULL;
        if (ps->first)
            ps->last->next = p;
        else
            ps->first = p;
        ps->last = p;
    }
    pthread_cond_signal(&ps->more);
    pthread_mutex_unlock(&ps->lock);
}

/* ---- the device and the thread ---- */

static void pipes_free(struct fleet_pipes *ps)
{
    if (ps->exec && ps->dev) gw_device_close(ps->dev);
    gw_exec_destroy(ps->exec);
    pthread_cond_destroy(&ps->more);
    pthread_mutex_destroy(&ps->lock);
    free(ps);
}

static int pipes_start(struct fleet_pipes *ps, struct fleet_pipes **out)
{
    struct gw_device_info nic;
    gw_device_query(ps->dev, &nic);
    ps->timeout = nic.soft ? GW_SERVE_SOFT_TIMEOUT : 0;
    int err = -pthread_create(&ps->thread, NULL, pipes_run, ps);
    if (err) {
        gw_error_errno(err, "cannot start the thread of telemetry's queue pairs");
        pipes_free(ps);
        return err;
    }
    *out = ps;
    return 0;
}

static struct fleet_pipes *pipes_new(void)
{
    struct fleet_pipes *ps = calloc(1, sizeof(*ps));
    if (!ps) return NULL;
    pthread_mutex_init(&ps->lock, NULL);
    pthread_cond_init(&ps->more, NULL);
    return ps;
}

int fleet_pipes_open(const char *name, struct fleet_pipes **out)
{
    struct fleet_pipes *ps = pipes_new();
    if (!ps) return gw_error(-ENOMEM, "no memory for telemetry by RDMA");
    int err = gw_exec_create("cpu", NULL, &ps->exec);
    if (!err) err = gw_device_open(name, ps->exec, &ps->dev);
    if (!err) return pipes_start(ps, out);
    pipes_free(ps);
    return err;
}

int fleet_pipes_on(struct gw_device *dev, struct fleet_pipes **out)
{
    struct fleet_pipes *ps = pipes_new();
    if (!ps) return gw_error(-ENOMEM, "no memory for telemetry by RDMA");
    ps->dev = dev;
    return pipes_start(ps, out);
}

void fleet_pipes_close(struct fleet_pipes *ps)
{
    if (!ps) return;
    pthread_mutex_lock(&ps->lock);
    ps->stop = true;
    pthread_cond_signal(&ps->more);
    pthread_mutex_unlock(&ps->lock);
    pthread_join(ps->thread, NULL);
    pipes_free(ps);
}

/* ---- a pipe's life ---- */

struct fleet_pipe *fleet_pipe_make(struct fleet_pipes *ps, uint32_t bytes, bool target)
{
    struct fleet_pipe *p = calloc(1, sizeof(*p));
    size_t whole = ((size_t)bytes + PIPE_PAGE - 1) / PIPE_PAGE * PIPE_PAGE;
    /* Pages of its own: a NIC's protection may be no finer. */
    if (p) p->memory = aligned_alloc(PIPE_PAGE, whole);
    if (!p || !p->memory) {
        free(p);
        return NULL;
    }
    memset(p->memory, 0, whole);
    p->of = ps;
    p->bytes = bytes;
    p->target = target;
    pipe_queue(p, false);
    return p;
}

void fleet_pipe_end(struct fleet_pipe *p)
{
    if (p) pipe_queue(p, true);
}

enum fleet_pipe_state fleet_pipe_state(const struct fleet_pipe *p)
{
    return (enum fleet_pipe_state)__atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
}

const char *fleet_pipe_why(const struct fleet_pipe *p)
{
    return p->why;
}

void fleet_pipe_target(const struct fleet_pipe *p, struct fleet_target *t)
{
    struct gw_endpoint ep;
    gw_qp_endpoint(p->qp, &ep);
    *t = (struct fleet_target){.at = {.qpn = ep.qpn, .psn = ep.psn, .mtu = ep.mtu, .lid = ep.lid},
                               .addr = p->mr->addr,
                               .rkey = p->mr->rkey,
                               .bytes = p->bytes};
    memcpy(t->at.gid, ep.gid, sizeof(t->at.gid));
}

void fleet_pipe_connect(struct fleet_pipe *p, const struct fleet_endpoint *peer)
{
    p->peer = (struct gw_endpoint){.qpn = peer->qpn, .psn = peer->psn, .mtu = peer->mtu, .lid = peer->lid};
    memcpy(p->peer.gid, peer->gid, sizeof(p->peer.gid));
    /* The lock of the queue publishes all this to the thread. */
    __atomic_store_n(&p->state, FLEET_PIPE_CONNECTING, __ATOMIC_RELAXED);
    pipe_queue(p, false);
}

void *fleet_pipe_memory(const struct fleet_pipe *p)
{
    return p->memory;
}

uint32_t fleet_pipe_bytes(const struct fleet_pipe *p)
{
    return p->bytes;
}

/* ---- writing ---- */

int fleet_pipe_write(struct fleet_pipe *p, const struct fleet_target *to, uint32_t from, uint32_t bytes)
{
    struct ibv_sge piece = {p->mr->addr + from, bytes, p->mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    if (p->writes == PIPE_WRITES) return gw_error(-EAGAIN, "%d writes have not ended", p->writes);
    wr.wr.rdma.remote_addr = to->addr + from;
    wr.wr.rdma.rkey = to->rkey;
    int err = gw_post_send(gw_qp_handle(p->qp), &wr, &bad);
    if (err) return gw_error_errno(err < 0 ? err : -err, "the queue pair takes no write");
    p->writes++;
    return 0;
}

int fleet_pipe_busy(struct fleet_pipe *p)
{
    struct ibv_wc wc;
    int n;
    while ((n = gw_poll_cq(gw_cq_handle(p->cq), 1, &wc)) > 0) {
        if (wc.status != IBV_WC_SUCCESS) return gw_error(-EIO, "%s", ibv_wc_status_str(wc.status));
        p->writes--;
    }
    return n < 0 ? gw_error(n, "the completion queue has died") : p->writes;
}
