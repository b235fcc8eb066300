/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <infiniband/mlx5dv.h>

#include <gpuwire/mlx5.h>
#include "tests/rnd.h"

static void write_cqe(struct gw_mlx5_cqe *cqe, const struct gw_mlx5_wc *wc, uint32_t pi, uint32_t cnt)
{
    uint8_t last = gw_mlx5_cqe_build(cqe, wc, pi, cnt);

    cqe->op_own = last;
}

/* libmlx5's own structures find in their fields what we write. */
static void seen_by_mlx5dv(void **state)
{
    struct gw_mlx5_wc wc = {.opcode = GW_MLX5_CQE_RESP_WR_IMM,
                            .solicited = 1,
                            .grh = 1,
                            .wqe_counter = 0x1234,
                            .qpn = 0xabcdef,
                            .uidx = 0x112233,
                            .byte_cnt = 0x01020304,
                            .imm_be = 0x0df0feca,
                            .src_qp = 0x445566,
                            .timestamp = 0x1122334455667788};
    struct gw_mlx5_cqe cqe;
    struct mlx5_cqe64 *dv = (struct mlx5_cqe64 *)&cqe;
    struct mlx5_err_cqe *err = (struct mlx5_err_cqe *)&cqe;

    (void)state;
    memset(&cqe, 0xee, sizeof(cqe));
    write_cqe(&cqe, &wc, 8, 8);
    assert_int_equal(mlx5dv_get_cqe_owner(dv), 1);
    assert_int_equal(mlx5dv_get_cqe_opcode(dv), MLX5_CQE_RESP_WR_IMM);
    assert_int_equal(mlx5dv_get_cqe_se(dv), 1);
    assert_int_equal(mlx5dv_get_cqe_format(dv), 0);
    assert_int_equal(be32toh(dv->flags_rqpn), 0x10445566);
    assert_int_equal(be32toh(dv->srqn_uidx), 0x112233);
    assert_int_equal(dv->imm_inval_pkey, 0x0df0feca);
    assert_int_equal(be32toh(dv->byte_cnt), 0x01020304);
    assert_true(be64toh(dv->timestamp) == 0x1122334455667788);
    assert_int_equal(be32toh(dv->sop_drop_qpn), 0xabcdef);
    assert_int_equal(be16toh(dv->wqe_counter), 0x1234);
    wc.opcode = GW_MLX5_CQE_REQ_ERR, wc.syndrome = GW_MLX5_SYND_REM_ACCESS, wc.vendor = 0x88;
    wc.wqe_opcode = GW_MLX5_WRITE;
    write_cqe(&cqe, &wc, 7, 8);
    assert_int_equal(mlx5dv_get_cqe_owner(dv), 0);
    assert_int_equal(mlx5dv_get_cqe_opcode(dv), MLX5_CQE_REQ_ERR);
    assert_int_equal(err->syndrome, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
    assert_int_equal(err->vendor_err_synd, 0x88);
    assert_int_equal(be32toh(err->s_wqe_opcode_qpn), 0x08abcdef);
    assert_int_equal(be16toh(err->wqe_counter), 0x1234);
}

static void round_trip(void **state)
{
    static const uint8_t ops[] = {0, 1, 2, 3, 4, 13, 14};
    struct rnd r = {21};

    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct gw_mlx5_wc wc = {0}, got;
        struct gw_mlx5_cqe cqe;
        uint32_t pi = (uint32_t)rnd64(&r), cnt = 1u << rnd_below(&r, 16);

        wc.opcode = ops[rnd_below(&r, 7)];
        wc.solicited = rnd64(&r) & 1, wc.grh = rnd64(&r) & 1;
        wc.wqe_opcode = (uint8_t)rnd64(&r), wc.wqe_counter = (uint16_t)rnd64(&r);
        wc.qpn = rnd64(&r) & 0xffffff, wc.uidx = rnd64(&r) & 0xffffff, wc.src_qp = rnd64(&r) & 0xffffff;
        wc.byte_cnt = (uint32_t)rnd64(&r), wc.imm_be = (uint32_t)rnd64(&r);
        if (gw_mlx5_wc_is_error(&wc))
            wc.syndrome = (uint8_t)rnd64(&r), wc.vendor = (uint8_t)rnd64(&r);
        else
            wc.timestamp = rnd64(&r);
        memset(&cqe, 0xee, sizeof(cqe));
        memset(&got, 0xdd, sizeof(got));
        write_cqe(&cqe, &wc, pi, cnt);
        assert_true(gw_mlx5_cqe_ready(cqe.op_own, pi, cnt));
        assert_false(gw_mlx5_cqe_ready(cqe.op_own, pi + cnt, cnt)); /* stale a lap later */
        assert_int_equal(gw_mlx5_cqe_parse(&cqe, &got), 0);
        assert_true(got.opcode == wc.opcode && got.solicited == wc.solicited && got.grh == wc.grh);
        assert_true(got.wqe_opcode == wc.wqe_opcode && got.wqe_counter == wc.wqe_counter &&
                    got.qpn == wc.qpn);
        assert_true(got.uidx == wc.uidx && got.src_qp == wc.src_qp && got.byte_cnt == wc.byte_cnt);
        assert_true(got.imm_be == wc.imm_be && got.timestamp == wc.timestamp && got.scatter == 0);
        assert_true(got.syndrome == wc.syndrome && got.vendor == wc.vendor);
    }
}

/* A ring through three laps: an entry is ready from its write until the consumer has passed it. */
static void ownership(void **state)
{
    enum { CNT = 4 };
    uint8_t ring[CNT];
    struct gw_mlx5_wc wc = {.opcode = GW_MLX5_CQE_REQ};

    (void)state;
    memset(ring, 0xf0, sizeof(ring)); /* as libmlx5 starts a ring */
    for (uint32_t ci = 0; ci < CNT; ci++) assert_false(gw_mlx5_cqe_ready(ring[ci], ci, CNT));
    assert_false(gw_mlx5_cqe_ready(0xf1, CNT, CNT));
    for (uint32_t i = 0xfffffff8u; i != 8; i++) { /* over the counter's own wrap */
        if (i == 0xfffffff8u) memset(ring, gw_mlx5_op_own(&wc, i - CNT, CNT), sizeof(ring));
        assert_false(gw_mlx5_cqe_ready(ring[i % CNT], i, CNT));
        ring[i % CNT] = gw_mlx5_op_own(&wc, i, CNT);
        assert_true(gw_mlx5_cqe_ready(ring[i % CNT], i, CNT));
    }
}

static void scatter_and_unknown(void **state)
{
    struct gw_mlx5_wc wc = {.opcode = GW_MLX5_CQE_RESP_SEND,
                            .scatter = GW_MLX5_CQE_SCATTER_32,
                            .byte_cnt = 32},
                      got;
    struct gw_mlx5_cqe cqe;
    uint8_t payload[32];

    (void)state;
    memset(payload, 0xab, sizeof(payload));
    memcpy(&cqe, payload, 32);
    write_cqe(&cqe, &wc, 0, 8);
    assert_memory_equal(&cqe, payload, 32); /* the payload in its first half stays */
    assert_true(cqe.op_own & MLX5_INLINE_SCATTER_32);
    assert_int_equal(gw_mlx5_cqe_parse(&cqe, &got), 0);
    assert_int_equal(got.scatter, GW_MLX5_CQE_SCATTER_32);
    wc.scatter = GW_MLX5_CQE_SCATTER_64;
    write_cqe(&cqe, &wc, 0, 8);
    assert_true(cqe.op_own & MLX5_INLINE_SCATTER_64);
    for (uint8_t op = 5; op < 13; op++) {
        cqe.op_own = (uint8_t)(op << 4);
        assert_int_equal(gw_mlx5_cqe_parse(&cqe, &got), -EPROTO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(seen_by_mlx5dv), cmocka_unit_test(round_trip),
                                       cmocka_unit_test(ownership), cmocka_unit_test(scatter_and_unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
