/* SPDX-License-Identifier: Apache-2.0 */
/* Connections stay where they began: through drains, removals, floods and a full table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/balance/rig.h"

#define SECOND UINT64_C(1000000000)

static struct rig r;
static struct rig_packet p;

static int open_rig(void **state)
{
    (void)state;
    return rig_open_three(&r, BAL_TCP);
}
static int close_rig(void **state)
{
    (void)state;
    rig_close(&r);
    return 0;
}

static struct rig_end client(uint32_t i)
{
    return (struct rig_end){rig_ip4(0x0a800000 + i / 50000), (uint16_t)(1024 + i % 50000)};
}

/* A segment to service 1; its worker, or BAL_NO_WORKER. */
static uint32_t segment(uint32_t i, uint8_t flags)
{
    rig_tcp(&p, client(i), (struct rig_end){r.config.service[1].vip, 80}, flags, 20);
    return rig_send(&r, &p) == BAL_SEND ? rig_went_to(&p) : BAL_NO_WORKER;
}

static uint32_t establish(uint32_t i)
{
    uint32_t w = segment(i, BAL_SYN);
    assert_int_equal(segment(i, BAL_ACK), w);
    return w;
}

static struct bal_totals totals(void)
{
    struct bal_totals t;
    bal_totals(r.bal, -1, &t);
    return t;
}

static void a_drain_moves_nobody(void **state)
{
    uint32_t of[300];
    (void)state;
    for (uint32_t i = 0; i < 300; i++) of[i] = establish(i);
    r.config.worker[1].state = BAL_DRAINING;
    rig_worker(&r, 4, 1);
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t i = 0; i < 300; i++) assert_int_equal(segment(i, BAL_ACK), of[i]);
    for (uint32_t i = 300; i < 400; i++) assert_int_not_equal(establish(i), 1);
    bal_core_keep(r.core, r.now += SECOND);
    assert_int_equal(bal_worker_live(r.bal, 1), 100);
    for (uint32_t i = 0; i < 300; i++) segment(i, BAL_RST | BAL_ACK);
    for (int k = 0; k < 200; k++) bal_core_keep(r.core, r.now += SECOND / 10);
    assert_int_equal(bal_worker_live(r.bal, 1), 0); /* it may go */
    assert_true(bal_generation_seen(r.bal) == bal_generation(r.bal));
}

static void only_the_dead_ones_flows_move(void **state)
{
    uint32_t of[300];
    (void)state;
    for (uint32_t i = 0; i < 300; i++) of[i] = establish(i);
    r.config.worker[2].state = BAL_DOWN;
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t now = segment(i, BAL_ACK);
        if (of[i] == 2)
            assert_in_set(now, ((LargestIntegralType[]){1, 3}), 2);
        else
            assert_int_equal(now, of[i]);
        assert_int_equal(segment(i, BAL_ACK), now); /* and there it stays */
    }
    assert_int_equal(totals().moved, 100);
}

/* A segment of the client's with these numbers. */
static uint32_t numbered(uint32_t i, uint8_t flags, uint32_t seq, uint32_t ack)
{
    rig_tcp(&p, client(i), (struct rig_end){r.config.service[1].vip, 80}, flags, 0);
    rig_tcp_numbers(&p, seq, ack);
    return rig_send(&r, &p) == BAL_SEND ? rig_went_to(&p) : BAL_NO_WORKER;
}

/* A client that uses its port again gets a worker by turn, not the one that it had. */
static void a_new_connection_is_a_new_choice(void **state)
{
    (void)state;
    uint32_t first = numbered(0, BAL_SYN, 100, 0);
    numbered(0, BAL_ACK, 101, 501);
    numbered(0, BAL_FIN | BAL_ACK, 101, 501);
    numbered(0, BAL_ACK, 102, 502); /* of the worker's FIN */
    uint32_t second = segment(0, BAL_SYN);
    assert_int_not_equal(second, first);
    assert_int_equal(segment(0, BAL_SYN), second); /* sent once more: the same one */
}

/* A stranger who knows addresses and ports, and no numbers. */
static void forged_segments_move_nobody(void **state)
{
    static const uint8_t forged[][3] = {
        {BAL_RST},
        {BAL_RST | BAL_ACK, BAL_SYN},
        {BAL_FIN | BAL_ACK, BAL_SYN},
        {BAL_RST, BAL_SYN, BAL_SYN},
        {BAL_FIN | BAL_ACK, BAL_FIN | BAL_ACK, BAL_SYN},
        {BAL_FIN | BAL_ACK, BAL_ACK, BAL_SYN},
    };
    (void)state;
    for (uint32_t k = 0; k < sizeof(forged) / sizeof(forged[0]); k++)
        for (uint32_t i = 10 * k; i < 10 * k + 10; i++) {
            uint32_t w = numbered(i, BAL_SYN, 100, 0);
            numbered(i, BAL_ACK, 101, 501);
            for (uint32_t n = 0; n < 3 && forged[k][n]; n++)
                assert_int_equal(numbered(i, forged[k][n], 0x70000000 + 9 * n, 77), w);
            assert_int_equal(numbered(i, BAL_ACK, 101, 501), w);
            if (i % 2) r.now += 100 * SECOND; /* it is still remembered when it has been quiet */
            assert_int_equal(numbered(i, BAL_ACK, 102, 501), w);
        }
}

/* The worker's answer to client i. */
static int answer(uint32_t i, uint32_t worker, uint8_t flags, uint32_t seq, uint32_t ack)
{
    rig_tcp(&p, (struct rig_end){r.config.worker[worker].addr, 80}, client(i), flags, 0);
    rig_tcp_numbers(&p, seq, ack);
    return rig_send(&r, &p);
}

static uint32_t establish_nat(uint32_t i)
{
    uint32_t w = numbered(i, BAL_SYN, 100, 0);
    answer(i, w, BAL_SYN | BAL_ACK, 500, 101);
    assert_int_equal(numbered(i, BAL_ACK, 101, 501), w);
    return w;
}

static void use_nat(void)
{
    r.config.service[1].forward = BAL_NAT;
    for (uint16_t w = 1; w <= 3; w++) r.config.worker[w].port = 80;
    assert_int_equal(rig_publish(&r), 0);
    /* The clients have MACs. */
    for (uint32_t i = 0; i < 60; i++) {
        struct bal_addr a = client(i).addr;
        rig_ask(&r, &a);
        bal_neighbour_told(r.bal->neighbours, 0, &a, (const uint8_t[6]){2, 7}, r.now);
    }
}

/* With NAT a forged RST is not believed, and the worker is asked about it. */
static void a_worker_is_asked_about_a_reset(void **state)
{
    struct bal_frame f[4];
    (void)state;
    use_nat();
    uint32_t w = establish_nat(0);
    while (bal_core_frames(r.core, f, 4)) continue;
    r.now += SECOND;
    assert_int_equal(numbered(0, BAL_RST, 0x70000000, 0), w);
    assert_int_equal(bal_core_frames(r.core, f, 4), 1);
    assert_int_equal(f[0].len, 54);
    assert_true(rig_sound(f[0].data + BAL_ETH_LEN, 40));
    assert_memory_equal(f[0].data + 30, r.config.worker[w].addr.byte, 4);
    assert_memory_equal(f[0].data + 38, ((uint8_t[]){0x70, 0, 0, 0}), 4);
    assert_int_equal(f[0].data[47], BAL_ACK);
    assert_int_equal(answer(0, w, BAL_ACK, 501, 101), BAL_SEND); /* it knows of no end */
    r.now += 500 * SECOND;
    assert_int_equal(numbered(0, BAL_ACK, 101, 501), w);
    assert_int_equal(answer(0, w, BAL_ACK, 501, 101), BAL_SEND);
    /* Now a right one: the worker resets what the balancer asks with. */
    assert_int_equal(numbered(0, BAL_RST, 101, 0), w);
    assert_int_equal(answer(0, w, BAL_RST, 0, 0), BAL_SEND);
    for (int k = 0; k < 200; k++) bal_core_keep(r.core, r.now += SECOND / 10);
    assert_int_equal(bal_worker_live(r.bal, w), 0);
}

/* With NAT both sides' FINs count when they have been acknowledged, and no stranger's do. */
static void only_acknowledged_ends_count(void **state)
{
    (void)state;
    use_nat();
    uint32_t w = establish_nat(0);
    numbered(0, BAL_FIN | BAL_ACK, 101, 501);
    answer(0, w, BAL_FIN | BAL_ACK, 501, 102);
    numbered(0, BAL_ACK, 102, 502);
    assert_int_not_equal(numbered(0, BAL_SYN, 9000, 0), w); /* it has ended: a new choice */
    w = establish_nat(1);
    for (int k = 0; k < 2; k++) numbered(1, BAL_FIN | BAL_ACK, 0x70000000, 501);
    answer(1, w, BAL_ACK, 501, 101);
    numbered(1, BAL_ACK, 0x70000001, 502);
    assert_int_equal(numbered(1, BAL_SYN, 0x70000000, 0), w);
    r.now += 300 * SECOND; /* longer than fin_wait */
    assert_int_equal(numbered(1, BAL_ACK, 101, 501), w);
    /* A stranger who answers a SYN blindly has no connection. */
    w = numbered(2, BAL_SYN, 100, 0);
    answer(2, w, BAL_SYN | BAL_ACK, 500, 101);
    numbered(2, BAL_ACK, 101, 12345);
    for (int k = 0; k < 300; k++) bal_core_keep(r.core, r.now += SECOND / 10);
    assert_int_equal(totals().live, 1);
}

/* Strangers send ACKs without a SYN, SYNs with an ACK, or datagrams, more than the table has places. The
 * table remembers clients that come later, and they stay where they are when the workers change. */
static void strangers_make_room(void **state)
{
    enum { MINE = 200, STRANGERS = 20000 };
    static const uint8_t flags[][3] = {
        {BAL_ACK, BAL_ACK}, {BAL_ACK, BAL_ACK, BAL_ACK}, {BAL_SYN, BAL_ACK}, {0, 0}};
    uint32_t of[MINE];
    (void)state;
    for (uint32_t k = 0; k < 4; k++) {
        bool udp = k == 3;
        if (udp) {
            rig_service(&r, 1, false, BAL_UDP)->scheduler = BAL_RR;
            assert_int_equal(rig_publish(&r), 0);
        }
        for (uint32_t i = 0; i < STRANGERS; i++)
            for (uint32_t n = 0; n < 3 && (udp ? n < 2 : flags[k][n]); n++) {
                if (udp)
                    rig_udp(&p, client(1000000 + i), (struct rig_end){r.config.service[1].vip, 80}, 9);
                else
                    rig_tcp(&p, client(1000000 * (k + 1) + i), (struct rig_end){r.config.service[1].vip, 80},
                            flags[k][n], 0);
                rig_send(&r, &p);
            }
        r.now += 10 * SECOND;
        for (uint32_t i = 0; i < MINE; i++) {
            for (uint32_t n = 0; n < 2; n++) {
                if (udp)
                    rig_udp(&p, client(i + k * MINE), (struct rig_end){r.config.service[1].vip, 80}, 9);
                else
                    rig_tcp(&p, client(i + k * MINE), (struct rig_end){r.config.service[1].vip, 80},
                            n ? BAL_ACK : BAL_SYN, 0);
                assert_int_equal(rig_send(&r, &p), BAL_SEND);
                of[i] = rig_went_to(&p);
            }
        }
        r.config.worker[k % 3 + 1].weight = 17;
        rig_worker(&r, 4 + k, 1);
        assert_int_equal(rig_publish(&r), 0);
        for (uint32_t i = 0; i < MINE; i++) {
            if (udp)
                rig_udp(&p, client(i + k * MINE), (struct rig_end){r.config.service[1].vip, 80}, 9);
            else
                rig_tcp(&p, client(i + k * MINE), (struct rig_end){r.config.service[1].vip, 80}, BAL_ACK, 0);
            assert_int_equal(rig_send(&r, &p), BAL_SEND);
            assert_int_equal(rig_went_to(&p), of[i]);
        }
    }
}

/* All segments of a connection in one burst are one connection. */
static void a_burst_is_as_good_as_single_packets(void **state)
{
    static struct rig_packet many[64];
    struct bal_packet burst[64];
    (void)state;
    for (int i = 0; i < 64; i++) {
        static const uint8_t flags[4] = {BAL_SYN, BAL_ACK, BAL_ACK, BAL_FIN | BAL_ACK};
        rig_tcp(&many[i], client((uint32_t)i % 16), (struct rig_end){r.config.service[1].vip, 80},
                flags[i / 16], 0);
        burst[i] = many[i].p;
    }
    gw_balance_burst(r.core, burst, 64, r.now += 1000);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(burst[i].verdict, BAL_SEND);
        assert_memory_equal(burst[i].data, burst[i % 16].data, 6);
    }
    assert_int_equal(totals().opened, 16);
    uint32_t w = segment(3, BAL_SYN); /* FIN_WAIT: a new connection may begin */
    assert_int_not_equal(w, BAL_NO_WORKER);
    assert_int_equal(totals().opened, 17);
}

/* Ten SYNs of strangers for each packet of a connection, far more than the table holds. */
static void a_flood_takes_no_connection(void **state)
{
    enum { MINE = 5000 };
    static uint32_t of[MINE];
    (void)state;
    for (uint32_t i = 0; i < MINE; i++) of[i] = establish(i);
    for (uint32_t i = 0; i < 100000; i++) {
        assert_int_not_equal(segment(1000000 + i, BAL_SYN), BAL_NO_WORKER); /* no client is turned away */
        if (i % 10 == 0) assert_int_equal(segment(i / 10 % MINE, BAL_ACK), of[i / 10 % MINE]);
    }
    assert_true(totals().evicted > 50000);
    for (uint32_t i = 0; i < MINE; i++) assert_int_equal(segment(i, BAL_ACK), of[i]);
    /* A connection that begins in the flood is established where its SYN went, though its flow may be
     * evicted. */
    uint32_t w = segment(999999, BAL_SYN);
    for (uint32_t i = 0; i < 30000; i++) segment(2000000 + i, BAL_SYN);
    assert_int_equal(segment(999999, BAL_ACK), w);
}

/* A table full of connections forgets none, and new ones still reach one worker each. */
static void a_full_table_forwards_on(void **state)
{
    static uint32_t of[40000];
    (void)state;
    for (uint32_t i = 0; i < 40000; i++) of[i] = establish(i);
    assert_true(totals().stateless > 0);
    for (uint32_t i = 0; i < 40000; i++) assert_int_equal(segment(i, BAL_ACK), of[i]);
}

static void flows_end(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 100; i++) establish(i);
    for (uint32_t i = 100; i < 200; i++) segment(i, BAL_SYN);
    for (int k = 0; k < 400; k++) bal_core_keep(r.core, r.now += SECOND / 10);
    assert_int_equal(totals().live, 100); /* half-open ones live for 20 s */
    for (int k = 0; k < 10000; k++) bal_core_keep(r.core, r.now += SECOND / 10);
    assert_int_equal(totals().live, 0);
    assert_int_equal(totals().expired, 200);
}

static void udp_has_flows(void **state)
{
    (void)state;
    rig_service(&r, 1, false, BAL_UDP)->scheduler = BAL_RR;
    r.config.service[1].port = 0; /* any */
    assert_int_equal(rig_publish(&r), 0);
    uint32_t of[2];
    for (uint32_t i = 0; i < 20; i++) {
        struct rig_end vip = {r.config.service[1].vip, (uint16_t)(1000 + i % 2)};
        rig_udp(&p, client(0), vip, 30);
        assert_int_equal(rig_send(&r, &p), BAL_SEND);
        if (i < 2) of[i] = rig_went_to(&p);
        assert_int_equal(rig_went_to(&p), of[i % 2]);
    }
    assert_int_not_equal(of[0], of[1]); /* another port of the VIP is another flow */
    assert_int_equal(totals().opened, 2);
}

/* JET: flows that no change of workers moves are not remembered, and none moves all the same. */
static void few_flows_need_memory(void **state)
{
    static uint32_t of[3000];
    (void)state;
    r.config.service[1].scheduler = BAL_MH;
    r.config.service[1].track_moved = true;
    rig_worker(&r, 4, 1)->state = BAL_DOWN; /* known, and not up yet */
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t i = 0; i < 3000; i++) of[i] = establish(i);
    bal_core_keep(r.core, r.now += SECOND);
    assert_in_range(totals().live, 400, 1100); /* a quarter: what would have been worker 4's */
    r.config.worker[4].state = BAL_UP;
    r.config.worker[1].state = BAL_DRAINING;
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t i = 0; i < 3000; i++) assert_int_equal(segment(i, BAL_ACK), of[i]);
    for (uint32_t i = 3000; i < 3500; i++) assert_int_not_equal(establish(i), 1);
    r.config.worker[2].state = BAL_DOWN;
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t i = 0; i < 3000; i++)
        if (of[i] != 2) assert_int_equal(segment(i, BAL_ACK), of[i]);
}

/* A second balancer with no state sends mh's flows where the first did. */
static void lost_state_is_no_lost_connection(void **state)
{
    uint32_t of[500];
    (void)state;
    r.config.service[1].scheduler = BAL_MH;
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t i = 0; i < 500; i++) of[i] = establish(i);
    struct bal_config config = r.config;
    rig_close(&r);
    const struct bal_attr attr = {0};
    assert_int_equal(rig_open(&r, &attr), 0);
    r.config = config;
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t i = 0; i < 500; i++) assert_int_equal(segment(i, BAL_ACK), of[i]);
}

/* A standby that was told the flows sends them to where they are, whatever the scheduler. */
static void a_standby_takes_over(void **state)
{
    static struct bal_record record[2000];
    uint32_t of[500];
    (void)state;
    bal_feed(r.bal, true);
    for (uint32_t i = 0; i < 500; i++) of[i] = establish(i);
    segment(7, BAL_RST);
    size_t n = bal_feed_take(r.bal, 0, record, 2000);
    assert_int_equal(n, 501); /* established, and one that has ended */
    /* A later standby gets them all again, in a round. */
    for (int k = 0; k < 6000; k++) {
        bal_core_keep(r.core, r.now += SECOND / 1000);
        if (n < 1400) n += bal_feed_take(r.bal, 0, record + n, 2000 - n);
    }
    assert_true(n >= 501 + 499);
    struct bal_config config = r.config;
    rig_close(&r);
    const struct bal_attr attr = {0};
    assert_int_equal(rig_open(&r, &attr), 0);
    r.config = config;
    assert_int_equal(rig_publish(&r), 0);
    for (size_t i = 0; i < 501; i++) assert_int_equal(bal_learn(r.bal, &record[i]), 0);
    for (int k = 0; k < 20; k++) bal_core_keep(r.core, r.now += SECOND / 1000);
    for (uint32_t i = 0; i < 500; i++)
        if (i != 7) assert_int_equal(segment(i, BAL_ACK), of[i]);
    record[0].worker = 4000;
    assert_int_equal(bal_learn(r.bal, &record[0]), -22);
}

/* A worker is removed at once, and its number given to another. Its idle flows are not the new one's. */
static void a_number_is_used_again(void **state)
{
    uint32_t of[300];
    (void)state;
    for (uint32_t i = 0; i < 300; i++) of[i] = establish(i);
    r.config.worker[1].used = false;
    assert_int_equal(rig_publish(&r), 0);
    bal_core_keep(r.core, r.now += SECOND);
    rig_worker(&r, 1, 1)->addr = rig_ip4(0x0a0200ff);
    assert_int_equal(rig_publish(&r), 0);
    bal_core_keep(r.core, r.now += SECOND);
    assert_int_equal(bal_worker_live(r.bal, 1), 0);
    bool spread[4] = {false};
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t w = segment(i, BAL_ACK);
        if (of[i] == 1)
            spread[w] = true;
        else
            assert_int_equal(w, of[i]);
    }
    assert_true(spread[1] && spread[2] && spread[3]);
}

static void strangers_are_dropped(void **state)
{
    (void)state;
    rig_tcp(&p, client(0), (struct rig_end){r.config.service[1].vip, 81}, BAL_SYN, 0);
    assert_int_equal(rig_send(&r, &p), BAL_DISCARD);
    rig_tcp(&p, client(0), (struct rig_end){rig_ip4(0x0a050505), 80}, BAL_SYN, 0);
    assert_int_equal(rig_send(&r, &p), BAL_DISCARD);
    p.p.len = 20;
    assert_int_equal(rig_send(&r, &p), BAL_DISCARD);
    assert_int_equal(totals().drop[BAL_DROP_NOT_OURS], 2);
    assert_int_equal(totals().drop[BAL_DROP_BAD], 1);
    r.config.worker[1].mac_known = r.config.worker[2].mac_known = r.config.worker[3].mac_known = false;
    assert_int_equal(rig_publish(&r), 0);
    assert_int_equal(segment(1, BAL_SYN), BAL_NO_WORKER);
    assert_int_equal(totals().drop[BAL_DROP_NO_NEIGHBOUR], 1);
}

#define IN_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_RIG(a_drain_moves_nobody),
        IN_RIG(only_the_dead_ones_flows_move),
        IN_RIG(a_new_connection_is_a_new_choice),
        IN_RIG(forged_segments_move_nobody),
        IN_RIG(a_worker_is_asked_about_a_reset),
        IN_RIG(only_acknowledged_ends_count),
        IN_RIG(strangers_make_room),
        IN_RIG(a_burst_is_as_good_as_single_packets),
        IN_RIG(a_flood_takes_no_connection),
        IN_RIG(a_full_table_forwards_on),
        IN_RIG(flows_end),
        IN_RIG(udp_has_flows),
        IN_RIG(few_flows_need_memory),
        IN_RIG(lost_state_is_no_lost_connection),
        IN_RIG(a_standby_takes_over),
        IN_RIG(a_number_is_used_again),
        IN_RIG(strangers_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
