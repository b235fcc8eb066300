/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to be sent: what protobuf-c packs, followed by tensors that it never sees. */
#ifndef GW_SERVER_GRPC_WIRE_PACK_H
#define GW_SERVER_GRPC_WIRE_PACK_H

#include <protobuf-c/protobuf-c.h>

#include "src/server/grpc/wire/message.h"

/* One that protobuf-c packs all of. NULL: no memory. */
struct gw_grpc_message *gw_grpc_pack(const ProtobufCMessage *m);

/* Bytes that become the value of a field. */
struct gw_grpc_piece {
    const void *data;
    size_t bytes;
};

/* `m`, then each piece as a value of the field `field`. With `inside` other than 0 all of it is the value of
 * the one field `inside`. NULL: no memory, or it is too long. */
struct gw_grpc_message *gw_grpc_pack_with(const ProtobufCMessage *m, unsigned field,
                                          const struct gw_grpc_piece *piece, size_t pieces, unsigned inside);

#endif
