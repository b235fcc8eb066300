/* SPDX-License-Identifier: Apache-2.0 */
/* The WQE parser against entries that break one rule each, and against noise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "src/mlx5/wqe.h"
#include "tests/rnd.h"

enum { BBS = 16, QPN = 0x42 };

static uint8_t queue[BBS * GW_MLX5_WQEBB] __attribute__((aligned(64)));
static const struct gw_mlx5_sq sq = {queue, BBS, QPN};
static struct gw_mlx5_wqe w;

/* Parses at WQEBB 3 with everything allowed. */
static int parse(void)
{
    return gw_mlx5_wqe_parse(&w,
                             &(struct gw_mlx5_wqe_at){queue, BBS, QPN, 3, BBS, 63, GW_MLX5_FORM_CONNECTED});
}

static void put(uint32_t unit, struct gw_u128 seg)
{
    gw_mlx5_put(&sq, 3 * 4 + unit, seg);
}

static void ctrl(uint32_t opcode, uint32_t ds)
{
    memset(queue, 0, sizeof(queue));
    put(0, gw_mlx5_ctrl(opcode, 3, QPN, ds, 0, 0));
}

static void bad_control(void **state)
{
    (void)state;
    ctrl(GW_MLX5_SEND, 1);
    assert_int_equal(parse(), 1);
    assert_int_equal(w.pieces, 0);
    assert_int_equal(
        gw_mlx5_wqe_parse(&w, &(struct gw_mlx5_wqe_at){queue, BBS, QPN, 3, 0, 63, GW_MLX5_FORM_CONNECTED}),
        -EINVAL);
    assert_int_equal(w.why, GW_MLX5_NOT_POSTED);
    assert_int_equal(gw_mlx5_wqe_parse(
                         &w, &(struct gw_mlx5_wqe_at){queue, BBS, QPN + 1, 3, 1, 63, GW_MLX5_FORM_CONNECTED}),
                     -EINVAL);
    assert_int_equal(w.why, GW_MLX5_BAD_QPN);
    assert_int_equal(gw_mlx5_wqe_parse(&w, &(struct gw_mlx5_wqe_at){queue, BBS, QPN, 3 + BBS, 1, 63,
                                                                    GW_MLX5_FORM_CONNECTED}),
                     -EINVAL); /* the same place, a lap later */
    assert_int_equal(w.why, GW_MLX5_BAD_INDEX);
    assert_int_equal(w.index, 3);
    for (uint32_t wqebbs = 0; wqebbs <= 0x20000; wqebbs += wqebbs < 4 ? 3 : 0xfffd) {
        assert_int_equal(gw_mlx5_wqe_parse(&w, &(struct gw_mlx5_wqe_at){queue, wqebbs, QPN, 3, 1, 63,
                                                                        GW_MLX5_FORM_CONNECTED}),
                         -EINVAL);
        assert_int_equal(w.why, GW_MLX5_BAD_QUEUE);
    }
    ctrl(GW_MLX5_SEND, 0);
    assert_int_equal(parse(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_BAD_DS);
    ctrl(GW_MLX5_WRITE, 1);
    assert_int_equal(parse(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_BAD_DS);
    ctrl(GW_MLX5_ATOMIC_CS, 2);
    assert_int_equal(parse(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_BAD_DS);
    ctrl(0x0e, 4); /* TSO */
    assert_int_equal(parse(), -EOPNOTSUPP);
    assert_int_equal(w.why, GW_MLX5_BAD_OPCODE);
    assert_int_equal(w.opcode, 0x0e);
    ctrl(GW_MLX5_SEND, 1);
    queue[3 * 64] = 1;
    assert_int_equal(parse(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_BAD_OPMOD);
}

static void limits(void **state)
{
    (void)state;
    ctrl(GW_MLX5_NOP, 9);
    assert_int_equal(parse(), 3);
    assert_int_equal(
        gw_mlx5_wqe_parse(&w, &(struct gw_mlx5_wqe_at){queue, BBS, QPN, 3, 2, 63, GW_MLX5_FORM_CONNECTED}),
        -EINVAL);
    assert_int_equal(w.why, GW_MLX5_NOT_POSTED);
    assert_int_equal(
        gw_mlx5_wqe_parse(&w, &(struct gw_mlx5_wqe_at){queue, BBS, QPN, 3, 3, 8, GW_MLX5_FORM_CONNECTED}),
        -EINVAL);
    assert_int_equal(w.why, GW_MLX5_OVER_LIMIT);
    ctrl(GW_MLX5_NOP, 63);
    assert_int_equal(gw_mlx5_wqe_parse(
                         &w, &(struct gw_mlx5_wqe_at){queue, BBS, QPN, 3, BBS, 1000, GW_MLX5_FORM_CONNECTED}),
                     16);
    put(0, gw_mlx5_ctrl(GW_MLX5_NOP, 3, QPN, 63, 0, 0));
    memcpy(queue + 3 % 2 * 64, queue + 3 * 64, 16); /* a queue of two WQEBBs */
    assert_int_equal(
        gw_mlx5_wqe_parse(&w, &(struct gw_mlx5_wqe_at){queue, 2, QPN, 3, BBS, 63, GW_MLX5_FORM_CONNECTED}),
        -EINVAL);
    assert_int_equal(w.why, GW_MLX5_OVER_LIMIT);
}

static void bad_data(void **state)
{
    (void)state;
    ctrl(GW_MLX5_SEND, 2); /* a data segment of zeros */
    assert_int_equal(parse(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_ZERO_LENGTH);
    ctrl(GW_MLX5_SEND, 4);
    put(1, gw_mlx5_data(1, 0x7fffffff, 2));
    put(2, gw_mlx5_data(1, 1, 2));
    put(3, gw_mlx5_data(1, 1, 2));
    assert_int_equal(parse(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_TOO_LONG);
    put(1, gw_mlx5_data(1, GW_MLX5_MAX_MSG - 2, 2));
    assert_int_equal(parse(), 1);
    assert_int_equal(w.length, GW_MLX5_MAX_MSG);
    assert_int_equal(w.pieces, 3);
}

static void bad_inline(void **state)
{
    struct gw_mlx5_piece piece;
    uint32_t unit = 0;

    (void)state;
    ctrl(GW_MLX5_SEND, 3);
    put(1, gw_mlx5_inline12(28, 1, 2, 3)); /* exactly what two units hold */
    assert_int_equal(parse(), 1);
    assert_int_equal(w.length, 28);
    put(1, gw_mlx5_inline12(29, 1, 2, 3));
    assert_int_equal(parse(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_INLINE_OVERRUN);
    put(1, gw_mlx5_inline12(0x7fffffff, 1, 2, 3));
    assert_int_equal(parse(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_INLINE_OVERRUN);
    put(1, gw_mlx5_inline12(0, 1, 2, 3)); /* empty, then data: allowed, and not a piece */
    put(2, gw_mlx5_data(7, 8, 9));
    assert_int_equal(parse(), 1);
    assert_int_equal(w.pieces, 1);
    assert_true(gw_mlx5_wqe_piece(&w, &unit, &piece));
    assert_true(piece.addr == 7 && piece.length == 8 && piece.lkey == 9 && !piece.inl);
    assert_false(gw_mlx5_wqe_piece(&w, &unit, &piece));
    ctrl(GW_MLX5_READ, 3);
    put(2, gw_mlx5_inline12(4, 1, 2, 3));
    assert_int_equal(parse(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_INLINE_DENIED);
    put(2, gw_mlx5_inline12(400, 1, 2, 3));
    assert_int_equal(parse(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_INLINE_DENIED);
}

static void bad_atomic(void **state)
{
    (void)state;
    ctrl(GW_MLX5_ATOMIC_FA, 3);
    assert_int_equal(parse(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_BAD_ATOMIC); /* nowhere to put the old value */
    ctrl(GW_MLX5_ATOMIC_FA, 4);
    put(3, gw_mlx5_data(8, 4, 2));
    assert_int_equal(parse(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_BAD_ATOMIC);
    put(3, gw_mlx5_data(8, 8, 2));
    assert_int_equal(parse(), 1);
    put(1, gw_mlx5_raddr(12, 1)); /* for the responder to refuse */
    assert_int_equal(parse(), 1);
    ctrl(GW_MLX5_ATOMIC_FA, 5);
    put(3, gw_mlx5_data(8, 4, 2));
    put(4, gw_mlx5_data(16, 4, 2));
    assert_int_equal(parse(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_BAD_ATOMIC);
}

/* Only operands of 8 bytes: 0x08 would say 4, 0x0a 16, and 0 says nothing. */
static void bad_masked_atomic(void **state)
{
    static const uint8_t opmods[] = {0, 0x01, 0x08, 0x0a, 0x0b, 0x19, 0xff};

    (void)state;
    for (uint32_t op = GW_MLX5_MASKED_CS; op <= GW_MLX5_MASKED_FA; op++) {
        uint32_t head = gw_mlx5_head_units(op);

        for (size_t i = 0; i < sizeof(opmods); i++) {
            ctrl(op, head + 1);
            put(head, gw_mlx5_data(8, 8, 2));
            queue[3 * 64] = opmods[i];
            assert_int_equal(parse(), -EINVAL);
            assert_int_equal(w.why, GW_MLX5_BAD_OPERAND);
        }
        ctrl(op, head);
        assert_int_equal(parse(), -EINVAL);
        assert_int_equal(w.why, GW_MLX5_BAD_ATOMIC);
        ctrl(op, head - 1);
        assert_int_equal(parse(), -EINVAL);
        assert_int_equal(w.why, GW_MLX5_BAD_DS);
        ctrl(op, head + 1);
    }
    ctrl(GW_MLX5_ATOMIC_CS, 4);
    queue[3 * 64] = GW_MLX5_OPMOD_8_BYTES;
    assert_int_equal(parse(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_BAD_OPMOD);
}

static int parse_ud(void)
{
    return gw_mlx5_wqe_parse(&w, &(struct gw_mlx5_wqe_at){queue, BBS, QPN, 3, BBS, 63, GW_MLX5_FORM_UD});
}

/* The words of a datagram's address that a rule is about: Q_Key, and the number with the mark of the long
 * form. */
static void address(uint32_t qkey, uint32_t dqpn)
{
    put(1, (struct gw_u128){{gw_be32(qkey), 0, gw_be32(dqpn), 0}});
}

static void datagram(void **state)
{
    static const uint8_t others[] = {GW_MLX5_SEND_INVAL, GW_MLX5_WRITE,     GW_MLX5_WRITE_IMM,
                                     GW_MLX5_READ,       GW_MLX5_ATOMIC_CS, GW_MLX5_ATOMIC_FA,
                                     GW_MLX5_MASKED_CS,  GW_MLX5_MASKED_FA, 0x0e};

    (void)state;
    for (size_t i = 0; i < sizeof(others); i++) {
        ctrl(others[i], 6);
        address(1, GW_MLX5_AV_EXTENDED | 2);
        assert_int_equal(parse_ud(), -EOPNOTSUPP);
        assert_int_equal(w.why, GW_MLX5_BAD_OPCODE);
    }
    ctrl(GW_MLX5_SEND, 3);
    assert_int_equal(parse_ud(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_BAD_DS);
    ctrl(GW_MLX5_SEND, 4);
    address(5, 0x80abcdef);
    assert_int_equal(parse_ud(), 1);
    assert_true(w.qkey == 5 && w.dqpn == 0xabcdef && !w.length && !w.has_raddr);
    assert_int_equal(gw_be32(gw_mlx5_wqe_av(&w)->dqpn_be), 0x80abcdef);
    address(5, 0x00abcdef); /* the short form */
    assert_int_equal(parse_ud(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_BAD_AV);
    ctrl(GW_MLX5_SEND_IMM, 5);
    address(GW_MLX5_QKEY_OF_QP, GW_MLX5_AV_EXTENDED);
    put(4, gw_mlx5_inline12(13, 1, 2, 3));
    assert_int_equal(parse_ud(), -EINVAL);
    assert_int_equal(w.why, GW_MLX5_INLINE_OVERRUN);
    put(4, gw_mlx5_data(7, 8, 9));
    assert_int_equal(parse_ud(), 2);
    assert_true(w.length == 8 && w.pieces == 1 && w.data_unit == 4);
    ctrl(GW_MLX5_NOP, 1);
    assert_int_equal(parse_ud(), 1);
}

static void receive(void **state)
{
    struct gw_mlx5_sge sge[5] = {{1, 10, 2}, {3, 0, 4}, {5, 0x7fffffff, 6}, {7, 0x7fffffff, 8}, {9, 1, 10}};
    struct gw_mlx5_rq rq = {queue, 8, 64};
    struct gw_mlx5_rwqe r;
    struct gw_mlx5_piece piece;
    uint32_t unit = 0, n = 0;

    (void)state;
    assert_int_equal(gw_mlx5_put_recv(&rq, 13, sge, 4, 4), 0);
    assert_int_equal(gw_mlx5_rwqe_parse(&r, queue, 8, 64, 13), 3);
    assert_true(r.length == 10 + 2 * UINT64_C(0x7fffffff));
    while (gw_mlx5_rwqe_piece(&r, &unit, &piece)) n += piece.lkey;
    assert_int_equal(n, 2 + 6 + 8);
    sge[1].length = 1; /* all four used: no terminator */
    assert_int_equal(gw_mlx5_put_recv(&rq, 7, sge, 4, 4), 0);
    assert_int_equal(gw_mlx5_rwqe_parse(&r, queue, 8, 64, 7), 4);
    assert_int_equal(gw_mlx5_put_recv(&rq, 0, sge, 0, 4), 0);
    assert_int_equal(gw_mlx5_rwqe_parse(&r, queue, 8, 64, 0), 0);
    assert_true(r.length == 0);
    gw_store16(queue, gw_mlx5_data(1, 0, 5)); /* a length of 0 and another key */
    assert_int_equal(gw_mlx5_rwqe_parse(&r, queue, 8, 64, 0), -EINVAL);
    assert_int_equal(r.why, GW_MLX5_ZERO_LENGTH);
    gw_store16(queue, gw_mlx5_inline12(4, 1, 2, 3));
    assert_int_equal(gw_mlx5_rwqe_parse(&r, queue, 8, 64, 0), -EINVAL);
    assert_int_equal(r.why, GW_MLX5_INLINE_DENIED);
    assert_int_equal(gw_mlx5_rwqe_parse(&r, queue, 8, 48, 0), -EINVAL);
    assert_int_equal(r.why, GW_MLX5_BAD_QUEUE);
    assert_int_equal(gw_mlx5_rwqe_parse(&r, queue, 8, 8, 0), -EINVAL);
    assert_int_equal(gw_mlx5_rwqe_parse(&r, queue, 8, 2048, 0), -EINVAL);
    assert_int_equal(gw_mlx5_rwqe_parse(&r, queue, 7, 64, 0), -EINVAL);
}

static void shared_receive(void **state)
{
    struct gw_mlx5_sge sge[4] = {{1, 10, 2}, {3, 0, 4}, {5, 0x7fffffff, 6}, {7, 1, 8}};
    struct gw_mlx5_rq rq = {queue, 8, 64};
    struct gw_mlx5_rwqe r;
    struct gw_mlx5_piece piece;
    uint32_t unit = 0, n = 0;
    uint16_t next = 0;

    (void)state;
    gw_store16(queue + 5 * 64, gw_mlx5_srq_next(0x1234));
    assert_int_equal(gw_mlx5_put_srq_recv(&rq, 5, sge, 3, 3), 0);
    assert_int_equal(gw_mlx5_srq_wqe_parse(&r, queue, 8, 64, 5, &next), 3);
    assert_int_equal(next, 0x1234); /* the link is what stands there: the queue's owner judges it */
    assert_true(r.length == 10 + UINT64_C(0x80000000) + 0x7fffffff);
    while (gw_mlx5_rwqe_piece(&r, &unit, &piece)) {
        n += piece.lkey;
        assert_true(piece.lkey != 4 || piece.length == 0x80000000);
    }
    assert_int_equal(n, 2 + 4 + 6);
    gw_store16(queue + 5 * 64, gw_mlx5_srq_next(2));
    assert_int_equal(gw_mlx5_put_srq_recv(&rq, 5, sge, 1, 3), 0); /* ended before its room is */
    assert_int_equal(gw_mlx5_srq_wqe_parse(&r, queue, 8, 64, 5, &next), 1);
    assert_int_equal(next, 2);
    assert_int_equal(gw_mlx5_put_srq_recv(&rq, 5, sge, 4, 3), -EINVAL);
    assert_int_equal(gw_mlx5_put_srq_recv(&rq, 5, sge, 4, 4), -EINVAL);
    gw_store16(queue + 5 * 64 + 16, gw_mlx5_inline12(4, 1, 2, 3));
    assert_int_equal(gw_mlx5_srq_wqe_parse(&r, queue, 8, 64, 5, &next), -EINVAL);
    assert_int_equal(r.why, GW_MLX5_INLINE_DENIED);
    assert_int_equal(gw_mlx5_srq_wqe_parse(&r, queue, 8, 16, 5, &next), -EINVAL);
    assert_int_equal(r.why, GW_MLX5_BAD_QUEUE);
}

/* Noise, mostly with a plausible control segment: never reads outside (the queue is on the heap for the
 * sanitizer). */
static void noise(void **state)
{
    uint8_t *q = aligned_alloc(64, BBS * 64);
    struct gw_mlx5_piece piece;
    struct gw_mlx5_rwqe r;
    struct rnd rnd = {12};
    uint16_t next;
    int good = 0;

    (void)state;
    assert_non_null(q);
    for (int i = 0; i < 100000; i++) {
        uint16_t idx = (uint16_t)rnd64(&rnd);
        struct gw_mlx5_sq s = {q, BBS, QPN};
        uint32_t unit = 0;
        uint64_t total = 0;

        if (i % 16 == 0) rnd_bytes(&rnd, q, BBS * 64);
        q[rnd_below(&rnd, BBS * 64)] = rnd64(&rnd) & 1 ? 0 : (uint8_t)rnd64(&rnd);
        gw_mlx5_put(
            &s, idx * 4u,
            gw_mlx5_ctrl(rnd_below(&rnd, 0x14), idx, QPN, rnd_below(&rnd, 8), (uint32_t)rnd64(&rnd), 0));
        const struct gw_mlx5_wqe_at at = {
            q, BBS, QPN, idx, 16, 63, i & 1 ? GW_MLX5_FORM_UD : GW_MLX5_FORM_CONNECTED};

        if (gw_mlx5_wqe_parse(&w, &at) > 0) {
            good++;
            while (gw_mlx5_wqe_piece(&w, &unit, &piece)) {
                total += piece.length;
                if (piece.inl) assert_true(piece.inl + piece.length <= w.raw + w.ds * 16);
            }
            assert_true(total == w.length);
        } else {
            assert_true(w.why && strcmp(gw_mlx5_why_text(w.why), "unknown reason"));
        }
        if (gw_mlx5_rwqe_parse(&r, q, BBS * 64 / 128, 128, idx) > 0) good++;
        if (gw_mlx5_srq_wqe_parse(&r, q, BBS * 64 / 128, 128, idx, &next) > 0) good++;
    }
    assert_true(good > 100);
    free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_control),    cmocka_unit_test(limits),     cmocka_unit_test(bad_data),
        cmocka_unit_test(bad_inline),     cmocka_unit_test(bad_atomic), cmocka_unit_test(bad_masked_atomic),
        cmocka_unit_test(datagram),       cmocka_unit_test(receive),    cmocka_unit_test(noise),
        cmocka_unit_test(shared_receive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
