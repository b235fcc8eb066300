/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at the file before protobuf-c unpacks it. That library calls itself for each nested message and
 * merges a message that comes twice by copying; a hostile file could make it run out of stack or of time. So
 * nesting is bounded here, and a field that may come once comes once.
 */
#include <errno.h>

#include "src/model/import/wire.h"

#define MAX_DEPTH 16 /* the deepest the format has without control flow is 7, with an If in the graph 10 */

struct level {
    const ProtobufCMessageDescriptor *type;
    const uint8_t *end;
    uint64_t seen; /* bit per field number */
};

/* Reads a number of up to 64 bits; NULL when there is none. */
static const uint8_t *varint(const uint8_t *p, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;

    for (int shift = 0; p < end && shift < 64; shift += 7) {
        uint8_t b = *p++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *out = v;
            return p;
        }
    }
    return NULL;
}

/* Steps over a field's value, or into it when it is a message: then *into is its type. */
static const uint8_t *onnx_wire_field(struct level *at, const uint8_t *p, const uint8_t **end,
                                      const ProtobufCMessageDescriptor **into)
{
    uint64_t tag, n;

    *into = NULL;
    p = varint(p, at->end, &tag);
    if (!p || tag >> 32 || !(tag >> 3)) return NULL;
    switch (tag & 7) {
    case 0: return varint(p, at->end, &n);
    case 1: return at->end - p >= 8 ? p + 8 : NULL;
    case 5: return at->end - p >= 4 ? p + 4 : NULL;
    case 2: break;
    default: return NULL;
    }
    p = varint(p, at->end, &n);
    if (!p || n > (uint64_t)(at->end - p)) return NULL;
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field(at->type, (unsigned)(tag >> 3));
    if (!f || f->type != PROTOBUF_C_TYPE_MESSAGE) return p + n;
    if (f->label != PROTOBUF_C_LABEL_REPEATED && f->id < 64) {
        if (at->seen & (uint64_t)1 << f->id) return NULL;
        at->seen |= (uint64_t)1 << f->id;
    }
    *into = (const ProtobufCMessageDescriptor *)f->descriptor;
    *end = p + n;
    return p;
}

int gwm_wire_check(const ProtobufCMessageDescriptor *type, const uint8_t *p, size_t len)
{
    struct level stack[MAX_DEPTH];
    int depth = 0;

    stack[0] = (struct level){type, p + len, 0};
    while (depth >= 0) {
        const ProtobufCMessageDescriptor *into;
        const uint8_t *end;
        if (p == stack[depth].end) {
            depth--;
            continue;
        }
        p = onnx_wire_field(&stack[depth], p, &end, &into);
        if (!p) return -EBADMSG;
        if (!into) continue;
        if (++depth == MAX_DEPTH) return -ELOOP;
        stack[depth] = (struct level){into, end, 0};
    }
    return 0;
}
