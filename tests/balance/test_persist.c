/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that stick to a worker: by address or net, for their time, through drains, deaths and floods, on
 * several cores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "tests/balance/rig.h"

#define SECOND UINT64_C(1000000000)

enum { CORES = 2 };

static struct rig r;
static struct rig_packet p;
static struct bal_core *core[CORES];

static int open_rig(void **state)
{
    const struct bal_attr attr = {.cores = CORES};
    (void)state;
    int error = rig_open(&r, &attr);
    for (uint32_t i = 0; i < CORES && !error; i++) core[i] = i ? bal_core_begin(r.bal, i) : r.core;
    struct bal_service *s = rig_service(&r, 1, false, BAL_TCP);
    s->scheduler = BAL_RR;
    s->persist_ns = 50 * SECOND;
    for (uint32_t w = 1; w <= 3; w++) rig_worker(&r, w, 1);
    return error ? error : rig_publish(&r);
}
static int close_rig(void **state)
{
    (void)state;
    bal_core_end(core[1]);
    rig_close(&r);
    return 0;
}

/* A segment of client i from that port, which arrives at either core. Its worker, or BAL_NO_WORKER. */
static uint32_t segment(uint32_t i, uint16_t port, uint8_t flags)
{
    struct rig_end from = {rig_ip4(0x0a800000 + i), port};
    rig_tcp(&p, from, (struct rig_end){r.config.service[1].vip, 80}, flags, 20);
    gw_balance_burst(core[port % CORES], &p.p, 1, r.now += 1000);
    if (p.p.verdict == BAL_PASS) gw_balance_burst(core[p.p.core], &p.p, 1, r.now += 1000);
    return p.p.verdict == BAL_SEND ? rig_went_to(&p) : BAL_NO_WORKER;
}

/* How many clients stick to a worker; 0: to any. The count takes 7 seconds of the clock. */
static uint64_t clients(uint32_t worker)
{
    struct bal_counts c;
    uint64_t n = 0;
    for (int k = 0; k < 70; k++)
        for (uint32_t i = 0; i < CORES; i++) bal_core_keep(core[i], r.now += SECOND / 10);
    for (uint32_t w = 1; w <= 3; w++) {
        bal_worker_counts(r.bal, w, &c);
        if (!worker || w == worker) n += c.clients;
    }
    return n;
}

static void a_client_stays(void **state)
{
    uint32_t of[30], n[4] = {0};
    (void)state;
    for (uint32_t i = 0; i < 30; i++) {
        of[i] = segment(i, 1024, BAL_SYN);
        n[of[i]]++;
        for (uint16_t port = 1025; port < 1035; port++) assert_int_equal(segment(i, port, BAL_SYN), of[i]);
    }
    for (uint32_t w = 1; w <= 3; w++) assert_in_range(n[w], 4, 16); /* each core by turns */
    assert_int_equal(clients(0), 30);
    /* A segment of one connection keeps the client, and others are forgotten. */
    r.now += 30 * SECOND;
    segment(0, 1024, BAL_ACK);
    r.now += 25 * SECOND;
    assert_int_equal(segment(0, 2000, BAL_SYN), of[0]);
    assert_int_equal(clients(0), 1);
}

static void health_moves_it_once(void **state)
{
    (void)state;
    uint32_t was = segment(7, 1024, BAL_SYN);
    r.config.worker[was].state = BAL_DRAINING;
    assert_int_equal(rig_publish(&r), 0);
    uint32_t now = segment(7, 1025, BAL_SYN);
    assert_int_not_equal(now, was);
    assert_int_equal(segment(7, 1024, BAL_ACK), was); /* an old connection drains, and */
    r.config.worker[was].state = BAL_UP;
    assert_int_equal(rig_publish(&r), 0);
    assert_int_equal(segment(7, 1026, BAL_SYN), now); /* does not bring the client back */
    r.config.worker[now].state = BAL_DOWN;
    assert_int_equal(rig_publish(&r), 0);
    uint32_t third = segment(7, 1026, BAL_ACK);
    assert_int_not_equal(third, now);
    assert_int_equal(segment(7, 1027, BAL_SYN), third);
    r.config.worker[now].state = BAL_UP;
    r.config.worker[third].weight = 0;
    assert_int_equal(rig_publish(&r), 0);
    assert_int_not_equal(segment(7, 1028, BAL_SYN), third);
    assert_int_equal(clients(0), 1);
}

static void a_net_is_one_client(void **state)
{
    (void)state;
    r.config.service[1].persist_bits = 24;
    assert_int_equal(rig_publish(&r), 0);
    uint32_t was = segment(0x500, 1024, BAL_SYN);
    for (uint32_t i = 0x501; i < 0x600; i++) assert_int_equal(segment(i, 1024, BAL_SYN), was);
    assert_int_equal(clients(was), 1);
    segment(0x600, 1024, BAL_SYN);
    assert_int_equal(clients(0), 2);
    r.config.service[1].persist_bits = 33;
    assert_int_not_equal(rig_publish(&r), 0);
    r.config.service[1].persist_bits = 0;
    r.config.service[1].persist_ns = 0; /* no more: they are forgotten */
    assert_int_equal(rig_publish(&r), 0);
    assert_int_equal(clients(0), 0);
}

static void nat_segment(uint32_t i, uint32_t from_worker, uint8_t flags, uint32_t seq, uint32_t ack)
{
    struct rig_end client = {rig_ip4(0x0a800000 + i), 1024},
                   worker = {rig_ip4(0x0a020000 + from_worker), 8080};
    rig_tcp(&p, from_worker ? worker : client,
            from_worker ? client : (struct rig_end){r.config.service[1].vip, 80}, flags, 0);
    rig_tcp_numbers(&p, seq, ack);
    gw_balance_burst(core[0], &p.p, 1, r.now += 1000);
    if (p.p.verdict == BAL_PASS) gw_balance_burst(core[p.p.core], &p.p, 1, r.now += 1000);
}

/* Made-up SYNs, many times as many as there are places, take no proven client's. */
static void a_flood_moves_nobody(void **state)
{
    uint32_t of[200];
    (void)state;
    r.config.service[1].forward = BAL_NAT;
    for (uint32_t w = 1; w <= 3; w++) r.config.worker[w].port = 8080;
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t i = 0; i < 200; i++) {
        nat_segment(i, 0, BAL_SYN, 100, 0);
        of[i] = rig_went_to(&p);
        nat_segment(i, of[i], BAL_SYN | BAL_ACK, 500, 101);
        for (int k = 0; k < 2; k++) nat_segment(i, 0, BAL_ACK, 101, 501);
    }
    for (uint32_t i = 0; i < 600000; i++) segment(0x100000 + i, (uint16_t)(i * 7), BAL_SYN);
    for (uint32_t i = 0; i < 200; i++) assert_int_equal(segment(i, 3000, BAL_SYN), of[i]);
}

int main(void)
{
#define IN_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
    const struct CMUnitTest tests[] = {
        IN_RIG(a_client_stays),
        IN_RIG(health_moves_it_once),
        IN_RIG(a_net_is_one_client),
        IN_RIG(a_flood_moves_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
