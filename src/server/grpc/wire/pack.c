/* SPDX-License-Identifier: Apache-2.0 */
/* Packs a message for sending, with tensors behind what protobuf-c packs. */
#include "src/server/grpc/wire/pack.h"

#include <string.h>

#define MAX_PREFIX 11 /* a tag of one byte and a length of ten at most */

static size_t put_prefix(uint8_t *to, unsigned field, uint64_t length)
{
    size_t n = 0;
    to[n++] = (uint8_t)(field << 3 | 2);
    for (; length >= 0x80; length >>= 7) to[n++] = (uint8_t)(length | 0x80);
    to[n++] = (uint8_t)length;
    return n;
}

struct gw_grpc_message *gw_grpc_pack(const ProtobufCMessage *m)
{
    return gw_grpc_pack_with(m, 0, NULL, 0, 0);
}

struct gw_grpc_message *gw_grpc_pack_with(const ProtobufCMessage *m, unsigned field,
                                          const struct gw_grpc_piece *piece, size_t pieces, unsigned inside)
{
    uint8_t prefix[MAX_PREFIX];
    uint64_t length = protobuf_c_message_get_packed_size(m);
    for (size_t i = 0; i < pieces; i++) length += put_prefix(prefix, field, piece[i].bytes) + piece[i].bytes;
    struct gw_grpc_message *out =
        gw_grpc_message_new(length + (inside ? put_prefix(prefix, inside, length) : 0));
    if (!out) return NULL;
    uint8_t *to = gw_grpc_message_body(out);
    if (inside) to += put_prefix(to, inside, length);
    to += protobuf_c_message_pack(m, to);
    for (size_t i = 0; i < pieces; i++) {
        to += put_prefix(to, field, piece[i].bytes);
        if (piece[i].bytes) memcpy(to, piece[i].data, piece[i].bytes);
        to += piece[i].bytes;
    }
    return out;
}
