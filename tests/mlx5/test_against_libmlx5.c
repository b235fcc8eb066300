/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unmodified libmlx5 posts random work requests on a queue pair of the software NIC. Our builders write the
 * same requests into a queue of their own. The two must be equal byte for byte, through many laps of the
 * queues. Doorbell records, arm words and completions are compared too. The queue pair is in the error state,
 * so that the NIC completes every request at once without executing it: random keys and addresses do no harm.
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
#include "tests/mlx5/clear_queue.h"
#include "tests/mlx5/random_wr.h"
#include "tests/mlx5/verbs_wr.h"

enum { SEND_WRS = 8, RECV_WRS = 32, MAX_INLINE = 400, MAX_BATCH = 4, BATCHES = 6000 };

struct side {
    struct ibv_cq *cq;
    struct mlx5dv_cq dv;
    uint32_t ci;
};

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;

/* A queue pair whose sends complete on one CQ and receives on another. */
struct pair {
    struct ibv_qp *qp;
    struct mlx5dv_qp dv;
    struct ibv_qp_cap cap;
    struct side send, recv;
};

static void open_side(struct side *s)
{
    struct mlx5dv_obj obj;

    s->cq = ibv_create_cq(ctx, 256, NULL, channel, 0);
    assert_non_null(s->cq);
    memset(&s->dv, 0, sizeof(s->dv));
    obj.cq.in = s->cq;
    obj.cq.out = &s->dv;
    assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
    s->ci = 0;
}

/* RESET to RTS, connected to itself: libmlx5 accepts sends only from a queue pair that has been there. Then
 * ERR. */
static void to_error_state(struct ibv_qp *qp)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC};
    union ibv_gid gid;

    assert_int_equal(
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    assert_int_equal(ibv_query_gid(ctx, 1, 0, &gid), 0);
    memset(&a, 0, sizeof(a));
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = qp->qp_num;
    a.max_dest_rd_atomic = 1;
    a.min_rnr_timer = 12;
    a.ah_attr.is_global = 1;
    a.ah_attr.grh.dgid = gid;
    a.ah_attr.grh.hop_limit = 64;
    a.ah_attr.port_num = 1;
    assert_int_equal(ibv_modify_qp(qp, &a,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                     0);
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14, a.retry_cnt = 7, a.rnr_retry = 7, a.max_rd_atomic = 1;
    assert_int_equal(ibv_modify_qp(qp, &a,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
    a.qp_state = IBV_QPS_ERR;
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
}

static void open_pair(struct pair *p, uint32_t max_send_sge, uint32_t max_recv_sge)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};
    struct mlx5dv_obj obj;

    open_side(&p->send);
    open_side(&p->recv);
    attr.send_cq = p->send.cq, attr.recv_cq = p->recv.cq;
    attr.cap = (struct ibv_qp_cap){.max_send_wr = SEND_WRS,
                                   .max_recv_wr = RECV_WRS,
                                   .max_send_sge = max_send_sge,
                                   .max_recv_sge = max_recv_sge,
                                   .max_inline_data = MAX_INLINE};
    p->qp = ibv_create_qp(pd, &attr);
    assert_non_null(p->qp);
    p->cap = attr.cap;
    memset(&p->dv, 0, sizeof(p->dv));
    obj.qp.in = p->qp;
    obj.qp.out = &p->dv;
    assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
    to_error_state(p->qp);
}

static void close_pair(struct pair *p)
{
    assert_int_equal(ibv_destroy_qp(p->qp), 0);
    assert_int_equal(ibv_destroy_cq(p->send.cq), 0);
    assert_int_equal(ibv_destroy_cq(p->recv.cq), 0);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Takes the next completion, which must be for wr_id, and compares libmlx5's reading of it with ours. */
static void expect_flushed(struct side *s, uint64_t wr_id, uint32_t opcode, uint32_t qpn)
{
    uint64_t deadline = now_ns() + 60000000000u;
    const struct gw_mlx5_cqe *cqe;
    struct gw_mlx5_wc ours;
    struct ibv_wc wc;
    int n;

    while ((n = ibv_poll_cq(s->cq, 1, &wc)) == 0 && now_ns() < deadline)
        ;
    assert_int_equal(n, 1);
    assert_true(wc.wr_id == wr_id);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    cqe = (const struct gw_mlx5_cqe *)((uint8_t *)s->dv.buf + (s->ci & (s->dv.cqe_cnt - 1)) * s->dv.cqe_size +
                                       s->dv.cqe_size - 64);
    /* Acquire: the owner bit before the entry that it is of. */
    assert_true(gw_mlx5_cqe_ready(__atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE), s->ci, s->dv.cqe_cnt));
    assert_int_equal(gw_mlx5_cqe_parse(cqe, &ours), 0);
    assert_int_equal(ours.opcode, opcode);
    assert_int_equal(ours.syndrome, GW_MLX5_SYND_FLUSHED);
    assert_int_equal(ours.vendor, wc.vendor_err);
    assert_int_equal(ours.qpn, qpn);
    assert_int_equal(s->dv.dbrec[GW_MLX5_DBREC_CQ_CI], gw_mlx5_cq_ci_be(++s->ci));
}

/* The queue pair takes these of the pool's requests: entries, inline bytes, and atomics only where it has
 * them. */
static struct gw_mlx5_wr fitting_wr(struct random_wr_pool *pool, const struct ibv_qp_cap *cap, bool atomics)
{
    for (;;) {
        struct gw_mlx5_wr wr = random_ibv_wr(pool, cap->max_send_sge);
        uint32_t bytes = 0;

        for (uint32_t i = 0; i < wr.num_sge; i++) bytes += wr.sge[i].length;
        if (wr.inl && bytes > cap->max_inline_data) continue;
        if (!atomics && gw_mlx5_is_atomic(wr.opcode)) continue;
        return wr;
    }
}

struct counts {
    uint32_t wqes, wrapped, inlined, inline_wrapped;
};

/* One post of up to MAX_BATCH requests, from *idx on, on both sides; then the comparison and the completions.
 */
static void one_batch(struct pair *p, struct gw_mlx5_sq *ours, struct random_wr_pool *pools, uint32_t *idx,
                      bool atomics, struct counts *c)
{
    static struct ibv_sge sges[MAX_BATCH][RANDOM_WR_MAX_SGE];
    struct ibv_send_wr list[MAX_BATCH], *bad;
    uint32_t n = 1 + rnd_below(&pools->rnd, MAX_BATCH), first = *idx, start[MAX_BATCH];

    clear_queue(p->dv.sq.buf, p->dv.sq.wqe_cnt * (size_t)p->dv.sq.stride);
    memset(ours->buf, 0, ours->wqebbs * (size_t)GW_MLX5_WQEBB);
    for (uint32_t i = 0; i < n; i++) {
        struct gw_mlx5_wr wr = fitting_wr(&pools[i], &p->cap, atomics);
        int used = gw_mlx5_put_wr(ours, *idx, &wr);
        bool wraps = *idx % ours->wqebbs + (uint32_t)used > ours->wqebbs;

        assert_true(used > 0);
        list[i] = verbs_wr(&wr, sges[i]);
        list[i].wr_id = start[i] = *idx;
        list[i].next = i + 1 < n ? &list[i + 1] : NULL;
        *idx += (uint32_t)used;
        c->wqes++, c->wrapped += wraps, c->inlined += wr.inl, c->inline_wrapped += wr.inl && wraps;
    }
    assert_int_equal(ibv_post_send(p->qp, list, &bad), 0);
    for (uint32_t u = first * 4; u != *idx * 4; u++) {
        const uint8_t *a = (uint8_t *)p->dv.sq.buf + (u & (ours->wqebbs * 4 - 1)) * 16;

        if (memcmp(a, gw_mlx5_sq_at(ours, u), 16) != 0)
            print_error("unit %u of the WQEs at WQEBB %u differs\n", u - first * 4, first);
        assert_memory_equal(a, gw_mlx5_sq_at(ours, u), 16);
    }
    assert_int_equal(p->dv.dbrec[GW_MLX5_DBREC_SEND], gw_mlx5_dbrec_be(*idx));
    for (uint32_t i = 0; i < n; i++) expect_flushed(&p->send, start[i], GW_MLX5_CQE_REQ_ERR, p->qp->qp_num);
}

/* Whether this device's libmlx5 posts atomics at all (it asks the device for the capability). */
static bool has_atomics(void)
{
    struct ibv_device_attr attr;

    assert_int_equal(ibv_query_device(ctx, &attr), 0);
    return attr.atomic_cap != IBV_ATOMIC_NONE;
}

static void sends(void **state)
{
    static struct random_wr_pool pools[MAX_BATCH];
    static const uint32_t max_sge[] = {1, 4, 16, 28};
    bool atomics = has_atomics();

    (void)state;
    for (uint32_t k = 0; k < 4; k++) {
        struct counts c = {0};
        struct gw_mlx5_sq ours;
        struct pair p;
        uint32_t idx = 0;

        open_pair(&p, max_sge[k], 4);
        assert_int_equal(p.dv.sq.stride, GW_MLX5_WQEBB);
        ours.buf = aligned_alloc(64, p.dv.sq.wqe_cnt * (size_t)GW_MLX5_WQEBB);
        ours.wqebbs = p.dv.sq.wqe_cnt;
        ours.qpn = p.qp->qp_num;
        assert_non_null(ours.buf);
        for (uint32_t i = 0; i < MAX_BATCH; i++) random_wr_init(&pools[i], 100 * (k + 1) + i);
        for (int i = 0; i < BATCHES; i++) one_batch(&p, &ours, pools, &idx, atomics, &c);
        print_message(
            "max_sge %2u, inline %u: %u requests equal (%u wrap, %u inline, %u inline wrap), atomics: %s\n",
            max_sge[k], p.cap.max_inline_data, c.wqes, c.wrapped, c.inlined, c.inline_wrapped,
            atomics ? "yes" : "not offered by the device");
        assert_true(c.wrapped > 5 && c.inline_wrapped > 5);
        free(ours.buf);
        close_pair(&p);
    }
}

static void receives(void **state)
{
    static struct random_wr_pool pool;
    static const uint32_t max_sge[] = {1, 3, 4, 16};

    (void)state;
    for (uint32_t k = 0; k < 4; k++) {
        struct gw_mlx5_rq ours;
        struct pair p;
        size_t bytes;

        open_pair(&p, 1, max_sge[k]);
        bytes = (size_t)p.dv.rq.wqe_cnt * p.dv.rq.stride;
        ours =
            (struct gw_mlx5_rq){aligned_alloc(64, bytes < 64 ? 64 : bytes), p.dv.rq.wqe_cnt, p.dv.rq.stride};
        assert_non_null(ours.buf);
        random_wr_init(&pool, 500 + k);
        for (uint32_t i = 0; i < 1000; i++) {
            struct ibv_sge sge[RANDOM_WR_MAX_SGE];
            struct ibv_recv_wr wr = {.wr_id = i, .sg_list = sge}, *bad;

            wr.num_sge = (int)rnd_below(&pool.rnd, p.cap.max_recv_sge + 1);
            for (int j = 0; j < wr.num_sge; j++)
                sge[j] = (struct ibv_sge){rnd64(&pool.rnd),
                                          rnd_below(&pool.rnd, 4) ? rnd_below(&pool.rnd, 1 << 30) : 0,
                                          (uint32_t)rnd64(&pool.rnd)};
            clear_queue(p.dv.rq.buf, bytes);
            memset(ours.buf, 0, bytes);
            assert_int_equal(gw_mlx5_put_recv(&ours, i, (struct gw_mlx5_sge *)sge, (uint32_t)wr.num_sge,
                                              p.cap.max_recv_sge),
                             0);
            assert_int_equal(ibv_post_recv(p.qp, &wr, &bad), 0);
            assert_memory_equal(p.dv.rq.buf, ours.buf, bytes);
            assert_int_equal(p.dv.dbrec[GW_MLX5_DBREC_RECV], gw_mlx5_dbrec_be(i + 1));
            expect_flushed(&p.recv, i, GW_MLX5_CQE_RESP_ERR, p.qp->qp_num);
        }
        free(ours.buf);
        close_pair(&p);
    }
}

/* The shared queue's lists of data; the links are the queue's user's. */
static void shared_receives(void **state)
{
    static struct random_wr_pool pool;
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 300, .max_sge = 3}};
    struct ibv_srq *srq = ibv_create_srq(pd, &init);
    struct mlx5dv_srq dv = {0};
    struct mlx5dv_obj obj = {.srq = {.in = srq, .out = &dv}};
    struct gw_mlx5_rq ours;
    size_t bytes;

    (void)state;
    assert_non_null(srq);
    assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ), 0);
    ours = (struct gw_mlx5_rq){NULL, 512, dv.stride};
    bytes = (size_t)ours.wqes * dv.stride;
    ours.buf = aligned_alloc(64, bytes);
    assert_non_null(ours.buf);
    memcpy(ours.buf, dv.buf, bytes);
    random_wr_init(&pool, 77);
    for (uint32_t i = 0; i < 300; i++) {
        struct ibv_sge sge[3];
        struct ibv_recv_wr wr = {.wr_id = i, .sg_list = sge}, *bad;

        wr.num_sge = (int)rnd_below(&pool.rnd, 4);
        for (int j = 0; j < wr.num_sge; j++)
            sge[j] =
                (struct ibv_sge){rnd64(&pool.rnd), rnd_below(&pool.rnd, 1 << 30), (uint32_t)rnd64(&pool.rnd)};
        assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
        assert_int_equal(gw_mlx5_put_srq_recv(&ours, i, (struct gw_mlx5_sge *)sge, (uint32_t)wr.num_sge, 3),
                         0);
        assert_memory_equal((char *)dv.buf + (size_t)i * dv.stride, (char *)ours.buf + (size_t)i * dv.stride,
                            dv.stride);
        assert_int_equal(gw_be32(dv.dbrec[GW_MLX5_DBREC_SRQ]) & 0xffff, i + 1);
        struct gw_u128 next = gw_mlx5_srq_next(i + 1);
        assert_memory_equal((char *)dv.buf + (size_t)i * dv.stride, &next, 4);
    }
    free(ours.buf);
    assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void arming(void **state)
{
    struct side s;

    (void)state;
    open_side(&s);
    assert_int_equal(ibv_req_notify_cq(s.cq, 1), 0);
    assert_int_equal(s.dv.dbrec[GW_MLX5_DBREC_CQ_ARM], gw_mlx5_cq_arm_be(0, 1, 0));
    assert_int_equal(ibv_req_notify_cq(s.cq, 0), 0);
    assert_int_equal(s.dv.dbrec[GW_MLX5_DBREC_CQ_ARM], gw_mlx5_cq_arm_be(0, 0, 0));
    assert_int_equal(ibv_destroy_cq(s.cq), 0);
}

static int set_up(void **state)
{
    struct ibv_device **list;

    (void)state;
    if (softnic_install() != 0) return -1;
    list = ibv_get_device_list(NULL);
    if (!list || !list[0] || !mlx5dv_is_supported(list[0])) return -1;
    ctx = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    if (!ctx) return -1;
    pd = ibv_alloc_pd(ctx);
    channel = ibv_create_comp_channel(ctx);
    return pd && channel ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return ibv_destroy_comp_channel(channel) || ibv_dealloc_pd(pd) || ibv_close_device(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sends), cmocka_unit_test(receives),
                                       cmocka_unit_test(shared_receives), cmocka_unit_test(arming)};

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
