/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte for byte, for datagrams: unmodified libmlx5 posts random sends with random address handles, on a UD
 * queue pair of the software NIC. Our builder writes the same into a queue of its own. See
 * test_against_libmlx5.c. It also compares the address vector with the address handle's attributes.
 */
#include "tests/mlx5/clear_queue.h"
#include "tests/mlx5/libmlx5_qp.h"

enum { AHS = 16, POSTS = 20000 };

struct handle {
    struct ibv_ah *ah;
    struct ibv_ah_attr attr;
    struct gw_mlx5_av av;
};

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
    struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_UD};
    struct rnd rnd = {77};

    (void)state;
    if (open_device() || open_qp(&attr)) return -1;
    to_error_state();
    for (int i = 0; i < AHS; i++) make_handle(&handles[i], &rnd);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < AHS; i++)
        if (ibv_destroy_ah(handles[i].ah)) return -1;
    return close_all();
}

static struct random_ud fitting(struct random_wr_pool *pool)
{
    for (;;) {
        struct random_ud u = random_ud(pool, cap.max_send_sge);

        if (fits(&u.wr)) return u;
    }
}

static void post(const struct random_ud *u, struct ibv_ah *ah, uint64_t wr_id)
{
    struct ibv_sge sge[RANDOM_WR_MAX_SGE];
    struct ibv_send_wr v = verbs_wr_to_nobody(&u->wr, sge), *bad;

    v.wr_id = wr_id;
    v.wr.ud.ah = ah;
    v.wr.ud.remote_qpn = u->dqpn;
    v.wr.ud.remote_qkey = u->qkey;
    assert_int_equal(ibv_post_send(qp, &v, &bad), 0);
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

        clear_queue(dv.sq.buf, bytes);
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
