/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a RoCEv2 packet. A packet that parses must come out of the packer as it went in, and the ICRC
 * functions must agree with each other. The data lies in a block of its exact size, so that the sanitizer
 * sees every read past it.
 */
#include <stdlib.h>
#include <string.h>

#include "src/roce/hdr.h"
#include "src/roce/icrc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) abort();
}

static void fuzz_headers(const uint8_t *p, size_t len)
{
    struct roce_hdr h, again;
    uint8_t packed[ROCE_MAX_HDR];
    char text[160];
    uint32_t payload, payload_again;
    int n = roce_parse(p, len, &h, &payload);

    if (n < 0) {
        require(roce_why_text((enum roce_why) - n) != NULL);
        return;
    }
    require((size_t)n + payload + h.pad + ROCE_ICRC_LEN == len);
    roce_describe(&h, payload, text, sizeof(text));
    require(roce_pack(packed, &h) == (uint32_t)n);
    /* Reserved bits are dropped, so compare what is understood, not the bytes. */
    uint8_t *copy = malloc(len);
    require(copy != NULL);
    memcpy(copy, p, len);
    memcpy(copy, packed, (size_t)n);
    require(roce_parse(copy, len, &again, &payload_again) == n && payload_again == payload);
    require(again.opcode == h.opcode && again.psn == h.psn && again.dqpn == h.dqpn && again.va == h.va);
    require(again.rkey == h.rkey && again.dlen == h.dlen && again.imm_be == h.imm_be && again.msn == h.msn);
    require(again.swap_or_add == h.swap_or_add && again.compare == h.compare && again.orig == h.orig);
    require(again.syndrome == h.syndrome && again.qkey == h.qkey && again.sqpn == h.sqpn);
    require(again.xrcsrq == h.xrcsrq);
    free(copy);
}

static void fuzz_icrc(uint8_t *ip, size_t len)
{
    struct roce_path path;
    size_t n;
    uint16_t id, real;
    int at = roce_path_of_packet(ip, len, &path, &n);

    if (at < 0 || n < ROCE_MIN_PACKET) return;
    require((size_t)at + n <= len);
    fuzz_headers(ip + at, n);
    real = path.ip_id;
    if (roce_icrc_match_ipv4_any_id(&path, ip + at, n, &id)) {
        path.ip_id = id;
        require(roce_icrc_ok(&path, ip + at, n));
        path.ip_id = real;
    }
    /* The fuzzer will not guess an ICRC: give it the right one, and it must be found right, by both ways. */
    roce_icrc_end(roce_icrc(&path, ip + at, n), ip + at + n - ROCE_ICRC_LEN);
    require(roce_icrc_ok(&path, ip + at, n));
    if (!path.ipv6) require(roce_icrc_match_ipv4_any_id(&path, ip + at, n, &id) && id == real);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + !size);

    require(copy != NULL);
    memcpy(copy, data, size);
    fuzz_headers(copy, size);
    fuzz_icrc(copy, size);
    free(copy);
    return 0;
}
