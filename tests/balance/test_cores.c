/* SPDX-License-Identifier: Apache-2.0 */
/* Several cores: a packet finds the core that has its flow, and publications reach all of them. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "src/balance/sound.h"
#include "tests/balance/rig.h"

enum { CORES = 3 };

static struct rig r;
static struct rig_packet p, q;
static struct bal_core *core[CORES];

static int open_rig(void **state)
{
    const struct bal_attr attr = {.cores = CORES};
    (void)state;
    int error = rig_open(&r, &attr);
    for (uint32_t i = 0; i < CORES && !error; i++) core[i] = i ? bal_core_begin(r.bal, i) : r.core;
    rig_service(&r, 1, false, BAL_UDP)->scheduler = BAL_RR;
    for (uint32_t w = 1; w <= 3; w++) rig_worker(&r, w, 1);
    return error ? error : rig_publish(&r);
}
static int close_rig(void **state)
{
    (void)state;
    for (uint32_t i = 1; i < CORES; i++) bal_core_end(core[i]);
    rig_close(&r);
    return 0;
}

/* Gives the packet to that core, and to each that it is passed to. Returns how often it was passed. */
static int through(struct rig_packet *packet, uint32_t first)
{
    int hops = 0;
    gw_balance_burst(core[first], &packet->p, 1, r.now += 1000);
    while (packet->p.verdict == BAL_PASS) {
        assert_true(packet->p.core < CORES && ++hops < CORES);
        gw_balance_burst(core[packet->p.core], &packet->p, 1, r.now += 1000);
    }
    return hops;
}

static struct rig_end client(uint32_t i)
{
    return (struct rig_end){rig_ip4(0x0a800001 + i), 5000};
}

/* With NAT a client's packets and their answers meet on one core, wherever each arrives. */
static void both_directions_meet(void **state)
{
    (void)state;
    r.config.service[1].forward = BAL_NAT;
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t i = 0; i < 60; i++) {
        struct rig_end from, to, c = client(i);
        rig_udp(&p, c, (struct rig_end){r.config.service[1].vip, 80}, 10);
        through(&p, i % CORES);
        assert_int_equal(p.p.verdict, BAL_SEND);
        rig_ends(&p, &from, &to);
        rig_ask(&r, &c.addr);
        bal_neighbour_told(r.bal->neighbours, 0, &c.addr, (uint8_t[]){2, 7, 7, 7, 7, 7}, r.now);
        rig_udp(&p, to, from, 10);
        through(&p, (i + 1) % CORES);
        assert_int_equal(p.p.verdict, BAL_SEND);
    }
}

/* Without NAT the device's choice of a core counts. Errors and fragments look for it. */
static void odd_packets_look_for_their_flow(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 30; i++) {
        struct rig_end vip = {r.config.service[1].vip, 80};
        rig_udp(&p, client(i), vip, 100);
        assert_int_equal(through(&p, i % CORES), 0);
        uint32_t worker = rig_went_to(&p);
        for (uint32_t at = 0; at < CORES; at++) {
            rig_udp(&q, vip, client(i), 10);
            rig_error(&p, rig_ip4(0x0a990001), &q);
            through(&p, at);
            assert_int_equal(p.p.verdict, BAL_SEND);
            assert_int_equal(rig_went_to(&p), worker);
            rig_udp(&q, client(i), vip, 100);
            rig_fragment(&p, &q, 0, 64);
            through(&p, at);
            assert_int_equal(rig_went_to(&p), worker);
            rig_fragment(&p, &q, 64, 44);
            through(&p, (at + 1) % CORES);
            assert_int_equal(p.p.verdict, BAL_SEND);
            assert_int_equal(rig_went_to(&p), worker);
        }
    }
    struct bal_totals t;
    bal_totals(r.bal, -1, &t);
    assert_int_equal(t.opened, 30);
}

static void *keep_sending(void *arg)
{
    struct bal_core *mine = arg;
    struct rig_packet *packet = malloc(sizeof(*packet));
    for (uint64_t now = r.now; !atomic_load(&r.bal->stop); now += 1000) {
        rig_udp(packet, client((uint32_t)(now / 1000 % 500)), (struct rig_end){r.config.service[1].vip, 80},
                10);
        gw_balance_burst(mine, &packet->p, 1, now);
        bal_core_keep(mine, now);
    }
    free(packet);
    return NULL;
}

/* Cores work on while configurations come: each sees a whole one, and none that was freed (the sanitizers
 * look). */
static void publications_disturb_nobody(void **state)
{
    pthread_t thread[CORES];
    (void)state;
    for (int i = 0; i < CORES; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, keep_sending, core[i]), 0);
    for (uint32_t i = 0; i < 60; i++) {
        r.config.worker[1 + i % 3].weight = 1 + i;
        assert_int_equal(rig_publish(&r), 0);
        bal_telemetry(r.bal, 1, &(struct bal_load){.queue_depth = i}, r.now);
        uint64_t mine = bal_generation(r.bal);
        while (bal_generation_seen(r.bal) < mine) sched_yield();
    }
    bal_stop(r.bal);
    for (int i = 0; i < CORES; i++) pthread_join(thread[i], NULL);
    struct bal_totals t;
    bal_totals(r.bal, -1, &t);
    assert_int_equal(t.received, t.packets);
}

/* What assertions ask is found out where it does not hold. */
static void what_does_not_hold_is_found(void **state)
{
    struct rig_packet p;
    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        rig_udp(&p, client(i), (struct rig_end){rig_ip4(0x0a010001), 80}, 20);
        through(&p, 0);
    }
    assert_true(bal_core_is_sound(core[0]) && bal_is_sound(r.bal));

    struct bal_snapshot *snap = atomic_load(&r.bal->snap);
    snap->table[1]->users++; /* a table that would not be freed */
    assert_false(bal_is_sound(r.bal));
    snap->table[1]->users--;
    uint64_t seen = atomic_load(&r.bal->seen[0]);
    atomic_store(&r.bal->seen[0], seen + 100); /* a core that looks at what is not there */
    assert_false(bal_is_sound(r.bal));
    atomic_store(&r.bal->seen[0], seen);

    uint64_t key = 1;
    struct gw_flow at; /* an entry that is no connection has no place in this table */
    assert_int_equal(gw_flow_insert(core[0]->narrow, &key, bal_beside(1), BAL_UDP_NEW, &at), 0);
    assert_false(bal_core_is_sound(core[0]));
    assert_int_equal(gw_flow_delete(core[0]->narrow, &key), 0);
    assert_true(bal_core_is_sound(core[0]) && bal_is_sound(r.bal));
}

#define IN_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_RIG(both_directions_meet),
        IN_RIG(odd_packets_look_for_their_flow),
        IN_RIG(publications_disturb_nobody),
        IN_RIG(what_does_not_hold_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
