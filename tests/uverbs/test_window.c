/* SPDX-License-Identifier: Apache-2.0 */
/* Memory windows and invalidation through unmodified libibverbs and libmlx5. */
#include "tests/uverbs/rig.h"

#include <errno.h>

struct bed {
    struct rig r;
    struct ibv_mr *mr; /* the upper half of r.buf, that windows may open */
    struct ibv_qp *qp; /* connected to itself: both ends fail at once, so a refusal shows as a flush */
};

enum { AT = RIG_BUFFER / 2, REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

static void bed_up(struct bed *b)
{
    rig_up(&b->r);
    b->mr = ibv_reg_mr(b->r.pd, b->r.buf + AT, RIG_BUFFER / 2, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    assert_non_null(b->mr);
    b->qp = rig_qp(&b->r, b->r.cq);
    rig_connect(&b->r, b->qp, b->qp->qp_num);
}

static void bed_down(struct bed *b)
{
    assert_int_equal(ibv_destroy_qp(b->qp), 0);
    assert_int_equal(ibv_dereg_mr(b->mr), 0);
    rig_down(&b->r);
}

static enum ibv_wc_status write_by(struct bed *b, uint32_t at, uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)b->r.buf, 100, b->r.mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .wr.rdma = {.remote_addr = (uintptr_t)b->r.buf + at, .rkey = rkey}},
                       *bad;
    assert_int_equal(ibv_post_send(b->qp, &wr, &bad), 0);
    return rig_poll(b->r.cq).status;
}

static void test_type_1(void **state)
{
    (void)state;
    struct bed b;
    struct ibv_device_attr dev;

    bed_up(&b);
    assert_int_equal(ibv_query_device(b.r.ctx, &dev), 0);
    assert_true(dev.max_mw > 1000 && dev.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
    struct ibv_mw *mw = ibv_alloc_mw(b.r.pd, IBV_MW_TYPE_1);
    assert_non_null(mw);
    assert_int_equal(ibv_dealloc_pd(b.r.pd), EBUSY);
    for (int i = 0; i < 300; i++) { /* once around the part of the key that changes */
        struct ibv_mw_bind bind = {
            .wr_id = 5,
            .send_flags = IBV_SEND_SIGNALED,
            .bind_info = {
                .mr = b.mr, .addr = (uintptr_t)b.r.buf + AT + 100, .length = 200, .mw_access_flags = REMOTE}};
        assert_int_equal(ibv_bind_mw(b.qp, mw, &bind), 0);
        struct ibv_wc wc = rig_poll(b.r.cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
        memset(b.r.buf, i + 1, 100);
        assert_int_equal(write_by(&b, AT + 150, mw->rkey), IBV_WC_SUCCESS);
        assert_memory_equal(b.r.buf, b.r.buf + AT + 150, 100);
    }
    assert_int_not_equal(write_by(&b, AT + 201, mw->rkey), IBV_WC_SUCCESS);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    bed_down(&b);
}

static void post_bind(struct bed *b, struct ibv_mw *mw, uint32_t rkey)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;

    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info.mr = b->mr;
    wr.bind_mw.bind_info.addr = (uintptr_t)b->r.buf + AT;
    wr.bind_mw.bind_info.length = 4096;
    wr.bind_mw.bind_info.mw_access_flags = REMOTE;
    assert_int_equal(ibv_post_send(b->qp, &wr, &bad), 0);
    struct ibv_wc wc = rig_poll(b->r.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
    mw->rkey = rkey;
}

/* Taken back by a SEND of the peer, then by the owner. */
static void test_type_2(void **state)
{
    (void)state;
    struct bed b;
    struct ibv_sge to, from;
    struct ibv_recv_wr rw = {.wr_id = 9, .sg_list = &to, .num_sge = 1}, *bad_recv;
    struct ibv_send_wr *bad;

    bed_up(&b);
    struct ibv_mw *mw = ibv_alloc_mw(b.r.pd, IBV_MW_TYPE_2);
    assert_non_null(mw);
    to = (struct ibv_sge){(uintptr_t)b.r.buf + 8192, 64, b.r.mr->lkey};
    from = (struct ibv_sge){(uintptr_t)b.r.buf, 64, b.r.mr->lkey};
    for (int i = 0; i < 20; i++) {
        post_bind(&b, mw, ibv_inc_rkey(mw->rkey));
        assert_int_equal(write_by(&b, AT, mw->rkey), IBV_WC_SUCCESS);
        assert_int_equal(ibv_post_recv(b.qp, &rw, &bad_recv), 0);
        struct ibv_send_wr inv = {.opcode = IBV_WR_SEND_WITH_INV,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .sg_list = &from,
                                  .num_sge = 1,
                                  .invalidate_rkey = mw->rkey};
        assert_int_equal(ibv_post_send(b.qp, &inv, &bad), 0);
        for (int k = 0; k < 2; k++) {
            struct ibv_wc wc = rig_poll(b.r.cq);
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            if (wc.opcode != IBV_WC_RECV) continue;
            assert_true(wc.wc_flags & IBV_WC_WITH_INV);
            assert_int_equal(wc.invalidated_rkey, mw->rkey);
        }
    }
    post_bind(&b, mw, ibv_inc_rkey(mw->rkey));
    struct ibv_send_wr local = {
        .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = mw->rkey};
    assert_int_equal(ibv_post_send(b.qp, &local, &bad), 0);
    struct ibv_wc wc = rig_poll(b.r.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_LOCAL_INV);
    assert_int_not_equal(write_by(&b, AT, mw->rkey), IBV_WC_SUCCESS);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    bed_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_type_1), cmocka_unit_test(test_type_2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
