/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte for byte, for XRC: unmodified libmlx5 posts random requests for random shared receive queues, on an
 * XRC_SEND queue pair of the software NIC. Our builder writes the same into a queue of its own. So with binds
 * of memory windows and invalidations. See test_against_libmlx5.c.
 */
#include "src/mlx5/wqe.h"
#include "tests/mlx5/clear_queue.h"
#include "tests/mlx5/libmlx5_qp.h"

enum { POSTS = 10000 };

/* RTS, because libmlx5 accepts sends from there on only; then ERR, so that nothing is executed. */
static void to_error_state(void)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    union ibv_gid gid;

    assert_int_equal(ibv_query_gid(ctx, 1, 0, &gid), 0);
    assert_int_equal(
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                             .path_mtu = IBV_MTU_1024,
                             .dest_qp_num = 5,
                             .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid}}};
    assert_int_equal(
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
        0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .max_rd_atomic = 1};
    assert_int_equal(ibv_modify_qp(qp, &a,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
    a.qp_state = IBV_QPS_ERR;
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
}

static int set_up(void **state)
{
    struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_SEND};

    (void)state;
    if (open_device() || open_qp(&attr)) return -1;
    to_error_state();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return close_all();
}

static struct gw_mlx5_wr fitting(struct random_wr_pool *pool)
{
    for (;;) {
        struct gw_mlx5_wr wr = random_ibv_wr(pool, cap.max_send_sge);

        if (fits(&wr)) return wr;
    }
}

static void post(const struct gw_mlx5_wr *wr, uint32_t srqn, uint64_t wr_id)
{
    struct ibv_sge sge[RANDOM_WR_MAX_SGE];
    struct ibv_send_wr v = verbs_wr(wr, sge), *bad;

    v.wr_id = wr_id;
    v.qp_type.xrc.remote_srqn = srqn;
    assert_int_equal(ibv_post_send(qp, &v, &bad), 0);
}

/* The parser finds in it what was asked for. */
static void expect_parsed(const struct gw_mlx5_sq *sq, uint32_t idx, uint32_t used,
                          const struct gw_mlx5_wr *wr, uint32_t srqn)
{
    static struct gw_mlx5_wqe w;

    assert_int_equal(
        gw_mlx5_wqe_parse(&w, &(struct gw_mlx5_wqe_at){sq->buf, sq->wqebbs, sq->qpn, (uint16_t)idx, used, 63,
                                                       GW_MLX5_FORM_XRC}),
        used);
    assert_int_equal(w.srqn, srqn);
    assert_int_equal(w.opcode, wr->opcode);
    if (gw_mlx5_head_units(wr->opcode) < 2) return;
    assert_true(w.raddr == wr->raddr && w.rkey == wr->rkey);
    if (wr->opcode == GW_MLX5_ATOMIC_CS) assert_true(w.compare == wr->compare);
    if (gw_mlx5_is_atomic(wr->opcode)) assert_true(w.swap_or_add == wr->swap_or_add);
}

static void requests(void **state)
{
    static struct random_wr_pool pool;
    struct gw_mlx5_sq ours = {NULL, dv.sq.wqe_cnt, qp->qp_num};
    size_t bytes = dv.sq.wqe_cnt * (size_t)GW_MLX5_WQEBB;
    uint32_t idx = 0, wrapped = 0, inlined = 0;

    (void)state;
    ours.buf = aligned_alloc(64, bytes);
    assert_non_null(ours.buf);
    random_wr_init(&pool, 815);
    for (int i = 0; i < POSTS; i++) {
        struct gw_mlx5_wr wr = fitting(&pool);
        uint32_t srqn = (uint32_t)rnd64(&pool.rnd) & 0xffffff;
        int used;

        clear_queue(dv.sq.buf, bytes);
        memset(ours.buf, 0, bytes);
        used = gw_mlx5_put_xrc(&ours, idx, &wr, srqn);
        assert_true(used > 0);
        post(&wr, srqn, idx);
        assert_memory_equal(dv.sq.buf, ours.buf, bytes);
        expect_parsed(&ours, idx, (uint32_t)used, &wr, srqn);
        expect_flushed(idx);
        wrapped += idx % dv.sq.wqe_cnt + (uint32_t)used > dv.sq.wqe_cnt;
        inlined += wr.inl;
        idx += (uint32_t)used;
    }
    print_message("%d requests equal (%u wrap, %u inline)\n", POSTS, wrapped, inlined);
    assert_true(wrapped > 20 && inlined > 100);
    free(ours.buf);
}

/* Fills in v for one of: a bind, a bind of nothing, an invalidation. */
static void random_bind(struct rnd *rnd, struct ibv_mw *mw, struct ibv_mr *mr, struct ibv_send_wr *v,
                        struct gw_mlx5_bind *b)
{
    struct ibv_mw_bind_info *info = &v->bind_mw.bind_info;

    b->type2 = mw->type == IBV_MW_TYPE_2;
    b->mkey = mw->rkey;
    if (b->type2 && rnd_below(rnd, 4) == 0) {
        v->opcode = IBV_WR_LOCAL_INV;
        v->invalidate_rkey = b->mkey;
        return;
    }
    v->opcode = IBV_WR_BIND_MW;
    v->bind_mw.mw = mw;
    v->bind_mw.rkey = (mw->rkey & ~0xffu) | rnd_below(rnd, 256);
    b->tag = (uint8_t)v->bind_mw.rkey;
    info->mr = mr;
    info->addr = rnd64(rnd);
    info->length = rnd_below(rnd, 4) ? 1 + rnd_below(rnd, 1u << 31) : 0;
    info->mw_access_flags = rnd_below(rnd, 2) ? IBV_ACCESS_REMOTE_WRITE : 0;
    info->mw_access_flags |= rnd_below(rnd, 2) ? IBV_ACCESS_REMOTE_READ : 0;
    info->mw_access_flags |= rnd_below(rnd, 2) ? IBV_ACCESS_REMOTE_ATOMIC : 0;
    info->mw_access_flags |= rnd_below(rnd, 4) ? 0 : IBV_ACCESS_ZERO_BASED;
    b->length = (uint32_t)info->length;
    b->lkey = mr->lkey;
    b->addr = info->addr;
    b->start = info->mw_access_flags & IBV_ACCESS_ZERO_BASED ? 0 : info->addr;
    if (info->mw_access_flags & IBV_ACCESS_REMOTE_WRITE) b->access |= GW_MLX5_MKEY_REMOTE_WRITE;
    if (info->mw_access_flags & IBV_ACCESS_REMOTE_READ) b->access |= GW_MLX5_MKEY_REMOTE_READ;
    if (info->mw_access_flags & IBV_ACCESS_REMOTE_ATOMIC) b->access |= GW_MLX5_MKEY_ATOMIC;
}

static void binds(void **state)
{
    static uint8_t memory[4096];
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    struct ibv_mw *mw[2] = {ibv_alloc_mw(pd, IBV_MW_TYPE_1), ibv_alloc_mw(pd, IBV_MW_TYPE_2)};
    size_t bytes = dv.sq.wqe_cnt * (size_t)GW_MLX5_WQEBB;
    struct gw_mlx5_sq ours = {aligned_alloc(64, bytes), dv.sq.wqe_cnt, qp->qp_num};
    struct gw_mlx5_bind parsed;
    static struct gw_mlx5_wqe w;
    struct rnd rnd = {99};
    uint32_t idx = gw_be32(dv.dbrec[GW_MLX5_DBREC_SEND]);

    (void)state;
    assert_true(mr && mw[0] && mw[1] && ours.buf);
    for (int i = 0; i < 2000; i++) {
        struct ibv_send_wr v = {.wr_id = idx, .send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE}, *bad;
        struct gw_mlx5_bind b = {0};
        uint32_t used;

        random_bind(&rnd, mw[rnd_below(&rnd, 2)], mr, &v, &b);
        clear_queue(dv.sq.buf, bytes);
        memset(ours.buf, 0, bytes);
        used = gw_mlx5_put_bind(&ours, idx, &b, GW_MLX5_SIGNALED | GW_MLX5_FENCE);
        assert_int_equal(ibv_post_send(qp, &v, &bad), 0);
        assert_memory_equal(dv.sq.buf, ours.buf, bytes);
        assert_int_equal(
            gw_mlx5_wqe_parse(&w, &(struct gw_mlx5_wqe_at){ours.buf, ours.wqebbs, ours.qpn, (uint16_t)idx,
                                                           used, 63, GW_MLX5_FORM_XRC}),
            used);
        assert_int_equal(gw_mlx5_wqe_bind(&w, &parsed), 0);
        assert_true(parsed.mkey == b.mkey && parsed.tag == b.tag && parsed.type2 == b.type2);
        assert_true(parsed.length == b.length);
        if (b.length) assert_memory_equal(&parsed, &b, sizeof(b));
        expect_flushed(idx);
        idx += used;
    }
    free(ours.buf);
    assert_true(!ibv_dealloc_mw(mw[0]) && !ibv_dealloc_mw(mw[1]) && !ibv_dereg_mr(mr));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(requests), cmocka_unit_test(binds)};

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
