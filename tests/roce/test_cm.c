/* SPDX-License-Identifier: Apache-2.0 */
/* Communication management messages: where each field lies, and that nothing else is touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "src/roce/cm.h"
#include "src/roce/hdr.h"
#include "tests/rnd.h"

#define AT(name) offsetof(struct roce_cm, name)

/* Bytes of the message, as the specification's tables number them, and the bits of the field in them. */
static const struct place {
    uint16_t attr, field;
    uint8_t byte, bits[8];
} places[] = {
    {ROCE_CM_REQ, AT(local_id), 0, {0xff, 0xff, 0xff, 0xff}},
    {ROCE_CM_REQ, AT(vendor_id), 4, {0, 0xff, 0xff, 0xff}},
    {ROCE_CM_REQ, AT(qkey), 28, {0xff, 0xff, 0xff, 0xff}},
    {ROCE_CM_REQ, AT(qpn), 32, {0xff, 0xff, 0xff, 0}},
    {ROCE_CM_REQ, AT(responder_resources), 32, {0, 0, 0, 0xff}},
    {ROCE_CM_REQ, AT(initiator_depth), 36, {0, 0, 0, 0xff}},
    {ROCE_CM_REQ, AT(remote_timeout), 43, {0xf8}},
    {ROCE_CM_REQ, AT(transport), 43, {0x06}},
    {ROCE_CM_REQ, AT(flow_control), 43, {0x01}},
    {ROCE_CM_REQ, AT(psn), 44, {0xff, 0xff, 0xff, 0}},
    {ROCE_CM_REQ, AT(local_timeout), 47, {0xf8}},
    {ROCE_CM_REQ, AT(retry_count), 47, {0x07}},
    {ROCE_CM_REQ, AT(pkey), 48, {0xff, 0xff}},
    {ROCE_CM_REQ, AT(mtu), 50, {0xf0}},
    {ROCE_CM_REQ, AT(rnr_retry), 50, {0x07}},
    {ROCE_CM_REQ, AT(max_retries), 51, {0xf0}},
    {ROCE_CM_REQ, AT(srq), 51, {0x08}},
    {ROCE_CM_REQ, AT(ext_transport), 51, {0x07}},
    {ROCE_CM_REQ, AT(slid), 52, {0xff, 0xff}},
    {ROCE_CM_REQ, AT(dlid), 54, {0xff, 0xff}},
    {ROCE_CM_REQ, AT(flow_label), 88, {0xff, 0xff, 0xf0}},
    {ROCE_CM_REQ, AT(rate), 91, {0x3f}},
    {ROCE_CM_REQ, AT(traffic_class), 92, {0xff}},
    {ROCE_CM_REQ, AT(hop_limit), 93, {0xff}},
    {ROCE_CM_REQ, AT(sl), 94, {0xf0}},
    {ROCE_CM_REQ, AT(subnet_local), 94, {0x08}},
    {ROCE_CM_REQ, AT(ack_timeout), 95, {0xf8}},
    {ROCE_CM_MRA, AT(remote_id), 4, {0xff, 0xff, 0xff, 0xff}},
    {ROCE_CM_MRA, AT(about), 8, {0xc0}},
    {ROCE_CM_MRA, AT(service_timeout), 9, {0xf8}},
    {ROCE_CM_REJ, AT(about), 8, {0xc0}},
    {ROCE_CM_REJ, AT(info_len), 9, {0xfe}},
    {ROCE_CM_REJ, AT(reason), 10, {0xff, 0xff}},
    {ROCE_CM_REP, AT(qkey), 8, {0xff, 0xff, 0xff, 0xff}},
    {ROCE_CM_REP, AT(qpn), 12, {0xff, 0xff, 0xff, 0}},
    {ROCE_CM_REP, AT(psn), 20, {0xff, 0xff, 0xff, 0}},
    {ROCE_CM_REP, AT(responder_resources), 24, {0xff}},
    {ROCE_CM_REP, AT(initiator_depth), 25, {0xff}},
    {ROCE_CM_REP, AT(ack_delay), 26, {0xf8}},
    {ROCE_CM_REP, AT(failover), 26, {0x06}},
    {ROCE_CM_REP, AT(flow_control), 26, {0x01}},
    {ROCE_CM_REP, AT(rnr_retry), 27, {0xe0}},
    {ROCE_CM_REP, AT(srq), 27, {0x10}},
    {ROCE_CM_DREQ, AT(qpn), 8, {0xff, 0xff, 0xff, 0}},
    {ROCE_CM_SIDR_REQ, AT(pkey), 4, {0xff, 0xff}},
    {ROCE_CM_SIDR_REP, AT(status), 4, {0xff}},
    {ROCE_CM_SIDR_REP, AT(qpn), 8, {0xff, 0xff, 0xff, 0}},
    {ROCE_CM_SIDR_REP, AT(qkey), 20, {0xff, 0xff, 0xff, 0xff}},
};

static void fields_lie_where_the_tables_say(void **state)
{
    uint8_t mad[ROCE_MAD_LEN], none[ROCE_MAD_LEN];

    (void)state;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct roce_cm m = {.attr = places[i].attr}, empty = m;

        *(uint32_t *)((char *)&m + places[i].field) = UINT32_MAX;
        assert_int_equal(roce_cm_build(mad, &m), 0);
        assert_int_equal(roce_cm_build(none, &empty), 0);
        for (int b = 0; b < 8; b++) none[ROCE_MAD_HDR + places[i].byte + b] |= places[i].bits[b];
        if (memcmp(mad, none, sizeof(mad))) fail_msg("place %zu is another", i);
    }
}

static void a_request_byte_by_byte(void **state)
{
    static const uint8_t head[] = {1, 7, 2, 3, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0x10, 0, 0, 0, 0, 0, 9};
    static const uint8_t service[] = {0, 0, 0, 0, 1, 6, 0x1c, 0x06};
    struct roce_cm m = {.attr = ROCE_CM_REQ, .tid = UINT64_C(0x0102030405060708), .attr_mod = 9};
    uint8_t mad[ROCE_MAD_LEN];

    (void)state;
    m.service_id = roce_cm_service_id(0x0106, 7174);
    m.ca_guid = UINT64_C(0x1112131415161718);
    memset(m.sgid, 0xaa, 16);
    memset(m.dgid, 0xbb, 16);
    m.private_len = 1000; /* cut to what there is room for */
    memset(m.private_data, 0xcc, sizeof(m.private_data));
    assert_int_equal(roce_cm_build(mad, &m), 0);
    assert_memory_equal(mad, head, sizeof(head));
    assert_memory_equal(mad + 24 + 8, service, 8);
    assert_int_equal(mad[24 + 16], 0x11);
    assert_int_equal(mad[24 + 23], 0x18);
    assert_memory_equal(mad + 24 + 56, m.sgid, 16);
    assert_memory_equal(mad + 24 + 72, m.dgid, 16);
    assert_int_equal(mad[24 + 139], 0);
    assert_int_equal(mad[24 + 140], 0xcc);
    assert_int_equal(mad[255], 0xcc);
}

/* REP has the vendor's bytes in three places, the highest first; librdmacm refuses a reply that
 * does not name its own. */
static void a_reply_names_its_vendor(void **state)
{
    struct roce_cm m = {.attr = ROCE_CM_REP, .vendor_id = 0x0215b3}, n;
    uint8_t mad[ROCE_MAD_LEN];

    (void)state;
    assert_int_equal(roce_cm_build(mad, &m), 0);
    assert_int_equal(mad[ROCE_MAD_HDR + 15], 0x02);
    assert_int_equal(mad[ROCE_MAD_HDR + 19], 0x15);
    assert_int_equal(mad[ROCE_MAD_HDR + 23], 0xb3);
    assert_int_equal(roce_cm_parse(mad, &n), 0);
    assert_int_equal(n.vendor_id, 0x0215b3);
}

static void private_data_has_its_place(void **state)
{
    static const uint32_t room[] = {92, 222, 148, 196, 224, 220, 224, 216, 136};

    (void)state;
    for (uint16_t attr = ROCE_CM_REQ; attr <= ROCE_CM_SIDR_REP; attr++)
        assert_int_equal(roce_cm_private_room(attr), room[attr - ROCE_CM_REQ]);
    assert_int_equal(roce_cm_private_room(0x19), 0);
    assert_int_equal(roce_cm_private_room(0x0f), 0);
}

/* What is read and written again is the same message, but for unused bits. */
static void messages_survive_a_round(void **state)
{
    struct rnd rnd = {11};
    uint8_t mad[ROCE_MAD_LEN], again[ROCE_MAD_LEN], third[ROCE_MAD_LEN];
    struct roce_cm m, n;

    (void)state;
    for (int i = 0; i < 9000; i++) {
        rnd_bytes(&rnd, mad, sizeof(mad));
        memcpy(mad, (uint8_t[]){1, 7, 2, 3}, 4);
        mad[16] = 0;
        mad[17] = (uint8_t)(ROCE_CM_REQ + i % 9);
        assert_int_equal(roce_cm_parse(mad, &m), 0);
        assert_int_equal(roce_cm_build(again, &m), 0);
        assert_int_equal(roce_cm_parse(again, &n), 0);
        assert_memory_equal(&m, &n, sizeof(m));
        assert_int_equal(roce_cm_build(third, &n), 0);
        assert_memory_equal(again, third, sizeof(third));
    }
}

static void what_is_not_ours_is_refused(void **state)
{
    struct roce_cm m = {.attr = ROCE_CM_RTU}, out;
    uint8_t mad[ROCE_MAD_LEN];

    (void)state;
    for (int byte = 0; byte < 4; byte++) {
        assert_int_equal(roce_cm_build(mad, &m), 0);
        assert_int_equal(roce_cm_parse(mad, &out), 0);
        mad[byte] ^= 0x10;
        assert_int_equal(roce_cm_parse(mad, &out), -1);
    }
    m.attr = 0x19;
    assert_int_equal(roce_cm_build(mad, &m), -1);
}

static void the_receiver_is_known_by_its_id(void **state)
{
    uint8_t packet[12 + 8 + ROCE_MAD_LEN + 4] = {ROCE_UD_SEND_ONLY};
    struct roce_cm m = {.local_id = 0x11223344, .remote_id = 0x55667788};
    uint32_t id;

    (void)state;
    packet[7] = 1;
    for (m.attr = ROCE_CM_REQ; m.attr <= ROCE_CM_SIDR_REP; m.attr++) {
        bool named = m.attr != ROCE_CM_REQ && m.attr != ROCE_CM_SIDR_REQ;

        assert_int_equal(roce_cm_build(packet + 20, &m), 0);
        id = 0;
        assert_int_equal(roce_cm_receiver_of_packet(packet, sizeof(packet), &id), named);
        if (named) assert_int_equal(id, m.attr == ROCE_CM_SIDR_REP ? m.local_id : m.remote_id);
        assert_false(roce_cm_receiver_of_packet(packet, sizeof(packet) - 4, &id));
    }
    packet[7] = 2;
    assert_false(roce_cm_receiver_of_packet(packet, sizeof(packet), &id));
}

static void addresses_of_rdma_cm(void **state)
{
    static const uint8_t wire[ROCE_CMA_HDR] = {[1] = 0x40, [2] = 0x12, [3] = 0x34, [16] = 192, 0, 2,
                                               1,          [32] = 192, 0,          2,          2};
    struct roce_cma_hdr h = {.port = 0x1234,
                             .src = {[10] = 0xff, 0xff, 192, 0, 2, 1},
                             .dst = {[10] = 0xff, 0xff, 192, 0, 2, 2}},
                        in;
    uint8_t out[ROCE_CMA_HDR];

    (void)state;
    roce_cma_build(out, &h);
    assert_memory_equal(out, wire, sizeof(wire));
    assert_int_equal(roce_cma_parse(out, &in), 0);
    assert_int_equal(in.port, 0x1234);
    assert_false(in.ipv6);
    h.ipv6 = true;
    roce_cma_build(out, &h);
    assert_int_equal(roce_cma_parse(out, &in), 0);
    assert_memory_equal(&in, &h, sizeof(in));
    out[0] = 1;
    assert_int_equal(roce_cma_parse(out, &in), -1);
    out[0] = 0;
    out[1] = 0x50;
    assert_int_equal(roce_cma_parse(out, &in), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_lie_where_the_tables_say), cmocka_unit_test(a_request_byte_by_byte),
        cmocka_unit_test(a_reply_names_its_vendor),        cmocka_unit_test(private_data_has_its_place),
        cmocka_unit_test(messages_survive_a_round),        cmocka_unit_test(what_is_not_ours_is_refused),
        cmocka_unit_test(the_receiver_is_known_by_its_id), cmocka_unit_test(addresses_of_rdma_cm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
