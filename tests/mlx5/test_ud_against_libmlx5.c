/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte for byte, for datagrams: unmodified libmlx5 posts random sends with random address handles on a UD
 * queue pair of the software NIC, our builder writes the same into a queue of its own. See
 * test_against_libmlx5.c. What stands in an address vector is compared with the address handle's attributes,
 * too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <gpuwire/mlx5.h>
#include <gpuwire/softnic.h>
#include "tests/mlx5/random_wr.h"

enum { SEND_WRS = 16, MAX_INLINE = 300, AHS = 16, POSTS = 20000 };

struct handle {
    struct ibv_ah *ah;
    struct ibv_ah_attr attr;
    struct gw_mlx5_av av;
};

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_qp_cap cap = {.max_send_wr = SEND_WRS, .max_send_sge = 6, .max_inline_data = MAX_INLINE};
static struct mlx5dv_qp dv;
static struct handle handles[AHS];

static void make_handle(struct handle *h, struct rnd *rnd)
{
    struct mlx5dv_ah out = {0};
    struct mlx5dv_obj obj;

    h->attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .sl = (uint8_t)rnd_below(rnd, 8)};
    h->attr.grh.hop_limit = (uint8_t)rnd64(rnd);
    h->attr.grh.traffic_class = (uint8_t)rnd64(rnd);
    h->attr.grh.flow_label = rnd_below(rnd, 1 << 20);
    memcpy(h->attr.grh.dgid.raw, (uint8_t[16]){[10] = 0xff, [11] = 0xff}, 16);
    rnd_bytes(rnd, h->attr.grh.dgid.raw + 12, 4);
    h->attr.grh.dgid.raw[12] &= 0x7f; /* no multicast group */
    h->ah = ibv_create_ah(pd, &h->attr);
    assert_non_null(h->ah);
    obj.ah.in = h->ah;
    obj.ah.out = &out;
    assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH), 0);
    memcpy(&h->av, out.av, sizeof(h->av));
    assert_memory_equal(h->av.rgid, h->attr.grh.dgid.raw, 16);
    assert_int_equal(h->av.hop_limit, h->attr.grh.hop_limit);
    assert_int_equal(h->av.traffic_class, h->attr.grh.traffic_class);
    assert_int_equal(gw_be32(h->av.grh_be), h->attr.grh.flow_label); /* GID index 0, no GRH bit */
    assert_true(gw_be16(h->av.sport_be) >= 0xc000);
    assert_memory_equal(h->av.rmac + 2, h->attr.grh.dgid.raw + 12, 4); /* what CREATE_AH answered */
}

/* RTS, because libmlx5 accepts sends from there on only; then ERR, so that nothing is executed. */
static void to_error_state(void)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234};

    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    a.qp_state = IBV_QPS_RTR;
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
    a.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    a.qp_state = IBV_QPS_ERR;
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
}

static int set_up(void **state)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD, .cap = cap};
    struct rnd rnd = {77};
    struct ibv_device **list;
    struct mlx5dv_obj obj;

    (void)state;
    if (softnic_install() != 0) return -1;
    list = ibv_get_device_list(NULL);
    if (!list || !list[0]) return -1;
    ctx = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    pd = ctx ? ibv_alloc_pd(ctx) : NULL;
    cq = pd ? ibv_create_cq(ctx, 256, NULL, NULL, 0) : NULL;
    attr.send_cq = attr.recv_cq = cq;
    qp = cq ? ibv_create_qp(pd, &attr) : NULL;
    if (!qp) return -1;
    cap = attr.cap;
    obj.qp.in = qp;
    obj.qp.out = &dv;
    if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP)) return -1;
    to_error_state();
    for (int i = 0; i < AHS; i++) make_handle(&handles[i], &rnd);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < AHS; i++)
        if (ibv_destroy_ah(handles[i].ah)) return -1;
    return ibv_destroy_qp(qp) || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) || ibv_close_device(ctx);
}

static struct random_ud fitting(struct random_wr_pool *pool)
{
    for (;;) {
        struct random_ud u = random_ud(pool, cap.max_send_sge);
        uint32_t bytes = 0;

        for (uint32_t i = 0; i < u.wr.num_sge; i++) bytes += u.wr.sge[i].length;
        if (!u.wr.inl || bytes <= cap.max_inline_data) return u;
    }
}

static void post(const struct random_ud *u, struct ibv_ah *ah, uint64_t wr_id)
{
    struct ibv_sge sge[RANDOM_WR_MAX_SGE];
    struct ibv_send_wr v = {.wr_id = wr_id, .sg_list = sge, .num_sge = (int)u->wr.num_sge}, *bad;

    memcpy(sge, u->wr.sge, u->wr.num_sge * sizeof(*sge));
    v.opcode = u->wr.opcode == GW_MLX5_SEND ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
    v.imm_data = u->wr.imm_be;
    if (u->wr.flags & GW_MLX5_SIGNALED) v.send_flags |= IBV_SEND_SIGNALED;
    if (u->wr.flags & GW_MLX5_SOLICITED) v.send_flags |= IBV_SEND_SOLICITED;
    if (u->wr.flags & GW_MLX5_FENCE) v.send_flags |= IBV_SEND_FENCE;
    if (u->wr.inl) v.send_flags |= IBV_SEND_INLINE;
    v.wr.ud.ah = ah;
    v.wr.ud.remote_qpn = u->dqpn;
    v.wr.ud.remote_qkey = u->qkey;
    assert_int_equal(ibv_post_send(qp, &v, &bad), 0);
}

static void expect_flushed(uint64_t wr_id)
{
    time_t deadline = time(NULL) + 10;
    struct ibv_wc wc;
    int n;

    while ((n = ibv_poll_cq(cq, 1, &wc)) == 0 && time(NULL) < deadline) {
    }
    assert_int_equal(n, 1);
    assert_true(wc.wr_id == wr_id);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

static void datagrams(void **state)
{
    static struct random_wr_pool pool;
    struct gw_mlx5_sq ours = {NULL, dv.sq.wqe_cnt, qp->qp_num};
    size_t bytes = dv.sq.wqe_cnt * (size_t)GW_MLX5_WQEBB;
    uint32_t idx = 0, wrapped = 0, inlined = 0;

    (void)state;
    ours.buf = aligned_alloc(64, bytes);
    assert_non_null(ours.buf);
    random_wr_init(&pool, 4711);
    for (int i = 0; i < POSTS; i++) {
        struct handle *h = &handles[rnd_below(&pool.rnd, AHS)];
        struct random_ud u = fitting(&pool);
        int used;

        memset(dv.sq.buf, 0, bytes);
        memset(ours.buf, 0, bytes);
        used = gw_mlx5_put_ud(&ours, idx, &u.wr, &h->av, u.dqpn, u.qkey);
        assert_true(used > 0);
        post(&u, h->ah, idx);
        assert_memory_equal(dv.sq.buf, ours.buf, bytes);
        expect_flushed(idx);
        wrapped += idx % dv.sq.wqe_cnt + (uint32_t)used > dv.sq.wqe_cnt;
        inlined += u.wr.inl;
        idx += (uint32_t)used;
    }
    print_message("%d datagrams equal (%u wrap, %u inline)\n", POSTS, wrapped, inlined);
    assert_true(wrapped > 100 && inlined > 100);
    free(ours.buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(datagrams)};

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
