/* SPDX-License-Identifier: Apache-2.0 */
/* Direct accesses whose copies end late: what is done in that time, and that none is reported before it has
 * ended. */
#include <errno.h>

#include "tests/softnic/peers_rig.h"

#include "tests/softnic/late_memory.h"

enum { IMM = GW_MLX5_WRITE_IMM, WRITE = GW_MLX5_WRITE, SEND = GW_MLX5_SEND, SLOW = 200, REQUESTS = 1024 };

/* The completions that an end has got, at a look or later. And when it may get them: its n'th once that
 * number of copies is done. */
struct side {
    struct end *e;
    unsigned posted, told, errors;
    uint64_t copies[REQUESTS];
    bool too_soon;
};
static struct side a, b;
static uint64_t copies;    /* that what was posted takes */
static unsigned more;      /* to be posted at looks */
static unsigned told_late; /* completions that came while other copies were under way */
static unsigned looks;
static bool begun_meanwhile, sent_meanwhile; /* copies, and frames, while a copy was under way */

static void listen_to(struct side *s)
{
    struct gw_mlx5_wc wc;

    while (app_poll(&s->e->cq, &wc, NULL)) {
        if (gw_mlx5_wc_is_error(&wc)) {
            s->errors++;
            s->too_soon |= late_under_way();
        } else if ((wc.opcode == GW_MLX5_CQE_REQ) == (s == &a)) {
            s->too_soon |= late.done < s->copies[s->told++];
            told_late += late_under_way();
        }
    }
}

static void listen(void)
{
    listen_to(&a);
    listen_to(&b);
}

static void up_as(const struct world_options *o, unsigned patience)
{
    peers_rig_connected(o);
    a = (struct side){.e = &r.a};
    b = (struct side){.e = &r.b};
    copies = more = told_late = looks = 0;
    begun_meanwhile = sent_meanwhile = false;
    late_up(&r, patience);
    peers.reach = late_reach;
    peers.under_way = late_under_way;
    late.at_look = listen;
}

static void up(unsigned patience)
{
    up_as(NULL, patience);
}

/* It was reported where it had to be, and nothing was reported too soon. */
static void ends(void)
{
    assert_false(a.too_soon || b.too_soon);
    late_down();
    down();
}

/* A copy or, with SEND or no length, none; whichever it is, after all those before it. */
static void post_late(uint8_t opcode, uint32_t from, uint32_t len, uint32_t to)
{
    copies += opcode != SEND && len;
    a.copies[a.posted++] = copies;
    if (opcode != WRITE) {
        post_recv(&r.b, 60000, 64);
        b.copies[b.posted++] = copies;
    }
    if (opcode == SEND)
        post(&r, SEND, from, len, 0);
    else
        post_between(&r, opcode, (struct gw_mlx5_sge){from, len, sn_mr_key(late.end[0].mr)}, to,
                     sn_mr_key(late.end[1].mr));
}

static void run(void)
{
    world_settle(&r.w, 200 * MS);
    listen();
}

static void all_told(void)
{
    run();
    assert_int_equal(a.told, a.posted);
    assert_int_equal(b.told, b.posted);
    assert_int_equal(a.errors + b.errors, 0);
    assert_int_equal(late.issued, copies); /* each once */
    ends();
}

/* The other end, which is no part of the NIC that looks. */
static void run_b(void)
{
    world_run(&r.w, 1);
    world_advance(&r.w, 2000);
    listen();
}

static void completions_wait_for_their_copies(void **state)
{
    static const unsigned patience[] = {1, 5, SLOW, LATE_NEVER};

    (void)state;
    for (int imm = 0; imm < 2; imm++) {
        for (int p = 0; p < 4; p++) {
            up(patience[p]);
            for (uint32_t i = 0; i < (imm ? 16 : 40); i++)
                post_late(imm ? IMM : WRITE, i * 500, 500, i * 500);
            world_run(&r.w, 0);
            assert_int_equal(late.issued, late.done);
            run();
            assert_memory_equal(r.b.mem, r.a.mem, a.told * 500);
            assert_int_equal(counters(&r, 0).eager_sent, imm ? 16 : 0);
            if (patience[p] && patience[p] < SLOW) assert_int_equal(late.waits, 0);
            all_told();
        }
    }
}

static void several_are_under_way_at_once(void **state)
{
    (void)state;
    up(SLOW);
    for (uint32_t i = 0; i < 60; i++) post_late(WRITE, i * 64, 64, i * 64);
    run();
    assert_true(told_late > 0); /* the first ones' end, while others were */
    assert_true(late.most > 16);
    assert_true(counters(&r, 0).direct_copies >= 3);
    all_told();
}

static void run_at_look(void)
{
    listen();
    if (++looks % 35 == 0) run_b();
}

static void post_at_look(void)
{
    run_at_look();
    begun_meanwhile |= late.issued > 1 && !late.done;
    sent_meanwhile |= late_under_way() && counters(&r, 0).eager_sent;
    if (!more || looks % 50) return;
    more--;
    post_late(more > 6 ? WRITE : IMM, more * 100, 100, more * 100);
}

/* Rings, and frames both ways: all in one call. */
static void what_comes_meanwhile_is_seen(void **state)
{
    (void)state;
    up(SLOW);
    late.at_look = post_at_look;
    more = 12;
    post_late(WRITE, 5000, 100, 5000);
    world_run(&r.w, 0);
    assert_int_equal(more, 0);
    assert_true(begun_meanwhile && sent_meanwhile);
    assert_true(a.told > 7 && b.told > 0); /* placed ones are acknowledged */
    run();
    assert_memory_equal(r.b.mem, r.a.mem, 1200);
    all_told();
}

/* Not of bytes that are under way, whether those are told of by frames or not. Long ones wait for it, too. */
static void messages_do_not_overtake(void **state)
{
    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        up(kind & 4 ? 5 : SLOW);
        late.at_look = run_at_look;
        for (uint32_t i = 0; i < 3; i++) post_late(kind & 1 ? IMM : WRITE, i * 5000, 5000, i * 5000);
        post_late(kind & 2 ? IMM : SEND, 0, kind & 2 ? 0 : 64, 0);
        for (uint32_t i = 3; i < 6; i++) post_late(kind & 1 ? IMM : WRITE, i * 5000, 5000, i * 5000);
        run();
        assert_memory_equal(r.b.mem, r.a.mem, 30000);
        all_told();
    }
}

/* Nothing is under way when the NIC can be left, however soon that is, nor when a thread that posts is
 * done. */
static void none_is_when_the_lock_is_free(void **state)
{
    (void)state;
    for (unsigned budget = 1; budget < 60; budget += 3) {
        up_as(&(struct world_options){.seed = 1, .budget = budget}, SLOW);
        for (uint32_t i = 0; i < 30; i++) post_late(i < 20 ? WRITE : IMM, i * 100, 100, i * 100);
        for (int i = 0; i < 200 && a.told != a.posted; i++) {
            if (budget & 1)
                world_run(&r.w, 0);
            else
                sn_nic_posted(r.w.nics[0].nic, r.w.now);
            assert_int_equal(late.issued, late.done);
            assert_false(fake_peers_inside(&peers));
            world_settle(&r.w, MS / 10);
            listen();
        }
        all_told();
    }
}

static void offer_at_look(void)
{
    struct gw_mlx5_sge s = sge_of(&r.b, 0, 20000);
    struct gw_mlx5_wr wr = {.opcode = SEND, .num_sge = 1, .sge = &s};

    run_at_look();
    if (looks == 50) app_post(&r.b.qp, &wr);
    sent_meanwhile |= late_under_way() && counters(&r, 0).rndv_taken;
}

/* The peer's offer is fetched from the memory that copies are under way to. */
static void offers_are_fetched_meanwhile(void **state)
{
    (void)state;
    up_as(&(struct world_options){.seed = 1, .rndv_min = 1000}, SLOW);
    late.at_look = offer_at_look;
    post_recv(&r.a, 30000, 20000);
    for (uint32_t i = 0; i < 20; i++) post_late(WRITE, i * 100, 100, 25000 + i * 100);
    world_run(&r.w, 0);
    assert_true(sent_meanwhile);
    assert_memory_equal(r.a.mem + 30000, r.b.mem, 20000);
    all_told();
}

/* ---- errors -------------------------------------------------------------------------------------------- */

/* b asks for what it may not have: its packet is an error at a, whose own requests come back; but not while
 * anybody copies from their memory. */
static void break_it_at_look(void)
{
    struct gw_mlx5_sge s = sge_of(&r.b, 0, 64);
    struct gw_mlx5_wr wr = {.opcode = WRITE, .num_sge = 1, .sge = &s, .rkey = 0x12345600};

    listen();
    if (!more) return;
    more = 0;
    app_post(&r.b.qp, &wr);
    world_run(&r.w, 1);
    world_advance(&r.w, MS); /* to where it is in a's inbox */
}

static void a_flush_waits_for_the_copies(void **state)
{
    (void)state;
    up(10 * SLOW);
    late.at_look = break_it_at_look;
    more = 1;
    for (uint32_t i = 0; i < 40; i++) post_late(i < 30 ? WRITE : IMM, i * 100, 100, i * 100);
    world_run(&r.w, 0);
    run();
    assert_int_equal(app_state(&r.a.qp), IBV_QPS_ERR);
    assert_true(a.errors > 0);
    assert_int_equal(a.told + a.errors, 40);
    ends();
}

/* The completion queue is too short: its queue pairs fail in the middle of a batch's end. */
static void a_full_queue_is_no_end_of_it(void **state)
{
    (void)state;
    up(5);
    late.at_look = NULL;
    r.a.cq.keep_ci = true;
    for (uint32_t k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < 30; i++) post_late(WRITE, i * 100, 100, i * 100);
        world_settle(&r.w, MS);
    }
    run();
    assert_int_equal(app_state(&r.a.qp), IBV_QPS_ERR);
    assert_int_equal(late.issued, late.done);
    ends();
}

/* Each over the one before it. All that is not copied goes as packets, in order. */
static void what_fails_is_sent(void **state)
{
    (void)state;
    for (int imm = 0; imm < 2; imm++) {
        for (unsigned fails = 1; fails <= 36; fails++) {
            uint32_t n = imm ? 16 : 40;

            up(fails % 3 ? SLOW : 1);
            late.at_look = fails % 2 ? NULL : run_at_look; /* what is not copied comes sooner */
            if (fails % 2)
                late.fail_move = fails;
            else
                late.fail_at = fails;
            for (uint32_t i = 0; i < n; i++) post_late(imm ? IMM : WRITE, i * 500, 500, i % 3 * 100);
            run();
            for (uint32_t i = n - 3; i < n; i++) /* the last three */
                assert_memory_equal(r.b.mem + i % 3 * 100, r.a.mem + i * 500, i == n - 1 ? 500 : 0);
            assert_int_equal(a.told, n);
            assert_int_equal(b.told, b.posted);
            assert_int_equal(a.errors + b.errors, 0);
            if (fails % 2) a.too_soon = b.too_soon = false;
            ends();
        }
    }
}

/* Another queue pair of a's NIC to one of b's, and what it has been told. */
struct pair {
    struct end c, d;
    struct sn_mr *from, *to;
    unsigned posted, told;
};
enum { PAIRS = 90 };
static struct pair other[PAIRS];

static void pair_up(struct pair *p)
{
    memset(p, 0, sizeof(*p));
    end_up(&r, &p->c, 0, IBV_QPT_RC);
    end_up(&r, &p->d, 1, IBV_QPT_RC);
    app_connect(&p->c.qp, &p->d.qp, &app_connect_default);
    p->from = late_region(p->c.pd, 0);
    p->to = late_region(p->d.pd, 1);
}

static void pair_down(struct pair *p)
{
    assert_int_equal(p->told, p->posted);
    assert_int_equal(sn_mr_destroy(p->from), 0);
    assert_int_equal(sn_mr_destroy(p->to), 0);
    end_down(&p->c);
    end_down(&p->d);
}

static void pair_post(struct pair *p, uint32_t at, uint32_t len)
{
    struct gw_mlx5_sge s = {at, len, sn_mr_key(p->from)};
    struct gw_mlx5_wr wr = {.opcode = WRITE,
                            .flags = GW_MLX5_SIGNALED,
                            .num_sge = 1,
                            .sge = &s,
                            .raddr = at,
                            .rkey = sn_mr_key(p->to)};

    app_post(&p->c.qp, &wr);
    p->posted++;
}

static void pair_listen(struct pair *p)
{
    struct gw_mlx5_wc wc;

    while (app_poll(&p->c.cq, &wc, NULL)) {
        assert_false(gw_mlx5_wc_is_error(&wc));
        p->told++;
    }
}

/* One's requests fail, in batches with the other's. */
static void others_go_on(void **state)
{
    (void)state;
    up(10 * SLOW);
    pair_up(&other[0]);
    late.at_look = break_it_at_look;
    more = 1;
    for (uint32_t i = 0; i < 24; i++) {
        post_late(WRITE, i * 100, 100, i * 100);
        pair_post(&other[0], 30000 + i * 100, 100);
    }
    world_run(&r.w, 0);
    run();
    pair_listen(&other[0]);
    assert_int_equal(app_state(&r.a.qp), IBV_QPS_ERR);
    assert_memory_equal(r.b.mem + 30000, r.a.mem + 30000, 2400);
    pair_down(&other[0]);
    ends();
}

/* a and the first of the others always have more than there is room for, until the second one is done. */
static void keep_posting_at_look(void)
{
    listen();
    for (int i = 0; i < 2; i++) pair_listen(&other[i]);
    if (other[1].posted && other[1].told == other[1].posted) more = 0;
    while (more && a.posted - a.told < 60 && a.posted < REQUESTS) post_late(WRITE, 0, 100, 0);
    while (more && other[0].posted - other[0].told < 60) pair_post(&other[0], 20000, 100);
}

static void who_finds_no_room_has_its_turn(void **state)
{
    (void)state;
    up(5);
    for (int i = 0; i < 2; i++) pair_up(&other[i]);
    late.at_look = keep_posting_at_look;
    more = 1;
    post_late(WRITE, 0, 100, 0);
    world_run(&r.w, 0);
    for (uint32_t i = 0; i < 40; i++) pair_post(&other[1], 30000 + i * 100, 100);
    world_settle(&r.w, 100 * MS);
    assert_int_equal(more, 0);
    assert_true(a.posted < REQUESTS);
    copies = late.issued; /* of all of them */
    run();
    for (int i = 0; i < 2; i++) pair_listen(&other[i]);
    for (int i = 0; i < 2; i++) pair_down(&other[i]);
    all_told();
}

static void post_again_at_look(void)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        pair_listen(&other[i]);
        if (other[i].told == other[i].posted && other[i].posted < 4)
            pair_post(&other[i], i * 500 + other[i].told * 100, 100);
    }
}

/* Of many queue pairs, each with one request at a time: those that wait gather as those of one do. */
static void the_requests_of_many_are_few_copies(void **state)
{
    (void)state;
    up(SLOW);
    for (unsigned i = 0; i < PAIRS; i++) pair_up(&other[i]);
    late.at_look = post_again_at_look;
    post_again_at_look();
    for (unsigned i = 0; i < 20; i++) {
        run();
        post_again_at_look();
    }
    assert_true(counters(&r, 0).direct_requests >= 14 * counters(&r, 0).direct_copies); /* of 16 at most */
    for (unsigned i = 0; i < PAIRS; i++) {
        assert_memory_equal(r.b.mem + i * 500, r.a.mem + i * 500, 400);
        pair_down(&other[i]);
    }
    ends();
}

/* The first is refused while the second one is under way, whose copy ends before anything more was sent. */
static void refuse_at_look(void)
{
    run_at_look();
    if (looks == 50) post_late(IMM, 1000, 1000, 0);
    if (looks == 300) peers.no_writes = true;
    peers.counted |= counters(&r, 0).eager_sent == 1;
    if (counters(&r, 0).naks_received) late_do(late.issued);
}

/* One over the other: the first one's bytes, that go again, as packets, would be the last. The second must
 * not be told of as if its own were, though it would be believed once the first is acknowledged. */
static void what_is_taken_back_meanwhile_is_sent(void **state)
{
    (void)state;
    up(2 * SLOW);
    late.at_look = refuse_at_look;
    post_late(IMM, 0, 1000, 0);
    world_run(&r.w, 0);
    assert_int_equal(counters(&r, 0).direct_copies, 2);
    assert_int_equal(counters(&r, 0).tx_packets, 1);
    peers.no_writes = false;
    peers.room_left = 1;
    world_settle(&r.w, MS / 10);
    listen();
    assert_int_equal(b.told, 1);
    peers.counted = false;
    run();
    assert_memory_equal(r.b.mem, r.a.mem + 1000, 1000);
    all_told();
}

static void doubt_at_look(void)
{
    run_at_look();
    if (looks % 35 == 0 && rnd_below(&peers.rnd, 10) == 0) peers.no_writes = !peers.no_writes;
}

/* Placed and announced; not trusted while those after it are under way: all of them go as packets, or the
 * first one's bytes would come last. */
static void the_last_bytes_stay(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 800; seed++) {
        static uint8_t want[RIG_MEM];
        uint32_t n = 0, recvs = 0;

        up_as(&(struct world_options){.seed = seed, .budget = seed % 5 ? 0 : 7},
              seed % 4 == 3 ? LATE_NEVER : 1 + (unsigned)(seed * 7 % 90));
        late.at_look = seed % 8 < 4 ? doubt_at_look : NULL;
        peers.rnd.state = seed;
        r.w.faults.loss = seed % 3 * 700;
        r.w.faults.dup = seed % 4 * 500;
        peers.absent = seed % 2 * 1000;
        peers.refused = seed % 7 * 200;
        peers.full = seed % 3 * 2000;
        memcpy(want, r.b.mem, RIG_MEM);
        for (uint32_t i = 0; i < 40; i++, n++) {
            uint32_t len = 1 + world_below(&r.w, 1000), to = world_below(&r.w, 1500);
            bool imm = recvs < 16 && world_chance(&r.w, 6000);

            recvs += imm;
            if (world_chance(&r.w, 1000)) peers.no_writes = !peers.no_writes;
            if (world_chance(&r.w, 1000))
                *(seed % 3 ? &late.fail_move : &late.fail_at) = late.issued + 1 + world_below(&r.w, 20);
            post_late(imm ? IMM : WRITE, i * 1000, len, to);
            memcpy(want + to, r.a.mem + i * 1000, len);
            if (world_chance(&r.w, 2000)) world_settle(&r.w, world_below(&r.w, 30000));
        }
        for (int i = 0; i < 20; i++) world_settle(&r.w, 1000 * MS);
        run();
        if (a.told != n) fail_msg("seed %u: %s", (unsigned)seed, r.w.report);
        assert_int_equal(b.told, recvs);
        assert_memory_equal(r.b.mem, want, RIG_MEM);
        late_down();
        down();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_wait_for_their_copies),
        cmocka_unit_test(several_are_under_way_at_once),
        cmocka_unit_test(what_comes_meanwhile_is_seen),
        cmocka_unit_test(messages_do_not_overtake),
        cmocka_unit_test(none_is_when_the_lock_is_free),
        cmocka_unit_test(offers_are_fetched_meanwhile),
        cmocka_unit_test(a_flush_waits_for_the_copies),
        cmocka_unit_test(a_full_queue_is_no_end_of_it),
        cmocka_unit_test(what_fails_is_sent),
        cmocka_unit_test(others_go_on),
        cmocka_unit_test(who_finds_no_room_has_its_turn),
        cmocka_unit_test(the_requests_of_many_are_few_copies),
        cmocka_unit_test(what_is_taken_back_meanwhile_is_sent),
        cmocka_unit_test(the_last_bytes_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
