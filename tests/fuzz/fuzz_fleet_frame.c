/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes are what a peer of a fleet sends, in pieces of any length. The frames that come out must be those
 * that stand in the bytes, in their order and whole, each body at a multiple of 8; a claimed length takes no
 * memory before its bytes come. What a text's check lets through must be printable.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/fleet/wire/inbox.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 3000, LAST = 0x4141 }; /* LAST: the last frame that is taken */

static struct {
    const uint8_t *next, *end;
    unsigned taken;
    bool ended;
} expected;

static void require(bool ok)
{
    if (!ok) abort();
}

static bool take(void *ctx, const struct fleet_frame *f, const void *body)
{
    size_t left = (size_t)(expected.end - expected.next);
    (void)ctx;
    require(left >= sizeof(*f) + f->bytes && !f->flags && f->bytes <= MOST);
    require(!memcmp(expected.next, f, sizeof(*f)));
    require((uintptr_t)body % 8 == 0 && !memcmp(expected.next + sizeof(*f), body, f->bytes));
    expected.next += sizeof(*f) + f->bytes;
    expected.taken++;
    if (f->bytes >= FLEET_WHY) fleet_text_ok(body, FLEET_WHY);
    expected.ended = f->kind == LAST;
    return !expected.ended;
}

/* How many frames stand there whole, before one that is wrong. */
static unsigned count(const uint8_t *at, size_t n, bool *wrong)
{
    unsigned frames = 0;
    struct fleet_frame f;
    for (*wrong = false; n >= sizeof(f); frames++) {
        memcpy(&f, at, sizeof(f));
        *wrong = f.flags || f.bytes > MOST;
        if (*wrong || n < sizeof(f) + f.bytes) break;
        at += sizeof(f) + f.bytes;
        n -= sizeof(f) + f.bytes;
        if (f.kind == LAST) return frames + 1;
    }
    return frames;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t read_room[FLEET_SCRATCH] __attribute__((aligned(8)));
    static uint8_t aligned_room[FLEET_SCRATCH] __attribute__((aligned(8)));
    static struct fleet_scratch_room scratch = {read_room, aligned_room};
    struct fleet_inbox in = {.most = MOST, .scratch = &scratch, .take = take};
    if (size < 2) return 0;
    size_t piece = data[0] + 1u, n = size - 1;
    bool wrong;
    int err = 0;
    unsigned frames = count(data + 1, n, &wrong);
    expected.next = data + 1;
    expected.end = data + size;
    expected.taken = 0;
    expected.ended = false;
    for (size_t at = 0; at < n && !err && !expected.ended; at += piece) {
        err = fleet_inbox_feed(&in, data + 1 + at, piece < n - at ? piece : n - at);
        require(in.room <= 2 * MOST + 4096);
    }
    require(expected.taken == frames);
    if (!expected.ended) require((err != 0) == wrong && (!err || err == -EPROTO || err == -EMSGSIZE));
    in.have = 0;
    fleet_inbox_trim(&in);
    return 0;
}
