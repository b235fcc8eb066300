/* SPDX-License-Identifier: Apache-2.0 */
/* Separates the raw tensors of a message from the part that protobuf-c reads. */
#include "src/server/grpc/wire/split.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#include <gpuwire/dtype.h>

/* ---- the parts ---- */

struct reader {
    const uint8_t *at, *end;
};

static int take_varint(struct reader *r, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        uint8_t byte = *r->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return 0;
    }
    return -1;
}

/* Passes over what follows a tag: what *bytes are at *data, when it has a length of its own. */
static int grpc_split_skip_value(struct reader *r, unsigned type, struct gw_grpc_raw *value)
{
    uint64_t n = 0;
    switch (type) {
    case 0: return take_varint(r, &n);
    case 1: n = 8; break;
    case 2:
        if (take_varint(r, &n)) return -1;
        break;
    case 5: n = 4; break;
    default: return -1; /* groups, which no message of ours has */
    }
    if (n > (uint64_t)(r->end - r->at)) return -1;
    *value = (struct gw_grpc_raw){r->at, (size_t)n};
    r->at += n;
    return 0;
}

/* What is not raw goes to `rest`, unless that is NULL. Returns its bytes; -1: the message is not valid. */
static ssize_t copy_rest(const uint8_t *message, size_t bytes, uint32_t raw, uint8_t *rest,
                         struct gw_grpc_parts *p)
{
    struct reader r = {message, message + bytes};
    size_t n = 0;
    p->raws = 0;
    while (r.at < r.end) {
        const uint8_t *from = r.at;
        struct gw_grpc_raw value;
        uint64_t tag;
        if (take_varint(&r, &tag) || grpc_split_skip_value(&r, tag & 7, &value)) return -1;
        if (tag == (raw << 3 | 2)) {
            if (p->raws < GW_GRPC_TENSORS) p->raw[p->raws] = value;
            p->raws++;
            continue;
        }
        if (rest) memcpy(rest + n, from, (size_t)(r.at - from));
        n += (size_t)(r.at - from);
    }
    return (ssize_t)n;
}

ProtobufCMessage *gw_grpc_split(const uint8_t *message, size_t bytes, uint32_t raw,
                                const ProtobufCMessageDescriptor *type, struct gw_grpc_arena *arena,
                                struct gw_grpc_parts *p)
{
    memset(p, 0, sizeof(*p));
    ssize_t rest = copy_rest(message, bytes, raw, NULL, p);
    gw_grpc_arena_open(arena, rest < 0 ? 0 : (size_t)rest);
    if (rest < 0) return NULL;
    if ((size_t)rest == bytes) return protobuf_c_message_unpack(type, &arena->allocator, bytes, message);
    uint8_t *copy = gw_grpc_arena_take(arena, (size_t)rest);
    if (!copy || copy_rest(message, bytes, raw, copy, p) != rest) return NULL;
    return protobuf_c_message_unpack(type, &arena->allocator, (size_t)rest, copy);
}

/* ---- elements ---- */

/* Where the message has elements of a type, and how many; `wide` is the width that protobuf-c gives them. */
struct elements {
    const void *data;
    size_t count, wide;
};

static struct elements elements_of(const Inference__InferTensorContents *c, uint32_t dtype)
{
    switch (dtype) {
    case GW_DTYPE_BOOL:
        return (struct elements){c->bool_contents, c->n_bool_contents, sizeof(protobuf_c_boolean)};
    case GW_DTYPE_I8:
    case GW_DTYPE_I16:
    case GW_DTYPE_I32: return (struct elements){c->int_contents, c->n_int_contents, 4};
    case GW_DTYPE_I64: return (struct elements){c->int64_contents, c->n_int64_contents, 8};
    case GW_DTYPE_U8:
    case GW_DTYPE_U16:
    case GW_DTYPE_U32: return (struct elements){c->uint_contents, c->n_uint_contents, 4};
    case GW_DTYPE_U64: return (struct elements){c->uint64_contents, c->n_uint64_contents, 8};
    case GW_DTYPE_F32: return (struct elements){c->fp32_contents, c->n_fp32_contents, 4};
    case GW_DTYPE_F64: return (struct elements){c->fp64_contents, c->n_fp64_contents, 8};
    default: return (struct elements){0};
    }
}

/* Does the value survive in so few bytes? Little-endian on both sides, so its first bytes are the narrow
 * one. */
static bool narrow(uint32_t dtype, const uint8_t *from, size_t width, uint8_t *to)
{
    int32_t v;
    uint32_t u;
    memcpy(&v, from, 4);
    memcpy(&u, from, 4);
    memcpy(to, from, width);
    switch (dtype) {
    case GW_DTYPE_BOOL: return v == 0 || v == 1;
    case GW_DTYPE_I8: return v == (int8_t)v;
    case GW_DTYPE_I16: return v == (int16_t)v;
    case GW_DTYPE_U8: return u <= UINT8_MAX;
    default: return u <= UINT16_MAX;
    }
}

int gw_grpc_contents(const Inference__InferTensorContents *c, uint32_t dtype, void *to, size_t count,
                     size_t *has)
{
    struct elements e = elements_of(c, dtype);
    size_t width = gw_dtype_bytes(dtype);
    *has = e.count;
    if (!e.wide) return -EINVAL;
    if (e.count != count) return -EMSGSIZE;
    if (e.wide == width && count) memcpy(to, e.data, count * width);
    for (size_t k = 0; e.wide != width && k < count; k++) {
        *has = k;
        if (!narrow(dtype, (const uint8_t *)e.data + k * e.wide, width, (uint8_t *)to + k * width))
            return -ERANGE;
    }
    return 0;
}
