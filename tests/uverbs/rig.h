/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of softnic/uverbs share one device, opened through unmodified libibverbs, and connected QPs. */
#ifndef TESTS_UVERBS_RIG_H
#define TESTS_UVERBS_RIG_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <gpuwire/softnic.h>

/* libmlx5's share of objects that a test forgets on purpose is no leak of ours. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#define rig_forget_begin() __lsan_disable()
#define rig_forget_end()   __lsan_enable()
#else
#define rig_forget_begin() ((void)0)
#define rig_forget_end()   ((void)0)
#endif

#define RIG_BUFFER 65536
#define RIG_WAIT_S 60 /* how long a test waits for a completion before it fails */

struct rig {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    unsigned char *buf;
    union ibv_gid gid;
};

static inline struct ibv_context *rig_open(void)
{
    int n = 0;
    assert_int_equal(softnic_install(), 0);
    struct ibv_device **list = ibv_get_device_list(&n);
    assert_non_null(list);
    assert_int_equal(n, 1);
    assert_string_equal(ibv_get_device_name(list[0]), "mlx5_0");
    struct ibv_context *ctx = ibv_open_device(list[0]);
    assert_non_null(ctx);
    ibv_free_device_list(list);
    return ctx;
}

static inline void rig_up(struct rig *r)
{
    memset(r, 0, sizeof(*r));
    r->ctx = rig_open();
    r->pd = ibv_alloc_pd(r->ctx);
    assert_non_null(r->pd);
    r->cq = ibv_create_cq(r->ctx, 64, NULL, NULL, 0);
    assert_non_null(r->cq);
    r->buf = aligned_alloc(4096, RIG_BUFFER);
    assert_non_null(r->buf);
    memset(r->buf, 0, RIG_BUFFER);
    r->mr = ibv_reg_mr(r->pd, r->buf, RIG_BUFFER,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_ATOMIC);
    assert_non_null(r->mr);
    assert_int_equal(ibv_query_gid(r->ctx, 1, 0, &r->gid), 0);
}

static inline void rig_down(struct rig *r)
{
    assert_int_equal(ibv_dereg_mr(r->mr), 0);
    assert_int_equal(ibv_destroy_cq(r->cq), 0);
    assert_int_equal(ibv_dealloc_pd(r->pd), 0);
    assert_int_equal(ibv_close_device(r->ctx), 0);
    free(r->buf);
}

static inline struct ibv_qp *rig_qp(struct rig *r, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr a = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 16,
                .max_recv_wr = 16,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = 64},
    };
    struct ibv_qp *qp = ibv_create_qp(r->pd, &a);
    assert_non_null(qp);
    return qp;
}

static inline void rig_connect(struct rig *r, struct ibv_qp *qp, uint32_t to)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
                            .port_num = 1,
                            .qp_access_flags =
                                IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
    assert_int_equal(
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    a = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = to,
        .rq_psn = 77,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = r->gid, .hop_limit = 64}}};
    assert_int_equal(ibv_modify_qp(qp, &a,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                     0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                             .sq_psn = 77,
                             .timeout = 14,
                             .retry_cnt = 7,
                             .rnr_retry = 7,
                             .max_rd_atomic = 4};
    assert_int_equal(ibv_modify_qp(qp, &a,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

static inline double rig_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits for one completion. */
static inline struct ibv_wc rig_poll(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    double end = rig_seconds() + RIG_WAIT_S;
    int n;
    while (!(n = ibv_poll_cq(cq, 1, &wc)) && rig_seconds() < end)
        ;
    assert_int_equal(n, 1);
    return wc;
}

static inline int rig_write(struct ibv_qp *qp, struct rig *r, uint32_t from, uint32_t to, uint32_t bytes,
                            uint64_t id)
{
    struct ibv_sge sge = {.addr = (uintptr_t)r->buf + from, .length = bytes, .lkey = r->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .wr.rdma = {.remote_addr = (uintptr_t)r->buf + to, .rkey = r->mr->rkey}},
                       *bad;
    return ibv_post_send(qp, &wr, &bad);
}

#endif
