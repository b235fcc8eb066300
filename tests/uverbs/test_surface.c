/* SPDX-License-Identifier: Apache-2.0 */
/* The device answers when it is asked about itself, and clearly refuses everything that it cannot do. */
#include "tests/uverbs/fixture.h"

#include <errno.h>
#include <stdio.h>

static void refused(const void *made, const char *what)
{
    if (made) fail_msg("%s was made", what);
    if (errno != EOPNOTSUPP) fail_msg("%s: %s", what, strerror(errno));
}

static void refused_with(int err, const char *what)
{
    if (err != EOPNOTSUPP) fail_msg("%s: %s", what, strerror(err));
}

static void test_tables(void **state)
{
    (void)state;
    struct ibv_gid_entry e, table[4];
    union ibv_gid gid;
    __be16 pkey;

    assert_int_equal(ibv_query_pkey(r.ctx, 1, 0, &pkey), 0);
    assert_int_equal(pkey, 0xffff);
    assert_int_not_equal(ibv_query_pkey(r.ctx, 1, 1, &pkey), 0);
    assert_int_equal(ibv_get_pkey_index(r.ctx, 1, 0xffff), 0);
    assert_int_equal(ibv_query_gid_ex(r.ctx, 1, 0, &e, 0), 0);
    assert_memory_equal(&e.gid, &r.gid, 16);
    assert_int_equal(e.gid_type, IBV_GID_TYPE_ROCE_V2);
    assert_int_equal(e.port_num, 1);
    assert_int_not_equal(e.ndev_ifindex, 0);
    assert_int_equal(ibv_query_gid_ex(r.ctx, 1, 1, &e, 0), ENODATA);
    assert_int_equal(ibv_query_gid_ex(r.ctx, 1, 4, &e, 0), EINVAL);
    /* The same again where programs look that know a ConnectX. */
    assert_int_equal(ibv_query_gid_table(r.ctx, table, 4, 0), 2);
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(&table[i].gid, &r.gid, 16);
        assert_int_equal(table[i].gid_index, 3 * i);
        assert_int_equal(table[i].gid_type, IBV_GID_TYPE_ROCE_V2);
    }
    assert_int_equal(ibv_query_gid(r.ctx, 1, 3, &gid), 0);
    assert_memory_equal(&gid, &r.gid, 16);
    assert_int_not_equal(ibv_query_gid(r.ctx, 1, 4, &gid), 0);
    assert_int_not_equal(ibv_query_gid(r.ctx, 2, 0, &gid), 0);
}

static void test_device(void **state)
{
    (void)state;
    struct ibv_device_attr_ex a;
    struct mlx5dv_context dv = {.comp_mask = ~(uint64_t)0};

    assert_int_equal(ibv_query_device_ex(r.ctx, NULL, &a), 0);
    assert_int_equal(a.tso_caps.max_tso, 0);
    assert_int_equal(a.pci_atomic_caps.fetch_add, 0);
    assert_int_equal(mlx5dv_query_device(r.ctx, &dv), 0);
    assert_int_equal(dv.sw_parsing_caps.sw_parsing_offloads, 0);
    assert_int_equal(dv.cqe_comp_caps.max_num, 0);
    assert_true(mlx5dv_is_supported(r.ctx->device));
}

static void test_queue_pairs(void **state)
{
    (void)state;
    struct ibv_qp_init_attr_ex a = {.send_cq = r.cq,
                                    .recv_cq = r.cq,
                                    .cap = {4, 4, 1, 1, 0},
                                    .comp_mask = IBV_QP_INIT_ATTR_PD,
                                    .pd = r.pd};
    struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
                                     .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI}};

    a.qp_type = IBV_QPT_RAW_PACKET;
    refused(ibv_create_qp_ex(r.ctx, &a), "a raw packet QP");
    a.qp_type = IBV_QPT_DRIVER;
    refused(mlx5dv_create_qp(r.ctx, &a, &dv), "a DC QP");
    a.qp_type = IBV_QPT_RC;
    a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
    a.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    errno = 0;
    assert_null(ibv_create_qp_ex(r.ctx, &a));
    assert_true(errno == EOPNOTSUPP || errno == EINVAL); /* libmlx5 may refuse before it asks */
}

static void test_other_objects(void **state)
{
    (void)state;
    struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = r.pd, .cq = r.cq};
    struct ibv_counters_init_attr counters = {0};
    struct ibv_qp *qp = rig_qp(&r, r.cq);
    struct ibv_flow_attr flow = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(flow), .port = 1};

    errno = 0;
    refused(ibv_create_wq(r.ctx, &wq), "a work queue");
    errno = 0;
    refused(ibv_create_flow(qp, &flow), "a flow");
    errno = 0;
    refused(ibv_create_counters(r.ctx, &counters), "counters");
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void test_devx(void **state)
{
    (void)state;
    struct mlx5dv_context_attr a = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
    uint32_t in[4] = {0}, out[4] = {0};

    errno = 0;
    refused(mlx5dv_open_device(r.ctx->device, &a), "a DEVX context");
    refused_with(mlx5dv_devx_general_cmd(r.ctx, in, sizeof(in), out, sizeof(out)), "a firmware command");
    errno = 0;
    refused(mlx5dv_devx_umem_reg(r.ctx, r.buf, 4096, IBV_ACCESS_LOCAL_WRITE), "a umem");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, up, down)
    const struct CMUnitTest tests[] = {
        T(test_tables), T(test_device), T(test_queue_pairs), T(test_other_objects), T(test_devx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
