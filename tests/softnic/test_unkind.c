/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UC and UD over a network that loses, repeats, reorders and damages packets, on virtual time. Messages get
 * lost, come twice or late. Each that comes is one that was sent, whole. Their senders never learn of it.
 */
#include "tests/softnic/pattern.h"
#include "tests/softnic/rig.h"

enum { GRH = 40, SLOT = 6100, SLOTS = 8, COUNT = 1500 };

struct run {
    struct rig r;
    enum ibv_qp_type type;
    uint32_t sent, received, next; /* next: receive to complete */
    uint8_t seen[COUNT];           /* times that each message came */
};

static void begin(struct run *u, enum ibv_qp_type type, uint64_t seed, const struct world_faults *faults)
{
    struct world_options o = {.seed = seed, .hostile = seed & 1};

    memset(u, 0, sizeof(*u));
    u->type = type;
    rig_up_as(&u->r, &o, type);
    rig_connect(&u->r);
    u->r.w.faults = *faults;
    for (uint32_t i = 0; i < SLOTS; i++) post_recv(&u->r.b, i * SLOT, SLOT);
}

/* Messages of at most this many bytes. */
static uint32_t longest(const struct run *u)
{
    return u->type == IBV_QPT_UD ? 4096 : SLOT - GRH;
}

static void send_next(struct run *u)
{
    uint32_t at = u->sent % SLOTS * SLOT, room = world_below(&u->r.w, 2) ? 90 : longest(u) - PATTERN_MIN;
    uint32_t len = PATTERN_MIN + world_below(&u->r.w, room + 1);
    struct gw_mlx5_sge s = sge_of(&u->r.a, at, len);
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_SEND, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s};

    pattern_fill(u->r.a.mem + at, u->sent++, len);
    if (u->type == IBV_QPT_UD)
        app_post_ud(&u->r.a.qp, &wr, u->r.b.qp.n->gid, u->r.b.qp.sq.qpn, APP_QKEY);
    else
        app_post(&u->r.a.qp, &wr);
}

static void receive_all(struct run *u)
{
    uint32_t grh = u->type == IBV_QPT_UD ? GRH : 0, number = 0;
    struct end *b = &u->r.b;
    struct gw_mlx5_wc wc;

    while (app_poll(&b->cq, &wc, NULL)) {
        uint32_t at = u->next++ % SLOTS * SLOT;

        assert_int_equal(wc.opcode, GW_MLX5_CQE_RESP_SEND);
        assert_int_equal(wc.src_qp, u->r.a.qp.sq.qpn);
        if (!pattern_ok(b->mem + at + grh, wc.byte_cnt - grh, &number))
            fail_msg("message %u is garbled", u->received);
        assert_true(number < u->sent);
        u->seen[number]++;
        u->received++;
        memset(b->mem + at, 0, SLOT);
        post_recv(b, at, SLOT);
    }
}

static void end(struct run *u)
{
    world_settle(&u->r.w, 5 * MS);
    receive_all(u);
    assert_int_equal(app_state(&u->r.a.qp), IBV_QPS_RTS);
    assert_int_equal(app_state(&u->r.b.qp), IBV_QPS_RTS);
    assert_int_equal(counters(&u->r, 1).tx_packets, 0);
    rig_down(&u->r);
}

static void run(struct run *u, enum ibv_qp_type type, uint64_t seed, const struct world_faults *faults)
{
    struct gw_mlx5_wc wc;

    begin(u, type, seed, faults);
    for (uint32_t i = 0; i < COUNT; i++) {
        send_next(u);
        do {
            world_run(&u->r.w, 0);
            world_run(&u->r.w, 1);
            receive_all(u);
            world_advance(&u->r.w, 2000);
        } while (!app_poll(&u->r.a.cq, &wc, NULL));
        assert_int_equal(wc.opcode, GW_MLX5_CQE_REQ);
    }
    end(u);
}

static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_UD};

static void what_comes_is_whole(void **state)
{
    static const struct world_faults faults = {.loss = 200,
                                               .dup = 200,
                                               .reorder = 300,
                                               .corrupt = 100,
                                               .refuse = 1000,
                                               .delay_ns = 1000,
                                               .reorder_ns = 5000};
    static struct run u;

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        run(&u, types[seed >> 1 & 1], seed, &faults);
        if (u.received < COUNT / 2 || u.received >= COUNT + COUNT / 10)
            fail_msg("seed %llu: %u of %u arrived", (unsigned long long)seed, u.received, u.sent);
    }
}

/* Where nothing happens to packets, nothing happens to messages. */
static void on_a_kind_network_all_arrive_once(void **state)
{
    static const struct world_faults faults = {.refuse = 3000, .delay_ns = 1000};
    static struct run u;

    (void)state;
    for (uint64_t seed = 2; seed <= 8;
         seed += 2) { /* not hostile: completions are not late, receives suffice */
        run(&u, types[seed >> 1 & 1], seed, &faults);
        for (uint32_t i = 0; i < COUNT; i++) assert_int_equal(u.seen[i], 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_is_whole),
        cmocka_unit_test(on_a_kind_network_all_arrive_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
