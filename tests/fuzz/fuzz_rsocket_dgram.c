/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what a peer of an rsocket datagram socket may send: by UDP, a note, and by UD, a head. */
#include <stdlib.h>
#include <string.h>

#include <gpuwire/rsocket_datagram.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) abort();
}

/* What is taken comes out of the writer again, byte for byte except for unused bits. */
static void fuzz_head(const uint8_t *p, uint32_t n)
{
    uint8_t out[GW_DATAGRAM_HEAD_MAX], sa[sizeof(struct sockaddr_in6)];
    struct gw_datagram_addr from, again;
    int len = gw_datagram_head_get(p, n, &from);

    if (len < 0) return;
    require((len == 8 || len == GW_DATAGRAM_HEAD_MAX) && (uint32_t)len <= n &&
            gw_datagram_head_put(&from, out) == (uint32_t)len);
    require(!memcmp(out, p, 4) &&
            !memcmp(out + len - (len == 8 ? 4 : 16), p + len - (len == 8 ? 4 : 16), len == 8 ? 4 : 16));
    require(!gw_datagram_addr_of(sa, gw_datagram_addr_tell(&from, sa), &again) &&
            gw_datagram_same(&from, &again));
}

static void fuzz_note(const uint8_t *p, uint32_t n, uint32_t version)
{
    struct gw_datagram_addr from = {{version, 0, 0}};
    uint8_t out[GW_DATAGRAM_NOTE_MAX];
    struct gw_datagram_note note;
    int len = gw_datagram_note_get(p, n, version, &note);

    if (len < 0) return;
    require((uint32_t)len <= n && note.qpn > 1 && note.qpn <= 0xffffff);
    require(gw_datagram_note_put(&from, &note, out) == (uint32_t)len && !memcmp(out, p, 5) && out[6] == p[6]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1); /* so that a read past the end is noticed */
    struct gw_datagram_addr a;

    require(copy != NULL);
    memcpy(copy, data, size);
    fuzz_head(copy, (uint32_t)size);
    fuzz_note(copy, (uint32_t)size, 4);
    fuzz_note(copy, (uint32_t)size, 6);
    (void)gw_datagram_addr_of(copy, (uint32_t)size, &a);
    free(copy);
    return 0;
}
