/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "src/roce/hdr.h"
#include "tests/rnd.h"

/* Written by hand from the layouts in the architecture book. */
static void golden_write_only_imm(void **state)
{
    static const uint8_t want[] = {
        0x0b, 0xd0, 0xff, 0xff, 0x00, 0x01, 0x02, 0x03, 0x80, 0x0a, 0x0b, 0x0c, /* BTH: SE, M, pad 1, A */
        0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0x10, 0x03, /* RETH */
        0xca, 0xfe, 0xf0, 0x0d,                                                                   /* ImmDt */
    };
    struct roce_hdr h = {.opcode = ROCE_WRITE_ONLY_IMM,
                         .solicited = true,
                         .migreq = true,
                         .pad = 1,
                         .pkey = 0xffff,
                         .dqpn = 0x010203,
                         .ackreq = true,
                         .psn = 0x0a0b0c,
                         .va = 0x1122334455667788,
                         .rkey = 0xdeadbeef,
                         .dlen = 0x1003};
    uint8_t buf[ROCE_MAX_HDR];

    (void)state;
    memcpy(&h.imm_be, "\xca\xfe\xf0\x0d", 4);
    assert_int_equal(roce_pack(buf, &h), sizeof(want));
    assert_memory_equal(buf, want, sizeof(want));
}

static void golden_others(void **state)
{
    static const uint8_t ack[] = {0x11, 0, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 7, 0x1f, 0, 0, 5};
    static const uint8_t cas[] = {0x13, 0, 0xff, 0xff, 0, 0, 0, 1, 0x80, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0x10, 0,
                                  0,    0, 0,    3,    0, 0, 0, 0, 0,    0, 0, 4, 0, 0, 0, 0, 0, 0, 0,    5};
    static const uint8_t atomic_ack[] = {0x12, 0, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 2,
                                         0x1f, 0, 0,    3,    8, 7, 6, 5, 4, 3, 2, 1};
    static const uint8_t ud[] = {0x64, 0x40, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 2, 0x80, 1, 0, 0, 0, 0, 0, 3};
    static const uint8_t xrc[] = {0xab, 0, 0xff, 0xff, 0,    0, 0, 1, 0, 0, 0, 2, 0, 0x12, 0x34, 0x56, 0, 0,
                                  0,    0, 0,    0,    0x10, 0, 0, 0, 0, 3, 0, 0, 0, 4,    7,    8,    9, 10};
    struct roce_hdr h = {.opcode = ROCE_ACK, .pkey = 0xffff, .dqpn = 9, .psn = 7, .syndrome = 0x1f, .msn = 5};
    uint8_t buf[ROCE_MAX_HDR];

    (void)state;
    assert_int_equal(roce_pack(buf, &h), sizeof(ack));
    assert_memory_equal(buf, ack, sizeof(ack));
    h = (struct roce_hdr){.opcode = ROCE_COMPARE_SWAP,
                          .pkey = 0xffff,
                          .dqpn = 1,
                          .ackreq = true,
                          .psn = 2,
                          .va = 0x1000,
                          .rkey = 3,
                          .swap_or_add = 4,
                          .compare = 5};
    assert_int_equal(roce_pack(buf, &h), sizeof(cas));
    assert_memory_equal(buf, cas, sizeof(cas));
    h = (struct roce_hdr){.opcode = ROCE_ATOMIC_ACK,
                          .pkey = 0xffff,
                          .dqpn = 1,
                          .psn = 2,
                          .syndrome = 0x1f,
                          .msn = 3,
                          .orig = 0x0807060504030201};
    assert_int_equal(roce_pack(buf, &h), sizeof(atomic_ack));
    assert_memory_equal(buf, atomic_ack, sizeof(atomic_ack));
    h = (struct roce_hdr){.opcode = ROCE_UD_SEND_ONLY,
                          .pkey = 0xffff,
                          .migreq = true,
                          .dqpn = 1,
                          .psn = 2,
                          .qkey = 0x80010000,
                          .sqpn = 3};
    assert_int_equal(roce_pack(buf, &h), sizeof(ud));
    assert_memory_equal(buf, ud, sizeof(ud));
    h = (struct roce_hdr){.opcode = ROCE_XRC | ROCE_WRITE_ONLY_IMM,
                          .pkey = 0xffff,
                          .dqpn = 1,
                          .psn = 2,
                          .xrcsrq = 0x123456,
                          .va = 0x1000,
                          .rkey = 3,
                          .dlen = 4};
    memcpy(&h.imm_be, "\x07\x08\x09\x0a", 4);
    assert_int_equal(roce_pack(buf, &h), sizeof(xrc));
    assert_memory_equal(buf, xrc, sizeof(xrc));
}

static struct roce_hdr random_hdr(struct rnd *r, uint8_t opcode)
{
    uint32_t f = roce_flags(opcode);
    struct roce_hdr h = {.opcode = opcode};

    h.solicited = rnd64(r) & 1, h.migreq = rnd64(r) & 1, h.fecn = rnd64(r) & 1, h.becn = rnd64(r) & 1;
    h.ackreq = rnd64(r) & 1;
    h.pkey = (uint16_t)rnd64(r);
    h.dqpn = rnd64(r) & 0xffffff, h.psn = rnd64(r) & 0xffffff;
    if (f & ROCE_F_XRCETH) h.xrcsrq = rnd64(r) & 0xffffff;
    if (f & (ROCE_F_RETH | ROCE_F_ATOMICETH)) h.va = rnd64(r), h.rkey = (uint32_t)rnd64(r);
    if (f & ROCE_F_RETH) h.dlen = (uint32_t)rnd64(r);
    if (f & ROCE_F_ATOMICETH) h.swap_or_add = rnd64(r), h.compare = rnd64(r);
    if (f & ROCE_F_MASKETH) h.swap_mask = rnd64(r), h.compare_mask = rnd64(r);
    if (f & ROCE_F_AETH) h.syndrome = (uint8_t)rnd64(r), h.msn = rnd64(r) & 0xffffff;
    if (f & ROCE_F_ATOMICACK) h.orig = rnd64(r);
    if (f & (ROCE_F_IMM | ROCE_F_IETH)) h.imm_be = (uint32_t)rnd64(r);
    if (f & ROCE_F_DETH) h.qkey = (uint32_t)rnd64(r), h.sqpn = rnd64(r) & 0xffffff;
    return h;
}

static void round_trip(void **state)
{
    struct rnd r = {1};
    static uint8_t packet[ROCE_MAX_HDR + ROCE_MAX_MTU + 8];

    (void)state;
    for (int i = 0; i < 50000; i++) {
        uint8_t opcode = (uint8_t)rnd64(&r);
        struct roce_hdr h = random_hdr(&r, opcode), got;
        uint32_t len = roce_flags(opcode) & ROCE_F_PAYLOAD ? rnd_below(&r, ROCE_MAX_MTU + 1) : 0,
                 got_len = 77, n;

        h.pad = roce_pad(len);
        n = roce_pack(packet, &h);
        assert_int_equal(n, roce_flags(opcode) ? roce_ops[opcode].hdr_len : 0);
        if (!n) continue;
        memset(&got, 0xee, sizeof(got));
        assert_int_equal(roce_parse(packet, n + len + h.pad + 4, &got, &got_len), n);
        assert_int_equal(got_len, len);
        assert_int_equal(got.opcode, h.opcode);
        assert_true(got.solicited == h.solicited && got.migreq == h.migreq && got.fecn == h.fecn);
        assert_true(got.becn == h.becn && got.ackreq == h.ackreq && got.pad == h.pad && got.pkey == h.pkey);
        assert_true(got.dqpn == h.dqpn && got.psn == h.psn && got.va == h.va && got.rkey == h.rkey);
        assert_true(got.dlen == h.dlen && got.swap_or_add == h.swap_or_add && got.compare == h.compare);
        assert_true(got.syndrome == h.syndrome && got.msn == h.msn && got.orig == h.orig);
        assert_true(got.imm_be == h.imm_be && got.qkey == h.qkey && got.sqpn == h.sqpn);
        assert_true(got.xrcsrq == h.xrcsrq && got.swap_mask == h.swap_mask);
        assert_true(got.compare_mask == h.compare_mask);
    }
}

static void malformed(void **state)
{
    struct roce_hdr h = {.opcode = ROCE_WRITE_ONLY, .pkey = 0xffff}, got;
    uint8_t p[ROCE_MAX_HDR + ROCE_MAX_MTU + 8] = {0};
    uint32_t len, n = roce_pack(p, &h);

    (void)state;
    for (size_t cut = 0; cut < n + 4u; cut++) assert_int_equal(roce_parse(p, cut, &got, &len), -ROCE_SHORT);
    assert_int_equal(roce_parse(p, n + 4u, &got, &len), n);
    assert_int_equal(roce_parse(p, n + 4u + 4096, &got, &len), n);
    assert_int_equal(roce_parse(p, n + 4u + 4100, &got, &len), -ROCE_TOO_LONG);
    assert_int_equal(roce_parse(p, n + 4u + 6, &got, &len), -ROCE_BAD_PAD);
    for (p[1] = 0x10; p[1] < 0x30; p[1] += 0x10) /* pad after no payload */
        assert_int_equal(roce_parse(p, n + 4u, &got, &len), -ROCE_BAD_PAD);
    assert_int_equal(roce_parse(p, n + 4u, &got, &len), -ROCE_BAD_PAD);
    assert_int_equal(roce_parse(p, n + 8u, &got, &len), n);
    assert_int_equal(len, 1);
    p[1] = 0x01;
    assert_int_equal(roce_parse(p, n + 4u, &got, &len), -ROCE_BAD_VERSION);
    p[1] = 0;
    p[0] = 0x15;
    assert_int_equal(roce_parse(p, n + 4u, &got, &len), -ROCE_BAD_OPCODE);
    p[0] = ROCE_READ_REQ;
    assert_int_equal(roce_parse(p, n + 8u, &got, &len), -ROCE_HAS_PAYLOAD);
    for (int why = ROCE_OK; why <= ROCE_TOO_LONG; why++) assert_non_null(roce_why_text((enum roce_why)why));
}

/* Every opcode has one place in its message, and one direction. */
static void opcode_table(void **state)
{
    int known = 0;

    (void)state;
    for (int op = 0; op < 256; op++) {
        uint32_t f = roce_ops[op].flags;
        uint32_t place = f & (ROCE_F_FIRST | ROCE_F_MIDDLE | ROCE_F_LAST | ROCE_F_ONLY);

        assert_true(!f == !roce_ops[op].name);
        if (!f) continue;
        known++;
        assert_true(f & ROCE_F_VALID);
        assert_true(place && !(place & (place - 1)));
        assert_false((f & ROCE_F_REQUEST) && (f & ROCE_F_RESPONSE));
        assert_in_range(roce_ops[op].hdr_len, ROCE_BTH_LEN, ROCE_MAX_HDR);
        if (f & (ROCE_F_IMM | ROCE_F_IETH)) assert_true(f & ROCE_F_ENDS);
        assert_true(!(f & ROCE_F_XRCETH) == (roce_service((uint8_t)op) != ROCE_XRC || !(f & ROCE_F_REQUEST)));
        if (f & ROCE_F_WRITE) assert_true(!(f & ROCE_F_RETH) == !(f & ROCE_F_STARTS));
    }
    assert_int_equal(known, 23 + 23 + 12 + 2 + 1 + 4);
}

static void describe(void **state)
{
    struct roce_hdr h = {
        .opcode = ROCE_WRITE_ONLY_IMM, .dqpn = 0xabc, .psn = 5, .ackreq = true, .va = 0x1000};
    char buf[200], small[10];

    (void)state;
    roce_describe(&h, 64, buf, sizeof(buf));
    assert_string_equal(buf, "WRITE_ONLY_IMM qpn 000abc psn 5 len 64 ack va 1000 rkey 0 dlen 0 imm 00000000");
    roce_describe(&h, 64, small, sizeof(small));
    assert_string_equal(small, "WRITE_ONL");
    h.opcode = 0xff;
    roce_describe(&h, 0, buf, sizeof(buf));
    assert_string_equal(buf, "unknown opcode qpn 000abc psn 5 len 0 ack");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_write_only_imm),
        cmocka_unit_test(golden_others),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(malformed),
        cmocka_unit_test(opcode_table),
        cmocka_unit_test(describe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
