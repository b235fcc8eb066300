/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a peer may say while two queue pairs meet: a record's text, and the private data of
 * rdma_cm's messages. What is taken must come out of the writer again with the same meaning.
 */
#include <stdlib.h>
#include <string.h>

#include "src/verbs/cm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) abort();
}

static bool same_region(const struct gw_region *a, const struct gw_region *b)
{
    return a->addr == b->addr && a->length == b->length && a->rkey == b->rkey;
}

static void fuzz_text(const uint8_t *data, size_t size)
{
    struct gw_record r, again;
    char *text = malloc(size + 1), out[GW_RECORD_TEXT];

    require(text != NULL);
    memcpy(text, data, size);
    text[size] = 0;
    if (!gw_record_parse(text, &r)) {
        gw_record_format(&r, out);
        require(!gw_record_parse(out, &again));
        require(!memcmp(&r.ep, &again.ep, sizeof(r.ep)) && same_region(&r.region, &again.region));
        require(r.ep.qpn >= 2 && r.ep.qpn <= 0xffffff && r.ep.psn <= 0xffffff && r.ep.mtu >= 256 &&
                r.ep.mtu <= 4096);
    }
    if (!gw_endpoint_parse(text, &r.ep)) require(!gw_record_parse(text, &again) && !again.region.length);
    free(text);
}

static void fuzz_private_data(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1), out[GW_CM_OFFER_BYTES];
    struct gw_offer o, again;
    uint32_t mtu, mtu_again;
    char why[GW_CM_REFUSE_BYTES];

    require(copy != NULL);
    memcpy(copy, data, size);
    if (!gw_cm_unpack(copy, size, &o, &mtu)) {
        gw_cm_pack(&o, mtu, out);
        require(!gw_cm_unpack(out, sizeof(out), &again, &mtu_again) && mtu == mtu_again);
        require(o.data_len == again.data_len && !memcmp(o.data, again.data, o.data_len));
        require(same_region(&o.region, &again.region));
    }
    gw_cm_unpack_refusal(copy, size, why, sizeof(why));
    for (const char *c = why; *c; c++) require(*c >= ' ' && *c <= '~');
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_text(data, size);
    fuzz_private_data(data, size);
    return 0;
}
