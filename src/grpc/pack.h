/* SPDX-License-Identifier: Apache-2.0 */
/* Messages into gRPC's byte buffers: what protobuf-c packs, and tensors behind it that it never sees. */
#ifndef GW_GRPC_PACK_H
#define GW_GRPC_PACK_H

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <protobuf-c/protobuf-c.h>

grpc_slice gw_grpc_packed(const ProtobufCMessage *message);
/* What stands before `length` bytes that are a field's value. */
grpc_slice gw_grpc_prefix(unsigned field, uint64_t length);
/* Takes the slices. */
grpc_byte_buffer *gw_grpc_buffer(grpc_slice *slice, size_t n);

#endif
