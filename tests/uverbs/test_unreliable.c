/* SPDX-License-Identifier: Apache-2.0 */
/* UC and UD through unmodified libibverbs and libmlx5: address handles, datagrams and the way back, refusals.
 */
#include <errno.h>

#include "tests/uverbs/fixture.h"

enum { QKEY = 0x2345678, GRH = 40 };

static const struct ibv_qp_cap cap = {
    .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64};

static void ud_to_rts(struct ibv_qp *qp)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    a.qp_state = IBV_QPS_RTR;
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
    a.qp_state = IBV_QPS_RTS;
    a.sq_psn = 5;
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
    struct ibv_qp_init_attr a = {.send_cq = r.cq, .recv_cq = r.cq, .qp_type = type, .cap = cap};

    return ibv_create_qp(r.pd, &a);
}

static struct ibv_qp *ud_up(void)
{
    struct ibv_qp *qp = make_qp(IBV_QPT_UD);

    assert_non_null(qp);
    ud_to_rts(qp);
    return qp;
}

static struct ibv_ah *ah_to(const union ibv_gid *gid)
{
    struct ibv_ah_attr a = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 64}};

    return ibv_create_ah(r.pd, &a);
}

static void recv_at(struct ibv_qp *qp, uint32_t at, uint32_t len)
{
    struct ibv_sge sge = {(uintptr_t)r.buf + at, len, r.mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = at, .sg_list = &sge, .num_sge = 1}, *bad;

    assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

static void send_to(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t at, uint32_t len)
{
    struct ibv_sge sge = {(uintptr_t)r.buf + at, len, r.mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1000,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND_WITH_IMM,
                             .send_flags = IBV_SEND_SIGNALED,
                             .imm_data = 77},
                       *bad;

    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = QKEY;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

/* The next completion of a receive; sends' are passed over, and must be good. */
static struct ibv_wc poll_recv(void)
{
    struct ibv_wc wc;

    do {
        wc = rig_poll(r.cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
    } while (!(wc.opcode & IBV_WC_RECV));
    return wc;
}

/* ---- UD ------------------------------------------------------------------------------------------------ */

/* There, and back to where the completion says it came from. */
static void there_and_back(void **state)
{
    struct ibv_qp *a = ud_up(), *b = ud_up();
    struct ibv_ah *ah = ah_to(&r.gid), *back;
    struct ibv_ah_attr attr;
    struct ibv_wc wc;

    (void)state;
    assert_non_null(ah);
    memcpy(r.buf, "hello", 5);
    recv_at(b, 1024, 256);
    recv_at(a, 2048, 256);
    send_to(a, ah, b->qp_num, 0, 5);
    wc = poll_recv();
    assert_int_equal(wc.byte_len, GRH + 5);
    assert_int_equal(wc.src_qp, a->qp_num);
    assert_int_equal(wc.qp_num, b->qp_num);
    assert_int_equal(wc.wc_flags & (IBV_WC_GRH | IBV_WC_WITH_IMM), IBV_WC_GRH | IBV_WC_WITH_IMM);
    assert_int_equal(wc.imm_data, 77);
    assert_memory_equal(r.buf + 1024 + GRH, "hello", 5);
    assert_int_equal(ibv_init_ah_from_wc(r.ctx, 1, &wc, (struct ibv_grh *)(r.buf + 1024), &attr), 0);
    assert_memory_equal(&attr.grh.dgid, &r.gid, sizeof(r.gid));
    assert_true(attr.is_global && attr.grh.sgid_index == 0 && attr.port_num == 1 && attr.grh.hop_limit > 0);
    back = ibv_create_ah_from_wc(r.pd, &wc, (struct ibv_grh *)(r.buf + 1024), 1);
    assert_non_null(back);
    send_to(b, back, wc.src_qp, 1024 + GRH, 5);
    wc = poll_recv();
    assert_int_equal(wc.src_qp, b->qp_num);
    assert_memory_equal(r.buf + 2048 + GRH, "hello", 5);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_destroy_ah(back), 0);
    assert_int_equal(ibv_destroy_qp(a), 0);
    assert_int_equal(ibv_destroy_qp(b), 0);
}

static void by_the_extended_interface(void **state)
{
    struct ibv_qp_init_attr_ex a = {.send_cq = r.cq,
                                    .recv_cq = r.cq,
                                    .qp_type = IBV_QPT_UD,
                                    .cap = cap,
                                    .pd = r.pd,
                                    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                    .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM};
    struct ibv_qp *qp = ibv_create_qp_ex(r.ctx, &a);
    struct ibv_qp_ex *ex = qp ? ibv_qp_to_qp_ex(qp) : NULL;
    struct ibv_ah *ah = ah_to(&r.gid);
    struct ibv_wc wc;

    (void)state;
    assert_non_null(ex);
    ud_to_rts(qp);
    recv_at(qp, 0, 100);
    ibv_wr_start(ex);
    ex->wr_id = 1;
    ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
    ibv_wr_send(ex);
    ibv_wr_set_ud_addr(ex, ah, qp->qp_num, QKEY);
    ibv_wr_set_inline_data(ex, "abc", 3);
    assert_int_equal(ibv_wr_complete(ex), 0);
    wc = poll_recv();
    assert_int_equal(wc.byte_len, GRH + 3);
    assert_memory_equal(r.buf + GRH, "abc", 3);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* As long as the port says and no longer; and after the error the queue pair can go on. */
static void a_datagram_fits_the_ports_mtu(void **state)
{
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS}, a;
    struct ibv_qp_init_attr init;
    struct ibv_qp *qp = ud_up();
    struct ibv_ah *ah = ah_to(&r.gid);
    struct ibv_port_attr port;
    uint32_t mtu;

    (void)state;
    assert_int_equal(ibv_query_port(r.ctx, 1, &port), 0);
    mtu = 128u << port.active_mtu;
    recv_at(qp, 16384, mtu + GRH);
    send_to(qp, ah, qp->qp_num, 0, mtu);
    assert_int_equal(poll_recv().byte_len, mtu + GRH);
    while (ibv_poll_cq(r.cq, 1, &(struct ibv_wc){0}) > 0) {
    }
    send_to(qp, ah, qp->qp_num, 0, mtu + 1);
    for (;;) {
        struct ibv_wc wc = rig_poll(r.cq);

        if (wc.status == IBV_WC_SUCCESS) continue; /* the first one's */
        assert_int_equal(wc.status, IBV_WC_LOC_LEN_ERR);
        break;
    }
    assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_STATE | IBV_QP_QKEY, &init), 0);
    assert_true(a.qp_state == IBV_QPS_SQE && a.qkey == QKEY && init.qp_type == IBV_QPT_UD);
    assert_int_equal(ibv_modify_qp(qp, &rts, IBV_QP_STATE), 0);
    recv_at(qp, 16384, 100);
    send_to(qp, ah, qp->qp_num, 0, 1);
    assert_int_equal(poll_recv().byte_len, 1 + GRH);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void what_an_address_handle_must_say(void **state)
{
    struct ibv_ah_attr a = {.is_global = 1, .port_num = 1, .grh = {.dgid = r.gid}};
    union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 1}};

    (void)state;
    a.grh.sgid_index = 1;
    assert_null(ibv_create_ah(r.pd, &a));
    a.grh.sgid_index = 0;
    a.port_num = 2;
    assert_null(ibv_create_ah(r.pd, &a));
    errno = 0;
    assert_null(ah_to(&group));
    assert_int_equal(errno, EOPNOTSUPP);
    memcpy(group.raw, (uint8_t[16]){[10] = 0xff, [11] = 0xff, [12] = 224, [15] = 1}, 16);
    errno = 0;
    assert_null(ah_to(&group));
    assert_int_equal(errno, EOPNOTSUPP);
}

static void there_is_no_multicast(void **state)
{
    union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 1}};
    struct ibv_qp *qp = ud_up();

    (void)state;
    assert_int_equal(ibv_attach_mcast(qp, &group, 0xc000), EOPNOTSUPP);
    assert_int_equal(ibv_detach_mcast(qp, &group, 0xc000), EOPNOTSUPP);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void a_pd_cannot_go_before_its_address_handles(void **state)
{
    struct ibv_pd *pd = ibv_alloc_pd(r.ctx);
    struct ibv_ah_attr a = {.is_global = 1, .port_num = 1, .grh = {.dgid = r.gid}};
    struct ibv_ah *ah = ibv_create_ah(pd, &a);

    (void)state;
    assert_non_null(ah);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* ---- UC ------------------------------------------------------------------------------------------------ */

static void uc_to_rts(struct ibv_qp *qp, uint32_t to)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

    assert_int_equal(
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_512;
    a.dest_qp_num = to;
    a.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = r.gid, .hop_limit = 64}};
    assert_int_equal(
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
        0);
    a.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static void uc_writes_and_has_no_reads(void **state)
{
    struct ibv_qp *a = make_qp(IBV_QPT_UC), *b = make_qp(IBV_QPT_UC);
    struct ibv_sge sge = {(uintptr_t)r.buf, 8, r.mr->lkey};
    struct ibv_send_wr read = {.opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1}, *bad;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    (void)state;
    assert_true(a && b);
    uc_to_rts(a, b->qp_num);
    uc_to_rts(b, a->qp_num);
    for (int i = 0; i < 5000; i++) r.buf[i] = (unsigned char)(i * 3);
    assert_int_equal(rig_write(a, &r, 0, 20000, 5000, 9), 0);
    assert_int_equal(rig_poll(r.cq).status, IBV_WC_SUCCESS);
    for (double end = rig_seconds() + RIG_WAIT_S;
         memcmp(r.buf + 20000, r.buf, 5000) && rig_seconds() < end;) {
        struct ibv_wc none;

        ibv_poll_cq(r.cq, 1, &none); /* drives the NIC */
    }
    read.wr.rdma.remote_addr = (uintptr_t)r.buf;
    read.wr.rdma.rkey = r.mr->rkey;
    read.send_flags = IBV_SEND_SIGNALED;
    assert_int_equal(ibv_post_send(a, &read, &bad), 0);
    assert_int_equal(rig_poll(r.cq).status, IBV_WC_LOC_QP_OP_ERR);
    assert_int_equal(ibv_query_qp(a, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_SQE);
    assert_memory_equal(r.buf + 20000, r.buf, 5000);
    assert_int_equal(ibv_destroy_qp(a), 0);
    assert_int_equal(ibv_destroy_qp(b), 0);
}

static void other_types_do_not_exist(void **state)
{
    (void)state;
    errno = 0;
    assert_null(make_qp(IBV_QPT_RAW_PACKET));
    assert_int_equal(errno, EOPNOTSUPP);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, up, down)
    const struct CMUnitTest tests[] = {
        T(there_and_back),
        T(by_the_extended_interface),
        T(a_datagram_fits_the_ports_mtu),
        T(what_an_address_handle_must_say),
        T(there_is_no_multicast),
        T(a_pd_cannot_go_before_its_address_handles),
        T(uc_writes_and_has_no_reads),
        T(other_types_do_not_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
