/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is reached by other means than memcpy: writes that become visible only when flushed, and copies
 * that fail. */
#include "tests/softnic/rig.h"

/* A device's memory: what is written waits in a list. */
enum { LAZY_MAX = 4096 };

static struct lazy {
    uint8_t *mem;
    struct lazy_write {
        uint64_t addr;
        uint32_t len;
        uint8_t data[1024];
    } waiting[LAZY_MAX];
    unsigned count, flushes, reads;
    uint64_t last_request;
    bool fail_flush, fail_read;
} lazy;

static int lazy_flush(void *ctx)
{
    (void)ctx;
    lazy.flushes++;
    for (unsigned i = 0; i < lazy.count; i++)
        memcpy((void *)(uintptr_t)lazy.waiting[i].addr, lazy.waiting[i].data, lazy.waiting[i].len);
    lazy.count = 0;
    return lazy.fail_flush ? -EIO : 0;
}

static int lazy_write(void *ctx, uint64_t addr, const void *src, uint32_t len)
{
    struct lazy_write *x = &lazy.waiting[lazy.count++];

    (void)ctx;
    assert_in_range(addr, (uintptr_t)lazy.mem, (uintptr_t)lazy.mem + RIG_MEM - len);
    assert_true(lazy.count < LAZY_MAX && len <= sizeof(x->data));
    x->addr = addr;
    x->len = len;
    memcpy(x->data, src, len);
    return 0;
}

static int lazy_read(void *ctx, uint64_t addr, void *dst, uint32_t len, uint64_t ahead, uint64_t request)
{
    (void)ctx;
    assert_in_range(addr, (uintptr_t)lazy.mem, (uintptr_t)lazy.mem + RIG_MEM - len);
    assert_true(ahead >= len && addr + ahead <= (uintptr_t)lazy.mem + RIG_MEM);
    lazy_flush(NULL);
    lazy.reads++;
    lazy.last_request = request;
    if (lazy.fail_read) return -EIO;
    memcpy(dst, (const void *)(uintptr_t)addr, len);
    return 0;
}

static const struct sn_dma_ops lazy_ops = {.read = lazy_read, .write = lazy_write, .flush = lazy_flush};
static struct rig r;
static struct sn_mr *mr;

/* b's memory, once more, as such a device's. */
static void use_lazy(bool hostile)
{
    struct world_options o = {.seed = 9, .hostile = hostile};
    struct sn_mr_init i = {
        .length = RIG_MEM, .iova = 0x4000, .access = (uint32_t)rig_access, .dma = &lazy_ops};

    rig_up(&r, &o);
    memset(&lazy, 0, sizeof(lazy));
    lazy.mem = r.b.mem;
    i.addr = (uintptr_t)r.b.mem;
    assert_int_equal(sn_mr_create(r.b.pd, &i, &mr), 0);
    rig_connect(&r);
    rnd_bytes(&(struct rnd){77}, r.a.mem, RIG_MEM);
}

static void done(void)
{
    if (mr) assert_int_equal(sn_mr_destroy(mr), 0);
    mr = NULL;
    rig_down(&r);
}

static void request(uint8_t opcode, uint32_t at, uint32_t len)
{
    struct gw_mlx5_sge s = sge_of(&r.a, 0, len);
    struct gw_mlx5_wr wr = {.opcode = opcode, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s};

    wr.raddr = 0x4000 + at;
    wr.rkey = sn_mr_key(mr);
    wr.swap_or_add = 1;
    app_post(&r.a.qp, &wr);
    world_settle(&r.w, 10 * MS);
}

static void writes_are_there_when_acknowledged(void **state)
{
    (void)state;
    for (int hostile = 0; hostile < 2; hostile++) {
        use_lazy(hostile);
        request(GW_MLX5_WRITE, 100, 10000);
        expect(&r.a, GW_MLX5_CQE_REQ);
        assert_memory_equal(r.b.mem + 100, r.a.mem, 10000);
        assert_int_equal(r.b.mem[10100], 0);
        assert_true(lazy.flushes);
        done();
    }
}

static void a_notice_on_other_memory_vouches_for_them(void **state)
{
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_SEND};

    (void)state;
    use_lazy(false);
    post_recv(&r.b, RIG_MEM - 64, 64);
    r.w.faults.loss = 0;
    struct gw_mlx5_sge s = sge_of(&r.a, 0, 5000);
    struct gw_mlx5_wr first = {.opcode = GW_MLX5_WRITE, .num_sge = 1, .sge = &s, .raddr = 0x4000};
    first.rkey = sn_mr_key(mr);
    app_put(&r.a.qp, &first);
    app_put(&r.a.qp, &wr);
    app_publish(&r.a.qp);
    app_ring(&r.a.qp, 1);
    world_settle(&r.w, 10 * MS);
    expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    assert_memory_equal(r.b.mem, r.a.mem, 5000);
    done();
}

static void receives_reads_and_atomics(void **state)
{
    uint64_t n = 41;

    (void)state;
    use_lazy(true);
    struct gw_mlx5_sge s = {0x4000 + 300, 3000, sn_mr_key(mr)};
    app_recv(&r.b.qp, &s, 1);
    request(GW_MLX5_SEND, 0, 3000);
    expect(&r.a, GW_MLX5_CQE_REQ);
    expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    assert_memory_equal(r.b.mem + 300, r.a.mem, 3000);
    memcpy(r.b.mem, &n, 8);
    request(GW_MLX5_ATOMIC_FA, 0, 8);
    expect(&r.a, GW_MLX5_CQE_REQ);
    memcpy(&n, r.b.mem, 8);
    assert_int_equal(n, 42);
    memcpy(&n, r.a.mem, 8);
    assert_int_equal(n, 41);
    request(GW_MLX5_READ, 300, 3000);
    expect(&r.a, GW_MLX5_CQE_REQ);
    assert_memory_equal(r.b.mem + 300, r.a.mem, 3000);
    assert_true(lazy.last_request != 0);
    done();
}

static void a_region_goes_with_all_it_owes(void **state)
{
    (void)state;
    use_lazy(false);
    struct gw_mlx5_sge s = sge_of(&r.a, 0, 20000);
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE, .num_sge = 1, .sge = &s, .raddr = 0x4000};
    wr.rkey = sn_mr_key(mr);
    app_post(&r.a.qp, &wr);
    r.w.faults.loss = 5000;
    for (int i = 0; i < 20 && !lazy.count; i++) {
        for (unsigned k = 0; k < WORLD_NICS; k++) world_run(&r.w, k);
        world_advance(&r.w, 5000);
    }
    sn_mr_destroy(mr);
    mr = NULL;
    assert_int_equal(lazy.count, 0);
    unsigned before = lazy.flushes;
    r.w.faults.loss = 0;
    world_settle(&r.w, 100 * MS);
    assert_int_equal(lazy.flushes, before);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_ACCESS);
    done();
}

static void failures_reach_both_ends(void **state)
{
    (void)state;
    use_lazy(false);
    lazy.fail_flush = true;
    request(GW_MLX5_WRITE, 0, 100);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_OP);
    done();
    use_lazy(false);
    lazy.fail_read = true;
    request(GW_MLX5_READ, 0, 100);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_OP);
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_are_there_when_acknowledged),
        cmocka_unit_test(a_notice_on_other_memory_vouches_for_them),
        cmocka_unit_test(receives_reads_and_atomics),
        cmocka_unit_test(a_region_goes_with_all_it_owes),
        cmocka_unit_test(failures_reach_both_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
