/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of strangers through the balancer, in a sequence: every kind of service, both directions. What it forwards
 * must lie inside its buffer. Each frame has a block of its exact size, but for the room in front.
 *
 * The input is a row of records: a byte of flags, a byte of length / 4, and the frame from its IP header on. The flags
 * choose whose addresses are written over the frame's, whether the checksum of the IP header is put right (a fuzzer
 * does not guess one), and whether the clock runs on.
 */
#include <stdlib.h>
#include <string.h>

#include "src/balance/checksum.h"
#include "tests/balance/rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    ROOM = 64,
    TO_VIP = 1,
    FROM_WORKER = 2,
    SUM = 4,
    LATER = 8,
    WHICH = 0x30,
    NARROW_PORT = 0x40,
    IP6 = 0x80
};

static struct rig r;

static void require(bool ok)
{
    if (!ok) abort();
}

/* Services 0 to 7: TCP, UDP and RoCE in IPv4 and IPv6, by NAT and by the other ways. */
static void configure(void)
{
    static const uint8_t proto[4] = {BAL_TCP, BAL_UDP, BAL_ROCE, BAL_TCP};
    const struct bal_attr attr = {.flows = 1000, .wide_flows = 1000};
    require(!rig_open(&r, &attr));
    for (uint32_t i = 0; i < 8; i++) {
        struct bal_service *s = rig_service(&r, i, i & 4, proto[i & 3]);
        s->forward = (i & 3) == 3   ? (i & 4 ? BAL_GUE : BAL_IPIP)
                     : (i & 3) == 2 ? (i & 4 ? BAL_DR : BAL_NAT)
                                    : BAL_NAT;
        s->scheduler = (uint8_t)i;
        if ((i & 3) == 1) s->port = 0;
        for (uint32_t w = 0; w < 2; w++) rig_worker(&r, 2 * i + w, i);
    }
    require(!rig_publish(&r));
}

static void aim(uint8_t *ip, size_t len, uint8_t flags, bool ipv6)
{
    size_t n = ipv6 ? 16 : 4, hdr = ipv6 ? 40 : 20;
    uint32_t service = (flags & WHICH) >> 4 | (ipv6 ? 4 : 0);
    if (len < hdr) return;
    ip[0] = ipv6 ? 0x60 : 0x45;
    bal_put16(ip + (ipv6 ? 4 : 2), (uint32_t)(ipv6 ? len - hdr : len));
    if (flags & TO_VIP) memcpy(ip + hdr - n, r.config.service[service].vip.byte, n);
    if (flags & FROM_WORKER) memcpy(ip + hdr - 2 * n, r.config.worker[2 * service].addr.byte, n);
    if (flags & NARROW_PORT && len >= hdr + 4) bal_put16(ip + hdr + (flags & TO_VIP ? 2 : 0), 80);
    if (ipv6) return;
    bal_put16(ip + 10, 0);
    bal_checksum_write(ip + 10, bal_sum(ip, 20));
}

static void one_frame(const uint8_t *data, size_t len, uint8_t flags)
{
    size_t whole = ROOM + BAL_ETH_LEN + len;
    uint8_t *buffer = malloc(whole);
    require(buffer);
    memset(buffer, 2, ROOM + BAL_ETH_LEN);
    bool ipv6 = flags & IP6;
    bal_put16(buffer + ROOM + 12, ipv6 ? BAL_ETH_IP6 : BAL_ETH_IP4);
    memcpy(buffer + ROOM + BAL_ETH_LEN, data, len);
    if (flags & SUM)
        aim(buffer + ROOM + BAL_ETH_LEN, len, flags, ipv6);
    else if (len > 1)
        memcpy(buffer + ROOM + 12, data, 2); /* any Ethernet type */
    struct bal_packet p = {.data = buffer + ROOM, .len = (uint32_t)(BAL_ETH_LEN + len), .headroom = ROOM};
    if (flags & LATER) r.now += UINT64_C(3000000000);
    gw_balance_burst(r.core, &p, 1, r.now += 1000);
    require(p.verdict == BAL_SEND || p.verdict == BAL_DISCARD);
    if (p.verdict == BAL_SEND) {
        require(p.data >= buffer && p.data + p.len <= buffer + whole);
        require(p.headroom == (uint32_t)(p.data - buffer));
        require(p.port == 0);
    }
    struct bal_frame frame[BAL_OUTBOX];
    size_t n = bal_core_frames(r.core, frame, BAL_OUTBOX);
    for (size_t i = 0; i < n; i++) require(frame[i].len <= sizeof(frame[i].data));
    free(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!r.bal) configure();
    r.now += UINT64_C(7200000000000); /* the flows of the last input have ended: each begins alike */
    gw_balance_burst(r.core, NULL, 0, r.now);
    while (size > 2) {
        uint8_t flags = data[0];
        size_t len = (size_t)data[1] * 2;
        data += 2, size -= 2;
        if (len > size) len = size;
        one_frame(data, len, flags);
        data += len, size -= len;
    }
    bal_core_keep(r.core, r.now += 1000000000);
    require(bal_core_frames(r.core, (struct bal_frame[BAL_OUTBOX]){{0}}, BAL_OUTBOX) <= BAL_OUTBOX);
    return 0;
}
