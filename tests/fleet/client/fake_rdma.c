/* SPDX-License-Identifier: Apache-2.0 */
/* fake_rdma.c: sessions of a worker that answers at once. */
#include "tests/fleet/client/fake_rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/verbs.h>

#include "src/server/wire/wire.h"

enum { FAKE_SLOTS = 8, FAKE_STRIDE = 1024 };

atomic_int fake_rdma_status, fake_rdma_lie;
atomic_uint fake_rdma_served, fake_rdma_bad;

static struct fake_session {
    struct fleet_open peer;
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *cq, *sent;
    struct gw_qp *qp;
    struct gw_mem in, out;
    struct gw_mr *in_mr, *out_mr;
    pthread_t thread;
    int stop_fd;
} fake_sessions[64];
static uint32_t fake_session_count;

static void fake_reply(struct fake_session *s, uint32_t slot)
{
    const struct gw_serve_request *q = (const void *)((uint8_t *)s->in.host + slot * FAKE_STRIDE);
    uint8_t *at = (uint8_t *)s->out.host + slot * FAKE_STRIDE;
    struct ibv_wc wc;
    struct gw_serve_reply r = {.magic = GW_SERVE_MAGIC, .version = GW_SERVE_VERSION, .id = q->id};
    fake_rdma_served++;
    fake_rdma_bad += q->magic != GW_SERVE_MAGIC || q->slot != slot || !q->lease || !q->key || q->bytes != 32;
    if (fake_rdma_lie == FAKE_MUTE) return;
    r.status = (uint16_t)fake_rdma_status;
    r.bytes = r.status ? 0 : q->bytes;
    r.arrived = 1000;
    r.started = 2000;
    r.done = r.status ? 1000 + 5000000 : 5000;
    uint32_t bytes = sizeof r + (uint32_t)r.bytes;
    if (fake_rdma_lie == FAKE_OTHER_ID) r.id ^= 1;
    if (fake_rdma_lie == FAKE_SHORT) r.bytes = UINT64_MAX;
    memcpy(at, &r, sizeof r);
    memcpy(at + sizeof r, q + 1, 32);
    struct ibv_sge piece = {s->out_mr->addr + slot * FAKE_STRIDE, bytes, s->out_mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &piece,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .imm_data = htobe32(fake_rdma_lie == FAKE_ODD_KIND ? 4711 : slot)};
    wr.wr.rdma.remote_addr = s->peer.reply_addr + slot * s->peer.reply_stride;
    wr.wr.rdma.rkey = s->peer.reply_rkey;
    while (gw_poll_cq(gw_cq_handle(s->sent), 1, &wc) > 0) {
    }
    if (gw_post_send(gw_qp_handle(s->qp), &wr, &bad)) fake_rdma_bad++;
}

static void *fake_session_run(void *ctx)
{
    struct fake_session *s = ctx;
    struct ibv_wc wc[FAKE_SLOTS];
    for (;;) {
        int n = gw_wait_cq(gw_cq_handle(s->cq), FAKE_SLOTS, wc, gw_deadline(1000000000), NULL, s->stop_fd);
        if (n == -ECANCELED || (n < 0 && n != -ETIMEDOUT && n != -EAGAIN)) return NULL;
        for (int i = 0; i < n; i++) {
            if (wc[i].status != IBV_WC_SUCCESS) return NULL;
            gw_recv_empty(gw_qp_handle(s->qp), 1, 0);
            fake_reply(s, gw_wc_imm(&wc[i]));
        }
    }
}

static int fake_session_make(struct fake_session *s)
{
    struct gw_cq_attr cq = {.cqe = 256, .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP, .qps = 1};
    int err = gw_exec_create("cpu", NULL, &s->exec);
    if (!err) err = gw_device_open(NULL, s->exec, &s->dev);
    if (!err) err = gw_pd_create(s->dev, &s->pd);
    if (!err) err = gw_cq_create(s->dev, &cq, &s->cq);
    if (!err) err = gw_cq_create(s->dev, &cq, &s->sent);
    struct gw_qp_attr qp = {.send_cq = s->sent,
                            .recv_cq = s->cq,
                            .max_send_wr = 2 * FAKE_SLOTS,
                            .max_recv_wr = FAKE_SLOTS,
                            .max_send_sge = 1,
                            .flags = GW_QP_ONE_POSTER};
    if (!err) err = gw_qp_create(s->pd, &qp, &s->qp);
    if (!err) err = gw_mem_alloc(s->exec, GW_MEM_HOST, FAKE_SLOTS * FAKE_STRIDE, &s->in);
    if (!err) err = gw_mem_alloc(s->exec, GW_MEM_HOST, FAKE_SLOTS * FAKE_STRIDE, &s->out);
    if (!err) err = gw_mr_register(s->pd, s->in.host, s->in.size, GW_MR_REMOTE_WRITE, &s->in_mr);
    if (!err) err = gw_mr_register(s->pd, s->out.host, s->out.size, GW_MR_LOCAL_WRITE, &s->out_mr);
    return err;
}

void fake_rdma_open(struct fake_worker *w, struct fleet_conn *c, const struct fleet_frame *f,
                    const struct fleet_open *o)
{
    struct fake_session *s = &fake_sessions[fake_session_count++];
    struct gw_endpoint mine, peer = {.qpn = o->qpn, .psn = o->psn, .mtu = o->mtu};
    const struct gw_connect_opts with = {.timeout = GW_SERVE_SOFT_TIMEOUT};
    (void)w;
    memset(s, 0, sizeof *s);
    s->peer = *o;
    s->stop_fd = eventfd(0, 0);
    memcpy(peer.gid, o->gid, sizeof peer.gid);
    int err = fake_session_make(s);
    if (!err) gw_qp_endpoint(s->qp, &mine);
    if (!err) err = gw_qp_connect(s->qp, &peer, &with);
    if (!err) err = gw_recv_empty(gw_qp_handle(s->qp), FAKE_SLOTS, 0);
    if (err || pthread_create(&s->thread, NULL, fake_session_run, s)) {
        fprintf(stderr, "fake: no session: %s\n", gw_last_error());
        exit(1);
    }
    struct fleet_opened reply = {.slots = FAKE_SLOTS,
                                 .request_rkey = s->in_mr->rkey,
                                 .qpn = mine.qpn,
                                 .psn = mine.psn,
                                 .mtu = mine.mtu,
                                 .request_addr = s->in_mr->addr,
                                 .request_stride = FAKE_STRIDE};
    memcpy(reply.gid, mine.gid, sizeof reply.gid);
    fleet_send(c, FLEET_OPENED, f->seq, &reply, sizeof reply, NULL, 0, NULL);
}

void fake_rdma_end(void)
{
    uint64_t one = 1;
    for (uint32_t i = 0; i < fake_session_count; i++) {
        struct fake_session *s = &fake_sessions[i];
        if (write(s->stop_fd, &one, sizeof one) < 0) exit(1);
        pthread_join(s->thread, NULL);
        gw_qp_destroy(s->qp);
        gw_mr_free(s->in_mr);
        gw_mr_free(s->out_mr);
        gw_cq_destroy(s->cq);
        gw_cq_destroy(s->sent);
        gw_pd_destroy(s->pd);
        gw_mem_free(&s->in);
        gw_mem_free(&s->out);
        gw_device_close(s->dev);
        gw_exec_destroy(s->exec);
        close(s->stop_fd);
    }
    fake_session_count = 0;
}
