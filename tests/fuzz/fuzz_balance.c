/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of strangers through the balancer, in a sequence: every kind of service, both directions. What it
 * forwards must lie inside its buffer. Each frame has a block of its exact size, but for the room in front.
 *
 * The input is a row of records of 8 bytes. A record says what kind of packet it is, of which client and
 * service, and in which direction. Then it says what is changed: a byte anywhere, the length. IPv4's checksum
 * may be put right afterwards, because a fuzzer does not guess one. The clock may run on.
 */
#include <stdlib.h>
#include <string.h>

#include "src/balance/checksum.h"
#include "src/balance/frames.h"
#include "src/balance/rewrite.h"
#include "src/roce/cm.h"
#include "src/roce/hdr.h"
#include "tests/balance/rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROOM = 64, RECORD = 8 };

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

struct record {
    uint8_t kind, service, client, what, at, with, cut, how;
};
enum { CHANGE = 1, SUM = 2, LATER = 4, TAG = 8, BACK = 16 };

static void roce(struct rig_packet *p, struct bal_addr from, struct bal_addr to, const struct record *rec)
{
    uint8_t bytes[300] = {ROCE_UD_SEND_ONLY, 0, 0xff, 0xff, 0, 0, 0, 1};
    if (rec->kind & 8) { /* a message of the connection manager */
        struct roce_cm cm = {
            .attr = (uint16_t)(ROCE_CM_REQ + rec->what % 9), .local_id = rec->client & 3, .qpn = rec->at & 3};
        cm.remote_id = cm.local_id;
        roce_cm_build(bytes + 20, &cm);
        rig_roce(p, from, to, bytes, 20 + ROCE_MAD_LEN);
        return;
    }
    bytes[0] = rec->what;
    bytes[7] = rec->client & 3;
    rig_roce(p, from, to, bytes, rec->with);
}

static void make(struct rig_packet *p, const struct record *rec)
{
    static struct rig_packet about;
    uint32_t service = rec->service & 7;
    bool ipv6 = service & 4, back = rec->how & BACK;
    struct rig_end client = {ipv6 ? rig_ip6(rec->client & 15) : rig_ip4(0x0a800000u | (rec->client & 15)),
                             5000};
    struct rig_end vip = {r.config.service[service].vip, 80},
                   worker = {r.config.worker[2 * service].addr, 80};
    struct rig_end from = back ? worker : client, to = back ? client : vip;
    switch (rec->kind & 7) {
    case 0:
    case 1: rig_tcp(p, from, to, rec->what, rec->with); break;
    case 2: rig_udp(p, from, to, rec->with); break;
    case 3:
    case 4: roce(p, from.addr, to.addr, rec); break;
    case 5:
        rig_udp(&about, back ? client : vip, back ? worker : client, 20);
        rig_error(p, from.addr, &about);
        break;
    case 6:
        rig_udp(&about, from, to, 100);
        if (ipv6)
            rig_arrive(p, about.p.data, about.p.len);
        else
            rig_fragment(p, &about, rec->what & 1 ? 64 : 0, 44);
        break;
    default: { /* ARP or a neighbour's message, from the wire's first byte on */
        struct bal_link link = {0, (const uint8_t[6]){2, 1, 1, 1, 1, 1}, client.addr};
        uint8_t frame[110];
        uint8_t len = rec->what & 1 ? bal_ask_frame(frame, &link, &vip.addr)
                                    : bal_answer_frame(frame, &link, link.mac, &worker.addr);
        rig_arrive(p, frame, len);
    }
    }
}

static void change(struct rig_packet *p, const struct record *rec)
{
    uint8_t *ip = p->p.data + BAL_ETH_LEN;
    if (rec->how & CHANGE) p->p.data[12 + rec->at % (p->p.len - 12)] ^= (uint8_t)(rec->with | 1);
    if (rec->how & TAG && p->p.len > 20) memcpy(p->p.data + 12, (uint8_t[]){0x81, 0, 0, rec->with}, 4);
    if (rec->cut < p->p.len && rec->cut) p->p.len -= rec->cut;
    if (!(rec->how & SUM) || p->p.len < BAL_ETH_LEN + 20) return;
    uint32_t hdr = (ip[0] & 15u) * 4;
    if (p->p.len < BAL_ETH_LEN + hdr || hdr < 20) return;
    if (rec->cut) bal_put16(ip + 2, p->p.len - BAL_ETH_LEN);
    bal_put16(ip + 10, 0);
    bal_checksum_write(ip + 10, bal_sum(ip, hdr));
}

/* The parser's short way finds what its long way finds. */
static void parse_both_ways(const uint8_t *frame, size_t len)
{
    struct bal_meta m, any;
    int rc = bal_parse(frame, len, &m);
    require(rc == bal_parse_any(frame, len, &any) && (rc || rig_same_meta(&m, &any)));
}

static void one_frame(const struct record *rec)
{
    static struct rig_packet made;
    make(&made, rec);
    change(&made, rec);
    size_t whole = ROOM + made.p.len;
    uint8_t *buffer = malloc(whole);
    require(buffer);
    memcpy(buffer + ROOM, made.p.data, made.p.len);
    struct bal_packet p = {.data = buffer + ROOM, .len = made.p.len, .headroom = ROOM};
    parse_both_ways(p.data, p.len);
    if (rec->how & LATER) r.now += UINT64_C(3000000000);
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

/* The bytes themselves as a frame, of any kind. */
static void raw(const uint8_t *data, size_t size)
{
    uint8_t *buffer = malloc(ROOM + size);
    require(buffer);
    if (size) memcpy(buffer + ROOM, data, size);
    struct bal_packet p = {.data = buffer + ROOM, .len = (uint32_t)size, .headroom = ROOM};
    parse_both_ways(p.data, p.len);
    gw_balance_burst(r.core, &p, 1, r.now += 1000);
    free(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!r.bal) configure();
    r.now += UINT64_C(7200000000000); /* the flows of the last input have ended: each begins alike */
    gw_balance_burst(r.core, NULL, 0, r.now);
    raw(data, size);
    for (; size >= RECORD; data += RECORD, size -= RECORD) {
        struct record rec;
        memcpy(&rec, data, RECORD);
        one_frame(&rec);
    }
    bal_core_keep(r.core, r.now += 1000000000);
    require(bal_core_frames(r.core, (struct bal_frame[BAL_OUTBOX]){{0}}, BAL_OUTBOX) <= BAL_OUTBOX);
    return 0;
}
