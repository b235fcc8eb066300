/* SPDX-License-Identifier: Apache-2.0 */
/* rdma.c: sessions at workers over RDMA: opened over a connection of their own, then one write each way. */
#include "src/fleet/client/rdma.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/verbs.h>

#include "src/server/wire/wire.h"

#define RDMA_WAIT_NS     FLEET_SECOND
#define RDMA_MAX_BYTES   ((uint64_t)256 << 20) /* of a session's slots */
#define RDMA_ALIGN       256u
#define RDMA_AGAIN_NS    (5ll * FLEET_SECOND) /* before another try, when a session failed */
#define RDMA_COMPLETIONS 64

enum { RDMA_SLOTS = 64 };

struct rdma_slot {
    struct fleet_query *query; /* NULL: it is free */
    uint32_t next_free;
};

struct fleet_rdma {
    struct fleet_client *client;
    struct fleet_rdma *next; /* of all of the client's */
    struct fleet_peer *peer; /* NULL: it is over, and its thread ends */
    struct fleet_conn *conn;
    pthread_t thread;
    int stop_fd;   /* readable: the thread shall end */
    sem_t decided; /* there is a connection, or the thread shall end */
    bool made, live;
    uint32_t lease, slots, free, submitted;
    uint64_t key, in_stride, out_stride;
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *send_cq, *recv_cq;
    struct gw_qp *qp;
    struct gw_mem in, out;
    struct gw_mr *in_mr, *out_mr;
    struct fleet_opened worker;
    struct rdma_slot slot[RDMA_SLOTS];
    pthread_mutex_t lock; /* of what the thread has found: */
    uint32_t answered[2 * RDMA_SLOTS], answers;
    bool broken;
};

/* ---- its thread ---- */

static int rdma_make_queues(struct fleet_rdma *s)
{
    struct gw_cq_attr cq = {.cqe = 4 * RDMA_SLOTS, .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP, .qps = 1};
    int err = gw_cq_create(s->dev, &cq, &s->send_cq);
    if (!err) err = gw_cq_create(s->dev, &cq, &s->recv_cq);
    struct gw_qp_attr qp = {.send_cq = s->send_cq,
                            .recv_cq = s->recv_cq,
                            .max_send_wr = 2 * s->slots,
                            .max_recv_wr = s->slots,
                            .max_send_sge = 1,
                            .flags = GW_QP_ONE_POSTER};
    return err ? err : gw_qp_create(s->pd, &qp, &s->qp);
}

static int rdma_make(struct fleet_rdma *s)
{
    int err = gw_exec_create("cpu", NULL, &s->exec);
    if (!err) err = gw_device_open(NULL, s->exec, &s->dev);
    if (!err) err = gw_pd_create(s->dev, &s->pd);
    if (!err) err = rdma_make_queues(s);
    if (!err) err = gw_mem_alloc(s->exec, GW_MEM_HOST, s->slots * s->in_stride, &s->in);
    if (!err) err = gw_mem_alloc(s->exec, GW_MEM_HOST, s->slots * s->out_stride, &s->out);
    if (!err) err = gw_mr_register(s->pd, s->in.host, s->in.size, GW_MR_LOCAL_WRITE, &s->in_mr);
    if (!err) err = gw_mr_register(s->pd, s->out.host, s->out.size, GW_MR_REMOTE_WRITE, &s->out_mr);
    return err;
}

static void rdma_release(struct fleet_rdma *s)
{
    if (s->qp) gw_qp_destroy(s->qp);
    gw_mr_free(s->in_mr);
    gw_mr_free(s->out_mr);
    if (s->send_cq) gw_cq_destroy(s->send_cq);
    if (s->recv_cq) gw_cq_destroy(s->recv_cq);
    if (s->pd) gw_pd_destroy(s->pd);
    gw_mem_free(&s->in);
    gw_mem_free(&s->out);
    if (s->dev) gw_device_close(s->dev);
    gw_exec_destroy(s->exec);
}

static void rdma_take_answers(void *ctx);
static void rdma_is_made(void *ctx);
static void rdma_is_gone(void *ctx);

/* Hands completions over. The loop is called once for all that it has not taken yet. */
static void rdma_hand_over(struct fleet_rdma *s, const struct ibv_wc *wc, int n)
{
    pthread_mutex_lock(&s->lock);
    bool first = !s->answers && !s->broken;
    for (int i = 0; i < n; i++) {
        if (wc[i].status != IBV_WC_SUCCESS || !(wc[i].wc_flags & IBV_WC_WITH_IMM) ||
            s->answers == 2 * RDMA_SLOTS)
            s->broken = true;
        else
            s->answered[s->answers++] = gw_wc_imm(&wc[i]);
    }
    if (n < 0) s->broken = true;
    pthread_mutex_unlock(&s->lock);
    if (first && fleet_loop_call(s->client->loop, rdma_take_answers, s)) s->broken = true;
}

static void *rdma_session_run(void *ctx)
{
    struct fleet_rdma *s = ctx;
    struct ibv_wc wc[RDMA_COMPLETIONS];
    s->made = !rdma_make(s);
    fleet_loop_call(s->client->loop, rdma_is_made, s);
    while (sem_wait(&s->decided)) {
    }
    while (s->made) {
        int n = gw_wait_cq(gw_cq_handle(s->recv_cq), RDMA_COMPLETIONS, wc, gw_deadline(RDMA_WAIT_NS), NULL,
                           s->stop_fd);
        if (n == -ETIMEDOUT || n == -EAGAIN) continue;
        if (n == -ECANCELED) break;
        rdma_hand_over(s, wc, n);
        if (n < 0) break;
    }
    rdma_release(s);
    fleet_loop_call(s->client->loop, rdma_is_gone, s);
    return NULL;
}

/* ---- its life, on the loop ---- */

static void rdma_free(struct fleet_rdma *s)
{
    struct fleet_rdma **at = &s->client->sessions;
    pthread_join(s->thread, NULL);
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    close(s->stop_fd);
    sem_destroy(&s->decided);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static void rdma_is_gone(void *ctx)
{
    struct fleet_rdma *s = ctx;
    if (!s->peer) rdma_free(s); /* else the peer's end of it follows */
}

static void rdma_stop(struct fleet_rdma *s)
{
    uint64_t one = 1;
    s->peer = NULL;
    s->live = false;
    if (s->conn) fleet_conn_close(s->conn, 0, NULL);
    s->conn = NULL;
    sem_post(&s->decided);
    if (write(s->stop_fd, &one, sizeof one) < 0) return; /* it is readable already */
}

void fleet_rdma_end(struct fleet_peer *p)
{
    struct fleet_rdma *s = p->rdma;
    if (!s) return;
    p->holds++;
    p->rdma = NULL;
    p->rdma_at = fleet_loop_now(p->client->loop) + RDMA_AGAIN_NS;
    rdma_stop(s);
    for (uint32_t i = 0; i < s->slots; i++) {
        struct fleet_query *j = s->slot[i].query;
        s->slot[i].query = NULL;
        if (j) fleet_peer_lost_query(j);
    }
    fleet_peer_left(p);
}

void fleet_rdma_end_all(struct fleet_client *c)
{
    for (struct fleet_rdma *s = c->sessions; s; s = s->next) {
        if (!s->peer) continue;
        s->peer->rdma = NULL;
        rdma_stop(s);
    }
    while (c->sessions) rdma_free(c->sessions);
}

/* ---- opening ---- */

static void rdma_conn_open(void *ctx, struct fleet_conn *conn)
{
    struct fleet_rdma *s = ctx;
    struct gw_endpoint ep;
    gw_qp_endpoint(s->qp, &ep);
    struct fleet_open o = {.lease = s->lease,
                           .key = s->key,
                           .slots = s->slots,
                           .qpn = ep.qpn,
                           .psn = ep.psn,
                           .mtu = ep.mtu,
                           .reply_rkey = s->out_mr->rkey,
                           .reply_addr = s->out_mr->addr,
                           .reply_stride = s->out_stride};
    memcpy(o.gid, ep.gid, sizeof o.gid);
    if (memcmp(fleet_conn_peer(conn)->id, s->peer->id, FLEET_ID) ||
        fleet_send(conn, FLEET_OPEN, 0, &o, sizeof o, NULL, 0, NULL))
        fleet_rdma_end(s->peer);
}

static void rdma_opened(struct fleet_rdma *s, const struct fleet_opened *o)
{
    struct gw_device_info nic;
    struct gw_endpoint ep = {.qpn = o->qpn, .psn = o->psn, .mtu = o->mtu};
    memcpy(ep.gid, o->gid, sizeof ep.gid);
    gw_device_query(s->dev, &nic);
    const struct gw_connect_opts with = {.timeout = nic.soft ? GW_SERVE_SOFT_TIMEOUT : 0};
    if (s->live || !o->slots || o->request_stride < sizeof(struct gw_serve_request) ||
        gw_qp_connect(s->qp, &ep, &with) || gw_recv_empty(gw_qp_handle(s->qp), s->slots, 0)) {
        fleet_rdma_end(s->peer);
        return;
    }
    s->worker = *o;
    s->live = true;
    uint32_t usable = o->slots < s->slots ? o->slots : s->slots;
    for (uint32_t i = 0; i < usable; i++) s->slot[i].next_free = i + 1 < usable ? i + 1 : UINT32_MAX;
    s->free = 0;
    sem_post(&s->decided);
}

static void rdma_conn_message(void *ctx, struct fleet_conn *conn, const struct fleet_frame *f,
                              const void *body)
{
    struct fleet_rdma *s = ctx;
    const struct fleet_opened *o = FLEET_BODY(struct fleet_opened, f, body);
    (void)conn;
    if (f->kind == FLEET_OPENED && o)
        rdma_opened(s, o);
    else
        fleet_rdma_end(s->peer);
}

static void rdma_conn_closed(void *ctx, struct fleet_conn *conn, int err, const char *why)
{
    struct fleet_rdma *s = ctx;
    (void)conn;
    (void)err;
    (void)why;
    s->conn = NULL;
    fleet_rdma_end(s->peer);
}

static const struct fleet_handler rdma_handler = {rdma_conn_open, rdma_conn_message, rdma_conn_closed};

static void rdma_is_made(void *ctx)
{
    struct fleet_rdma *s = ctx;
    struct fleet_conn_opts o;
    if (!s->peer) return;
    fleet_leader_opts(s->client, FLEET_IS_WORKER, &o);
    if (!s->made || fleet_dial(s->client->loop, &o, s->peer->address, &rdma_handler, s, &s->conn))
        fleet_rdma_end(s->peer);
}

static uint64_t rdma_align(uint64_t v)
{
    return (v + RDMA_ALIGN - 1) / RDMA_ALIGN * RDMA_ALIGN;
}

void fleet_rdma_begin(struct fleet_peer *p, const struct fleet_holding *h, uint64_t request_bytes,
                      uint64_t reply_bytes)
{
    struct fleet_client *c = p->client;
    uint64_t most = FLEET_MAX_FRAME;
    if (p->rdma || fleet_loop_now(c->loop) < p->rdma_at || request_bytes > most || reply_bytes > most) return;
    struct fleet_rdma *s = calloc(1, sizeof *s);
    if (!s) return;
    s->client = c;
    s->peer = p;
    s->lease = h->number;
    s->key = h->key;
    s->in_stride = rdma_align(sizeof(struct gw_serve_request) + request_bytes);
    s->out_stride = rdma_align(sizeof(struct gw_serve_reply) + reply_bytes);
    uint64_t fit = RDMA_MAX_BYTES / (s->in_stride + s->out_stride);
    s->slots = fit < 1 ? 1 : fit < RDMA_SLOTS ? (uint32_t)fit : RDMA_SLOTS;
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sem_init(&s->decided, 0, 0);
    pthread_mutex_init(&s->lock, NULL);
    if (s->stop_fd < 0 || pthread_create(&s->thread, NULL, rdma_session_run, s)) {
        if (s->stop_fd >= 0) close(s->stop_fd);
        free(s);
        return;
    }
    s->next = c->sessions;
    c->sessions = s;
    p->rdma = s;
}

/* ---- requests and answers ---- */

bool fleet_rdma_send(struct fleet_rdma *s, struct fleet_query *j, int64_t now)
{
    struct ibv_wc wc;
    uint64_t bytes = sizeof(struct gw_serve_request) + j->r.bytes;
    if (!s || !s->live || s->free == UINT32_MAX || bytes > s->in_stride || bytes > s->worker.request_stride)
        return false;
    uint32_t slot = s->free;
    uint8_t *at = (uint8_t *)s->in.host + slot * s->in_stride;
    struct gw_serve_request *q = (struct gw_serve_request *)at;
    *q = (struct gw_serve_request){.magic = GW_SERVE_MAGIC,
                                   .version = GW_SERVE_VERSION,
                                   .slot = (uint16_t)slot,
                                   .id = j->id,
                                   .bytes = j->r.bytes,
                                   .rows = j->r.rows,
                                   .priority = j->r.priority,
                                   .budget_ns = fleet_peer_budget(s->peer, j, now),
                                   .lease = j->lease->number + 1,
                                   .key = j->lease->key};
    memcpy(at + sizeof *q, j->r.in, j->r.bytes);
    struct ibv_sge piece = {s->in_mr->addr + slot * s->in_stride, (uint32_t)bytes, s->in_mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = slot,
                                   .sg_list = &piece,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                   .send_flags = ++s->submitted % s->slots == 0 ? IBV_SEND_SIGNALED : 0,
                                   .imm_data = htobe32(slot)};
    wr.wr.rdma.remote_addr = s->worker.request_addr + slot * s->worker.request_stride;
    wr.wr.rdma.rkey = s->worker.request_rkey;
    while (gw_poll_cq(gw_cq_handle(s->send_cq), 1, &wc) > 0) {
    }
    if (gw_post_send(gw_qp_handle(s->qp), &wr, &bad)) return false;
    s->free = s->slot[slot].next_free;
    s->slot[slot].query = j;
    return true;
}

/* False: no worker answers so. */
static bool rdma_answer(struct fleet_rdma *s, uint32_t slot)
{
    struct fleet_query *j = slot < s->slots ? s->slot[slot].query : NULL;
    const uint8_t *at = (const uint8_t *)s->out.host + slot * s->out_stride;
    if (!j || gw_recv_empty(gw_qp_handle(s->qp), 1, 0)) return false;
    struct gw_serve_reply r = *(const struct gw_serve_reply *)at; /* it can change while we look */
    if (r.magic != GW_SERVE_MAGIC || r.version != GW_SERVE_VERSION || r.id != j->id ||
        r.bytes > s->out_stride - sizeof r)
        return false;
    struct fleet_answer a = {.id = r.id, .status = r.status, .batch = r.batch, .bytes = r.bytes};
    a.arrived_at = (int64_t)r.arrived;
    a.started_at = (int64_t)r.started;
    a.done_at = (int64_t)r.done;
    a.retry_ns = r.status && r.done > r.arrived ? (int64_t)(r.done - r.arrived) : 0;
    s->slot[slot] = (struct rdma_slot){.next_free = s->free};
    s->free = slot;
    fleet_peer_answered(s->peer, j, &a, at + sizeof r);
    return true;
}

static void rdma_take_answers(void *ctx)
{
    struct fleet_rdma *s = ctx;
    uint32_t slot[2 * RDMA_SLOTS];
    pthread_mutex_lock(&s->lock);
    uint32_t n = s->answers;
    bool good = !s->broken;
    memcpy(slot, s->answered, n * sizeof slot[0]);
    s->answers = 0;
    pthread_mutex_unlock(&s->lock);
    for (uint32_t i = 0; good && i < n && s->live; i++) good = rdma_answer(s, slot[i]);
    if (!good && s->peer) fleet_rdma_end(s->peer);
}
