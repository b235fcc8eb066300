/* SPDX-License-Identifier: Apache-2.0 */
/* WRITEs that later WRITEs overtake: in hostile mode, where the region allows relaxed ordering; and nothing
 * else does. */
#include "tests/softnic/rig.h"

enum { ROUNDS = 20, BYTES = 2000, FLAG = 4000 };

static struct rig r;
static struct sn_mr *mr;

static void begin(bool hostile, uint32_t access)
{
    const struct world_options o = {.seed = 5, .hostile = hostile};
    struct sn_mr_init i = {.length = RIG_MEM, .iova = 0x4000, .access = (uint32_t)rig_access | access};

    rig_up(&r, &o);
    i.addr = (uintptr_t)r.b.mem;
    assert_int_equal(sn_mr_create(r.b.pd, &i, &mr), 0);
    rig_connect(&r);
    rig_fill(&r);
}

static void end(void)
{
    assert_int_equal(sn_mr_destroy(mr), 0);
    rig_down(&r);
}

static void put(uint8_t opcode, uint32_t at, uint32_t len, uint8_t flags)
{
    struct gw_mlx5_sge s = sge_of(&r.a, at, len);
    struct gw_mlx5_wr wr = {
        .opcode = opcode, .flags = flags, .num_sge = len != 0, .sge = &s, .raddr = 0x4000 + at};

    wr.rkey = sn_mr_key(mr);
    app_put(&r.a.qp, &wr);
}

static void ring(void)
{
    app_publish(&r.a.qp);
    app_ring(&r.a.qp, 1);
}

/* Until the flag is there, a microsecond at a time: has all of the payload come by then? */
static bool payload_first(void)
{
    for (int step = 0; step < 10000 && !r.b.mem[FLAG]; step++) world_settle(&r.w, 1000);
    assert_int_equal(r.b.mem[FLAG], 1);
    return !memcmp(r.b.mem, r.a.mem, BYTES);
}

static unsigned overtaken(bool hostile, uint32_t access)
{
    unsigned n = 0;

    begin(hostile, access);
    for (int i = 0; i < ROUNDS; i++) {
        memset(r.b.mem, 0, FLAG + 8);
        r.a.mem[FLAG] = 1;
        put(GW_MLX5_WRITE, 0, BYTES, 0);
        put(GW_MLX5_WRITE, FLAG, 1, GW_MLX5_SIGNALED);
        ring();
        n += !payload_first();
        world_settle(&r.w, 10 * MS);
        expect(&r.a, GW_MLX5_CQE_REQ);
        assert_memory_equal(r.b.mem, r.a.mem, BYTES); /* in the end all is there */
    }
    end();
    return n;
}

static void only_where_it_is_allowed(void **state)
{
    (void)state;
    assert_in_range(overtaken(true, IBV_ACCESS_RELAXED_ORDERING), ROUNDS / 2, ROUNDS);
    assert_int_equal(overtaken(true, 0), 0);
    assert_int_equal(overtaken(false, IBV_ACCESS_RELAXED_ORDERING), 0);
}

/* A WRITE that has completed, of which bytes are missing. */
static void put_one(void)
{
    memset(r.b.mem, 0, BYTES);
    put(GW_MLX5_WRITE, 0, BYTES, GW_MLX5_SIGNALED);
    ring();
    world_settle(&r.w, 100000);
    expect(&r.a, GW_MLX5_CQE_REQ);
    assert_memory_not_equal(r.b.mem, r.a.mem, BYTES);
}

/* Its completion has been given to the peer: what it wrote comes even if the region goes first. */
static void a_region_that_goes_has_its_bytes(void **state)
{
    (void)state;
    begin(true, IBV_ACCESS_RELAXED_ORDERING);
    put_one();
    assert_int_equal(sn_mr_destroy(mr), 0);
    assert_memory_equal(r.b.mem, r.a.mem, BYTES);
    rig_down(&r);
}

/* The same of its queue pair. */
static void a_queue_pair_that_goes_leaves_its_bytes(void **state)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

    (void)state;
    begin(true, IBV_ACCESS_RELAXED_ORDERING);
    put_one();
    assert_int_equal(sn_qp_modify(r.b.qp.qp, &reset, IBV_QP_STATE), 0);
    assert_memory_equal(r.b.mem, r.a.mem, BYTES);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_where_it_is_allowed),
                                       cmocka_unit_test(a_region_that_goes_has_its_bytes),
                                       cmocka_unit_test(a_queue_pair_that_goes_leaves_its_bytes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
