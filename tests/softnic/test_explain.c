/* SPDX-License-Identifier: Apache-2.0 */
/* What is said about each mistake: which WQE, which memory, which rule, and what was there instead. */
#include "softnic/nic/introspect.h"
#include "tests/softnic/fixture.h"

static void request(uint8_t opcode, uint64_t raddr, uint32_t rkey, uint32_t len)
{
    struct gw_mlx5_sge s = sge_of(&r.a, 0, len);
    struct gw_mlx5_wr wr = {
        .opcode = opcode, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s, .rkey = rkey, .raddr = raddr};

    app_post(&r.a.qp, &wr);
    world_settle(&r.w, 10 * MS);
}

/* Both sides say their part: the responder why, the requester which of its requests it was. */
static void expect_refusal(const char *why)
{
    char both[64];

    expect_report(&r, why);
    snprintf(both, sizeof(both), "QP 0x%06x: send WQE at index", r.a.qp.sq.qpn);
    expect_report(&r, both);
    expect_report(&r, "refused it");
}

static void a_region_that_is_too_short(void **state)
{
    (void)state;
    request(GW_MLX5_WRITE, (uintptr_t)r.b.mem + RIG_MEM - 90, r.b.key, 100);
    expect_refusal("10 bytes past the end of that region");
}

static void an_address_before_the_region(void **state)
{
    (void)state;
    request(GW_MLX5_READ, (uintptr_t)r.b.mem - 8, r.b.key, 100);
    expect_refusal("8 bytes before that region");
}

static void a_key_that_never_was(void **state)
{
    char text[64];

    (void)state;
    request(GW_MLX5_WRITE, (uintptr_t)r.b.mem + 5, r.b.key ^ 1, 100);
    snprintf(text, sizeof(text), "no region has that key; the one there has key 0x%x", r.b.key);
    expect_refusal(text);
}

static void a_key_and_an_address_that_never_were(void **state)
{
    (void)state;
    request(GW_MLX5_WRITE, 64, r.b.key ^ 1, 100);
    expect_refusal("no region has that key, and none is there");
}

static void a_region_that_is_gone(void **state)
{
    uint32_t key = r.b.key;

    (void)state;
    assert_int_equal(sn_mr_destroy(r.b.mr), 0);
    r.b.mr = NULL;
    request(GW_MLX5_WRITE, (uintptr_t)r.b.mem, key, 100);
    expect_refusal("was deregistered");
}

static void make_region(struct sn_pd *pd, uint32_t access, struct sn_mr **mr)
{
    struct sn_mr_init i = {
        .addr = (uintptr_t)r.b.mem, .length = RIG_MEM, .iova = (uintptr_t)r.b.mem, .access = access};

    assert_int_equal(sn_mr_create(pd, &i, mr), 0);
}

static void a_right_that_is_missing(void **state)
{
    struct sn_mr *mr;

    (void)state;
    make_region(r.b.pd, IBV_ACCESS_REMOTE_READ, &mr);
    request(GW_MLX5_WRITE, (uintptr_t)r.b.mem, sn_mr_key(mr), 100);
    expect_refusal("does not allow remote write");
    sn_mr_destroy(mr);
}

static void another_protection_domain(void **state)
{
    struct sn_mr *mr;
    struct sn_pd *pd;

    (void)state;
    assert_int_equal(sn_pd_create(r.w.nics[1].nic, &pd), 0);
    make_region(pd, (uint32_t)rig_access, &mr);
    request(GW_MLX5_WRITE, (uintptr_t)r.b.mem, sn_mr_key(mr), 100);
    expect_refusal("of another protection domain");
    sn_mr_destroy(mr);
    sn_pd_destroy(pd);
}

static void our_own_memory(void **state)
{
    struct gw_mlx5_sge s = sge_of(&r.a, RIG_MEM - 50, 100);
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_SEND, .num_sge = 1, .sge = &s};

    (void)state;
    app_post(&r.a.qp, &wr);
    world_settle(&r.w, 10 * MS);
    expect_report(&r, "send WQE at index 0: its piece [0x");
    expect_report(&r, "50 bytes past the end of that region");
}

static void a_receive_that_is_too_short(void **state)
{
    (void)state;
    post_recv(&r.b, 0, 10);
    post(&r, GW_MLX5_SEND, 0, 20, 0);
    world_settle(&r.w, 10 * MS);
    expect_report(&r, "receive WQE at index 0 has room for 10 bytes");
    expect_refusal("message is longer");
}

static void nobody_answers(void **state)
{
    (void)state;
    r.w.cut = true;
    post(&r, GW_MLX5_WRITE, 0, 100, 0);
    world_settle(&r.w, 10000 * (uint64_t)MS);
    expect_report(&r, "send WQE at index 0 (WRITE of [0x");
    expect_report(&r, "no answer from its peer");
    expect_report(&r, "gave up after 7 repeats");
}

static void no_receive_is_posted(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    struct app_connect c = app_connect_default;

    (void)state;
    assert_int_equal(sn_qp_modify(r.a.qp.qp, &attr, IBV_QP_STATE), 0);
    assert_int_equal(sn_qp_modify(r.b.qp.qp, &attr, IBV_QP_STATE), 0);
    c.rnr_retry = 2;
    app_connect(&r.a.qp, &r.b.qp, &c);
    post(&r, GW_MLX5_SEND, 0, 100, 0);
    world_settle(&r.w, 10000 * (uint64_t)MS);
    expect_report(&r, "(SEND of 100 bytes): its peer");
    expect_report(&r, "no receive posted: gave up after 2 repeats");
}

/* Beside the status, for those who look such codes up. */
static void the_device_s_own_codes(void **state)
{
    struct gw_mlx5_wc wc;

    (void)state;
    post_recv(&r.b, 0, 100);
    request(GW_MLX5_WRITE, 64, r.b.key ^ 1, 100);
    wc = expect(&r.a, GW_MLX5_CQE_REQ_ERR);
    assert_int_equal(wc.syndrome, GW_MLX5_SYND_REM_ACCESS);
    assert_int_equal(wc.vendor, 0x88);
    request(GW_MLX5_WRITE, (uintptr_t)r.b.mem, r.b.key, 100);
    wc = expect(&r.a, GW_MLX5_CQE_REQ_ERR);
    assert_int_equal(wc.syndrome, GW_MLX5_SYND_FLUSHED);
    assert_int_equal(wc.vendor, 0xf9);
    wc = expect(&r.b, GW_MLX5_CQE_RESP_ERR);
    assert_int_equal(wc.syndrome, GW_MLX5_SYND_FLUSHED);
    assert_int_equal(wc.vendor, 0xf9);
}

/* Repeated forever: both ends say what the one waits for, once, and not before a second is over. */
static void a_receive_is_missing_for_long(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    struct app_connect c = app_connect_default;

    (void)state;
    assert_int_equal(sn_qp_modify(r.a.qp.qp, &attr, IBV_QP_STATE), 0);
    assert_int_equal(sn_qp_modify(r.b.qp.qp, &attr, IBV_QP_STATE), 0);
    c.rnr_retry = 7;
    c.min_rnr_timer = 24; /* 41 ms */
    app_connect(&r.a.qp, &r.b.qp, &c);
    post(&r, GW_MLX5_SEND, 0, 100, 0);
    world_settle(&r.w, 900 * (uint64_t)MS);
    assert_int_equal(r.w.reports, 0);
    world_settle(&r.w, 200 * (uint64_t)MS);
    assert_int_equal(r.w.reports, 2);
    expect_report(&r, "(SEND of 100 bytes): its peer");
    expect_report(&r, "has had no receive posted for a second; it is tried again until there is one");
    expect_report(&r, "has waited for a second: it sent a message, and no receive is posted");
    world_settle(&r.w, 5000 * (uint64_t)MS);
    assert_int_equal(r.w.reports, 2);
    post_recv(&r.b, 0, 4000);
    world_settle(&r.w, 100 * (uint64_t)MS);
    expect(&r.a, GW_MLX5_CQE_REQ);
    expect(&r.b, GW_MLX5_CQE_RESP_SEND);
}

/* As programs do that were written for InfiniBand, and whose option for a GID index was left out. */
static void an_address_without_a_gid(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    const int path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

    (void)state;
    assert_int_equal(sn_qp_modify(r.a.qp.qp, &attr, IBV_QP_STATE), 0);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
    assert_int_equal(
        sn_qp_modify(r.a.qp.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .ah_attr = {.dlid = 1, .port_num = 1}};
    assert_int_equal(sn_qp_modify(r.a.qp.qp, &attr,
                                  IBV_QP_STATE | path | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                     -EINVAL);
    expect_report(&r, "no global route, and RoCE needs a GID: try -g 0");
}

/* Lines are few for each queue pair, but the last stays to be looked at. */
static void not_everything_is_said(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    struct sn_qp_view v;
    uint32_t cursor = 0;

    (void)state;
    for (int i = 0; i < 20; i++) {
        attr.dest_qp_num = (uint32_t)i;
        assert_int_not_equal(sn_qp_modify(r.a.qp.qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN), 0);
    }
    assert_in_range(r.w.reports, 1, 5);
    assert_int_equal(sn_introspect_qps(r.w.nics[0].nic, &cursor, &v, 1, MS), 1);
    assert_non_null(strstr(v.line, "modify from RTS to RTR"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_region_that_is_too_short),    TEST(an_address_before_the_region),
        TEST(a_key_that_never_was),          TEST(a_key_and_an_address_that_never_were),
        TEST(a_region_that_is_gone),         TEST(a_right_that_is_missing),
        TEST(another_protection_domain),     TEST(our_own_memory),
        TEST(a_receive_that_is_too_short),   TEST(nobody_answers),
        TEST(no_receive_is_posted),          TEST(not_everything_is_said),
        TEST(the_device_s_own_codes),        TEST(an_address_without_a_gid),
        TEST(a_receive_is_missing_for_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
