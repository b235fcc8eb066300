/* SPDX-License-Identifier: Apache-2.0 */
/* What is sent: request k of a link's direction, and the bytes of every message, from nothing but numbers. */
#include <string.h>

#include "traffic.h"

const char *const op_names[OP_KINDS] = {"SEND", "SEND_IMM",  "WRITE",  "WRITE_IMM",
                                        "READ", "FETCH_ADD", "CMP_SWP"};
const char *const link_names[LINK_TYPES] = {"rc", "srq", "xrc", "uc", "ud"};

uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = a + UINT64_C(0x9e3779b97f4a7c15) * (b + 1);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t word(uint64_t key, uint64_t i)
{
    uint64_t x = (key + i) * UINT64_C(0x9e3779b97f4a7c15);

    return x ^ (x >> 29);
}

void pattern_fill(void *buf, size_t len, uint64_t key, uint64_t at)
{
    uint8_t *p = buf;

    while (len) {
        uint64_t w = word(key, at / 8);
        size_t skip = at % 8, n = 8 - skip < len ? 8 - skip : len;

        memcpy(p, (uint8_t *)&w + skip, n);
        p += n;
        at += n;
        len -= n;
    }
}

int64_t pattern_check(const void *buf, size_t len, uint64_t key, uint64_t at)
{
    const uint8_t *p = buf;

    for (size_t i = 0; i < len;) {
        uint64_t w = word(key, (at + i) / 8);
        size_t skip = (at + i) % 8, n = 8 - skip < len - i ? 8 - skip : len - i;

        if (memcmp(p + i, (uint8_t *)&w + skip, n)) {
            while (p[i] == ((uint8_t *)&w)[skip]) i++, skip++;
            return (int64_t)i;
        }
        i += n;
    }
    return -1;
}

/* Most messages are small; every power of two and its neighbours come, up to the longest. */
static uint32_t choose_length(uint64_t h, uint32_t max)
{
    uint32_t class = h % 100, n;

    h = mix(h, 1);
    if (class < 4) return 0;
    if (class < 40)
        n = 1 + h % 64;
    else if (class < 70)
        n = 1 + h % 4096;
    else if (class < 85)
        n = (uint32_t)((UINT32_C(1) << h % 18) + (h >> 32) % 3) - 1;
    else
        n = 1 + h % max;
    return n > max ? max : n;
}

/*
 * The peer receives every fourth request, and so gets to look at the WRITEs before it. Every fourth asks for
 * a completion. So the window never fills with requests that complete in silence.
 */
static enum op_kind choose_kind(const struct script *s, uint64_t k, uint64_t h)
{
    static const enum op_kind received[] = {OP_SEND, OP_SEND_IMM, OP_WRITE_IMM};

    if (!link_is_reliable(s->type)) return OP_SEND_IMM;
    return k % 4 == 3 ? received[h % 3] : (enum op_kind)(h % OP_KINDS);
}

static uint32_t longest(const struct script *s, enum op_kind kind)
{
    switch (kind) {
    case OP_ADD:
    case OP_CAS: return 8;
    case OP_SEND:
    case OP_SEND_IMM: return s->type == LINK_UD ? s->mtu : RECEIVE_BYTES;
    default: return SLOT_BYTES;
    }
}

void op_make(const struct script *s, uint64_t k, struct op *op)
{
    uint64_t h = mix(mix(mix(mix(s->seed, s->round), s->link), s->from_server), k);

    memset(op, 0, sizeof(*op));
    op->kind = choose_kind(s, k, h);
    op->key = h = mix(h, 2);
    op->len = op->kind == OP_ADD || op->kind == OP_CAS ? 8 : choose_length(mix(h, 3), longest(s, op->kind));
    /* An unreliable link's messages say which they are. */
    op->imm = link_is_reliable(s->type) ? (uint32_t)mix(h, 4) : (uint32_t)k;
    op->offset = mix(h, 5) % (FIXED_BYTES - op->len + 1);
    h = mix(h, 6);
    op->pieces = 1 + h % PIECES;
    op->inl = h >> 8 & 1 && op->len <= INLINE_BYTES && (op->kind <= OP_WRITE_IMM);
    op->signaled = k % 4 == 3 || (h >> 9 & 1);
    op->fence = (h >> 10 & 7) == 0;
    op->solicited = h >> 13 & 1;
    op->miss = (h >> 14 & 3) == 0;
}
