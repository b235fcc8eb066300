/* SPDX-License-Identifier: Apache-2.0 */
/* A message of the protocol in two parts: tensors as raw bytes, which stay where they are, and the rest,
 * which protobuf-c takes. Requests and answers have the same form. */
#ifndef GW_SERVER_GRPC_WIRE_SPLIT_H
#define GW_SERVER_GRPC_WIRE_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "inference.pb-c.h"
#include "src/server/grpc/wire/arena.h"

#define GW_GRPC_TENSORS 16 /* of one message */

/* Fields' numbers in ModelInferRequest and ModelInferResponse. */
#define GW_GRPC_RAW_INPUTS  7u
#define GW_GRPC_RAW_OUTPUTS 6u

struct gw_grpc_raw {
    const uint8_t *data;
    size_t bytes;
};

struct gw_grpc_parts {
    uint32_t raws; /* how many the message has; the first GW_GRPC_TENSORS of them are in raw */
    struct gw_grpc_raw raw[GW_GRPC_TENSORS];
};

/* Opens the arena, and unpacks all but the field `raw` into it; the caller closes it either way. NULL: the
 * message is not of that type. What is found points into the message. */
ProtobufCMessage *gw_grpc_split(const uint8_t *message, size_t bytes, uint32_t raw,
                                const ProtobufCMessageDescriptor *type, struct gw_grpc_arena *arena,
                                struct gw_grpc_parts *parts);

/* Elements that come as numbers instead: copies `count` of that type. 0; -EINVAL: the type comes as raw bytes
 * only; -EMSGSIZE: there are *has instead; -ERANGE: element *has does not fit into the type. */
int gw_grpc_contents(const Inference__InferTensorContents *contents, uint32_t dtype, void *to, size_t count,
                     size_t *has);

#endif
