/* SPDX-License-Identifier: Apache-2.0 */
#include "src/grpc/pack.h"

#define PREFIX_MOST 11 /* a tag of one byte and a length of ten at most */

static size_t put_prefix(uint8_t *to, unsigned field, uint64_t length)
{
    size_t n = 0;
    to[n++] = (uint8_t)(field << 3 | 2);
    for (; length >= 0x80; length >>= 7) to[n++] = (uint8_t)(length | 0x80);
    to[n++] = (uint8_t)length;
    return n;
}

grpc_slice gw_grpc_packed(const ProtobufCMessage *m)
{
    grpc_slice s = grpc_slice_malloc(protobuf_c_message_get_packed_size(m));
    protobuf_c_message_pack(m, GRPC_SLICE_START_PTR(s));
    return s;
}

grpc_slice gw_grpc_prefix(unsigned field, uint64_t length)
{
    uint8_t bytes[PREFIX_MOST];
    size_t n = put_prefix(bytes, field, length);
    return grpc_slice_from_copied_buffer((const char *)bytes, n);
}

grpc_byte_buffer *gw_grpc_buffer(grpc_slice *slice, size_t n)
{
    grpc_byte_buffer *b = grpc_raw_byte_buffer_create(slice, n);
    for (size_t i = 0; i < n; i++) grpc_slice_unref(slice[i]);
    return b;
}
