/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker gets a flow: shares, order, and what a change moves. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "src/balance/maglev.h"
#include "tests/balance/rig.h"

static struct rig r;
static const struct bal_attr attr = {0};

static int open_rig(void **state)
{
    (void)state;
    return rig_open(&r, &attr);
}
static int close_rig(void **state)
{
    (void)state;
    rig_close(&r);
    return 0;
}

static struct bal_service *service(enum bal_scheduler scheduler, uint32_t workers)
{
    struct bal_service *s = rig_service(&r, 1, false, BAL_TCP);
    s->scheduler = scheduler;
    for (uint32_t w = 1; w <= workers; w++) rig_worker(&r, w, 1);
    return s;
}

/* Opens a connection from client number `client`; its worker. */
static uint32_t connect_from(uint32_t client)
{
    static struct rig_packet p;
    struct rig_end from = {rig_ip4(0x0a800000 + client / 60000), (uint16_t)(1024 + client % 60000)};
    rig_tcp(&p, from, (struct rig_end){r.config.service[1].vip, 80}, BAL_SYN, 0);
    return rig_send(&r, &p) == BAL_SEND ? rig_went_to(&p) : BAL_NO_WORKER;
}

static void round_robin(void **state)
{
    (void)state;
    service(BAL_RR, 3);
    r.config.worker[2].state = BAL_DRAINING;
    assert_int_equal(rig_publish(&r), 0);
    uint32_t first = connect_from(0);
    for (uint32_t i = 1; i < 50; i++) assert_int_equal(connect_from(i), i % 2 ? 4 - first : first);
}

static void weighted_round_robin_is_smooth(void **state)
{
    (void)state;
    service(BAL_WRR, 3);
    r.config.worker[1].weight = 5;
    r.config.worker[2].weight = r.config.worker[3].weight = 1;
    assert_int_equal(rig_publish(&r), 0);
    uint32_t n[4] = {0}, run = 0, longest = 0;
    for (uint32_t i = 0; i < 700; i++) {
        uint32_t w = connect_from(i);
        n[w]++;
        run = w == 1 ? run + 1 : 0;
        if (run > longest) longest = run;
    }
    assert_int_equal(n[1], 500);
    assert_int_equal(n[2], 100);
    assert_in_range(longest, 1, 5);
}

static void fewest_connections(void **state)
{
    (void)state;
    service(BAL_WLC, 3);
    r.config.worker[1].weight = 200;
    assert_int_equal(rig_publish(&r), 0);
    uint32_t n[4] = {0};
    for (uint32_t i = 0; i < 400; i++) n[connect_from(i)]++;
    assert_in_range(n[1], 196, 204);
    assert_in_range(n[2], 98, 102);
    rig_worker(&r, 4, 1); /* a new one gets all that comes until it has as many */
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t i = 400; i < 480; i++) assert_int_equal(connect_from(i), 4);
    r.config.service[1].scheduler = BAL_LC;
    assert_int_equal(rig_publish(&r), 0);
    assert_int_equal(connect_from(1000), 4);
}

static void hashes_know_their_clients(void **state)
{
    (void)state;
    struct bal_service *s = service(BAL_SH, 5);
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t i = 1; i < 100; i++) assert_int_equal(connect_from(i), connect_from(0)); /* one address */
    s->scheduler = BAL_MH;
    assert_int_equal(rig_publish(&r), 0);
    uint32_t n[6] = {0};
    for (uint32_t i = 1000; i < 6000; i++) n[connect_from(i)]++;
    for (uint32_t w = 1; w <= 5; w++) assert_in_range(n[w], 850, 1150);
}

/* Rows go by weight, and a worker that leaves takes its own rows and hardly any other. */
static void maglev_moves_little(void **state)
{
    static uint16_t before[BAL_MAGLEV], after[BAL_MAGLEV];
    struct bal_candidate c[11];
    uint32_t n[12] = {0}, moved = 0, all = 0;
    (void)state;
    for (uint16_t i = 0; i < 11; i++)
        c[i] = (struct bal_candidate){i, true, i ? 10 : 50, (i + 1) * UINT64_C(0x9e3779b97f4a7c15)};
    assert_int_equal(bal_maglev(c, 11, 7, before, BAL_MAGLEV), 0);
    for (uint32_t i = 0; i < BAL_MAGLEV; i++) n[before[i]]++;
    assert_in_range(n[0], BAL_MAGLEV / 3 - 100, BAL_MAGLEV / 3 + 100); /* 50 of 150 */
    for (int i = 1; i < 11; i++) assert_in_range(n[i], BAL_MAGLEV / 15 - 100, BAL_MAGLEV / 15 + 100);
    assert_int_equal(bal_maglev(c, 10, 7, after, BAL_MAGLEV), 0);
    for (uint32_t i = 0; i < BAL_MAGLEV; i++) {
        moved += before[i] != 10 && before[i] != after[i];
        all += before[i] != 10;
    }
    assert_in_range(moved, 0, all / 20);
    assert_int_equal(bal_maglev(c, 0, 7, after, BAL_MAGLEV), 0);
    assert_int_equal(after[5], BAL_NO_WORKER);
}

/* Rows cost the same whatever the weights are. */
static void maglev_takes_any_weight(void **state)
{
    static uint16_t row[BAL_MAGLEV];
    static struct bal_candidate c[4096];
    static uint32_t n[4096];
    (void)state;
    for (uint16_t i = 0; i < 4096; i++)
        c[i] = (struct bal_candidate){i, true,
                                      i == 0   ? 65535
                                      : i == 1 ? 32768
                                               : 1,
                                      (i + 1) * UINT64_C(0x9e3779b97f4a7c15)};
    assert_int_equal(bal_maglev(c, 4096, 7, row, BAL_MAGLEV), 0);
    for (uint32_t i = 0; i < BAL_MAGLEV; i++) n[row[i]]++;
    assert_in_range(n[0], BAL_MAGLEV * 64 / 100, BAL_MAGLEV * 67 / 100); /* 65,535 of 102,397 */
    assert_in_range(n[1], n[0] / 2 - 1, n[0] / 2 + 1);
}

static void rendezvous_moves_nothing_else(void **state)
{
    static uint16_t before[BAL_MAGLEV], after[BAL_MAGLEV];
    struct bal_candidate c[5];
    uint32_t n[6] = {0};
    (void)state;
    for (uint16_t i = 0; i < 5; i++)
        c[i] = (struct bal_candidate){i, true, i ? 10 : 40, (i + 1) * UINT64_C(0x9e3779b97f4a7c15)};
    c[4].up = false; /* of all it has its rows; of those that are up it is none */
    bal_rendezvous(c, 5, 7, &(struct bal_rows){after, before, BAL_MAGLEV});
    for (uint32_t i = 0; i < BAL_MAGLEV; i++) {
        n[before[i]]++;
        if (before[i] != 4) assert_int_equal(before[i], after[i]);
    }
    assert_in_range(n[0], BAL_MAGLEV / 2 - 1000, BAL_MAGLEV / 2 + 1000);
}

/* The choice does not depend on the numbers that workers have, so that balancers agree. */
static void balancers_agree(void **state)
{
    uint32_t of_first[200];
    (void)state;
    struct bal_service *s = service(BAL_MH, 8);
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t i = 0; i < 200; i++) of_first[i] = connect_from(i);
    rig_close(&r);
    assert_int_equal(rig_open(&r, &attr), 0);
    s = rig_service(&r, 1, false, BAL_TCP);
    s->scheduler = BAL_MH;
    for (uint32_t w = 1; w <= 8; w++) { /* the same machines under other numbers */
        struct bal_worker *worker = rig_worker(&r, w, 1);
        r.config.worker[100 - w] = *worker;
        memset(worker, 0, sizeof(*worker));
    }
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t i = 0; i < 200; i++) assert_int_equal(connect_from(i), of_first[i]);
}

static void telemetry_counts(void **state)
{
    (void)state;
    service(BAL_P2C, 2);
    assert_int_equal(rig_publish(&r), 0);
    bal_telemetry(r.bal, 1, &(struct bal_load){.queue_depth = 1000}, r.now);
    bal_telemetry(r.bal, 2, &(struct bal_load){.queue_depth = 0}, r.now);
    uint32_t n[3] = {0};
    for (uint32_t i = 0; i < 200; i++) n[connect_from(i)]++;
    assert_true(n[2] > 150); /* where both are drawn, the shorter queue */
    r.config.service[1].scheduler = BAL_LEAST_BYTES;
    assert_int_equal(rig_publish(&r), 0);
    bal_telemetry(r.bal, 1, &(struct bal_load){.bytes = 10}, r.now + 1);
    bal_telemetry(r.bal, 2, &(struct bal_load){.bytes = 1 << 20}, r.now + 1);
    for (uint32_t i = 200; i < 220; i++) assert_int_equal(connect_from(i), 1);
    r.now += 2 * BAL_LOAD_OLD_NS; /* what was told long ago does not count */
    bal_core_keep(r.core, r.now);
    memset(n, 0, sizeof(n));
    for (uint32_t i = 300; i < 400; i++) n[connect_from(i)]++;
    assert_true(n[1] > 20 && n[2] > 20);
}

static void nobody_is_up(void **state)
{
    (void)state;
    service(BAL_RR, 2);
    r.config.worker[1].state = BAL_DOWN;
    r.config.worker[2].weight = 0;
    for (int s = 0; s < BAL_SCHEDULERS; s++) {
        r.config.service[1].scheduler = (uint8_t)s;
        assert_int_equal(rig_publish(&r), 0);
        assert_int_equal(connect_from((uint32_t)s), BAL_NO_WORKER);
    }
    struct bal_totals t;
    bal_totals(r.bal, -1, &t);
    assert_int_equal(t.drop[BAL_DROP_NO_WORKER], BAL_SCHEDULERS);
}

static void contradictions_are_refused(void **state)
{
    char error[256];
    (void)state;
    service(BAL_RR, 2);
    struct bal_config good = r.config;
#define refused(change)                                                                                      \
    do {                                                                                                     \
        r.config = good;                                                                                     \
        change;                                                                                              \
        error[0] = 0;                                                                                        \
        assert_int_equal(bal_publish(r.bal, &r.config, error, sizeof(error)), -EINVAL);                      \
        assert_true(strlen(error) > 10);                                                                     \
    } while (0)
    refused(r.config.service[2] = r.config.service[1]);
    refused(r.config.worker[1].service = 7);
    refused(r.config.worker[1].via = 3);
    refused(r.config.worker[1].addr = rig_ip6(5));
    refused(r.config.worker[1].port = 8080);
    refused(r.config.worker[1].weight = 70000);
    refused(r.config.service[1].vip.family = 0);
    refused(r.config.service[1].scheduler = 99);
    refused(r.config.service[1].forward = 99);
    refused(r.config.service[1].track_moved = true);
    refused(r.config.port[0].vlan = 4095);
    refused(r.config.port[0].prefix[0] = 33);
    r.config = good;
    assert_int_equal(rig_publish(&r), 0);
}

#define IN_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_RIG(round_robin),
        IN_RIG(weighted_round_robin_is_smooth),
        IN_RIG(fewest_connections),
        IN_RIG(hashes_know_their_clients),
        cmocka_unit_test(maglev_moves_little),
        cmocka_unit_test(maglev_takes_any_weight),
        cmocka_unit_test(rendezvous_moves_nothing_else),
        IN_RIG(balancers_agree),
        IN_RIG(telemetry_counts),
        IN_RIG(nobody_is_up),
        IN_RIG(contradictions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
