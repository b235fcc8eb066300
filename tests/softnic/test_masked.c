/* SPDX-License-Identifier: Apache-2.0 */
/* Masked atomics from WQE to memory and back, over kind and unkind networks. */
#include "src/roce/atomic.h"
#include "tests/softnic/rig.h"

enum { WORDS = 4, ROUNDS = 400, BATCH = 8 };

static struct rig r;

/* The words that each request of a batch must find and leave: they are executed in order. */
static void post_one(struct rnd *rnd, uint64_t *model, uint32_t i, uint64_t *found)
{
    struct gw_mlx5_sge s = sge_of(&r.a, 4096 + 8 * i, 8);
    struct gw_mlx5_wr wr = {.flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s, .rkey = r.b.key};
    uint32_t at = rnd_below(rnd, WORDS);
    uint64_t *word = &model[at];

    *found = *word;
    wr.raddr = (uintptr_t)r.b.mem + 8 * at;
    wr.swap_or_add = rnd64(rnd);
    if (rnd_below(rnd, 2)) {
        wr.opcode = GW_MLX5_MASKED_FA;
        wr.compare = rnd_below(rnd, 3) ? rnd64(rnd) & rnd64(rnd) & rnd64(rnd) : 0;
        *word = roce_masked_add(*word, wr.swap_or_add, wr.compare);
    } else {
        wr.opcode = GW_MLX5_MASKED_CS;
        wr.compare_mask = rnd64(rnd);
        wr.compare = rnd_below(rnd, 4) ? *word ^ (rnd64(rnd) & ~wr.compare_mask) : rnd64(rnd);
        wr.swap_mask = rnd64(rnd);
        *word = roce_masked_swap(*word, wr.swap_or_add, wr.compare, wr.swap_mask, wr.compare_mask);
    }
    app_post(&r.a.qp, &wr);
}

static void run(uint64_t seed, const struct world_faults *faults, bool hostile)
{
    struct world_options o = {.seed = seed, .hostile = hostile};
    uint64_t model[WORDS] = {0}, found[BATCH], got;
    struct rnd rnd = {seed};

    rig_up(&r, &o);
    if (faults) r.w.faults = *faults;
    rig_connect(&r);
    for (int k = 0; k < ROUNDS; k++) {
        for (uint32_t i = 0; i < BATCH; i++) post_one(&rnd, model, i, &found[i]);
        world_settle(&r.w, 10000ull * MS);
        for (uint32_t i = 0; i < BATCH; i++) {
            struct gw_mlx5_wc wc = expect(&r.a, GW_MLX5_CQE_REQ);

            assert_true(wc.wqe_opcode == GW_MLX5_MASKED_FA || wc.wqe_opcode == GW_MLX5_MASKED_CS);
            assert_int_equal(wc.byte_cnt, 8);
            memcpy(&got, r.a.mem + 4096 + 8 * i, 8);
            assert_true(got == found[i]);
        }
        assert_memory_equal(r.b.mem, model, sizeof(model));
    }
    expect_nothing(&r.a);
    if (faults) assert_true(counters(&r, 0).retransmits && counters(&r, 1).duplicates);
    rig_down(&r);
}

static void do_what_they_say(void **state)
{
    (void)state;
    run(1, NULL, false);
    run(2, NULL, true);
}

static void happen_once_whatever_the_network_does(void **state)
{
    static const struct world_faults bad = {
        .loss = 500, .dup = 500, .reorder = 500, .corrupt = 200, .delay_ns = 1000, .reorder_ns = 20000};

    (void)state;
    run(3, &bad, false);
    run(4, &bad, true);
}

/* The kept result, each time; the operands of a repeat are not looked at. */
static void a_duplicate_changes_nothing(void **state)
{
    struct roce_hdr h = {.opcode = ROCE_MASKED_FETCH_ADD,
                         .psn = app_connect_default.psn_here,
                         .swap_or_add = 0xff,
                         .compare = 0x80};
    uint64_t word = 0x0102;

    (void)state;
    rig_up(&r, NULL);
    rig_connect(&r);
    memcpy(r.b.mem, &word, 8);
    h.va = (uintptr_t)r.b.mem;
    h.rkey = r.b.key;
    for (int i = 0; i < 3; i++) forge(&r, &h, NULL, 0);
    memcpy(&word, r.b.mem, 8);
    assert_true(word == 0x0101);
    h.opcode = ROCE_MASKED_COMPARE_SWAP;
    h.psn++;
    h.swap_or_add = UINT64_MAX;
    h.swap_mask = 0xff00;
    for (int i = 0; i < 3; i++) forge(&r, &h, NULL, 0);
    memcpy(&word, r.b.mem, 8);
    assert_true(word == 0xff01);
    assert_int_equal(counters(&r, 1).duplicates, 4);
    assert_int_equal(counters(&r, 1).tx_packets, 6);
    rig_down(&r);
}

/* How a device of ours, or of others, treats the numbers beside these. */
static void other_makers_opcodes_are_dropped(void **state)
{
    static const uint8_t strange[] = {0xc0, 0xd2, 0xd5, 0xff, ROCE_OWN_XRC | ROCE_MASKED_FETCH_ADD};
    uint8_t frame[64] = {0};

    (void)state;
    rig_up(&r, NULL);
    rig_connect(&r);
    for (size_t i = 0; i < sizeof(strange); i++) {
        frame[0] = strange[i];
        frame[2] = frame[3] = 0xff;
        for (int k = 0; k < 3; k++) frame[5 + k] = (uint8_t)(r.b.qp.sq.qpn >> (16 - 8 * k));
        world_inject(&r.w, 1, NULL, 0xc000, frame, 48);
        world_run(&r.w, 1);
    }
    assert_int_equal(counters(&r, 1).drop_opcode, sizeof(strange));
    assert_int_equal(counters(&r, 1).tx_packets, 0);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
    rig_down(&r);
}

static void need_the_right_of_atomics(void **state)
{
    struct sn_mr_init mr = {.length = 64, .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};
    struct sn_mr *only;

    (void)state;
    rig_up(&r, NULL);
    rig_connect(&r);
    mr.addr = mr.iova = (uintptr_t)r.b.mem;
    assert_int_equal(sn_mr_create(r.b.pd, &mr, &only), 0);
    struct gw_mlx5_sge s = sge_of(&r.a, 0, 8);
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_MASKED_CS,
                            .num_sge = 1,
                            .sge = &s,
                            .raddr = (uintptr_t)r.b.mem,
                            .rkey = sn_mr_key(only),
                            .swap_or_add = 1,
                            .swap_mask = 1};

    app_post(&r.a.qp, &wr);
    world_settle(&r.w, 100 * MS);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_ACCESS);
    expect_report(&r, "masked compare and swap");
    assert_int_equal(r.b.mem[0], 0);
    assert_int_equal(sn_mr_destroy(only), 0);
    rig_down(&r);
}

static void four_bytes_are_refused(void **state)
{
    struct gw_mlx5_sge s;
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_MASKED_FA, .num_sge = 1, .sge = &s};

    (void)state;
    rig_up(&r, NULL);
    rig_connect(&r);
    s = sge_of(&r.a, 0, 8);
    wr.raddr = (uintptr_t)r.b.mem;
    wr.rkey = r.b.key;
    app_put(&r.a.qp, &wr);
    *(uint8_t *)r.a.qp.sq_buf = 0x08;
    app_publish(&r.a.qp);
    app_ring(&r.a.qp, 1);
    world_settle(&r.w, 10 * MS);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_LOCAL_QP_OP);
    expect_report(&r, "only 8 bytes are supported");
    rig_down(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(do_what_they_say),
        cmocka_unit_test(happen_once_whatever_the_network_does),
        cmocka_unit_test(a_duplicate_changes_nothing),
        cmocka_unit_test(other_makers_opcodes_are_dropped),
        cmocka_unit_test(need_the_right_of_atomics),
        cmocka_unit_test(four_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
