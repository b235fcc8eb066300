/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies are refused for the same reasons as packets. The two ends of a connection get different
 * parameters. A request then ends in the same way whether its NICs are peers of one host, or one NIC, or
 * neither.
 */
#include "tests/softnic/fake_peers.h"
#include "tests/softnic/rig.h"

enum way { PACKETS, PEERS, SELF, WAYS };
enum { LONG = 20000, DONE = 0 };

static struct fake_peers peers;
static struct rig r;

static void up(enum way way)
{
    struct world_options o = {.seed = 1, .peers = way == PEERS ? &peers : NULL};

    memset(&r, 0, sizeof(r));
    fake_peers_up(&peers, 5);
    world_up(&r.w, &o);
    end_up(&r, &r.a, 0, IBV_QPT_RC);
    end_up(&r, &r.b, way != SELF, IBV_QPT_RC);
}

/* A way to fail: what the requester and the responder are told, of which one thing differs. */
struct unlike {
    const char *what;
    uint8_t opcode, syndrome;
    uint32_t len;
    struct app_connect here, there;
};

#define GOOD .timeout = 8, .retry_cnt = 2, .rnr_retry = 7, .min_rnr_timer = 1
#define ENDS(mtu_a, mtu_b, psn, reads_a, reads_b)                                                            \
    {GOOD, .mtu = mtu_a, .psn_here = 200, .psn_there = 100, .rd_atomic = reads_a},                           \
    {                                                                                                        \
        GOOD, .mtu = mtu_b, .psn_here = 100, .psn_there = psn, .rd_atomic = reads_b                          \
    }

static const struct unlike unlikes[] = {
    {"nothing", GW_MLX5_WRITE, DONE, LONG, ENDS(3, 3, 200, 4, 4)},
    {"nothing, a READ", GW_MLX5_READ, DONE, LONG, ENDS(3, 3, 200, 4, 4)},
    {"a path MTU too long", GW_MLX5_WRITE, GW_MLX5_SYND_REM_INV_REQ, LONG, ENDS(5, 3, 200, 4, 4)},
    {"a path MTU too short", GW_MLX5_WRITE, GW_MLX5_SYND_REM_INV_REQ, LONG, ENDS(3, 5, 200, 4, 4)},
    {"another path MTU, one packet", GW_MLX5_WRITE, DONE, 256, ENDS(3, 5, 200, 4, 4)},
    {"a path MTU too long, a SEND", GW_MLX5_SEND, GW_MLX5_SYND_REM_INV_REQ, LONG, ENDS(5, 3, 200, 4, 4)},
    {"a path MTU too short, a SEND", GW_MLX5_SEND, GW_MLX5_SYND_REM_INV_REQ, LONG, ENDS(3, 5, 200, 4, 4)},
    {"a path MTU too long, a WRITE_IMM", GW_MLX5_WRITE_IMM, GW_MLX5_SYND_REM_INV_REQ, LONG,
     ENDS(5, 3, 200, 4, 4)},
    {"a path MTU too short, a WRITE_IMM", GW_MLX5_WRITE_IMM, GW_MLX5_SYND_REM_INV_REQ, LONG,
     ENDS(3, 5, 200, 4, 4)},
    {"no READs answered", GW_MLX5_READ, GW_MLX5_SYND_REM_INV_REQ, 64, ENDS(3, 3, 200, 4, 0)},
    {"no READs asked for", GW_MLX5_READ, GW_MLX5_SYND_LOCAL_QP_OP, 64, ENDS(3, 3, 200, 0, 4)},
    {"a later PSN", GW_MLX5_WRITE, GW_MLX5_SYND_RETRY_EXC, 64, ENDS(3, 3, 250, 4, 4)},
    {"an earlier PSN", GW_MLX5_WRITE, GW_MLX5_SYND_RETRY_EXC, 64, ENDS(3, 3, 150, 4, 4)},
};

static void connect_unlike(const struct unlike *u)
{
    assert_int_equal(app_to_init(&r.a.qp), 0);
    assert_int_equal(app_to_init(&r.b.qp), 0);
    assert_int_equal(app_to_rtr(&r.a.qp, &r.b.qp, &u->here), 0);
    assert_int_equal(app_to_rtr(&r.b.qp, &r.a.qp, &u->there), 0);
    assert_int_equal(app_to_rts(&r.b.qp, &u->there), 0);
    assert_int_equal(app_to_rts(&r.a.qp, &u->here), 0);
}

static void ends_as_it_should(const struct unlike *u, enum way way)
{
    struct gw_mlx5_wc wc;

    up(way);
    connect_unlike(u);
    rig_fill(&r);
    post_recv(&r.b, 30000, LONG);
    post(&r, u->opcode, 0, u->len, 0);
    world_settle(&r.w, 5000 * (uint64_t)MS);
    if (!app_poll(&r.a.cq, &wc, NULL)) fail_msg("%s (way %d): no completion", u->what, way);
    uint8_t got = gw_mlx5_wc_is_error(&wc) ? wc.syndrome : DONE;
    if (got != u->syndrome)
        fail_msg("%s (way %d): syndrome 0x%02x instead of 0x%02x", u->what, way, got, u->syndrome);
    rig_down(&r);
}

static void both_ways_refuse_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(unlikes) / sizeof(unlikes[0]); i++)
        for (int way = 0; way < WAYS; way++) ends_as_it_should(&unlikes[i], (enum way)way);
}

/* The responder was told that its requester is elsewhere, so it drops the packets. */
static void from_another_address(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct unlike u = unlikes[0];
        struct world_nic *n;
        uint8_t was[16];

        up((enum way)way);
        n = r.a.qp.n;
        memcpy(was, n->gid, 16);
        assert_int_equal(app_to_init(&r.a.qp), 0);
        assert_int_equal(app_to_init(&r.b.qp), 0);
        assert_int_equal(app_to_rtr(&r.a.qp, &r.b.qp, &u.here), 0);
        n->gid[15] ^= 0x40;
        assert_int_equal(app_to_rtr(&r.b.qp, &r.a.qp, &u.there), 0);
        memcpy(n->gid, was, 16);
        assert_int_equal(app_to_rts(&r.b.qp, &u.there), 0);
        assert_int_equal(app_to_rts(&r.a.qp, &u.here), 0);
        post(&r, GW_MLX5_WRITE, 0, 64, 0);
        world_settle(&r.w, 5000 * (uint64_t)MS);
        expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_RETRY_EXC);
        rig_down(&r);
    }
}

/* An atomic's wrong address is the peer's to refuse: so both ends learn of it. */
static void a_misaligned_atomic_reaches_its_peer(void **state)
{
    static const uint8_t opcodes[] = {GW_MLX5_ATOMIC_FA, GW_MLX5_ATOMIC_CS, GW_MLX5_MASKED_FA,
                                      GW_MLX5_MASKED_CS};

    (void)state;
    for (unsigned i = 0; i < sizeof(opcodes); i++) {
        up(PACKETS);
        rig_connect(&r);
        post(&r, opcodes[i], 0, 8, 4);
        world_settle(&r.w, 100 * MS);
        expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_INV_REQ);
        assert_int_equal(app_state(&r.b.qp), IBV_QPS_ERR);
        assert_int_equal(r.w.events[IBV_EVENT_QP_REQ_ERR], 1);
        rig_down(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_ways_refuse_the_same),
                                       cmocka_unit_test(from_another_address),
                                       cmocka_unit_test(a_misaligned_atomic_reaches_its_peer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
