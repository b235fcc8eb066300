/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private data of rdma_cm's messages. Big-endian, from a peer that may be anybody:
 *
 *     0  'g' 'w'   2  version   3  kind: 1 an offer, 2 a refusal
 *
 *     an offer:    4  address   12  length   20  rkey   24  path MTU / 256   25  bytes of data   28  data
 *
 *     a refusal:   4  text, ended by a zero or by the end
 */
#include <errno.h>
#include <string.h>

#include "src/verbs/cm.h"

enum { VERSION = 1, OFFER = 1, REFUSAL = 2 };

static void cm_data_put(uint8_t *at, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) at[i] = (uint8_t)(v >> 8 * (bytes - 1 - i));
}

static uint64_t cm_data_get(const uint8_t *at, unsigned bytes)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < bytes; i++) v = v << 8 | at[i];
    return v;
}

static void cm_data_head(uint8_t *out, uint8_t kind)
{
    out[0] = 'g';
    out[1] = 'w';
    out[2] = VERSION;
    out[3] = kind;
}

void gw_cm_pack(const struct gw_offer *offer, uint32_t mtu, uint8_t out[GW_CM_OFFER_BYTES])
{
    uint32_t n = offer->data_len;

    memset(out, 0, GW_CM_OFFER_BYTES);
    cm_data_head(out, OFFER);
    cm_data_put(out + 4, offer->region.addr, 8);
    cm_data_put(out + 12, offer->region.length, 8);
    cm_data_put(out + 20, offer->region.rkey, 4);
    out[24] = (uint8_t)(mtu / 256);
    out[25] = (uint8_t)n;
    memcpy(out + 28, offer->data, n);
}

int gw_cm_unpack(const void *data, size_t len, struct gw_offer *offer, uint32_t *mtu)
{
    const uint8_t *p = data;
    struct gw_offer o = {.data_len = 0};

    if (!p || len < 4 || p[0] != 'g' || p[1] != 'w')
        return gw_error(-EPROTO, "the peer does not speak gpuwire's connection protocol");
    if (p[2] != VERSION)
        return gw_error(-EPROTO,
                        "the peer speaks version %u of the connection protocol, this side %u: use the same "
                        "release at both ends",
                        p[2], VERSION);
    if (len < GW_CM_OFFER_BYTES || p[3] != OFFER || p[24] < 1 || p[24] > 16 || p[24] & (p[24] - 1) ||
        p[25] > GW_CM_DATA)
        return gw_error(-EPROTO, "the peer's connection message is malformed");
    o.region =
        (struct gw_region){cm_data_get(p + 4, 8), cm_data_get(p + 12, 8), (uint32_t)cm_data_get(p + 20, 4)};
    if (o.region.length && o.region.addr + (o.region.length - 1) < o.region.addr)
        return gw_error(-EPROTO, "the peer's memory region is out of range");
    *mtu = p[24] * 256u;
    o.data_len = p[25];
    memcpy(o.data, p + 28, o.data_len);
    *offer = o;
    return 0;
}

void gw_cm_pack_refusal(const char *why, uint8_t out[GW_CM_REFUSE_BYTES])
{
    memset(out, 0, GW_CM_REFUSE_BYTES);
    cm_data_head(out, REFUSAL);
    if (why) memcpy(out + 4, why, strnlen(why, GW_CM_REFUSE_BYTES - 5));
}

void gw_cm_unpack_refusal(const void *data, size_t len, char *why, size_t size)
{
    const uint8_t *p = data;
    size_t n = 0;

    if (p && len > 4 && p[0] == 'g' && p[1] == 'w' && p[3] == REFUSAL)
        for (; 4 + n < len && n + 1 < size && p[4 + n]; n++) {
            uint8_t c = p[4 + n];

            why[n] = c < 0x20 || c > 0x7e ? '?' : (char)c; /* nothing of it steers a terminal */
        }
    why[n] = 0;
}
