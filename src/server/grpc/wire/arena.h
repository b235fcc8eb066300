/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for one decoded message, given back at once. It is limited: a hostile message of a few bytes a field
 * would otherwise become a structure of a hundred bytes a field. */
#ifndef GW_SERVER_GRPC_WIRE_ARENA_H
#define GW_SERVER_GRPC_WIRE_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

struct gw_grpc_arena {
    ProtobufCAllocator allocator; /* what protobuf-c takes */
    struct gw_grpc_chunk *chunk;
    size_t used, most; /* bytes */
};

/* For a message of `bytes` bytes. */
void gw_grpc_arena_open(struct gw_grpc_arena *a, size_t message_bytes);
void gw_grpc_arena_close(struct gw_grpc_arena *a);
/* Aligned for anything; NULL: the limit is reached, or there is no memory. */
void *gw_grpc_arena_take(struct gw_grpc_arena *a, size_t bytes);

#endif
