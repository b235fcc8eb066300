/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmlx5_qp.h: a queue pair of the software NIC in this process, into whose queue unmodified libmlx5 writes.
 * What is posted there comes back flushed: it is in ERR.
 */
#ifndef TESTS_MLX5_LIBMLX5_QP_H
#define TESTS_MLX5_LIBMLX5_QP_H

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
#include "tests/mlx5/verbs_wr.h"

enum { SEND_WRS = 16, MAX_INLINE = 300 };

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_qp_cap cap = {.max_send_wr = SEND_WRS, .max_send_sge = 6, .max_inline_data = MAX_INLINE};
static struct mlx5dv_qp dv;

static inline int open_device(void)
{
    struct ibv_device **list;

    if (softnic_install() != 0) return -1;
    list = ibv_get_device_list(NULL);
    if (!list || !list[0]) return -1;
    ctx = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    pd = ctx ? ibv_alloc_pd(ctx) : NULL;
    cq = pd ? ibv_create_cq(ctx, 256, NULL, NULL, 0) : NULL;
    return cq ? 0 : -1;
}

/* Of the type and capacities that attr has, but for the queues and the domain. */
static inline int open_qp(struct ibv_qp_init_attr_ex *attr)
{
    struct mlx5dv_obj obj;

    attr->send_cq = cq;
    if (attr->qp_type != IBV_QPT_XRC_SEND) attr->recv_cq = cq;
    attr->pd = pd;
    attr->cap = cap;
    attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
    qp = ibv_create_qp_ex(ctx, attr);
    if (!qp) return -1;
    cap = attr->cap;
    obj.qp.in = qp;
    obj.qp.out = &dv;
    return mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP);
}

static inline int close_all(void)
{
    return ibv_destroy_qp(qp) || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) || ibv_close_device(ctx);
}

/* Does the queue pair take it: not more inline than it has room for? */
static inline int fits(const struct gw_mlx5_wr *wr)
{
    uint32_t bytes = 0;

    for (uint32_t i = 0; i < wr->num_sge; i++) bytes += wr->sge[i].length;
    return !wr->inl || bytes <= cap.max_inline_data;
}

static inline void expect_flushed(uint64_t wr_id)
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

#endif
