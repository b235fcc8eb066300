/* SPDX-License-Identifier: Apache-2.0 */
/* WRITEs and READs that are executed by copies between processes of one host: what is done so, in which
 * order, and that errors are those of packets. */
#include <sys/mman.h>

#include "tests/apart.h"
#include "tests/softnic/peers_rig.h"

static uint64_t packets(void)
{
    return counters(&r, 0).tx_packets + counters(&r, 1).tx_packets;
}

static void run(void)
{
    world_settle(&r.w, 50 * MS);
}

static void writes_and_reads_take_no_packets(void **state)
{
    uint8_t was[5000];

    (void)state;
    peers_rig_connected(NULL);
    post(&r, GW_MLX5_WRITE, 0, 5000, 100);
    world_run(&r.w, 0); /* done when the doorbell was taken: no other had to run */
    expect(&r.a, GW_MLX5_CQE_REQ);
    assert_memory_equal(r.b.mem + 100, r.a.mem, 5000);
    memcpy(was, r.b.mem + 20000, 5000);
    post(&r, GW_MLX5_READ, 30000, 5000, 20000);
    world_run(&r.w, 0);
    assert_int_equal(expect(&r.a, GW_MLX5_CQE_REQ).byte_cnt, 5000);
    assert_memory_equal(r.a.mem + 30000, was, 5000);
    post(&r, GW_MLX5_WRITE, 0, 0, 0);
    world_run(&r.w, 0);
    expect(&r.a, GW_MLX5_CQE_REQ);
    assert_int_equal(packets(), 0);
    assert_int_equal(counters(&r, 0).direct_requests, 3);
    assert_int_equal(counters(&r, 0).direct_bytes, 10000);
    down();
}

static void requests_in_a_row_are_one_copy(void **state)
{
    (void)state;
    peers_rig_connected(NULL);
    for (uint32_t i = 0; i < 20; i++) post(&r, GW_MLX5_WRITE, i * 64, 64, (19 - i) * 64);
    world_run(&r.w, 0);
    for (uint32_t i = 0; i < 20; i++) {
        expect(&r.a, GW_MLX5_CQE_REQ);
        assert_memory_equal(r.b.mem + (19 - i) * 64, r.a.mem + i * 64, 64);
    }
    assert_int_equal(peers.copies, 1);
    assert_int_equal(packets(), 0);
    down();
}

static void a_later_write_to_one_place_stays(void **state)
{
    (void)state;
    peers_rig_connected(NULL);
    for (uint32_t i = 0; i < 30; i++) post(&r, GW_MLX5_WRITE, i * 100, 100, i % 3 * 50);
    world_run(&r.w, 0);
    for (uint32_t i = 0; i < 30; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    assert_memory_equal(r.b.mem + 100, r.a.mem + 2900, 100);
    assert_memory_equal(r.b.mem, r.a.mem + 2700, 50);
    down();
}

static void long_ones_go_in_chunks(void **state)
{
    enum { LONG = (5 << 20) + 123 };
    struct end *ends[2] = {&r.a, &r.b};
    struct sn_mr *mr[2];
    uint8_t *mem[2];

    (void)state;
    peers_rig_connected(NULL);
    for (int i = 0; i < 2; i++) {
        mem[i] = malloc(LONG);
        rnd_bytes(&(struct rnd){(uint64_t)i + 1}, mem[i], LONG);
        mr[i] = end_region(ends[i], mem[i], LONG);
    }
    post_between(&r, GW_MLX5_WRITE, (struct gw_mlx5_sge){(uintptr_t)mem[0], LONG, sn_mr_key(mr[0])},
                 (uintptr_t)mem[1], sn_mr_key(mr[1]));
    run();
    expect(&r.a, GW_MLX5_CQE_REQ);
    assert_memory_equal(mem[0], mem[1], LONG);
    assert_int_equal(peers.copies, 6);
    assert_int_equal(packets(), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sn_mr_destroy(mr[i]), 0);
        free(mem[i]);
    }
    down();
}

static void what_was_posted_earlier_comes_first(void **state)
{
    uint8_t was[10000];

    (void)state;
    peers_rig_connected(NULL);
    memcpy(was, r.b.mem + 40000, 10000);
    post_recv(&r.b, 0, 64);
    post(&r, GW_MLX5_SEND, 0, 64, 0);
    post(&r, GW_MLX5_WRITE, 100, 10000, 40000); /* long: waits for the answer to the SEND */
    post(&r, GW_MLX5_WRITE, 200, 100, 30000);
    world_run(&r.w, 0);
    assert_memory_equal(r.b.mem + 40000, was, 10000);
    run();
    for (int i = 0; i < 3; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    assert_memory_equal(r.b.mem + 40000, r.a.mem + 100, 10000);
    assert_memory_equal(r.b.mem + 30000, r.a.mem + 200, 100);
    assert_int_equal(counters(&r, 0).direct_requests, 2);
    down();
}

/* A packet must not leave while what stands before it is still in the batch. */
static void a_message_does_not_overtake_its_data(void **state)
{
    (void)state;
    for (int imm = 0; imm < 2; imm++) {
        peers_rig_connected(NULL);
        post_recv(&r.b, 0, 64);
        for (uint32_t i = 0; i < 4; i++) post(&r, GW_MLX5_WRITE, 1000 * i, 1000, 1000 + 1000 * i);
        post(&r, imm ? GW_MLX5_WRITE_IMM : GW_MLX5_SEND, 0, 64, 0);
        world_run(&r.w, 0);
        assert_memory_equal(r.b.mem + 1000, r.a.mem, 4000);
        run();
        for (int i = 0; i < 5; i++) expect(&r.a, GW_MLX5_CQE_REQ);
        expect(&r.b, imm ? GW_MLX5_CQE_RESP_WR_IMM : GW_MLX5_CQE_RESP_SEND);
        assert_int_equal(counters(&r, 0).direct_requests, 4);
        down();
    }
}

static void post_to(uint8_t opcode, uint32_t rkey, uint64_t raddr, uint32_t lkey)
{
    post_between(&r, opcode, (struct gw_mlx5_sge){(uintptr_t)r.a.mem, 64, lkey}, raddr, rkey);
}

/* Two that are right, one that is not, one after it. */
static void refused(uint8_t opcode, uint32_t rkey, uint64_t raddr, uint8_t syndrome, int event)
{
    uint8_t was[RIG_MEM];

    for (int i = 0; i < 2; i++) post(&r, GW_MLX5_WRITE, 0, 64, 0);
    world_run(&r.w, 0);
    memcpy(was, r.b.mem, RIG_MEM);
    for (int i = 0; i < 2; i++) post(&r, GW_MLX5_WRITE, 0, 64, 0);
    post_to(opcode, rkey, raddr, r.a.key);
    post(&r, GW_MLX5_WRITE, 1000, 64, 0);
    run();
    for (int i = 0; i < 4; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, syndrome);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_FLUSHED);
    expect_nothing(&r.a);
    assert_int_equal(app_state(&r.a.qp), IBV_QPS_ERR);
    if (event >= 0) assert_int_equal(r.w.events[event], 1);
    if (event >= 0) assert_int_equal(app_state(&r.b.qp), IBV_QPS_ERR);
    assert_memory_equal(was, r.b.mem, RIG_MEM);
}

static void what_is_not_allowed_fails_as_by_packets(void **state)
{
    uint64_t mem;

    (void)state;
    peers_rig_connected(NULL);
    mem = (uintptr_t)r.b.mem;
    refused(GW_MLX5_WRITE, r.b.key + 1, mem, GW_MLX5_SYND_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
    down();
    peers_rig_connected(NULL);
    mem = (uintptr_t)r.b.mem;
    refused(GW_MLX5_WRITE, r.b.key, mem + RIG_MEM - 63, GW_MLX5_SYND_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
    down();
    peers_rig_connected(NULL);
    mem = (uintptr_t)r.b.mem;
    refused(GW_MLX5_READ, r.b.key, mem - 1, GW_MLX5_SYND_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
    down();
}

static void other_domains_regions_are_not_for_it(void **state)
{
    struct sn_mr_init init = {.length = RIG_MEM, .access = (uint32_t)rig_access};
    struct sn_pd *pd;
    struct sn_mr *mr;

    (void)state;
    peers_rig_connected(NULL);
    init.addr = init.iova = (uintptr_t)r.b.mem;
    assert_int_equal(sn_pd_create(r.w.nics[1].nic, &pd), 0);
    assert_int_equal(sn_mr_create(pd, &init, &mr), 0);
    refused(GW_MLX5_WRITE, sn_mr_key(mr), init.addr, GW_MLX5_SYND_REM_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
    assert_int_equal(sn_mr_destroy(mr), 0);
    assert_int_equal(sn_pd_destroy(pd), 0);
    down();
}

static void our_own_mistakes_are_ours(void **state)
{
    (void)state;
    peers_rig_connected(NULL);
    post_to(GW_MLX5_WRITE, r.b.key, (uintptr_t)r.b.mem, r.a.key + 1);
    run();
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_LOCAL_PROT);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
    down();
}

static void a_queue_pair_that_denies_it_gets_nothing(void **state)
{
    struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ};

    (void)state;
    peers_rig_connected(NULL);
    assert_int_equal(sn_qp_modify(r.b.qp.qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
    post(&r, GW_MLX5_READ, 0, 64, 0);
    world_run(&r.w, 0);
    expect(&r.a, GW_MLX5_CQE_REQ);
    post(&r, GW_MLX5_WRITE, 0, 64, 0);
    run();
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_INV_REQ);
    assert_int_equal(r.w.events[IBV_EVENT_QP_REQ_ERR], 1);
    down();
}

static void a_region_that_went_is_gone(void **state)
{
    (void)state;
    peers_rig_connected(NULL);
    post(&r, GW_MLX5_WRITE, 0, 64, 0);
    world_run(&r.w, 0);
    expect(&r.a, GW_MLX5_CQE_REQ);
    unsigned before = peers.quiesced;
    assert_int_equal(sn_mr_destroy(r.b.mr), 0);
    r.b.mr = NULL;
    assert_true(peers.quiesced > before);
    post(&r, GW_MLX5_WRITE, 0, 64, 0);
    run();
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_ACCESS);
    down();
}

/* The third of five: the ones before it are done, it fails, the ones after it come back. */
static void memory_that_went_fails_one_request(void **state)
{
    uint8_t *page = map_apart(4096);
    struct sn_mr *mr;

    (void)state;
    peers_rig_connected(NULL);
    mr = end_region(&r.b, page, 4096);
    assert_int_equal(munmap(page, 4096), 0);
    for (uint32_t i = 0; i < 5; i++) {
        if (i == 2)
            post_to(GW_MLX5_WRITE, sn_mr_key(mr), (uintptr_t)page, r.a.key);
        else
            post(&r, GW_MLX5_WRITE, i * 64, 64, i * 64);
    }
    run();
    for (int i = 0; i < 2; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_OP);
    for (int i = 0; i < 2; i++) expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_FLUSHED);
    assert_int_equal(r.w.events[IBV_EVENT_QP_ACCESS_ERR], 1);
    assert_int_equal(counters(&r, 0).direct_refused, 1);
    assert_int_equal(sn_mr_destroy(mr), 0);
    down();
}

static void what_the_system_refuses_goes_by_packets(void **state)
{
    (void)state;
    peers_rig_connected(NULL);
    peers.refused = 10000;
    for (uint32_t i = 0; i < 10; i++) post(&r, GW_MLX5_WRITE, i * 3000, 3000, i * 3000);
    run();
    for (uint32_t i = 0; i < 10; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    assert_memory_equal(r.a.mem, r.b.mem, 30000);
    assert_int_equal(counters(&r, 0).direct_requests, 0);
    assert_true(packets());
    down();
}

static void a_peer_that_does_not_take_requests_is_not_touched(void **state)
{
    (void)state;
    peers_rig_up(NULL);
    struct app_connect c = app_connect_default;
    c.retry_cnt = 0;
    c.timeout = 1;
    assert_int_equal(app_to_init(&r.a.qp), 0);
    assert_int_equal(app_to_rtr(&r.a.qp, &r.b.qp, &c), 0);
    assert_int_equal(app_to_rts(&r.a.qp, &c), 0);
    assert_int_equal(app_to_init(&r.b.qp), 0);
    post(&r, GW_MLX5_WRITE, 0, 64, 0);
    run();
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_RETRY_EXC);
    assert_int_equal(peers.copies, 0);
    down();
}

/* In RTR the first packet of all is an event: it has to come as one. */
static void the_first_request_makes_an_event(void **state)
{
    struct app_connect there = app_connect_default;

    (void)state;
    peers_rig_up(NULL);
    there.psn_here = app_connect_default.psn_there;
    there.psn_there = app_connect_default.psn_here;
    assert_int_equal(app_to_init(&r.b.qp), 0);
    assert_int_equal(app_to_rtr(&r.b.qp, &r.a.qp, &there), 0);
    assert_int_equal(app_to_init(&r.a.qp), 0);
    assert_int_equal(app_to_rtr(&r.a.qp, &r.b.qp, &app_connect_default), 0);
    assert_int_equal(app_to_rts(&r.a.qp, &app_connect_default), 0);
    for (int i = 0; i < 2; i++) {
        post(&r, GW_MLX5_WRITE, 0, 64, 0);
        run();
        expect(&r.a, GW_MLX5_CQE_REQ);
    }
    assert_int_equal(r.w.events[IBV_EVENT_COMM_EST], 1);
    assert_int_equal(counters(&r, 0).direct_requests, 1);
    down();
}

/* Everything that can go wrong with copies, and with packets, at once. */
static void nothing_is_lost_or_done_twice(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct world_options o = {.seed = seed};
        uint32_t sends = 0;

        peers_rig_connected(&o);
        peers.rnd.state = seed;
        peers.absent = 2000;
        peers.stops = 1500;
        peers.refused = 500;
        r.w.faults.loss = r.w.faults.dup = 200;
        r.w.faults.reorder = 300;
        r.w.faults.reorder_ns = 20000;
        for (uint32_t i = 0; i < 40; i++) {
            uint32_t kind = world_below(&r.w, 4), len = 1 + world_below(&r.w, 1500);

            if (kind == 0) post_recv(&r.b, 62000, 1500), sends++;
            post(&r,
                 kind == 0   ? GW_MLX5_SEND
                 : kind == 1 ? GW_MLX5_READ
                             : GW_MLX5_WRITE,
                 kind == 1 ? 62000 : i * 1500, len, kind == 1 ? 60000 : i * 1500);
            if (kind > 1) memcpy(r.a.mem + i * 1500 + len, r.b.mem + i * 1500 + len, 1500 - len);
            if (kind <= 1) memcpy(r.a.mem + i * 1500, r.b.mem + i * 1500, 1500);
            if (world_chance(&r.w, 3000)) world_settle(&r.w, world_below(&r.w, 20000));
        }
        for (int i = 0; i < 30; i++) run();
        for (uint32_t i = 0; i < 40; i++) expect(&r.a, GW_MLX5_CQE_REQ);
        for (uint32_t i = 0; i < sends; i++) expect(&r.b, GW_MLX5_CQE_RESP_SEND);
        expect_nothing(&r.a);
        assert_memory_equal(r.a.mem, r.b.mem, 60000);
        down();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_and_reads_take_no_packets),
        cmocka_unit_test(requests_in_a_row_are_one_copy),
        cmocka_unit_test(a_later_write_to_one_place_stays),
        cmocka_unit_test(long_ones_go_in_chunks),
        cmocka_unit_test(what_was_posted_earlier_comes_first),
        cmocka_unit_test(a_message_does_not_overtake_its_data),
        cmocka_unit_test(what_is_not_allowed_fails_as_by_packets),
        cmocka_unit_test(other_domains_regions_are_not_for_it),
        cmocka_unit_test(our_own_mistakes_are_ours),
        cmocka_unit_test(a_queue_pair_that_denies_it_gets_nothing),
        cmocka_unit_test(a_region_that_went_is_gone),
        cmocka_unit_test(memory_that_went_fails_one_request),
        cmocka_unit_test(what_the_system_refuses_goes_by_packets),
        cmocka_unit_test(a_peer_that_does_not_take_requests_is_not_touched),
        cmocka_unit_test(the_first_request_makes_an_event),
        cmocka_unit_test(nothing_is_lost_or_done_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
