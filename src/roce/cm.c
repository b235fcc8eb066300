/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes CM messages by one table of their fields. */
#include "src/roce/cm.h"

#include <string.h>

#include "src/roce/hdr.h"

/* A field: where it begins, in bits from the start of the message; its width in bits, or bytes for arrays. */
struct field {
    uint16_t bit, width;
    uint16_t at;
    bool bytes;
};

#define AT(byte, bit) ((byte)*8 + (bit))
#define BITS(byte, bit, width, name)                                                                         \
    {                                                                                                        \
        AT(byte, bit), width, offsetof(struct roce_cm, name), false                                          \
    }
#define BYTES(byte, len, name)                                                                               \
    {                                                                                                        \
        AT(byte, 0), len, offsetof(struct roce_cm, name), true                                               \
    }

/* clang-format off */
static const struct field req[] = {
    BITS(0, 0, 32, local_id), BITS(5, 0, 24, vendor_id), BITS(28, 0, 32, qkey), BITS(32, 0, 24, qpn),
    BITS(35, 0, 8, responder_resources), BITS(39, 0, 8, initiator_depth), BITS(43, 0, 5, remote_timeout),
    BITS(43, 5, 2, transport), BITS(43, 7, 1, flow_control), BITS(44, 0, 24, psn),
    BITS(47, 0, 5, local_timeout), BITS(47, 5, 3, retry_count), BITS(48, 0, 16, pkey), BITS(50, 0, 4, mtu),
    BITS(50, 5, 3, rnr_retry), BITS(51, 0, 4, max_retries), BITS(51, 4, 1, srq),
    BITS(51, 5, 3, ext_transport), BITS(52, 0, 16, slid), BITS(54, 0, 16, dlid), BYTES(56, 16, sgid),
    BYTES(72, 16, dgid), BITS(88, 0, 20, flow_label), BITS(91, 2, 6, rate), BITS(92, 0, 8, traffic_class),
    BITS(93, 0, 8, hop_limit), BITS(94, 0, 4, sl), BITS(94, 4, 1, subnet_local), BITS(95, 0, 5, ack_timeout),
};
static const struct field mra[] = {
    BITS(0, 0, 32, local_id), BITS(4, 0, 32, remote_id), BITS(8, 0, 2, about), BITS(9, 0, 5, service_timeout),
};
static const struct field rej[] = {
    BITS(0, 0, 32, local_id), BITS(4, 0, 32, remote_id), BITS(8, 0, 2, about), BITS(9, 0, 7, info_len),
    BITS(10, 0, 16, reason), BYTES(12, ROCE_CM_INFO, info),
};
static const struct field rep[] = {
    BITS(0, 0, 32, local_id), BITS(4, 0, 32, remote_id), BITS(8, 0, 32, qkey), BITS(12, 0, 24, qpn),
    BITS(20, 0, 24, psn), BITS(24, 0, 8, responder_resources), BITS(25, 0, 8, initiator_depth),
    BITS(26, 0, 5, ack_delay), BITS(26, 5, 2, failover), BITS(26, 7, 1, flow_control),
    BITS(27, 0, 3, rnr_retry), BITS(27, 3, 1, srq),
};
static const struct field ids[] = {BITS(0, 0, 32, local_id), BITS(4, 0, 32, remote_id)};
static const struct field dreq[] = {BITS(0, 0, 32, local_id), BITS(4, 0, 32, remote_id), BITS(8, 0, 24, qpn)};
static const struct field sidr_req[] = {BITS(0, 0, 32, local_id), BITS(4, 0, 16, pkey)};
static const struct field sidr_rep[] = {
    BITS(0, 0, 32, local_id), BITS(4, 0, 8, status), BITS(5, 0, 8, info_len), BITS(8, 0, 24, qpn),
    BITS(20, 0, 32, qkey), BYTES(24, ROCE_CM_INFO, info),
};

#define KIND(fields, private, service, guid)                                                                 \
    {                                                                                                        \
        fields, sizeof(fields) / sizeof((fields)[0]), private, service, guid                                 \
    }
/* clang-format on */

/* Of each kind: its fields, where private data begins (it reaches to the end), and the two 64-bit fields. */
static const struct kind {
    const struct field *fields;
    uint8_t count, private_at;
    int16_t service_at, guid_at;
} kinds[] = {
    KIND(req, 140, 8, 16), KIND(mra, 10, -1, -1),     KIND(rej, 84, -1, -1),
    KIND(rep, 36, -1, 28), KIND(ids, 8, -1, -1),      KIND(dreq, 12, -1, -1),
    KIND(ids, 8, -1, -1),  KIND(sidr_req, 16, 8, -1), KIND(sidr_rep, 96, 12, -1),
};

enum { MESSAGE = ROCE_MAD_LEN - ROCE_MAD_HDR };

static const struct kind *roce_cm_kind_of(uint16_t attr)
{
    return attr >= ROCE_CM_REQ && attr <= ROCE_CM_SIDR_REP ? &kinds[attr - ROCE_CM_REQ] : NULL;
}

uint32_t roce_cm_private_room(uint16_t attr)
{
    const struct kind *k = roce_cm_kind_of(attr);

    return k ? (uint32_t)MESSAGE - k->private_at : 0;
}

/* Big-endian numbers of n bytes. */
static uint64_t roce_cm_get(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;

    while (n--) v = v << 8 | *p++;
    return v;
}

static void roce_cm_put(uint8_t *p, uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++) p[i] = (uint8_t)(v >> 8 * (n - 1 - i));
}

static uint32_t get_bits(const uint8_t *p, const struct field *f)
{
    unsigned first = f->bit / 8, last = (f->bit + f->width - 1u) / 8;
    uint64_t v = roce_cm_get(p + first, last - first + 1) >> (7 - (f->bit + f->width - 1u) % 8);

    return (uint32_t)(v & ((UINT64_C(1) << f->width) - 1));
}

static void put_bits(uint8_t *p, const struct field *f, uint32_t value)
{
    unsigned first = f->bit / 8, n = (f->bit + f->width - 1u) / 8 - first + 1;
    unsigned shift = 7 - (f->bit + f->width - 1u) % 8;
    uint64_t mask = (UINT64_C(1) << f->width) - 1;

    roce_cm_put(p + first, roce_cm_get(p + first, n) | (value & mask) << shift, n);
}

/* REP has no room for the vendor in one piece: its bytes, the highest first, follow three numbers of 24 bits.
 */
static const uint8_t rep_vendor[3] = {15, 19, 23};

int roce_cm_parse(const uint8_t mad[ROCE_MAD_LEN], struct roce_cm *m)
{
    const uint8_t *p = mad + ROCE_MAD_HDR;
    uint16_t attr = (uint16_t)roce_cm_get(mad + 16, 2);
    const struct kind *k = roce_cm_kind_of(attr);

    if (mad[0] != 1 || mad[1] != ROCE_CM_CLASS || mad[2] != ROCE_CM_VERSION || mad[3] != ROCE_MAD_SEND || !k)
        return -1;
    memset(m, 0, sizeof(*m));
    m->attr = attr;
    m->tid = roce_cm_get(mad + 8, 8);
    m->attr_mod = (uint32_t)roce_cm_get(mad + 20, 4);
    for (unsigned i = 0; i < k->count; i++) {
        const struct field *f = &k->fields[i];
        void *at = (uint8_t *)m + f->at;

        if (f->bytes)
            memcpy(at, p + f->bit / 8, f->width);
        else
            *(uint32_t *)at = get_bits(p, f);
    }
    if (k->service_at >= 0) m->service_id = roce_cm_get(p + k->service_at, 8);
    if (k->guid_at >= 0) m->ca_guid = roce_cm_get(p + k->guid_at, 8);
    for (int i = 0; i < 3 && attr == ROCE_CM_REP; i++) m->vendor_id = m->vendor_id << 8 | p[rep_vendor[i]];
    if (m->info_len > ROCE_CM_INFO) m->info_len = ROCE_CM_INFO;
    m->private_len = roce_cm_private_room(attr);
    memcpy(m->private_data, p + k->private_at, m->private_len);
    return 0;
}

int roce_cm_build(uint8_t mad[ROCE_MAD_LEN], const struct roce_cm *m)
{
    uint8_t *p = mad + ROCE_MAD_HDR;
    const struct kind *k = roce_cm_kind_of(m->attr);
    uint32_t room = roce_cm_private_room(m->attr);

    if (!k) return -1;
    memset(mad, 0, ROCE_MAD_LEN);
    mad[0] = 1;
    mad[1] = ROCE_CM_CLASS;
    mad[2] = ROCE_CM_VERSION;
    mad[3] = ROCE_MAD_SEND;
    roce_cm_put(mad + 8, m->tid, 8);
    roce_cm_put(mad + 16, m->attr, 2);
    roce_cm_put(mad + 20, m->attr_mod, 4);
    for (unsigned i = 0; i < k->count; i++) {
        const struct field *f = &k->fields[i];
        const void *at = (const uint8_t *)m + f->at;

        if (f->bytes)
            memcpy(p + f->bit / 8, at, f->width);
        else
            put_bits(p, f, *(const uint32_t *)at);
    }
    if (k->service_at >= 0) roce_cm_put(p + k->service_at, m->service_id, 8);
    if (k->guid_at >= 0) roce_cm_put(p + k->guid_at, m->ca_guid, 8);
    for (int i = 0; i < 3 && m->attr == ROCE_CM_REP; i++)
        p[rep_vendor[i]] = (uint8_t)(m->vendor_id >> 8 * (2 - i));
    memcpy(p + k->private_at, m->private_data, m->private_len < room ? m->private_len : room);
    return 0;
}

bool roce_cm_receiver_id(const uint8_t mad[ROCE_MAD_LEN], uint32_t *id)
{
    uint16_t attr = (uint16_t)roce_cm_get(mad + 16, 2);

    if (mad[1] != ROCE_CM_CLASS || !roce_cm_kind_of(attr) || attr == ROCE_CM_REQ || attr == ROCE_CM_SIDR_REQ)
        return false;
    *id = (uint32_t)roce_cm_get(mad + ROCE_MAD_HDR + (attr == ROCE_CM_SIDR_REP ? 0 : 4), 4);
    return true;
}

bool roce_cm_receiver_of_packet(const uint8_t *p, size_t len, uint32_t *id)
{
    const size_t mad_at = ROCE_BTH_LEN + ROCE_DETH_LEN;

    if (len != mad_at + ROCE_MAD_LEN + ROCE_ICRC_LEN || p[0] != ROCE_UD_SEND_ONLY) return false;
    if (roce_cm_get(p + 5, 3) != ROCE_GSI_QPN) return false;
    return roce_cm_receiver_id(p + mad_at, id);
}

/* ---- rdma_cm ------------------------------------------------------------------------------------------- */

int roce_cma_parse(const uint8_t p[ROCE_CMA_HDR], struct roce_cma_hdr *h)
{
    unsigned version = p[1] >> 4;

    if (p[0] || (version != 4 && version != 6)) return -1;
    memset(h, 0, sizeof(*h));
    h->ipv6 = version == 6;
    h->port = (uint16_t)roce_cm_get(p + 2, 2);
    memcpy(h->src, p + 4, 16);
    memcpy(h->dst, p + 20, 16);
    return 0;
}

void roce_cma_build(uint8_t p[ROCE_CMA_HDR], const struct roce_cma_hdr *h)
{
    unsigned skip = h->ipv6 ? 0 : 12;

    memset(p, 0, ROCE_CMA_HDR);
    p[1] = h->ipv6 ? 6 << 4 : 4 << 4;
    roce_cm_put(p + 2, h->port, 2);
    memcpy(p + 4 + skip, h->src + skip, 16 - skip);
    memcpy(p + 20 + skip, h->dst + skip, 16 - skip);
}
