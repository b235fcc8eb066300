/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/theirs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/verbs/pair.h"

struct theirs theirs;

static struct gw_device_info info;

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d", what, rc);
}

static struct ibv_ah_attr way(void)
{
    struct ibv_ah_attr a = {
        .is_global = 1, .port_num = 1, .grh = {.hop_limit = 64, .sgid_index = (uint8_t)info.gid_index}};

    memcpy(a.grh.dgid.raw, info.gid, 16);
    return a;
}

static void connect_ud(struct ibv_qp *qp)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = PAIR_QKEY};

    must(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "INIT");
    a.qp_state = IBV_QPS_RTR;
    must(ibv_modify_qp(qp, &a, IBV_QP_STATE), "RTR");
    a.qp_state = IBV_QPS_RTS;
    must(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
}

static void connect_rc(struct ibv_qp *qp, uint32_t peer)
{
    struct ibv_qp_attr a = {0};

    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    must(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = peer;
    a.max_dest_rd_atomic = 4;
    a.min_rnr_timer = 1;
    a.ah_attr = way();
    must(ibv_modify_qp(qp, &a,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "RTR");
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14;
    a.retry_cnt = 7;
    a.rnr_retry = 1;
    a.max_rd_atomic = 4;
    must(ibv_modify_qp(qp, &a,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                           IBV_QP_MAX_QP_RD_ATOMIC),
         "RTS");
}

void theirs_connect(void)
{
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};

        must(ibv_modify_qp(theirs.qp[i], &a, IBV_QP_STATE), "RESET");
        if (theirs.ah)
            connect_ud(theirs.qp[i]);
        else
            connect_rc(theirs.qp[i], theirs.qp[!i]->qp_num);
    }
}

void theirs_make(struct gw_device *dev, size_t bytes, enum ibv_qp_type type)
{
    struct ibv_context *ctx = gw_device_context(dev);
    struct ibv_ah_attr self;

    gw_device_query(dev, &info);
    self = way();
    theirs.pd = ibv_alloc_pd(ctx);
    theirs.mem = aligned_alloc(4096, bytes);
    assert_non_null(theirs.pd);
    theirs.mr = ibv_reg_mr(theirs.pd, theirs.mem, bytes,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                               IBV_ACCESS_REMOTE_ATOMIC);
    assert_non_null(theirs.mr);
    for (int i = 0; i < 2; i++) theirs.cq[i] = ibv_create_cq(ctx, 512, NULL, NULL, 0);
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_init_attr a = {
            .send_cq = theirs.cq[i], .recv_cq = theirs.cq[i], .qp_type = type, .cap = {64, 64, 4, 4, 256}};

        theirs.qp[i] = ibv_create_qp(theirs.pd, &a);
        assert_non_null(theirs.qp[i]);
    }
    if (type == IBV_QPT_UD) {
        theirs.ah = ibv_create_ah(theirs.pd, &self);
        assert_non_null(theirs.ah);
    }
    theirs_connect();
}

void theirs_free(void)
{
    for (int i = 0; i < 2; i++) ibv_destroy_qp(theirs.qp[i]);
    for (int i = 0; i < 2; i++) ibv_destroy_cq(theirs.cq[i]);
    if (theirs.ah) ibv_destroy_ah(theirs.ah);
    ibv_dereg_mr(theirs.mr);
    ibv_dealloc_pd(theirs.pd);
    free(theirs.mem);
}
