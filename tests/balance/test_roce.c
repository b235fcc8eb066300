/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs stay on the worker that made them: with NAT, by direct routing, and when the ends agree by
 * themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "src/roce/cm.h"
#include "src/roce/hdr.h"
#include "tests/balance/rig.h"

#define SECOND UINT64_C(1000000000)

static struct rig r;
static struct rig_packet p;

static int open_rig(void **state)
{
    (void)state;
    return rig_open_three(&r, BAL_ROCE);
}
static int close_rig(void **state)
{
    (void)state;
    rig_close(&r);
    return 0;
}

static struct bal_addr client(uint32_t i)
{
    return r.config.service[1].vip.family == 6 ? rig_ip6(0x3000000 + i) : rig_ip4(0x0a800000 + i);
}

static bool sound(void)
{
    return rig_sound(p.p.data + 14, p.p.len - 14);
}

/* Sends it; the worker that it went to. Whatever is forwarded has a right ICRC. */
static uint32_t deliver(void)
{
    assert_true(sound());
    if (rig_send(&r, &p) != BAL_SEND) return BAL_NO_WORKER;
    assert_true(sound());
    return rig_went_to(&p);
}

static void packet(struct bal_addr from, struct bal_addr to, uint8_t opcode, uint32_t dqpn)
{
    uint8_t bytes[ROCE_MAX_HDR + 64] = {0};
    struct roce_hdr h = {.opcode = opcode, .dqpn = dqpn, .pkey = 0xffff, .psn = 77, .sqpn = 9, .qkey = 1};
    uint32_t n = roce_pack(bytes, &h);
    rig_roce(&p, from, to, bytes, n + 64);
}

static void message(struct bal_addr from, struct bal_addr to, struct roce_cm *cm)
{
    uint8_t bytes[ROCE_MAX_HDR + ROCE_MAD_LEN];
    struct roce_hdr h = {
        .opcode = ROCE_UD_SEND_ONLY, .dqpn = 1, .sqpn = 1, .pkey = 0xffff, .qkey = ROCE_GSI_QKEY};
    uint32_t n = roce_pack(bytes, &h);
    memset(bytes + n, 0, ROCE_MAD_LEN);
    assert_int_equal(roce_cm_build(bytes + n, cm), 0);
    rig_roce(&p, from, to, bytes, n + ROCE_MAD_LEN);
}

/* A message of the client's, by its communication ID. */
static uint32_t says(uint32_t i, uint16_t attr, uint32_t id, uint32_t qpn)
{
    struct roce_cm cm = {
        .attr = attr, .local_id = id, .remote_id = attr == ROCE_CM_REQ ? 0 : 555, .qpn = qpn};
    if (attr == ROCE_CM_REQ || attr == ROCE_CM_SIDR_REQ) {
        bool ipv6 = r.config.service[1].vip.family == 6;
        struct roce_cma_hdr cma = {.ipv6 = ipv6, .port = 5};
        size_t at = ipv6 ? 0 : 12, n = ipv6 ? 16 : 4;
        memcpy(cma.src + at, client(i).byte, n);
        memcpy(cma.dst + at, r.config.service[1].vip.byte, n);
        memset(cm.dgid + 10, 0xff, 2);
        memcpy(cm.dgid + at, r.config.service[1].vip.byte, n);
        roce_cma_build(cm.private_data, &cma);
        cm.private_len = ROCE_CMA_HDR;
    }
    message(client(i), r.config.service[1].vip, &cm);
    return deliver();
}

static uint32_t data(uint32_t i, uint32_t qpn)
{
    packet(client(i), r.config.service[1].vip, ROCE_WRITE_ONLY, qpn);
    return deliver();
}

/* A worker's message to a client: its communication ID is 1000 + the worker. */
static int worker_says(uint32_t w, uint32_t i, uint16_t attr, uint32_t id, uint32_t qpn)
{
    struct roce_cm cm = {.attr = attr, .local_id = 1000 + w, .remote_id = id, .qpn = qpn};
    struct bal_addr to = client(i);
    rig_ask(&r, &to);
    bal_neighbour_told(r.bal->neighbours, 0, &to, (uint8_t[]){2, 7, 7, 7, 7, 7}, r.now);
    message(r.config.worker[w].addr, to, &cm);
    assert_true(sound());
    int verdict = rig_send(&r, &p);
    struct rig_end from, dst;
    rig_ends(&p, &from, &dst);
    if (verdict == BAL_SEND) assert_true(sound() && bal_same_addr(&from.addr, &r.config.service[1].vip));
    return verdict;
}

/* The worker names its queue pair in the REP, which passes here. */
static void by_nat(void **state)
{
    (void)state;
    for (int ipv6 = 0; ipv6 < 2; ipv6++) {
        rig_service(&r, 1, ipv6, BAL_ROCE)->forward = BAL_NAT;
        for (uint32_t w = 1; w <= 3; w++) rig_worker(&r, w, 1);
        assert_int_equal(rig_publish(&r), 0);
        uint32_t of[9];
        for (uint32_t c = 0; c < 9; c++) {
            of[c] = says(c % 3, ROCE_CM_REQ, 100 + c, 7);
            /* the request inside names the worker, too */
            struct roce_cm cm;
            struct roce_cma_hdr cma;
            uint8_t *mad = p.p.data + 14 + (ipv6 ? 40 : 20) + 8 + 20;
            assert_int_equal(roce_cm_parse(mad, &cm), 0);
            assert_int_equal(roce_cma_parse(cm.private_data, &cma), 0);
            size_t at = ipv6 ? 0 : 12, n = ipv6 ? 16 : 4;
            assert_memory_equal(cm.dgid + at, r.config.worker[of[c]].addr.byte, n);
            assert_memory_equal(cma.dst + at, r.config.worker[of[c]].addr.byte, n);
            assert_int_equal(says(c % 3, ROCE_CM_REQ, 100 + c, 7), of[c]); /* repeated: the same worker */
        }
        for (uint32_t c = 0; c < 9; c++) {
            assert_int_equal(data(c % 3, 500 + c), BAL_NO_WORKER); /* this queue pair is unknown */
            assert_int_equal(worker_says(of[c], c % 3, ROCE_CM_REP, 100 + c, 500 + c), BAL_SEND);
            assert_int_equal(says(c % 3, ROCE_CM_RTU, 100 + c, 0), of[c]);
            assert_int_equal(says(c % 3, ROCE_CM_REQ, 100 + c, 7), of[c]); /* one that was long on its way */
        }
        struct bal_totals t;
        bal_totals(r.bal, -1, &t);
        assert_int_equal(t.opened, 9 * (1 + ipv6));
        r.config.worker[1].state = BAL_DRAINING;
        assert_int_equal(rig_publish(&r), 0);
        for (int k = 0; k < 50; k++)
            for (uint32_t c = 0; c < 9; c++) assert_int_equal(data(c % 3, 500 + c), of[c]);
        r.config.worker[2].state = BAL_DOWN; /* its queue pairs die with it */
        assert_int_equal(rig_publish(&r), 0);
        for (uint32_t c = 0; c < 9; c++)
            assert_int_equal(data(c % 3, 500 + c), of[c] == 2 ? BAL_NO_WORKER : of[c]);
    }
}

/* DREQ and DREP close: after some seconds nothing of the connection is left. */
static void connections_close(void **state)
{
    (void)state;
    r.config.service[1].forward = BAL_NAT;
    assert_int_equal(rig_publish(&r), 0);
    for (uint32_t c = 0; c < 4; c++) {
        uint32_t w = says(0, ROCE_CM_REQ, 100 + c, 7);
        worker_says(w, 0, ROCE_CM_REP, 100 + c, 500 + c);
        says(0, ROCE_CM_RTU, 100 + c, 0);
        assert_int_equal(data(0, 500 + c), w);
        if (c % 2)
            assert_int_equal(says(0, ROCE_CM_DREQ, 100 + c, 500 + c), w);
        else
            assert_int_equal(worker_says(w, 0, ROCE_CM_DREQ, 100 + c, 7),
                             BAL_SEND);                         /* it names the client's */
        assert_int_equal(says(0, ROCE_CM_DREP, 100 + c, 0), w); /* what is under way still arrives */
    }
    for (int k = 0; k < 5000; k++) bal_core_keep(r.core, r.now += SECOND / 100);
    struct bal_totals t;
    bal_totals(r.bal, -1, &t);
    assert_int_equal(t.live, 0);
    for (uint32_t c = 0; c < 4; c++) assert_int_equal(data(0, 500 + c), BAL_NO_WORKER);
}

/* By direct routing the REP is not seen: the first packet to a new number tells. */
static void by_direct_routing(void **state)
{
    uint32_t of[30];
    (void)state;
    for (uint32_t i = 0; i < 30; i++) {
        of[i] = says(i, ROCE_CM_REQ, 100, 7);
        assert_int_equal(says(i, ROCE_CM_REQ, 101, 8), of[i]); /* its other connection at the same time */
        assert_int_equal(says(i, ROCE_CM_RTU, 100, 0), of[i]);
    }
    for (uint32_t w = 1; w <= 3; w++) assert_int_equal(of[w], (of[0] + w - 1) % 3 + 1);
    for (uint32_t i = 0; i < 30; i++) {
        assert_int_equal(data(i, 600), of[i]);
        assert_int_equal(data(i, 601), of[i]);
    }
    assert_int_equal(data(31, 600), BAL_NO_WORKER); /* another client's number means nothing */
    /* Later connections may go elsewhere, and the first ones stay. */
    r.now += 15 * SECOND;
    uint32_t others = 0;
    says(40, ROCE_CM_REQ, 100, 7); /* the turns are not the same ones */
    for (uint32_t i = 0; i < 30; i++) {
        uint32_t w = says(i, ROCE_CM_REQ, 200, 7);
        others += w != of[i];
        assert_int_equal(data(i, 700), w);
        assert_int_equal(data(i, 600), of[i]);
    }
    assert_true(others > 0);
    assert_int_equal(says(3, ROCE_CM_DREQ, 100, 600), of[3]);
}

static void ends_that_agree_by_themselves(void **state)
{
    (void)state;
    struct bal_record record = {
        .service = 1, .worker = 2, .qpn = 4242, .state = BAL_ROCE_LIVE, .client = client(5)};
    assert_int_equal(data(5, 4242), BAL_NO_WORKER);
    assert_int_equal(bal_learn(r.bal, &record), 0);
    bal_core_keep(r.core, r.now += 1000);
    assert_int_equal(data(5, 4242), 2);
    record.state = 0xff;
    assert_int_equal(bal_learn(r.bal, &record), 0);
    bal_core_keep(r.core, r.now += 1000);
    assert_int_equal(data(5, 4242), BAL_NO_WORKER);
}

/* Datagrams go by their source, and so does the question for their queue pair. */
static void datagrams(void **state)
{
    (void)state;
    uint32_t of[6];
    for (uint32_t i = 0; i < 6; i++) of[i] = says(i, ROCE_CM_SIDR_REQ, 9, 0);
    for (uint32_t k = 0; k < 60; k++) {
        packet(client(k % 6), r.config.service[1].vip, ROCE_UD_SEND_ONLY, 800 + k);
        assert_int_equal(deliver(), of[k % 6]);
    }
    assert_int_not_equal(of[0], of[1]);
    r.config.worker[of[0]].state = BAL_DOWN;
    assert_int_equal(rig_publish(&r), 0);
    packet(client(0), r.config.service[1].vip, ROCE_UD_SEND_ONLY, 800);
    assert_int_not_equal(deliver(), of[0]);
}

/* Messages that are about nothing, cut short or of another class. */
static void nonsense(void **state)
{
    (void)state;
    assert_int_equal(says(0, ROCE_CM_RTU, 1, 0), BAL_NO_WORKER);
    assert_int_equal(says(0, ROCE_CM_DREQ, 1, 5), BAL_NO_WORKER);
    assert_int_equal(says(0, ROCE_CM_REJ, 1, 0), BAL_NO_WORKER);
    for (uint32_t n = 0; n < 300; n += 4) {
        uint8_t bytes[300] = {ROCE_UD_SEND_ONLY, 0, 0xff, 0xff, 0, 0, 0, 1};
        rig_roce(&p, client(0), r.config.service[1].vip, bytes, n);
        rig_send(&r, &p);
    }
}

#define IN_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_RIG(by_nat),
        IN_RIG(connections_close),
        IN_RIG(by_direct_routing),
        IN_RIG(ends_that_agree_by_themselves),
        IN_RIG(datagrams),
        IN_RIG(nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
