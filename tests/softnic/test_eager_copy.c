/* SPDX-License-Identifier: Apache-2.0 */
/* WRITEs with immediate data whose bytes the requester copies ahead: what is done so, and that all else is as
 * with packets. */
#include <sys/mman.h>

#include "tests/apart.h"
#include "tests/softnic/peers_rig.h"

enum { LONG = 20000, FROM = 1000, IMM = GW_MLX5_WRITE_IMM };

static void up(void)
{
    peers_rig_connected(&(struct world_options){.seed = 1, .rndv_min = FROM});
    peers.no_offers = true; /* else it would be offered */
}

static void run(void)
{
    world_settle(&r.w, 200 * MS);
}

static void the_bytes_go_ahead(void **state)
{
    struct gw_mlx5_wc wc;

    (void)state;
    up();
    post_recv(&r.b, 40000, 64);
    post(&r, IMM, 0, LONG, 100);
    world_run(&r.w, 0);
    assert_memory_equal(r.b.mem + 100, r.a.mem, LONG);
    expect_nothing(&r.a); /* its end is the peer's to tell */
    expect_nothing(&r.b);
    run();
    expect(&r.a, GW_MLX5_CQE_REQ);
    wc = expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM);
    assert_int_equal(wc.byte_cnt, LONG);
    assert_int_equal(peers.copies, 1);
    assert_int_equal(counters(&r, 0).tx_packets, 1);
    assert_int_equal(counters(&r, 0).eager_sent, 1);
    assert_int_equal(counters(&r, 1).eager_taken, 1);
    assert_int_equal(counters(&r, 0).direct_bytes, LONG);
    down();
}

/* Of plain memory they do when the peer has more to fetch than it has got done: so now one is offered, now
 * one placed, in order. */
static void they_go_ahead_of_who_is_behind(void **state)
{
    (void)state;
    up();
    peers.no_offers = false;
    for (int i = 0; i < 6; i++) post_recv(&r.b, 0, 0);
    for (uint32_t i = 0; i < 6; i++) {
        peers.lags = i % 3 ? 10000 : 0;
        post(&r, IMM, i * 4000, LONG, 100);
        world_run(&r.w, 0);
        if (i % 2) run();
    }
    run();
    for (int i = 0; i < 6; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    for (int i = 0; i < 6; i++) expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM);
    assert_memory_equal(r.b.mem + 100, r.a.mem + 5 * 4000, LONG);
    assert_true(counters(&r, 0).eager_sent > 0 && counters(&r, 0).rndv_sent > 0);
    assert_int_equal(counters(&r, 0).eager_sent + counters(&r, 0).rndv_sent, 6);
    assert_int_equal(counters(&r, 1).eager_taken, counters(&r, 0).eager_sent);
    down();
}

static void short_ones_are_packets(void **state)
{
    (void)state;
    up();
    for (int i = 0; i < 2; i++) post_recv(&r.b, 0, 0);
    post(&r, IMM, 0, FROM - 1, 0);
    post(&r, IMM, 0, 0, 0);
    run();
    for (int i = 0; i < 2; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    for (int i = 0; i < 2; i++) expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM);
    assert_memory_equal(r.b.mem, r.a.mem, FROM - 1);
    assert_int_equal(counters(&r, 0).eager_sent, 0);
    assert_int_equal(peers.copies, 0);
    down();
}

/* They follow each other without waiting for answers, after WRITEs too. */
static void those_in_a_row_are_one_copy(void **state)
{
    (void)state;
    up();
    for (int i = 0; i < 10; i++) post_recv(&r.b, 0, 0);
    for (uint32_t i = 0; i < 3; i++) post(&r, GW_MLX5_WRITE, i * 64, 64, 50000 + i * 64);
    for (uint32_t i = 0; i < 5; i++) post(&r, IMM, i * 2000, 2000, i * 2000);
    world_run(&r.w, 0);
    assert_int_equal(peers.copies, 1);
    assert_int_equal(counters(&r, 0).eager_sent, 5);
    for (uint32_t i = 5; i < 10; i++) post(&r, IMM, i * 2000, 2000, i * 2000);
    world_run(&r.w, 0);
    assert_int_equal(peers.copies, 2);
    assert_int_equal(counters(&r, 0).eager_sent, 10);
    run();
    for (uint32_t i = 0; i < 13; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    for (uint32_t i = 0; i < 10; i++) expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM);
    assert_memory_equal(r.b.mem, r.a.mem, 20000);
    assert_memory_equal(r.b.mem + 50000, r.a.mem, 192);
    assert_int_equal(counters(&r, 0).tx_packets, 10);
    assert_int_equal(counters(&r, 0).retransmits, 0);
    down();
}

/* Longer than is copied at once, and than the window of what is not acknowledged. */
static void long_ones_are_one_frame(void **state)
{
    enum { VERY = (5 << 20) + 123 };
    uint8_t *mem[2] = {malloc(VERY), calloc(1, VERY)};
    struct sn_mr *a, *b;

    (void)state;
    up();
    rnd_bytes(&(struct rnd){3}, mem[0], VERY);
    a = end_region(&r.a, mem[0], VERY);
    b = end_region(&r.b, mem[1], VERY);
    for (int i = 0; i < 2; i++) post_recv(&r.b, 0, 0);
    for (int i = 0; i < 2; i++)
        post_between(&r, IMM, (struct gw_mlx5_sge){(uintptr_t)mem[0], VERY, sn_mr_key(a)}, (uintptr_t)mem[1],
                     sn_mr_key(b));
    run();
    for (int i = 0; i < 2; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    for (int i = 0; i < 2; i++) assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM).byte_cnt, VERY);
    assert_memory_equal(mem[0], mem[1], VERY);
    assert_int_equal(counters(&r, 0).tx_packets, 2);
    assert_int_equal(sn_mr_destroy(a), 0);
    assert_int_equal(sn_mr_destroy(b), 0);
    down();
    free(mem[0]);
    free(mem[1]);
}

/* After a SEND it is packets; a READ or WRITE after it waits until it has been received. */
static void order_with_other_requests(void **state)
{
    uint8_t was[LONG];

    (void)state;
    up();
    memcpy(was, r.b.mem, LONG);
    post(&r, GW_MLX5_SEND, 60000, 64, 0);
    post(&r, IMM, 0, LONG, 0);
    world_settle(&r.w, MS / 10);
    assert_true(counters(&r, 1).rnr_sent > 0);
    assert_memory_equal(r.b.mem, was, LONG);
    post_recv(&r.b, 50000, 64);
    post_recv(&r.b, 0, 0);
    run();
    assert_int_equal(counters(&r, 0).eager_sent, 0);
    post_recv(&r.b, 0, 0);
    post(&r, IMM, 0, LONG, 0);
    post(&r, GW_MLX5_READ, 30000, LONG, 0);
    post(&r, GW_MLX5_WRITE, 10, 5000, 0);
    post(&r, GW_MLX5_WRITE, 40000, 64, 0);
    memcpy(was, r.a.mem, LONG);
    run();
    for (int i = 0; i < 6; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    for (int i = 0; i < 2; i++) expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM);
    assert_int_equal(counters(&r, 0).eager_sent, 1);
    assert_memory_equal(r.a.mem + 30000, was, LONG);
    assert_memory_equal(r.b.mem, r.a.mem + 40000, 64);
    assert_memory_equal(r.b.mem + 64, r.a.mem + 74, 5000 - 64);
    assert_memory_equal(r.b.mem + 5000, r.a.mem + 5000, LONG - 5000);
    down();
}

/* Bytes are copied once, however often the frame is sent: from the completion on the memory is the
 * receiver's. */
static void repeats_copy_nothing(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        up();
        post(&r, IMM, 0, LONG, 0);
        if (!lost) {
            world_settle(&r.w, MS / 10);
            assert_true(counters(&r, 1).rnr_sent > 0);
            post_recv(&r.b, 0, 0);
        } else {
            post_recv(&r.b, 0, 0);
            world_run(&r.w, 0);
            world_advance(&r.w, MS); /* it arrives, and its acknowledgement gets lost */
            world_run(&r.w, 1);
            expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM);
            memset(r.b.mem, 0x55, LONG);
            r.w.cut = true;
            world_settle(&r.w, MS / 10);
            r.w.cut = false;
        }
        run();
        expect(&r.a, GW_MLX5_CQE_REQ);
        if (!lost) expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM);
        expect_nothing(&r.b);
        assert_int_equal(peers.copies, 1);
        assert_int_equal(counters(&r, 1).eager_taken, 1);
        if (lost) assert_true(counters(&r, 1).duplicates > 0);
        for (int i = 0; lost && i < LONG; i++) assert_int_equal(r.b.mem[i], 0x55);
        down();
    }
}

/* Each over the one before it: whatever is lost, refused or stopped, the last one's bytes are there at the
 * end. */
static void the_last_bytes_stay(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        up();
        r.w.rnd.state = peers.rnd.state = seed;
        r.w.faults.loss = seed % 3 * 700;
        r.w.faults.dup = seed % 4 * 500;
        peers.stops = seed % 5 * 400;
        peers.refused = seed % 7 * 300;
        peers.absent = seed % 2 * 1000;
        for (uint32_t i = 0; i < 16; i++) {
            post_recv(&r.b, 0, 0);
            post(&r, i % 6 == 5 ? GW_MLX5_WRITE : IMM, i * 1000, i % 4 == 3 ? 500 : 9000, i % 3 * 2000);
            if (i % 3 == 2) world_settle(&r.w, 1000 * (seed % 50));
        }
        for (int i = 0; i < 20; i++) world_settle(&r.w, 1000 * MS);
        for (uint32_t i = 0; i < 16; i++) expect(&r.a, GW_MLX5_CQE_REQ);
        for (uint32_t i = 0; i < 14; i++) expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM);
        uint8_t want[16000];
        rnd_bytes(&(struct rnd){78}, want, sizeof(want));
        for (uint32_t i = 0; i < 16; i++)
            memcpy(want + i % 3 * 2000, r.a.mem + i * 1000, i % 4 == 3 ? 500 : 9000);
        assert_memory_equal(r.b.mem, want, sizeof(want));
        down();
    }
}

static void errors_are_those_of_packets(void **state)
{
    (void)state;
    up(); /* past the end */
    post_recv(&r.b, 0, 0);
    post(&r, IMM, 0, LONG, RIG_MEM - LONG + 1);
    run();
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_ACCESS);
    assert_int_equal(r.w.events[IBV_EVENT_QP_ACCESS_ERR], 1);
    assert_int_equal(counters(&r, 0).eager_sent, 0);
    down();
    up(); /* a key of our own */
    post_recv(&r.b, 0, 0);
    post_between(&r, IMM, (struct gw_mlx5_sge){(uintptr_t)r.a.mem, LONG, r.a.key + 1}, (uintptr_t)r.b.mem,
                 r.b.key);
    run();
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_LOCAL_PROT);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
    down();
}

/* Placed, and before its frame has come the region goes, or what the queue pair allows. */
static void what_is_taken_back_meanwhile_is_an_error(void **state)
{
    struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ};

    (void)state;
    for (int region = 0; region < 2; region++) {
        up();
        post_recv(&r.b, 0, 0);
        post(&r, IMM, 0, LONG, 0);
        world_run(&r.w, 0);
        assert_int_equal(counters(&r, 0).eager_sent, 1);
        if (region) {
            assert_int_equal(sn_mr_destroy(r.b.mr), 0);
            r.b.mr = NULL;
        } else {
            assert_int_equal(sn_qp_modify(r.b.qp.qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
        }
        run();
        expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, region ? GW_MLX5_SYND_REM_ACCESS : GW_MLX5_SYND_REM_INV_REQ);
        assert_int_equal(counters(&r, 1).eager_taken, 0);
        down();
    }
}

/* The key is another memory's by now: the bytes must be there. */
static void a_region_that_changed_gets_packets(void **state)
{
    uint8_t *other = calloc(1, RIG_MEM);
    struct sn_mr_init init = {.length = RIG_MEM, .access = (uint32_t)rig_access};

    (void)state;
    up();
    post(&r, IMM, 0, LONG, 0);
    world_settle(&r.w, MS / 10);
    init.addr = (uintptr_t)other;
    init.iova = (uintptr_t)r.b.mem;
    assert_int_equal(sn_mr_change(r.b.mr, r.b.pd, &init), 0);
    post_recv(&r.b, 0, 0);
    run();
    expect(&r.a, GW_MLX5_CQE_REQ);
    expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM);
    assert_memory_equal(other, r.a.mem, LONG);
    assert_int_equal(counters(&r, 1).eager_refused, 1);
    down();
    free(other);
}

/* Who is refused sends bytes, for some time. */
static void who_is_not_believed_sends_packets(void **state)
{
    (void)state;
    up();
    for (uint32_t i = 0; i < 3; i++) {
        post_recv(&r.b, 0, 0);
        post(&r, IMM, i * LONG, LONG, i * LONG);
    }
    world_run(&r.w, 0);
    assert_int_equal(counters(&r, 0).eager_sent, 3);
    peers.no_writes = true; /* and so it is not believed */
    memset(r.b.mem, 0, 3 * LONG);
    run();
    for (uint32_t i = 0; i < 3; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    for (uint32_t i = 0; i < 3; i++) expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM);
    assert_memory_equal(r.b.mem, r.a.mem, 3 * LONG);
    assert_int_equal(counters(&r, 1).eager_taken, 0);
    assert_int_equal(counters(&r, 1).eager_refused, 1);
    down();
}

static void a_peer_that_is_gone_is_sent_packets(void **state)
{
    (void)state;
    up();
    post(&r, IMM, 0, LONG, 0);
    world_settle(&r.w, MS / 10); /* not ready */
    assert_int_equal(peers.copies, 1);
    peers.absent = 10000;
    post_recv(&r.b, 0, 0);
    run();
    expect(&r.a, GW_MLX5_CQE_REQ);
    expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM);
    assert_memory_equal(r.b.mem, r.a.mem, LONG);
    assert_int_equal(counters(&r, 1).eager_taken, 0);
    down();
}

/* As if from a: the bytes are in their place, and newer than those of requests before that PSN. */
static void forge_placed(struct roce_hdr *h, uint32_t base)
{
    uint32_t base_be = gw_be32(base);

    forge(&r, h, &base_be, sizeof(base_be));
}

/* Frames overtake each other where one way to a peer ends and another begins. A message that was sent as
 * placed comes after older bytes, which were sent again as packets. It would complete without its own bytes.
 */
static void who_comes_late_is_not_believed(void **state)
{
    uint32_t psn = app_connect_default.psn_here;
    struct roce_hdr h = {.opcode = ROCE_WRITE_ONLY_IMM, .psn = psn, .ackreq = true}, late = h;

    (void)state;
    up();
    for (int i = 0; i < 2; i++) post_recv(&r.b, 0, 0);
    h.va = late.va = (uintptr_t)r.b.mem;
    h.rkey = late.rkey = r.b.key;
    h.dlen = 64;
    forge(&r, &h, r.a.mem, 64);
    expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM);
    r.w.inject_offers = true;
    late.dlen = LONG;
    late.psn = psn + 1;
    forge_placed(&late, psn);
    expect_nothing(&r.b);
    assert_int_equal(counters(&r, 1).eager_refused, 1);
    forge_placed(&late, psn + 1); /* it was copied after them */
    expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM);
    assert_int_equal(counters(&r, 1).eager_taken, 1);
    down();
}

/* A peer may write this into the memory that both share, or send it over the wire. */
static void forged_ones(void **state)
{
    struct roce_hdr h = {.opcode = ROCE_WRITE_ONLY_IMM, .psn = app_connect_default.psn_here, .ackreq = true};
    uint8_t was[LONG];

    (void)state;
    up(); /* over the wire there is no such thing: the message is too short */
    post_recv(&r.b, 0, 0);
    h.va = (uintptr_t)r.b.mem;
    h.rkey = r.b.key;
    h.dlen = LONG;
    memcpy(was, r.b.mem, LONG);
    forge_placed(&h, h.psn);
    expect_error(&r.b, GW_MLX5_CQE_RESP_ERR, GW_MLX5_SYND_FLUSHED);
    assert_int_equal(counters(&r, 1).eager_taken, 0);
    assert_int_equal(r.w.events[IBV_EVENT_QP_REQ_ERR], 1);
    assert_memory_equal(was, r.b.mem, LONG);
    down();
    for (int i = 0; i < 4; i++) { /* through memory: as much as a packet may */
        struct roce_hdr g = h;

        up();
        r.w.inject_offers = true;
        post_recv(&r.b, 0, 0);
        g.va = (uintptr_t)r.b.mem + (i == 0);
        g.rkey = r.b.key + (i == 1);
        g.dlen = i == 2 ? UINT32_MAX : RIG_MEM;
        peers.no_writes = i == 3; /* no peer was let in */
        forge_placed(&g, g.psn);
        assert_int_equal(counters(&r, 1).eager_taken, 0);
        assert_int_equal(counters(&r, 1).eager_refused, i == 3);
        if (i < 3) expect_error(&r.b, GW_MLX5_CQE_RESP_ERR, GW_MLX5_SYND_FLUSHED);
        expect_nothing(&r.b);
        assert_int_equal(r.w.events[IBV_EVENT_QP_ACCESS_ERR], i < 2);
        assert_int_equal(r.w.events[IBV_EVENT_QP_REQ_ERR], i == 2);
        down();
    }
}

/* A lie harms only the node that trusts the liar: the completion comes, and bytes that the liar could have
 * written. */
static void a_lie_is_a_write_of_what_is_there(void **state)
{
    struct roce_hdr h = {.opcode = ROCE_WRITE_ONLY_IMM, .psn = app_connect_default.psn_here, .ackreq = true};

    (void)state;
    up();
    r.w.inject_offers = true;
    post_recv(&r.b, 0, 0);
    h.va = (uintptr_t)r.b.mem;
    h.rkey = r.b.key;
    h.dlen = LONG;
    forge_placed(&h, h.psn);
    assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM).byte_cnt, LONG);
    down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_go_ahead),
        cmocka_unit_test(they_go_ahead_of_who_is_behind),
        cmocka_unit_test(short_ones_are_packets),
        cmocka_unit_test(those_in_a_row_are_one_copy),
        cmocka_unit_test(long_ones_are_one_frame),
        cmocka_unit_test(order_with_other_requests),
        cmocka_unit_test(repeats_copy_nothing),
        cmocka_unit_test(the_last_bytes_stay),
        cmocka_unit_test(errors_are_those_of_packets),
        cmocka_unit_test(what_is_taken_back_meanwhile_is_an_error),
        cmocka_unit_test(a_region_that_changed_gets_packets),
        cmocka_unit_test(who_is_not_believed_sends_packets),
        cmocka_unit_test(a_peer_that_is_gone_is_sent_packets),
        cmocka_unit_test(who_comes_late_is_not_believed),
        cmocka_unit_test(forged_ones),
        cmocka_unit_test(a_lie_is_a_write_of_what_is_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
