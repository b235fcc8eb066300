/* SPDX-License-Identifier: Apache-2.0 */
/* Results and effects of calls: the ibv_ conventions, errors, limits. CPU threads, a NIC played by a
 * thread. */
#include "tests/verbs/meaning.h"

static void test_bad_request_in_list(void **state)
{
    static const struct {
        int opcode, num_sge, flags, err;
        uint32_t length;
    } bad[] = {
        {IBV_WR_LOCAL_INV, 1, 0, EOPNOTSUPP, 8},
        {IBV_WR_BIND_MW, 1, 0, EOPNOTSUPP, 8},
        {99, 1, 0, EINVAL, 8},
        {IBV_WR_RDMA_WRITE, 17, 0, ENOMEM, 8},
        {IBV_WR_RDMA_WRITE, -1, 0, EINVAL, 8},
        {IBV_WR_RDMA_WRITE, 1, IBV_SEND_INLINE, ENOMEM, 513},
        {IBV_WR_RDMA_READ, 1, IBV_SEND_INLINE, EINVAL, 8},
        {IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0, EINVAL, 8},
        {IBV_WR_RDMA_WRITE, 1, 0, EINVAL, 0x80000000u},
    };
    struct ibv_send_wr wr[4], *where;
    struct ibv_wc wc[4];

    (void)state;
    for (size_t i = 0; i < 4 * sizeof(bad) / sizeof(bad[0]); i++) {
        struct ibv_sge odd[20];
        int at = (int)(i % 4);

        start(16, 0);
        memcpy(odd, sge, sizeof(odd));
        odd[0].length = bad[i / 4].length;
        for (int k = 0; k < 4; k++) make(&wr[k], (uint64_t)k, 1, k < 3 ? &wr[k + 1] : NULL);
        wr[at].opcode = (enum ibv_wr_opcode)bad[i / 4].opcode;
        wr[at].num_sge = bad[i / 4].num_sge;
        wr[at].sg_list = odd;
        wr[at].send_flags |= (unsigned)bad[i / 4].flags;
        where = NULL;
        assert_int_equal(gw_post_send(r.qp, wr, &where), bad[i / 4].err);
        assert_ptr_equal(where, &wr[at]);
        take(at, wc);
        for (int k = 0; k < at; k++) assert_int_equal(wc[k].wr_id, k);
        end();
        assert_int_equal(r.wqes, at);
    }
}

/* A datagram without an address handle, after ones that are like it in everything else. */
static void test_bad_datagram_in_list(void **state)
{
    struct ibv_send_wr wr[4], *where;
    struct gw_ah_handle ah;

    (void)state;
    memset(&ah, 0, sizeof(ah));
    for (int at = 0; at < 4; at++) {
        start(16, 0);
        rig_die(&r); /* it knows no datagrams */
        r.qp->flags |= GW_UD_;
        r.qp->state = GW_QP_READY_UD;
        for (int k = 0; k < 4; k++) {
            make(&wr[k], (uint64_t)k, 1, k < 3 ? &wr[k + 1] : NULL);
            wr[k].opcode = IBV_WR_SEND;
            wr[k].wr.ud.ah = k == at ? NULL : gw_ibv_ah(&ah);
        }
        assert_int_equal(gw_post_send(r.qp, wr, &where), EINVAL);
        assert_ptr_equal(where, &wr[at]);
        assert_int_equal(r.dbrec[GW_MLX5_DBREC_SEND], gw_mlx5_dbrec_be(2 * (uint32_t)at));
        end();
    }
}

/* A list that does not fit is posted as far as it does. */
static void test_full(void **state)
{
    struct ibv_send_wr wr[12], *where;
    struct ibv_wc wc[16];

    (void)state;
    start(16, 0);
    /* Each takes two WQEBBs; there is no poll, so that eight fit. */
    for (int k = 0; k < 12; k++) make(&wr[k], (uint64_t)k, 4, k < 11 ? &wr[k + 1] : NULL);
    assert_int_equal(gw_post_send(r.qp, wr, &where), ENOMEM);
    assert_ptr_equal(where, &wr[8]);
    assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, 20, 1, 8), 0, 0), -EAGAIN);
    take(8, wc);
    for (int k = 0; k < 8; k++) {
        assert_int_equal(wc[k].wr_id, k);
        assert_int_equal(wc[k].status, IBV_WC_SUCCESS);
        assert_int_equal(wc[k].opcode, IBV_WC_RDMA_WRITE);
        assert_int_equal(wc[k].qp_num, RIG_QPN);
    }
    assert_int_equal(gw_post_send(r.qp, where, &where), 0);
    take(4, wc);
    assert_int_equal(gw_poll_cq(r.cqh, 16, wc), 0);
    end();
    assert_int_equal(r.wqes, 12);
    assert_int_equal(r.bbs, 24);
}

/* The NIC reads the three flags as they were asked for, whichever call posts. */
static void check_flags(uint32_t at, uint32_t flags)
{
    struct gw_mlx5_wqe w;

    assert_int_equal(gw_mlx5_wqe_parse(&w, &(struct gw_mlx5_wqe_at){r.sq, 16, RIG_QPN, (uint16_t)at, 1, 63,
                                                                    GW_MLX5_FORM_CONNECTED}),
                     1);
    assert_int_equal(w.signaled != 0, (flags & 1) != 0);
    assert_int_equal(w.solicited != 0, (flags & 2) != 0);
    assert_int_equal(w.fence != 0, (flags & 4) != 0);
}

static void test_flags(void **state)
{
    struct ibv_send_wr wr, *bad;
    struct gw_tx tx;

    (void)state;
    for (uint32_t f = 0; f < 8; f++) {
        uint32_t typed = (f & 1 ? GW_SIGNALED : 0) | (f & 2 ? GW_SOLICITED : 0) | (f & 4 ? GW_FENCED : 0);

        start(16, 0);
        rig_die(&r);
        make(&wr, 1, 1, NULL);
        wr.send_flags =
            (f & 1 ? IBV_SEND_SIGNALED : 0) | (f & 2 ? IBV_SEND_SOLICITED : 0) | (f & 4 ? IBV_SEND_FENCE : 0);
        assert_int_equal(gw_post_send(r.qp, &wr, &bad), 0);
        assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, 1, 1, 8), typed, 0), 0);
        assert_int_equal(gw_tx_open(&tx, r.qp), 0);
        assert_int_equal(gw_tx_post(&tx, gw_put_op(1, 1, 1, 1, 8), typed, NULL), 0);
        for (uint32_t at = 0; at < 3; at++) check_flags(at, f);
        end();
    }
}

/* Compares the n WQEs at two places of the send queue, but for their places, and returns their WQEBBs. */
static uint32_t same_wqes(uint64_t at, uint64_t other, uint32_t n, const char *name)
{
    uint32_t bbs = 0;

    for (; n; n--) {
        const uint8_t *a = r.qp->sq.buf + (at + bbs) * GW_MLX5_WQEBB,
                      *b = r.qp->sq.buf + (other + bbs) * GW_MLX5_WQEBB;
        uint32_t units = a[7] & 0x3f;

        if (a[0] != b[0] || a[3] != b[3] || memcmp(a + 4, b + 4, units * 16 - 4))
            fail_msg("%s: by name and by ticket it is not the same", name);
        bbs += gw_mlx5_wqebbs(units);
    }
    return bbs;
}

/* Posts op by name and by ticket: the same WQEs, and their slots have the name. */
static void check_op(const char *name, struct gw_op op, uint32_t wqes)
{
    uint64_t at = r.qp->sq_resv, t;
    struct gw_tx tx;

    assert_int_equal(gw_post_op(r.qp, op, GW_SIGNALED | GW_FENCED, 4711), 0);
    assert_int_equal(gw_tx_open(&tx, r.qp), 0);
    assert_int_equal(gw_tx_post(&tx, op, GW_SIGNALED | GW_FENCED, &t), 0);
    assert_int_equal(t, at + 2 * op.bbs);
    assert_int_equal(same_wqes(at, at + op.bbs, wqes, name), op.bbs);
    assert_int_equal(r.qp->slot[at].wr_id, 4711);
    assert_int_equal(r.qp->slot[at + op.bbs / wqes * (wqes - 1)].wr_id, 4711);
    assert_int_equal(r.qp->slot[at + op.bbs / wqes * (wqes - 1)].end & GW_SLOT_END_, at + op.bbs);
}

static void test_each_operation(void **state)
{
    struct gw_op put = gw_put_op(1, 2, 3, 4, 5), swap = gw_cmp_swap_op(1, 2, 8, 4, 6, 7);
    struct gw_ah_handle ah;
    struct gw_op to = gw_send_to_op(&ah, 1, 2, 3, 4, 5), send = gw_send_op(1, 2, 3);
    struct gw_tx tx;

    (void)state;
    memset(&ah, 0, sizeof(ah));
    start(64, 0);
    rig_die(&r);
    check_op("put", put, 1);
    check_op("put without payload", gw_put_op(1, 2, 3, 4, 0), 1);
    check_op("put with immediate", gw_with_imm(put, 9), 1);
    check_op("put with signal", gw_with_signal(put, 16, 4, 17), 2);
    check_op("get", gw_get_op(1, 2, 3, 4, 5), 1);
    check_op("send", send, 1);
    check_op("send with immediate", gw_with_imm(send, 9), 1);
    check_op("fetch and add", gw_fetch_add_op(1, 2, 8, 4, 6), 1);
    check_op("compare and swap", swap, 1);
    check_op("masked fetch and add", gw_masked_fetch_add_op(1, 2, 8, 4, 6, 7), 1);
    check_op("masked compare and swap", gw_with_masks(swap, 10, 11), 1);
    assert_int_equal(gw_post_op(r.qp, to, 0, 0), -EOPNOTSUPP);
    r.qp->flags |= GW_NO_MASKED_;
    assert_int_equal(gw_post_op(r.qp, gw_with_masks(swap, 10, 11), 0, 0), -EOPNOTSUPP);
    r.qp->flags |= GW_NO_ATOMICS_;
    assert_int_equal(gw_post_op(r.qp, swap, 0, 0), -EOPNOTSUPP);

    r.qp->flags |= GW_UD_;
    r.qp->state = GW_QP_READY_UD;
    check_op("datagram", to, 1);
    check_op("datagram without payload", gw_send_to_op(&ah, 1, 2, 3, 4, 0), 1);
    check_op("datagram with immediate", gw_with_imm(to, 9), 1);
    assert_int_equal(gw_post_op(r.qp, send, 0, 0), -EOPNOTSUPP);
    assert_int_equal(gw_tx_open(&tx, r.qp), 0);
    assert_int_equal(gw_tx_post(&tx, send, 0, NULL), -EOPNOTSUPP);
    end();
}

/* An unsignalled request's room comes back with the next signalled one's completion. */
static void test_unsignalled(void **state)
{
    struct ibv_wc wc;

    (void)state;
    start(8, 0);
    for (uint32_t i = 0; i < 800; i++) {
        assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, i, 1, 8), i % 8 == 7 ? GW_SIGNALED : 0, i), 0);
        if (i % 8 != 7) continue;
        assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, i, 1, 8), 0, i), -EAGAIN);
        take(1, &wc);
        assert_int_equal(wc.wr_id, i);
    }
    end();
    assert_int_equal(r.wqes, 800);
}

static void test_not_connected(void **state)
{
    struct ibv_send_wr wr, *where = NULL;
    struct gw_ah_handle ah = {.size = sizeof(ah)};
    struct gw_tx tx;

    (void)state;
    start(8, 0);
    assert_int_equal(gw_tx_open(&tx, r.qp), 0);
    assert_int_equal(gw_tx_post(&tx, gw_send_to_op(&ah, 1, 2, 3, 4, 5), 0, NULL), -EOPNOTSUPP);
    r.qp->state = GW_QP_NOT_CONNECTED;
    assert_int_equal(gw_tx_open(&tx, r.qp), -ENOTCONN);
    assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, 1, 1, 8), 0, 0), -ENOTCONN);
    assert_int_equal(gw_post_op(r.qp, gw_get_op(1, 1, 1, 1, 8), 0, 0), -ENOTCONN);
    assert_int_equal(gw_send(r.qp, 1, 1, 8, 0, 0), -ENOTCONN);
    assert_int_equal(gw_post_op_warp(r.qp, 1, gw_put_op(1, 1, 1, 1, 8), 0, 0), -ENOTCONN);
    make(&wr, 1, 1, NULL);
    assert_int_equal(gw_post_send(r.qp, &wr, &where), EINVAL);
    assert_ptr_equal(where, &wr);
    assert_int_equal(gw_recv_empty(r.qp, 9, 0), -EMSGSIZE);
    assert_int_equal(gw_recv_empty(r.qp, 8, 0), 0);
    assert_int_equal(gw_recv_empty(r.qp, 1, 0), -EAGAIN);
    end();
    assert_int_equal(r.rings, 0);
}

/* The first error is kept, with the request that had it, though it was unsignalled; later ones are flushed.
 */
static void test_error(void **state)
{
    struct ibv_send_wr wr, *where;
    struct ibv_wc wc[8];

    (void)state;
    start(8, 3);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, i, 1, 8), GW_DEFER, 100 + i), 0);
    gw_ring(r.qp);
    take(3, wc);
    assert_int_equal(wc[0].status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(wc[0].wr_id, 102);
    assert_int_equal(wc[1].status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(wc[1].wr_id, 103);
    assert_int_equal(wc[2].wr_id, 104);
    assert_int_equal(r.qp->state, GW_QP_FAULTED);
    assert_int_equal(r.qp->fault_status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(r.qp->fault_syndrome, GW_MLX5_SYND_REM_ACCESS);
    assert_int_equal(r.qp->fault_wr_id, 102);
    assert_int_equal(r.qp->fault_index, 2);
    assert_int_equal(r.qp->fault_recv, 0);
    assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, 9, 1, 8), 0, 0), -EIO);
    /* ibv_post_send goes on, and its requests complete flushed; all room comes back. */
    for (uint32_t i = 0; i < 20; i++) {
        make(&wr, 10 + i, 1, NULL);
        assert_int_equal(gw_post_send(r.qp, &wr, &where), 0);
        take(1, wc);
        assert_int_equal(wc[0].status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc[0].wr_id, 10 + i);
    }
    assert_int_equal(r.qp->fault_wr_id, 102);
    end();
}

static void test_unknown_queue_pair(void **state)
{
    struct ibv_wc wc[4];

    (void)state;
    start(8, 0);
    assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, 0, 1, 8), GW_SIGNALED, 1), 0);
    while (!gw_cq_ready_(r.cqh, 0)) gw_pause(100);
    gw_st_relaxed_u32(&((struct gw_mlx5_cqe *)r.cq)->wqe_opcode_qpn_be, gw_be32(0x4712));
    assert_int_equal(gw_poll_cq(r.cqh, 4, wc), 0);
    assert_int_equal(r.cqh->dropped, 1);
    assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, 1, 1, 8), GW_SIGNALED, 2), 0);
    take(1, wc);
    assert_int_equal(wc[0].wr_id, 2);
    end();
}

static void test_wait(void **state)
{
    uint64_t before = gw_clock_ns();
    uint32_t stop = 0;
    struct ibv_wc wc;

    (void)state;
    start(8, 0);
    assert_int_equal(gw_wait_cq(r.cqh, 1, &wc, before + 5000000, &stop, -1), -ETIMEDOUT);
    assert_int_equal(gw_wait_cq(r.cqh, 1, &wc, 0, &stop, -1), -EAGAIN);
    assert_true(gw_clock_ns() - before >= 5000000);
    stop = 1;
    assert_int_equal(gw_wait_cq(r.cqh, 1, &wc, UINT64_MAX, &stop, -1), -ECANCELED);
    assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, 0, 1, 8), GW_SIGNALED, 7), 0);
    stop = 0;
    assert_int_equal(gw_wait_cq(r.cqh, 1, &wc, before + 60000000000u, &stop, -1), 1);
    assert_int_equal(wc.wr_id, 7);
    assert_int_equal(gw_poll_cq(r.cqh, 0, &wc), 0);
    end();
}

static void test_endpoint_text(void **state)
{
    static const char *const bad[] = {
        "",
        "gw:",
        "gw:1:00000000000000000000ffff7f00000:000002:000000:1024:0",
        "gw:1:00000000000000000000ffff7f0000011:000002:000000:1024:0",
        "gw:1:00000000000000000000ffff7f00000g:000002:000000:1024:0",
        "gw:1:00000000000000000000ffff7f000001:000001:000000:1024:0",
        "gw:1:00000000000000000000ffff7f000001:1000000:000000:1024:0",
        "gw:1:00000000000000000000ffff7f000001:000002::1024:0",
        "gw:1:00000000000000000000ffff7f000001:000002:000000:5000:0",
        "gw:1:00000000000000000000ffff7f000001:000002:000000:1024:0 ",
        "gw:1:00000000000000000000ffff7f000001:000002:000000:1024:",
        "gw:1:00000000000000000000ffff7f000001:000002:99999999999999999999:1024:0",
    };
    struct gw_endpoint ep = {.qpn = 0xabcdef, .psn = 0x000123, .mtu = 4096, .lid = 65535}, got;
    char text[GW_ENDPOINT_TEXT];

    (void)state;
    for (int i = 0; i < 16; i++) ep.gid[i] = (uint8_t)(17 * i);
    gw_endpoint_format(&ep, text);
    assert_string_equal(text, "gw:1:00112233445566778899aabbccddeeff:abcdef:000123:4096:65535");
    assert_int_equal(gw_endpoint_parse(text, &got), 0);
    assert_memory_equal(&got, &ep, sizeof(ep));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(gw_endpoint_parse(bad[i], &got), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_request_in_list),
        cmocka_unit_test(test_bad_datagram_in_list),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_each_operation),
        cmocka_unit_test(test_unsignalled),
        cmocka_unit_test(test_not_connected),
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_unknown_queue_pair),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_endpoint_text),
    };

    return RUN_MEANING(tests);
}
