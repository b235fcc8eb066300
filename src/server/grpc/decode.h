/* SPDX-License-Identifier: Apache-2.0 */
/* ModelInferRequest, the message, becomes gw_infer_request. The tensors stay where they came in: nothing of
 * them is copied before a slot takes them. */
#ifndef GW_SERVER_GRPC_DECODE_H
#define GW_SERVER_GRPC_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "src/server/grpc/wire/split.h"
#include "src/server/requests/infer.h"

/* Points into the message, which outlives it. */
struct gw_grpc_request {
    struct gw_infer_request infer;
    const char *id;
    const Inference__InferTensorContents *contents[GW_MODEL_MAX_IO]; /* of input i; NULL: see raw */
    struct gw_grpc_raw raw[GW_MODEL_MAX_IO];
    struct gw_grpc_arena arena;
};

/* 0, or -1 with *error. Either way gw_grpc_request_free follows. */
int gw_grpc_decode(const uint8_t *message, size_t bytes, struct gw_grpc_request *q,
                   struct gw_infer_error *error);
void gw_grpc_request_free(struct gw_grpc_request *q);

/* Writes input i's elements, `bytes` of type `dtype`, in the form that models take. 0, or -1 with *error. */
int gw_grpc_fill(const struct gw_grpc_request *q, uint32_t i, uint32_t dtype, void *to, uint64_t bytes,
                 struct gw_infer_error *error);

#endif
