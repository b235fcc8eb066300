/* SPDX-License-Identifier: Apache-2.0 */
/* Long SENDs and WRITEs that the responder fetches: what is done so, and that all else is as with packets. */
#include <sys/mman.h>

#include "tests/apart.h"
#include "tests/softnic/peers_rig.h"
#include "tests/softnic/other_memory.h"

enum { LONG = 20000, FROM = 1000 };

static void up(void)
{
    peers_rig_connected(&(struct world_options){.seed = 1, .rndv_min = FROM});
}

static void run(void)
{
    world_settle(&r.w, 200 * MS);
}

/* Of region key of a, or of b. */
static void post_from(uint8_t opcode, uint64_t addr, uint32_t len, uint32_t lkey, uint64_t raddr,
                      uint32_t rkey)
{
    post_between(&r, opcode, (struct gw_mlx5_sge){addr, len, lkey}, raddr, rkey);
}

static void a_message_is_one_copy(void **state)
{
    static const uint8_t opcode[] = {GW_MLX5_SEND, GW_MLX5_SEND_IMM, GW_MLX5_WRITE_IMM};
    static const uint8_t received[] = {GW_MLX5_CQE_RESP_SEND, GW_MLX5_CQE_RESP_SEND_IMM,
                                       GW_MLX5_CQE_RESP_WR_IMM};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct gw_mlx5_wc wc;

        up();
        post_recv(&r.b, 100, LONG + 5);
        post_from(opcode[i], (uintptr_t)r.a.mem, LONG, r.a.key, (uintptr_t)r.b.mem + 100, r.b.key);
        world_run(&r.w, 0);
        expect_nothing(&r.a); /* not before it is there */
        run();
        expect(&r.a, GW_MLX5_CQE_REQ);
        wc = expect(&r.b, received[i]);
        assert_int_equal(wc.byte_cnt, LONG);
        if (i) assert_int_equal(wc.imm_be, RIG_IMM);
        assert_memory_equal(r.b.mem + 100, r.a.mem, LONG);
        assert_int_equal(peers.copies, 1);
        assert_int_equal(counters(&r, 0).tx_packets, 1);
        assert_int_equal(counters(&r, 1).rndv_taken, 1);
        assert_int_equal(counters(&r, 1).rndv_bytes, LONG);
        down();
    }
}

static void short_ones_are_packets(void **state)
{
    (void)state;
    up();
    post_recv(&r.b, 0, LONG);
    post(&r, GW_MLX5_SEND, 0, FROM - 1, 0);
    run();
    expect(&r.a, GW_MLX5_CQE_REQ);
    expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    assert_int_equal(counters(&r, 0).rndv_sent, 0);
    down();
}

/* From several pieces to several others, packets before and after it: all in their order. */
static void pieces_and_order(void **state)
{
    struct gw_mlx5_sge to[2], from[3];
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_SEND, .flags = GW_MLX5_SIGNALED, .num_sge = 3, .sge = from};
    uint8_t want[9000];

    (void)state;
    up();
    to[0] = sge_of(&r.b, 100, 3001);
    to[1] = sge_of(&r.b, 10000, 7000);
    from[0] = sge_of(&r.a, 0, 10);
    from[1] = sge_of(&r.a, 20000, 8000);
    from[2] = sge_of(&r.a, 7, 990);
    memcpy(want, r.a.mem, 10);
    memcpy(want + 10, r.a.mem + 20000, 8000);
    memcpy(want + 8010, r.a.mem + 7, 990);
    post_recv(&r.b, 40000, 64);
    app_recv(&r.b.qp, to, 2);
    post_recv(&r.b, 41000, 64);
    post(&r, GW_MLX5_SEND, 30000, 64, 0);
    app_post(&r.a.qp, &wr);
    post(&r, GW_MLX5_SEND, 31000, 64, 0);
    run();
    for (int i = 0; i < 3; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    for (int i = 0; i < 3; i++)
        assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_SEND).byte_cnt, i == 1 ? 9000 : 64);
    assert_memory_equal(r.b.mem + 100, want, 3001);
    assert_memory_equal(r.b.mem + 10000, want + 3001, 5999);
    assert_memory_equal(r.b.mem + 40000, r.a.mem + 30000, 64);
    assert_memory_equal(r.b.mem + 41000, r.a.mem + 31000, 64);
    down();
}

/* Longer than an offer may be; loss and doubles besides. */
static void long_ones_go_in_parts(void **state)
{
    enum { VERY = (1 << 20) + 123 };

    (void)state;
    for (uint32_t loss = 0; loss < 2; loss++) {
        uint8_t *mem[2] = {malloc(VERY), calloc(1, VERY)};

        up();
        r.w.faults.loss = r.w.faults.dup = loss * 2000;
        rnd_bytes(&(struct rnd){3}, mem[0], VERY);
        struct sn_mr *a = end_region(&r.a, mem[0], VERY), *b = end_region(&r.b, mem[1], VERY);
        struct gw_mlx5_sge s = {(uintptr_t)mem[1], VERY, sn_mr_key(b)};

        app_recv(&r.b.qp, &s, 1);
        post_from(GW_MLX5_SEND, (uintptr_t)mem[0], VERY, sn_mr_key(a), 0, 0);
        for (int i = 0; i < 10; i++) world_settle(&r.w, 1000 * MS);
        expect(&r.a, GW_MLX5_CQE_REQ);
        assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_SEND).byte_cnt, VERY);
        assert_memory_equal(mem[0], mem[1], VERY);
        if (!loss) assert_int_equal(counters(&r, 1).rndv_taken, 5);
        assert_int_equal(sn_mr_destroy(a), 0);
        assert_int_equal(sn_mr_destroy(b), 0);
        down();
        free(mem[0]);
        free(mem[1]);
    }
}

/* Some parts are fetched and others come as packets: the message is the same. */
static void parts_may_be_refused(void **state)
{
    enum { VERY = (1 << 20) + 123 };

    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        uint8_t *mem[2] = {malloc(VERY), calloc(1, VERY)};
        bool imm = seed % 2;

        up();
        peers.rnd.state = seed;
        peers.refused = 4000;
        rnd_bytes(&(struct rnd){3}, mem[0], VERY);
        struct sn_mr *a = end_region(&r.a, mem[0], VERY), *b = end_region(&r.b, mem[1], VERY);
        struct gw_mlx5_sge s = {(uintptr_t)mem[1], VERY, sn_mr_key(b)};

        app_recv(&r.b.qp, &s, 1);
        post_from(imm ? GW_MLX5_WRITE_IMM : GW_MLX5_SEND, (uintptr_t)mem[0], VERY, sn_mr_key(a),
                  (uintptr_t)mem[1], sn_mr_key(b));
        run();
        expect(&r.a, GW_MLX5_CQE_REQ);
        assert_int_equal(expect(&r.b, imm ? GW_MLX5_CQE_RESP_WR_IMM : GW_MLX5_CQE_RESP_SEND).byte_cnt, VERY);
        assert_memory_equal(mem[0], mem[1], VERY);
        assert_int_equal(sn_mr_destroy(a), 0);
        assert_int_equal(sn_mr_destroy(b), 0);
        down();
        free(mem[0]);
        free(mem[1]);
    }
}

static void who_is_not_ready_is_asked_again(void **state)
{
    (void)state;
    for (int imm = 0; imm < 2; imm++) {
        up();
        post(&r, imm ? GW_MLX5_WRITE_IMM : GW_MLX5_SEND, 0, LONG, 0);
        world_settle(&r.w, MS / 10);
        expect_nothing(&r.a);
        assert_true(counters(&r, 1).rnr_sent > 0);
        post_recv(&r.b, 0, LONG);
        run();
        expect(&r.a, GW_MLX5_CQE_REQ);
        expect(&r.b, imm ? GW_MLX5_CQE_RESP_WR_IMM : GW_MLX5_CQE_RESP_SEND);
        assert_memory_equal(r.a.mem, r.b.mem, LONG);
        assert_int_equal(counters(&r, 1).rndv_taken, 1);
        down();
    }
}

static void errors_are_those_of_packets(void **state)
{
    (void)state;
    up(); /* a receive too short */
    post_recv(&r.b, 0, LONG - 1);
    post(&r, GW_MLX5_SEND, 0, LONG, 0);
    run();
    expect_error(&r.b, GW_MLX5_CQE_RESP_ERR, GW_MLX5_SYND_LOCAL_LENGTH);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_INV_REQ);
    down();
    up(); /* one with a wrong key */
    struct gw_mlx5_sge s = {(uintptr_t)r.b.mem, LONG, r.b.key + 1};
    app_recv(&r.b.qp, &s, 1);
    post(&r, GW_MLX5_SEND, 0, LONG, 0);
    run();
    expect_error(&r.b, GW_MLX5_CQE_RESP_ERR, GW_MLX5_SYND_LOCAL_PROT);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_OP);
    down();
    up(); /* what the peer does not allow */
    post_recv(&r.b, 0, LONG);
    post_from(GW_MLX5_WRITE_IMM, (uintptr_t)r.a.mem, LONG, r.a.key, (uintptr_t)r.b.mem + RIG_MEM - LONG + 1,
              r.b.key);
    run();
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_ACCESS);
    assert_int_equal(r.w.events[IBV_EVENT_QP_ACCESS_ERR], 1);
    down();
    up(); /* a key of our own */
    post_recv(&r.b, 0, LONG);
    post_from(GW_MLX5_SEND, (uintptr_t)r.a.mem, LONG, r.a.key + 1, 0, 0);
    run();
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_LOCAL_PROT);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
    expect_nothing(&r.b);
    down();
}

/* Offered, and then it goes before it is fetched: deregistered, or unmapped. */
static void memory_that_goes_meanwhile_is_an_error(void **state)
{
    (void)state;
    for (int unmapped = 0; unmapped < 2; unmapped++) {
        void *mem = map_apart(LONG);
        struct sn_mr *mr;

        up();
        mr = end_region(&r.a, mem, LONG);
        post_recv(&r.b, 0, LONG);
        post_from(GW_MLX5_SEND, (uintptr_t)mem, LONG, sn_mr_key(mr), 0, 0);
        world_run(&r.w, 0);
        assert_int_equal(counters(&r, 0).rndv_sent, 1);
        if (!unmapped) assert_int_equal(sn_mr_destroy(mr), 0);
        assert_int_equal(munmap(mem, LONG), 0);
        run();
        assert_int_equal(counters(&r, 1).rndv_refused, 1);
        expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_LOCAL_PROT);
        assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
        expect_nothing(&r.b);
        if (unmapped) assert_int_equal(sn_mr_destroy(mr), 0);
        down();
    }
}

static void what_cannot_be_fetched_goes_by_packets(void **state)
{
    (void)state;
    up();
    peers.refused = 10000;
    for (uint32_t i = 0; i < 3; i++) post_recv(&r.b, i * LONG, LONG);
    for (uint32_t i = 0; i < 3; i++) post(&r, GW_MLX5_SEND, i * LONG, LONG, 0);
    run();
    for (uint32_t i = 0; i < 3; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    for (uint32_t i = 0; i < 3; i++) expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    assert_memory_equal(r.a.mem, r.b.mem, 3 * LONG);
    assert_true(counters(&r, 1).rndv_refused >= 1);
    assert_int_equal(counters(&r, 1).rndv_taken, 0);
    down();
}

static void memory_of_another_kind_goes_by_packets(void **state)
{
    static const struct sn_dma_ops ops = {.read = other_read, .write = other_write};

    (void)state;
    for (int there = 0; there < 2; there++) {
        struct sn_mr *mr;

        up();
        mr = other_region(there ? &r.b : &r.a, &ops);
        struct gw_mlx5_sge s = {0, LONG, sn_mr_key(mr)};
        if (there)
            app_recv(&r.b.qp, &s, 1);
        else
            post_recv(&r.b, 0, LONG);
        post_from(GW_MLX5_SEND, there ? (uintptr_t)r.a.mem : 0, LONG, there ? r.a.key : sn_mr_key(mr), 0, 0);
        run();
        expect(&r.a, GW_MLX5_CQE_REQ);
        expect(&r.b, GW_MLX5_CQE_RESP_SEND);
        assert_memory_equal(r.a.mem, r.b.mem, LONG);
        assert_int_equal(counters(&r, 1).rndv_taken, 0);
        assert_int_equal(sn_mr_destroy(mr), 0);
        down();
    }
}

/* Values that a peer may write into the memory that both share. */
static void nonsense_is_dropped(void **state)
{
    struct sn_piece {
        uint64_t va;
        uint32_t length, lkey;
    } piece[33] = {{0}};
    struct roce_hdr h = {.opcode = ROCE_SEND_ONLY, .psn = app_connect_default.psn_here, .ackreq = true};

    (void)state;
    up();
    r.w.inject_offers = true;
    post_recv(&r.b, 0, LONG);
    forge(&r, &h, piece, sizeof(piece[0]));     /* of nothing */
    forge(&r, &h, piece, sizeof(piece[0]) - 4); /* half a piece */
    forge(&r, &h, NULL, 0);                     /* none */
    for (int i = 0; i < 33; i++) piece[i].length = 100;
    forge(&r, &h, piece, sizeof(piece)); /* too many */
    for (int i = 0; i < 2; i++) piece[i].length = UINT32_MAX / 2 + 1;
    forge(&r, &h, piece, 2 * sizeof(piece[0])); /* more than an offer may be */
    assert_int_equal(counters(&r, 1).drop_malformed, 5);
    piece[0].length = 100; /* not the peer's memory */
    forge(&r, &h, piece, sizeof(piece[0]));
    assert_int_equal(counters(&r, 1).rndv_refused, 1);
    h.opcode = ROCE_READ_REQ;
    forge(&r, &h, NULL, 0);
    assert_int_equal(counters(&r, 1).drop_opcode, 1);
    expect_nothing(&r.b);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
    down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_one_copy),
        cmocka_unit_test(short_ones_are_packets),
        cmocka_unit_test(pieces_and_order),
        cmocka_unit_test(long_ones_go_in_parts),
        cmocka_unit_test(parts_may_be_refused),
        cmocka_unit_test(who_is_not_ready_is_asked_again),
        cmocka_unit_test(errors_are_those_of_packets),
        cmocka_unit_test(memory_that_goes_meanwhile_is_an_error),
        cmocka_unit_test(what_cannot_be_fetched_goes_by_packets),
        cmocka_unit_test(memory_of_another_kind_goes_by_packets),
        cmocka_unit_test(nonsense_is_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
