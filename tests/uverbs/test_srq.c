/* SPDX-License-Identifier: Apache-2.0 */
/* Shared receive queues, and XRC, through unmodified libibverbs and libmlx5. */
#include "tests/uverbs/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { QPS = 3, MSG = 64 };

struct bed {
    struct rig r;
    struct ibv_srq *srq;
    struct ibv_qp *qp[QPS]; /* each connected to itself */
};

static struct ibv_qp *qp_of(struct bed *b)
{
    struct ibv_qp_init_attr a = {.send_cq = b->r.cq,
                                 .recv_cq = b->r.cq,
                                 .srq = b->srq,
                                 .qp_type = IBV_QPT_RC,
                                 .cap = {.max_send_wr = 16, .max_send_sge = 1}};
    return ibv_create_qp(b->r.pd, &a);
}

static void bed_up(struct bed *b, uint32_t max_wr)
{
    struct ibv_srq_init_attr a = {.attr = {.max_wr = max_wr, .max_sge = 2}};

    rig_up(&b->r);
    b->srq = ibv_create_srq(b->r.pd, &a);
    assert_non_null(b->srq);
    assert_true(a.attr.max_wr >= max_wr && a.attr.max_sge >= 2);
    for (int i = 0; i < QPS; i++) {
        b->qp[i] = qp_of(b);
        assert_non_null(b->qp[i]);
        rig_connect(&b->r, b->qp[i], b->qp[i]->qp_num);
    }
}

static void bed_down(struct bed *b)
{
    for (int i = 0; i < QPS; i++) assert_int_equal(ibv_destroy_qp(b->qp[i]), 0);
    assert_int_equal(ibv_destroy_srq(b->srq), 0);
    rig_down(&b->r);
}

/* Receive number id lands at place id. */
static int give(struct bed *b, uint64_t id)
{
    struct ibv_sge s = {(uintptr_t)b->r.buf + 4096 + id * MSG, MSG, b->r.mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &s, .num_sge = 1}, *bad;
    return ibv_post_srq_recv(b->srq, &wr, &bad);
}

static void send(struct bed *b, int qp, unsigned char with)
{
    struct ibv_sge s = {(uintptr_t)b->r.buf + (size_t)qp * MSG, MSG, b->r.mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1000, .opcode = IBV_WR_SEND, .sg_list = &s, .num_sge = 1}, *bad;

    wr.send_flags = IBV_SEND_SIGNALED;
    memset(b->r.buf + (size_t)qp * MSG, with, MSG);
    assert_int_equal(ibv_post_send(b->qp[qp], &wr, &bad), 0);
}

/* Both completions of one message. Returns the receive's id. */
static uint64_t finish(struct bed *b, int qp, unsigned char with)
{
    uint64_t id = 0;

    for (int i = 0; i < 2; i++) {
        struct ibv_wc wc = rig_poll(b->r.cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.qp_num, b->qp[qp]->qp_num);
        if (wc.opcode != IBV_WC_RECV) continue;
        id = wc.wr_id;
        assert_int_equal(wc.byte_len, MSG);
        for (int k = 0; k < MSG; k++) assert_int_equal(b->r.buf[4096 + id * MSG + (size_t)k], with);
    }
    return id;
}

static void test_round_and_round(void **state)
{
    (void)state;
    struct bed b;

    bed_up(&b, 7);
    for (uint64_t i = 0; i < 4; i++) assert_int_equal(give(&b, i), 0);
    for (unsigned i = 0; i < 200; i++) {
        send(&b, (int)(i % QPS), (unsigned char)i);
        assert_int_equal(finish(&b, (int)(i % QPS), (unsigned char)i), i % 4);
        assert_int_equal(give(&b, i % 4), 0);
    }
    bed_down(&b);
}

static enum ibv_event_type next_event(struct bed *b, void **object)
{
    struct pollfd p = {b->r.ctx->async_fd, POLLIN, 0};
    struct ibv_async_event e;

    assert_int_equal(poll(&p, 1, RIG_WAIT_S * 1000), 1);
    assert_int_equal(ibv_get_async_event(b->r.ctx, &e), 0);
    *object = e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED ? (void *)e.element.srq : (void *)e.element.qp;
    ibv_ack_async_event(&e);
    return e.event_type;
}

static void test_limit(void **state)
{
    (void)state;
    struct bed b;
    struct ibv_srq_attr a = {.srq_limit = 3};
    void *object;

    bed_up(&b, 7);
    for (uint64_t i = 0; i < 4; i++) assert_int_equal(give(&b, i), 0);
    assert_int_equal(ibv_modify_srq(b.srq, &a, IBV_SRQ_LIMIT), 0);
    assert_int_equal(ibv_query_srq(b.srq, &a), 0);
    assert_int_equal(a.srq_limit, 3);
    assert_true(a.max_wr >= 7 && a.max_sge >= 2);
    for (int i = 0; i < 2; i++) {
        send(&b, 0, 1);
        finish(&b, 0, 1);
    }
    assert_int_equal(next_event(&b, &object), IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_ptr_equal(object, b.srq);
    assert_int_equal(ibv_query_srq(b.srq, &a), 0);
    assert_int_equal(a.srq_limit, 0);
    a.srq_limit = 1000;
    assert_int_equal(ibv_modify_srq(b.srq, &a, IBV_SRQ_LIMIT), EINVAL);
    assert_int_equal(ibv_modify_srq(b.srq, &a, IBV_SRQ_MAX_WR), EINVAL);
    a.srq_limit = 5; /* two are left: this event is not read, and destruction does not wait for it */
    assert_int_equal(ibv_modify_srq(b.srq, &a, IBV_SRQ_LIMIT), 0);
    bed_down(&b);
}

static void test_last_wqe(void **state)
{
    (void)state;
    struct bed b;
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
    void *object;

    bed_up(&b, 7);
    assert_int_equal(give(&b, 0), 0);
    assert_int_equal(ibv_modify_qp(b.qp[1], &a, IBV_QP_STATE), 0);
    assert_int_equal(next_event(&b, &object), IBV_EVENT_QP_LAST_WQE_REACHED);
    assert_ptr_equal(object, b.qp[1]);
    send(&b, 2, 9); /* the others go on */
    assert_int_equal(finish(&b, 2, 9), 0);
    bed_down(&b);
}

static void test_rules(void **state)
{
    (void)state;
    struct bed b;
    struct ibv_srq_init_attr a = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct ibv_device_attr dev;

    bed_up(&b, 7);
    assert_int_equal(ibv_destroy_srq(b.srq), EBUSY);
    assert_int_equal(ibv_query_device(b.r.ctx, &dev), 0);
    assert_true(dev.max_srq >= 1000 && dev.max_srq_wr >= 4096 && dev.max_srq_sge >= 16);
    a.attr.max_sge = (uint32_t)dev.max_srq_sge + 1;
    assert_null(ibv_create_srq(b.r.pd, &a));
    a.attr.max_sge = (uint32_t)dev.max_srq_sge;
    a.attr.max_wr = (uint32_t)dev.max_srq_wr;
    struct ibv_srq *big = ibv_create_srq(b.r.pd, &a);
    assert_non_null(big);
    assert_int_equal(ibv_destroy_srq(big), 0);
    bed_down(&b);
}

/* Closing with everything in use takes all down, in the right order. */
static void test_closed_in_use(void **state)
{
    (void)state;
    struct bed b;

    rig_forget_begin();
    bed_up(&b, 7);
    assert_int_equal(give(&b, 0), 0);
    send(&b, 0, 1);
    ibv_close_device(b.r.ctx);
    rig_forget_end();
}

/* ---- XRC ----------------------------------------------------------------------------------------------- */

static struct ibv_xrcd *domain(struct ibv_context *ctx, int fd, int flags)
{
    struct ibv_xrcd_init_attr a = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = flags};
    errno = 0;
    return ibv_open_xrcd(ctx, &a);
}

/* A caller that names the same file gets the same domain, in this and in another context. */
static void test_domains(void **state)
{
    (void)state;
    struct rig r;
    char name[] = "/tmp/gpuwire-xrcd-XXXXXX";
    int fd = mkstemp(name);

    assert_true(fd >= 0);
    rig_up(&r);
    struct ibv_context *other = rig_open();
    assert_null(domain(r.ctx, fd, 0));
    assert_int_equal(errno, EAGAIN);
    struct ibv_xrcd *a = domain(r.ctx, fd, O_CREAT);
    assert_non_null(a);
    assert_null(domain(other, fd, O_CREAT | O_EXCL));
    assert_int_equal(errno, EINVAL);
    struct ibv_xrcd *b = domain(other, fd, 0);
    assert_non_null(b);
    assert_null(domain(r.ctx, -1, 0));
    struct ibv_xrcd *own = domain(r.ctx, -1, O_CREAT);
    assert_non_null(own);
    assert_null(domain(r.ctx, 12345, O_CREAT));
    assert_int_equal(ibv_close_xrcd(a), 0);
    struct ibv_xrcd *c = domain(r.ctx, fd, 0); /* b still holds it */
    assert_non_null(c);
    assert_int_equal(ibv_close_xrcd(b), 0);
    assert_int_equal(ibv_close_xrcd(c), 0);
    assert_null(domain(r.ctx, fd, 0));
    assert_int_equal(ibv_close_xrcd(own), 0);
    assert_int_equal(ibv_close_device(other), 0);
    rig_down(&r);
    close(fd);
    unlink(name);
}

static void xrc_connect(struct rig *r, struct ibv_qp *qp, uint32_t to, int both)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};

    assert_int_equal(
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                             .path_mtu = IBV_MTU_1024,
                             .dest_qp_num = to,
                             .max_dest_rd_atomic = 4,
                             .min_rnr_timer = 12,
                             .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = r->gid}}};
    assert_int_equal(ibv_modify_qp(qp, &a,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                     0);
    if (!both) return;
    a = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
    assert_int_equal(ibv_modify_qp(qp, &a,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

static void test_xrc(void **state)
{
    (void)state;
    struct rig r;
    struct ibv_recv_wr *bad;
    struct ibv_send_wr *bad_send;
    uint32_t srqn;

    rig_up(&r);
    struct ibv_device_attr dev;
    assert_int_equal(ibv_query_device(r.ctx, &dev), 0);
    assert_true(dev.device_cap_flags & IBV_DEVICE_XRC);
    struct ibv_xrcd *xrcd = domain(r.ctx, -1, O_CREAT);
    struct ibv_cq *recv_cq = ibv_create_cq(r.ctx, 16, NULL, NULL, 0);
    struct ibv_srq_init_attr_ex sa = {.attr = {.max_wr = 8, .max_sge = 1},
                                      .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
                                                   IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
                                      .srq_type = IBV_SRQT_XRC,
                                      .pd = r.pd,
                                      .xrcd = xrcd,
                                      .cq = recv_cq};
    struct ibv_srq *srq = ibv_create_srq_ex(r.ctx, &sa);
    assert_non_null(srq);
    assert_int_equal(ibv_get_srq_num(srq, &srqn), 0);
    struct ibv_qp_init_attr_ex ta = {
        .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
    struct ibv_qp *target = ibv_create_qp_ex(r.ctx, &ta);
    assert_non_null(target);
    struct ibv_qp_init_attr_ex ia = {.qp_type = IBV_QPT_XRC_SEND,
                                     .comp_mask = IBV_QP_INIT_ATTR_PD,
                                     .pd = r.pd,
                                     .send_cq = r.cq,
                                     .cap = {.max_send_wr = 8, .max_send_sge = 1}};
    struct ibv_qp *source = ibv_create_qp_ex(r.ctx, &ia);
    assert_non_null(source);
    xrc_connect(&r, target, source->qp_num, 0);
    xrc_connect(&r, source, target->qp_num, 1);
    assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
    for (uint64_t i = 0; i < 40; i++) {
        struct ibv_sge to = {(uintptr_t)r.buf + 8192, 64, r.mr->lkey},
                       from = {(uintptr_t)r.buf, 64, r.mr->lkey};
        struct ibv_recv_wr rw = {.wr_id = i, .sg_list = &to, .num_sge = 1};
        struct ibv_send_wr sw = {.wr_id = 100 + i, .opcode = IBV_WR_SEND, .sg_list = &from, .num_sge = 1};

        sw.send_flags = IBV_SEND_SIGNALED;
        sw.qp_type.xrc.remote_srqn = srqn;
        memset(r.buf, (int)i + 1, 64);
        assert_int_equal(ibv_post_srq_recv(srq, &rw, &bad), 0);
        assert_int_equal(ibv_post_send(source, &sw, &bad_send), 0);
        struct ibv_wc wc = rig_poll(recv_cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, i);
        assert_int_equal(wc.qp_num, target->qp_num);
        assert_int_equal(r.buf[8192 + 63], i + 1);
        wc = rig_poll(r.cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, 100 + i);
    }
    assert_int_equal(ibv_destroy_qp(source), 0);
    assert_int_equal(ibv_destroy_qp(target), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(ibv_destroy_cq(recv_cq), 0);
    assert_int_equal(ibv_close_xrcd(xrcd), 0);
    rig_down(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_and_round),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_last_wqe),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_closed_in_use),
        cmocka_unit_test(test_domains),
        cmocka_unit_test(test_xrc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
