/* SPDX-License-Identifier: Apache-2.0 */
/* MACs of next hops, which always have a place, and of clients, also while strangers name addresses that no
 * host has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/balance/rig.h"

#define SECOND UINT64_C(1000000000)

static struct bal_neighbours *n;
static const uint64_t seed[2] = {0x9e3779b97f4a7c15u, 0xd6e8feb86659fd93u};
static uint64_t now = SECOND;

static int make(void **state)
{
    (void)state;
    n = bal_neighbours_new(seed);
    return n ? 0 : -1;
}
static int end(void **state)
{
    (void)state;
    bal_neighbours_free(n);
    return 0;
}

static bool known(uint32_t ip, uint8_t mac[6])
{
    struct bal_addr a = rig_ip4(ip);
    return bal_client_mac(n, 0, &a, now, mac) & BAL_MAC_KNOWN;
}

static void tell(uint32_t ip)
{
    struct bal_addr a = rig_ip4(ip);
    bal_neighbour_told(
        n, 0, &a,
        (const uint8_t[6]){2, 3, (uint8_t)(ip >> 24), (uint8_t)(ip >> 16), (uint8_t)(ip >> 8), (uint8_t)ip},
        now);
}

static struct bal_neighbour_counts count(void)
{
    struct bal_neighbour_counts c;
    bal_neighbours_count(n, now, &c);
    return c;
}

static void addresses_without_a_host_displace_no_client(void **state)
{
    uint8_t mac[6];
    (void)state;
    for (uint32_t i = 0; i < 2000; i++) {
        assert_false(known(0x0a000000 + i, mac));
        tell(0x0a000000 + i);
    }
    for (uint32_t i = 0; i < 200000; i++) {
        known(0x0b000000 + i, mac); /* no host has it */
        now += 1000;
        if (i % 100) continue;
        /* a client that comes in the flood, and answers at once */
        assert_false(known(0x0c000000 + i, mac));
        tell(0x0c000000 + i);
        assert_true(known(0x0c000000 + i, mac));
        assert_memory_equal(mac + 2, ((uint8_t[]){0x0c, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i}),
                            4);
    }
    for (uint32_t i = 0; i < 2000; i++) assert_true(known(0x0a000000 + i, mac));
    assert_int_equal(count().known, 4000);
    assert_true(count().displaced > 100000); /* which a line tells */
    tell(0x0d000001);                        /* which was not asked for */
    assert_int_equal(count().known, 4000);
}

static void next_hops_always_have_room(void **state)
{
    uint8_t mac[6];
    uint32_t place[BAL_WORKERS];
    (void)state;
    for (uint32_t i = 0; i < 100000; i++) {
        known(0x0b000000 + i, mac);
        if (i < 20000) tell(0x0b000000 + i);
    }
    /* Ten thousand changes of the configuration, each with other workers; two live at a time. */
    for (uint32_t k = 0; k < 20; k++)
        for (uint32_t i = 0; i < BAL_WORKERS; i++) {
            struct bal_addr a = rig_ip4(0x20000000 + k * BAL_WORKERS + i);
            uint32_t next = bal_neighbour_hold(n, 0, &a);
            assert_int_not_equal(next, BAL_NO_NEIGHBOUR);
            assert_int_equal(bal_neighbour_hold(n, 0, &a), next);
            bal_neighbour_release(n, next);
            assert_false(bal_neighbour_mac(n, next, mac));
            tell(0x20000000 + k * BAL_WORKERS + i);
            assert_true(bal_neighbour_mac(n, next, mac));
            if (k) bal_neighbour_release(n, place[i]);
            place[i] = next;
        }
}

static void quiet_clients_are_asked_again(void **state)
{
    uint8_t mac[6];
    struct bal_addr a = rig_ip4(0x0a000001);
    (void)state;
    assert_int_equal(bal_client_mac(n, 0, &a, now, mac), BAL_MAC_ASK);
    assert_int_equal(bal_client_mac(n, 0, &a, now, mac), 0); /* it has just been asked */
    assert_int_equal(bal_client_mac(n, 0, &a, now += SECOND, mac), BAL_MAC_ASK);
    tell(0x0a000001);
    assert_int_equal(bal_client_mac(n, 0, &a, now, mac), BAL_MAC_KNOWN);
    assert_int_equal(bal_client_mac(n, 1, &a, now, mac),
                     BAL_MAC_ASK); /* on another link it is another host */
    assert_int_equal(bal_client_mac(n, 0, &a, now += 30 * SECOND, mac), BAL_MAC_KNOWN | BAL_MAC_ASK);
    assert_int_equal(bal_client_mac(n, 0, &a, now += 600 * SECOND, mac), BAL_MAC_ASK);
    assert_int_equal(count().known, 0);
    tell(0x0a000001);
    assert_int_equal(bal_client_mac(n, 0, &a, now, mac), BAL_MAC_KNOWN);
}

/* By packets: NAT, and SYNs of addresses on the link that no host has. */
static void new_workers_get_traffic_after_a_flood(void **state)
{
    struct rig r;
    struct rig_packet p;
    struct bal_frame f[64];
    const struct bal_attr attr = {0};
    (void)state;
    assert_int_equal(rig_open(&r, &attr), 0);
    rig_service(&r, 1, false, BAL_TCP)->forward = BAL_NAT;
    rig_worker(&r, 1, 1);
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t i = 0; i < 26000; i++) {
        struct rig_end client = {rig_ip4(0x0a800000 + i / 2), 4000};
        if (i % 2)
            rig_tcp(&p, (struct rig_end){r.config.worker[1].addr, 80}, client, BAL_SYN | BAL_ACK, 0);
        else
            rig_tcp(&p, client, (struct rig_end){r.config.service[1].vip, 80}, BAL_SYN, 0);
        rig_send(&r, &p);
        while (bal_core_frames(r.core, f, 64)) continue;
    }
    rig_worker(&r, 2, 1)->mac_known = false;
    r.config.worker[1].state = BAL_DOWN;
    assert_int_equal(rig_publish(&r), 0);
    bal_core_keep(r.core, r.now += SECOND);
    assert_int_not_equal(bal_core_frames(r.core, f, 64), 0); /* asks for it */
    bal_neighbour_told(r.bal->neighbours, 0, &r.config.worker[2].addr, (const uint8_t[6]){2, 0, 0, 0, 0, 2},
                       r.now);
    struct rig_end client = {rig_ip4(0x0a900001), 4000};
    rig_tcp(&p, client, (struct rig_end){r.config.service[1].vip, 80}, BAL_SYN, 0);
    assert_int_equal(rig_send(&r, &p), BAL_SEND);
    assert_int_equal(rig_went_to(&p), 2);
    rig_ask(&r, &client.addr);
    bal_neighbour_told(r.bal->neighbours, 0, &client.addr, (const uint8_t[6]){2, 7}, r.now);
    rig_tcp(&p, (struct rig_end){r.config.worker[2].addr, 80}, client, BAL_SYN | BAL_ACK, 0);
    assert_int_equal(rig_send(&r, &p), BAL_SEND);
    rig_close(&r);
}

#define WITH_TABLE(test) cmocka_unit_test_setup_teardown(test, make, end)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_TABLE(addresses_without_a_host_displace_no_client),
        WITH_TABLE(next_hops_always_have_room),
        WITH_TABLE(quiet_clients_are_asked_again),
        cmocka_unit_test(new_workers_get_traffic_after_a_flood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
