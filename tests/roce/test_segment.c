/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "src/roce/segment.h"
#include "tests/rnd.h"

static void mtu(void **state)
{
    (void)state;
    assert_int_equal(roce_mtu_bytes(0), 0);
    assert_int_equal(roce_mtu_bytes(1), 256);
    assert_int_equal(roce_mtu_bytes(3), 1024);
    assert_int_equal(roce_mtu_bytes(5), 4096);
    assert_int_equal(roce_mtu_bytes(6), 0);
    for (unsigned e = 1; e <= 5; e++) {
        assert_int_equal(roce_mtu_enum(roce_mtu_bytes(e)), e);
        assert_int_equal(roce_mtu_enum(roce_mtu_bytes(e) - 1), e - 1);
    }
    assert_int_equal(roce_mtu_enum(100000), 5);
    assert_int_equal(roce_mtu_enum_of_netdev(1500), 3);
    assert_int_equal(roce_mtu_enum_of_netdev(9000), 5);
    assert_int_equal(roce_mtu_enum_of_netdev(65536), 5);
    assert_int_equal(roce_mtu_enum_of_netdev(79), 0);
}

static void psn(void **state)
{
    (void)state;
    assert_int_equal(roce_psn_add(0xffffff, 1), 0);
    assert_int_equal(roce_psn_add(5, 0xffffff), 4);
    assert_int_equal(roce_psn_diff(0, 0xffffff), 1);
    assert_int_equal(roce_psn_diff(0xffffff, 0), -1);
    assert_int_equal(roce_psn_diff(0x7fffff, 0), 0x7fffff);
    assert_int_equal(roce_psn_diff(0x800000, 0), -0x800000);
    assert_int_equal(roce_psn_diff(7, 7), 0);
}

/* However a message is cut: in order, without gap, full packets but the last, opcodes of one message. */
static void segments(void **state)
{
    struct rnd r = {2};

    (void)state;
    for (int i = 0; i < 20000; i++) {
        enum roce_msg kind = (enum roce_msg)rnd_below(&r, 6);
        uint32_t mtu = roce_mtu_bytes(1 + rnd_below(&r, 5));
        uint32_t len = rnd_below(&r, 2) ? rnd_below(&r, 5 * mtu) : rnd_below(&r, 5) * mtu, at = 0;
        uint32_t n = roce_packets(len, mtu);

        for (uint32_t k = 0; k < n; k++) {
            struct roce_seg s = roce_segment(kind, len, mtu, k);
            uint32_t f = roce_flags(s.opcode);

            assert_int_equal(s.offset, at);
            assert_true(s.last ? s.length <= mtu && (s.length || !len) : s.length == mtu);
            assert_int_equal((s.length + s.pad) % 4, 0);
            assert_true(s.pad < 4);
            assert_true(s.first == (k == 0) && s.last == (k == n - 1));
            assert_true(!(f & ROCE_F_STARTS) == !s.first && !(f & ROCE_F_ENDS) == !s.last);
            assert_true(!(f & ROCE_F_IMM) ==
                        !(s.last && (kind == ROCE_MSG_SEND_IMM || kind == ROCE_MSG_WRITE_IMM)));
            assert_true(!(f & ROCE_F_IETH) == !(s.last && kind == ROCE_MSG_SEND_INV));
            assert_true(!(f & ROCE_F_WRITE) == !(kind == ROCE_MSG_WRITE || kind == ROCE_MSG_WRITE_IMM));
            assert_true(!(f & ROCE_F_RESPONSE) == !(kind == ROCE_MSG_READ_RESP));
            at += s.length;
        }
        assert_int_equal(at, len);
    }
    assert_int_equal(roce_packets(0, 1024), 1);
    assert_int_equal(roce_packets(0xffffffff, 256), 1 << 24);
    assert_int_equal(roce_segment(ROCE_MSG_SEND, 0x80000000u, 4096, 0x7ffff).opcode, ROCE_SEND_LAST);
    assert_int_equal(roce_segment(ROCE_MSG_SEND_INV, 10, 4096, 0).opcode, ROCE_SEND_ONLY_INV);
    assert_int_equal(roce_segment(ROCE_MSG_READ_RESP, 5000, 4096, 1).opcode, ROCE_READ_RESP_LAST);
}

static void syndromes(void **state)
{
    (void)state;
    assert_true(roce_aeth_is_ack(0x1f) && roce_aeth_is_ack(0) && !roce_aeth_is_ack(0x20));
    assert_true(roce_aeth_is_rnr(0x2c) && !roce_aeth_is_rnr(0x60) && !roce_aeth_is_rnr(0x1f));
    assert_true(roce_aeth_is_nak(0x60) && roce_aeth_is_nak(0x63) && !roce_aeth_is_nak(0x40));
    assert_int_equal(roce_aeth_rnr(12), 0x2c);
    assert_int_equal(roce_aeth_nak(ROCE_NAK_PSN_SEQ), 0x60);
    assert_int_equal(roce_aeth_nak(ROCE_NAK_REMOTE_OP), 0x63);
}

/* The whole of the architecture's table, in milliseconds. */
static void timers(void **state)
{
    static const double ms[32] = {655.36, .01,   .02,   .03,    .04,    .06,    .08,    .12,
                                  .16,    .24,   .32,   .48,    .64,    .96,    1.28,   1.92,
                                  2.56,   3.84,  5.12,  7.68,   10.24,  15.36,  20.48,  30.72,
                                  40.96,  61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};

    (void)state;
    for (unsigned i = 0; i < 32; i++) assert_int_equal(roce_rnr_ns(i), (uint64_t)(ms[i] * 1e6 + .5));
    assert_int_equal(roce_ack_timeout_ns(0), 0);
    assert_int_equal(roce_ack_timeout_ns(1), 8192);
    assert_int_equal(roce_ack_timeout_ns(14), 67108864);
    assert_int_equal(roce_ack_timeout_ns(31), UINT64_C(4096) << 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mtu), cmocka_unit_test(psn),
                                       cmocka_unit_test(segments), cmocka_unit_test(syndromes),
                                       cmocka_unit_test(timers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
