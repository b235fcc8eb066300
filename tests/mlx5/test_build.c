/* SPDX-License-Identifier: Apache-2.0 */
/* The builders against bytes written by hand, and against the parser, at every place in the queue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "src/mlx5/wqe.h"
#include "tests/mlx5/random_wr.h"

enum { BBS = 32, QPN = 0xabcdef };

static uint8_t queue[BBS * GW_MLX5_WQEBB] __attribute__((aligned(64)));
static const struct gw_mlx5_sq sq = {queue, BBS, QPN};

static void golden_send(void **state)
{
    static const uint8_t want[32] = {0,    0x12, 0x34, 0x0b, 0xab, 0xcd, 0xef, 2,    0, 0, 0,
                                     0x0a, 0xca, 0xfe, 0xf0, 0x0d, 0,    0,    0x10, 1, 0, 0,
                                     2,    0xff, 0,    0,    0x7f, 1,    2,    3,    4, 5};
    uint32_t imm_be;

    (void)state;
    memcpy(&imm_be, "\xca\xfe\xf0\x0d", 4);
    memset(queue, 0xee, sizeof(queue));
    assert_int_equal(gw_mlx5_put_send(&sq, 0x1234, GW_MLX5_SEND_IMM, GW_MLX5_SIGNALED | GW_MLX5_SOLICITED,
                                      imm_be, 0x7f0102030405, 0x1001, 0x2ff),
                     1);
    assert_memory_equal(queue + (0x1234 % BBS) * 64, want, 32);
    assert_int_equal(queue[(0x1234 % BBS) * 64 + 32], 0xee); /* nothing after it */
}

static void golden_write_read_atomic(void **state)
{
    static const uint8_t write[48] = {0, 0, 5, 8,    0xab, 0xcd, 0xef, 3, 0, 0, 0, 0x88, 0, 0, 0, 0,
                                      0, 0, 0, 0x70, 0,    0,    0,    8, 0, 0, 3, 9,    0, 0, 0, 0,
                                      0, 0, 0, 7,    0,    0,    0,    6, 0, 0, 0, 0,    0, 0, 0, 9};
    static const uint8_t swap[64] = {0, 0, 6, 0x11, 0xab, 0xcd, 0xef, 4, 0, 0, 0, 8, 0, 0, 0, 0,
                                     0, 0, 0, 0,    0,    0,    0,    8, 0, 0, 0, 9, 0, 0, 0, 0,
                                     0, 0, 0, 0,    0,    0,    0,    1, 0, 0, 0, 0, 0, 0, 0, 2,
                                     0, 0, 0, 8,    0,    0,    0,    4, 0, 0, 0, 0, 0, 0, 0, 3};

    (void)state;
    gw_mlx5_put_rdma(&sq, 5, GW_MLX5_WRITE, GW_MLX5_SIGNALED | GW_MLX5_FENCE, 0, 0x7000000008, 0x309, 9, 7,
                     6);
    assert_memory_equal(queue + 5 * 64, write, sizeof(write));
    gw_mlx5_put_atomic(&sq, 6, GW_MLX5_ATOMIC_CS, GW_MLX5_SIGNALED, 8, 9, 1, 2, 3, 4);
    assert_memory_equal(queue + 6 * 64, swap, sizeof(swap));
}

static void golden_masked(void **state)
{
    static const uint8_t swap[80] = {
        9, 0, 5, 0x14, 0xab, 0xcd, 0xef, 5, 0, 0, 0, 8, 0, 0, 0, 0, /* control: 8 bytes */
        0, 0, 0, 0,    0,    0,    0,    8, 0, 0, 0, 9, 0, 0, 0, 0, /* where */
        0, 0, 0, 0,    0,    0,    0,    1, 0, 0, 0, 0, 0, 0, 0, 2, /* swap, compare */
        0, 0, 0, 0,    0,    0,    0,    3, 0, 0, 0, 0, 0, 0, 0, 4, /* their masks */
        0, 0, 0, 8,    0,    0,    0,    6, 0, 0, 0, 0, 0, 0, 0, 5, /* the old value's place */
    };
    static const uint8_t add[64] = {9, 0, 7, 0x15, 0xab, 0xcd, 0xef, 4, 0, 0, 0, 8, 0, 0, 0, 0,
                                    0, 0, 0, 0,    0,    0,    0,    8, 0, 0, 0, 9, 0, 0, 0, 0,
                                    0, 0, 0, 0,    0,    0,    0,    1, 0, 0, 0, 0, 0, 0, 0, 2,
                                    0, 0, 0, 8,    0,    0,    0,    4, 0, 0, 0, 0, 0, 0, 0, 3};

    (void)state;
    assert_int_equal(gw_mlx5_put_masked_cs(&sq, 5, GW_MLX5_SIGNALED, 8, 9, 1, 2, 3, 4, 5, 6), 2);
    assert_memory_equal(queue + 5 * 64, swap, sizeof(swap));
    gw_mlx5_put_atomic(&sq, 7, GW_MLX5_MASKED_FA, GW_MLX5_SIGNALED, 8, 9, 1, 2, 3, 4);
    assert_memory_equal(queue + 7 * 64, add, sizeof(add));
}

static void golden_inline_and_nop(void **state)
{
    static const uint8_t in_place[16] = {0x80, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0};
    static const uint8_t nop[16] = {0, 0, 9, 0, 0xab, 0xcd, 0xef, 9, 0, 0, 0, 8, 0, 0, 0, 0};
    uint32_t w[2];
    struct gw_u128 seg;

    (void)state;
    memcpy(w, "\1\2\3\4\5\6\7\10", 8);
    seg = gw_mlx5_inline12(8, w[0], w[1], 0);
    assert_memory_equal(&seg, in_place, 16);
    assert_int_equal(gw_mlx5_put_nop(&sq, 9, 9, GW_MLX5_SIGNALED), 3);
    assert_memory_equal(queue + 9 * 64, nop, 16);
}

static void golden_recv(void **state)
{
    static const uint8_t want[48] = {0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5,
                                     0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    struct gw_mlx5_sge sge[] = {{3, 1, 2}, {99, 0, 99}, {6, 4, 5}, {1, 1, 1}, {1, 1, 1}};
    struct gw_mlx5_rq rq = {queue, 8, 64};

    (void)state;
    memset(queue, 0xee, sizeof(queue));
    assert_int_equal(gw_mlx5_put_recv(&rq, 11, sge, 3, 4), 0);
    assert_memory_equal(queue + 3 * 64, want, sizeof(want));
    assert_int_equal(queue[3 * 64 + 48], 0xee);
    assert_int_equal(gw_mlx5_put_recv(&rq, 0, sge, 5, 4), -EINVAL);
    assert_int_equal(gw_mlx5_put_recv(&rq, 0, sge, 5, 5), -EINVAL);
    sge[0].length = 0x80000000u;
    assert_int_equal(gw_mlx5_put_recv(&rq, 0, sge, 1, 4), -EINVAL);
}

static void doorbells(void **state)
{
    uint32_t arm = gw_mlx5_cq_arm_be(5, 1, 0x3abcdef);
    uint64_t db = gw_mlx5_cq_db_be(arm, 0x445566), sqdb = gw_mlx5_sq_db_be(0x12345, QPN);

    (void)state;
    assert_int_equal(gw_mlx5_dbrec_be(0x12345), 0x45230000);
    assert_int_equal(gw_mlx5_dbrec_count(gw_mlx5_dbrec_be(0x12345)), 0x2345);
    assert_int_equal(gw_mlx5_cq_ci_be(0x1abcdef), 0xefcdab00);
    assert_memory_equal(&db, "\x11\xab\xcd\xef\x00\x44\x55\x66", 8);
    assert_memory_equal(&sqdb, "\x00\x23\x45\x00\xab\xcd\xef\x00", 8);
    assert_int_equal(gw_mlx5_bf_offset(0, 512, 0), 0x800);
    assert_int_equal(gw_mlx5_bf_offset(1, 512, 1), 0xb00);
}

/* The fields that the parser must find in a WQE that was built from *wr. */
static void check_parsed(const struct gw_mlx5_wr *wr, const struct gw_mlx5_wqe *w)
{
    struct gw_mlx5_piece piece;
    uint32_t unit = 0, i = 0, at = 0, total = 0;
    bool atomic = gw_mlx5_is_atomic(wr->opcode);

    assert_int_equal(w->opcode, wr->opcode);
    assert_int_equal(w->signaled, !!(wr->flags & GW_MLX5_SIGNALED));
    assert_int_equal(w->solicited, !!(wr->flags & GW_MLX5_SOLICITED));
    assert_int_equal(w->fence, wr->flags & GW_MLX5_FENCE_MASK);
    if (w->has_raddr) assert_true(w->raddr == wr->raddr && w->rkey == wr->rkey);
    if (atomic) assert_true(w->swap_or_add == wr->swap_or_add);
    if (atomic && wr->opcode != GW_MLX5_ATOMIC_FA) assert_true(w->compare == wr->compare);
    if (wr->opcode == GW_MLX5_MASKED_CS)
        assert_true(w->swap_mask == wr->swap_mask && w->compare_mask == wr->compare_mask);
    while (gw_mlx5_wqe_piece(w, &unit, &piece)) {
        assert_true(!piece.inl == !wr->inl);
        if (piece.inl) { /* one piece that holds all entries' bytes */
            for (i = 0; i < wr->num_sge; i++) {
                assert_memory_equal(piece.inl + at, (void *)(uintptr_t)wr->sge[i].addr, wr->sge[i].length);
                at += wr->sge[i].length;
            }
            assert_int_equal(piece.length, at);
            total = at;
            continue;
        }
        while (!wr->sge[i].length) i++;
        assert_int_equal(piece.length, atomic ? 8 : wr->sge[i].length);
        assert_true(piece.addr == wr->sge[i].addr && piece.lkey == wr->sge[i].lkey);
        total += piece.length, i++;
    }
    for (; i < wr->num_sge; i++) assert_int_equal(wr->sge[i].length, 0);
    assert_int_equal(w->length, total);
}

/* Random requests, one after the other through many laps, so that every kind wraps at every place. */
static void random_round_trip(void **state)
{
    static struct random_wr_pool pool;
    uint32_t idx = 65000, wrapped = 0; /* passes 2^16 too */
    struct gw_mlx5_wqe w;

    (void)state;
    random_wr_init(&pool, 11);
    for (int i = 0; i < 50000; i++) {
        struct gw_mlx5_wr wr = random_wr(&pool, 60);
        uint8_t saved[sizeof(queue)];
        int units = gw_mlx5_wr_units(&wr), n;

        memcpy(saved, queue, sizeof(queue));
        n = gw_mlx5_put_wr(&sq, idx, &wr);
        assert_true(units > 0 && units <= 63);
        assert_int_equal(n, (units + 3) / 4);
        for (uint32_t u = (uint32_t)units; u < BBS * 4; u++) { /* not a byte outside */
            size_t at = (idx * 4 + u) % (BBS * 4) * 16;

            assert_memory_equal(queue + at, saved + at, 16);
        }
        assert_int_equal(
            gw_mlx5_wqe_parse(&w, &(struct gw_mlx5_wqe_at){queue, BBS, QPN, (uint16_t)idx, (uint32_t)n, 63,
                                                           GW_MLX5_FORM_CONNECTED}),
            n);
        assert_int_equal(w.ds, units);
        check_parsed(&wr, &w);
        wrapped += idx % BBS + (uint32_t)n > BBS;
        idx += (uint32_t)n;
    }
    assert_true(wrapped > 1000);
}

static void random_datagrams(void **state)
{
    static struct random_wr_pool pool;
    uint32_t idx = 65000, wrapped = 0;
    struct gw_mlx5_wqe w;

    (void)state;
    random_wr_init(&pool, 12);
    for (int i = 0; i < 20000; i++) {
        struct random_ud u = random_ud(&pool, 55);
        int units = gw_mlx5_ud_units(&u.wr), n = gw_mlx5_put_ud(&sq, idx, &u.wr, &u.av, u.dqpn, u.qkey);

        assert_int_equal(n, (units + 3) / 4);
        assert_int_equal(gw_mlx5_wqe_parse(&w, &(struct gw_mlx5_wqe_at){queue, BBS, QPN, (uint16_t)idx,
                                                                        (uint32_t)n, 63, GW_MLX5_FORM_UD}),
                         n);
        assert_int_equal(w.ds, units);
        assert_true(w.dqpn == u.dqpn && w.qkey == u.qkey);
        assert_memory_equal(gw_mlx5_wqe_av(&w)->rgid, u.av.rgid, 16);
        assert_memory_equal(&gw_mlx5_wqe_av(&w)->rate_sl, &u.av.rate_sl, 20);
        check_parsed(&u.wr, &w);
        wrapped += idx % BBS + (uint32_t)n > BBS;
        idx += (uint32_t)n;
    }
    assert_true(wrapped > 1000);
}

/* The lean builders write what the general one writes. */
static void lean_equals_general(void **state)
{
    struct gw_mlx5_sge sge = {0x1122334455667788, 4096, 0x99aa};
    uint8_t general[64];

    (void)state;
    for (int op = 0; op < 9; op++) {
        static const uint8_t ops[] = {GW_MLX5_SEND,      GW_MLX5_SEND_IMM,  GW_MLX5_SEND_INVAL,
                                      GW_MLX5_WRITE,     GW_MLX5_WRITE_IMM, GW_MLX5_READ,
                                      GW_MLX5_ATOMIC_CS, GW_MLX5_MASKED_FA, GW_MLX5_ATOMIC_FA};
        bool imm =
            ops[op] == GW_MLX5_SEND_IMM || ops[op] == GW_MLX5_SEND_INVAL || ops[op] == GW_MLX5_WRITE_IMM;

        for (int empty = 0; empty < 2; empty++) {
            uint32_t len = empty ? 0 : op < 6 ? 4096 : 8, head = gw_mlx5_head_units(ops[op]);
            struct gw_mlx5_wr wr = {.opcode = ops[op],
                                    .flags = GW_MLX5_SIGNALED,
                                    .num_sge = 1,
                                    .sge = &sge,
                                    .imm_be = 0x1234,
                                    .rkey = 5,
                                    .raddr = 6 << 20,
                                    .swap_or_add = 7,
                                    .compare = 8};

            sge.length = len;
            memset(queue, 0, 64);
            if (op >= 6 && empty) continue;
            assert_int_equal(gw_mlx5_put_wr(&sq, 0, &wr), 1);
            memcpy(general, queue, 64);
            memset(queue, 0, 64);
            if (head == 1)
                gw_mlx5_put_send(&sq, 0, ops[op], wr.flags, imm ? wr.imm_be : 0, sge.addr, len, sge.lkey);
            else if (head == 2)
                gw_mlx5_put_rdma(&sq, 0, ops[op], wr.flags, imm ? wr.imm_be : 0, wr.raddr, wr.rkey, sge.addr,
                                 len, sge.lkey);
            else
                gw_mlx5_put_atomic(&sq, 0, ops[op], wr.flags, wr.raddr, wr.rkey, 7, op == 8 ? 0 : 8, sge.addr,
                                   sge.lkey);
            assert_memory_equal(queue, general, 64);
        }
    }
}

static void refused(void **state)
{
    struct gw_mlx5_sge sge[70] = {{1, 8, 1}};
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_READ, .inl = 1, .num_sge = 1, .sge = sge};
    uint8_t before[sizeof(queue)];

    (void)state;
    memcpy(before, queue, sizeof(queue));
    assert_int_equal(gw_mlx5_put_wr(&sq, 0, &wr), -EINVAL); /* inline READ */
    wr.opcode = GW_MLX5_ATOMIC_FA;
    assert_int_equal(gw_mlx5_put_wr(&sq, 0, &wr), -EINVAL); /* inline atomic */
    wr.inl = 0, sge[0].length = 7;
    assert_int_equal(gw_mlx5_put_wr(&sq, 0, &wr), -EINVAL); /* room for 7 bytes */
    sge[0].length = 8, sge[1].length = 8, wr.num_sge = 2;
    assert_int_equal(gw_mlx5_put_wr(&sq, 0, &wr), -EINVAL); /* two entries */
    wr.num_sge = 0;
    assert_int_equal(gw_mlx5_put_wr(&sq, 0, &wr), -EINVAL); /* none */
    wr.opcode = GW_MLX5_NOP;
    assert_int_equal(gw_mlx5_put_wr(&sq, 0, &wr), -EOPNOTSUPP);
    wr.opcode = 0x2c;
    assert_int_equal(gw_mlx5_put_wr(&sq, 0, &wr), -EOPNOTSUPP);
    wr.opcode = GW_MLX5_WRITE;
    for (int i = 0; i < 70; i++) sge[i] = (struct gw_mlx5_sge){1, 1, 1};
    wr.num_sge = 62;
    assert_int_equal(gw_mlx5_put_wr(&sq, 0, &wr), -EMSGSIZE); /* 2 + 62 units */
    wr.num_sge = 1, sge[0].length = 0x80000000u;
    assert_int_equal(gw_mlx5_put_wr(&sq, 0, &wr), -EINVAL);
    sge[0].length = GW_MLX5_MAX_MSG + 1;
    assert_int_equal(gw_mlx5_put_wr(&sq, 0, &wr), -EMSGSIZE);
    sge[0].length = 61 * 16 - 3, wr.inl = 1;
    assert_int_equal(gw_mlx5_put_wr(&sq, 0, &wr), -EMSGSIZE);
    assert_memory_equal(queue, before, sizeof(queue));
    wr.inl = 0, wr.num_sge = 61, sge[0].length = 1;
    assert_int_equal(gw_mlx5_put_wr(&sq, 0, &wr), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_send),         cmocka_unit_test(golden_write_read_atomic),
        cmocka_unit_test(golden_masked),       cmocka_unit_test(golden_inline_and_nop),
        cmocka_unit_test(golden_recv),         cmocka_unit_test(doorbells),
        cmocka_unit_test(random_round_trip),   cmocka_unit_test(random_datagrams),
        cmocka_unit_test(lean_equals_general), cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
