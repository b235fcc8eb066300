/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a gRPC server: a ModelInferResponse becomes a reply, descriptions become the JSON that HTTP
 * gives. It needs no gRPC. */
#ifndef GW_CLIENT_GRPC_ANSWER_H
#define GW_CLIENT_GRPC_ANSWER_H

#include <jansson.h>

#include "src/client/impl.h"

struct gw_grpc_outputs {
    uint8_t *data; /* kept from answer to answer */
    size_t room;
    char why[320];
};

/* Reads a ModelInferResponse to a request of `rows` rows; fills error, why, outputs and out of *reply. */
void gw_grpc_read_answer(const struct gw_client *c, struct gw_grpc_outputs *to, const uint8_t *message,
                         size_t bytes, uint32_t rows, struct gw_client_reply *reply);
void gw_grpc_outputs_free(struct gw_grpc_outputs *to);

/* ModelMetadataResponse, ModelConfigResponse and ModelStatisticsResponse, as far as describe.h looks at them.
 * NULL: the message is not one, or names are no text. */
json_t *gw_grpc_read_metadata(const uint8_t *message, size_t bytes);
json_t *gw_grpc_read_config(const uint8_t *message, size_t bytes);
json_t *gw_grpc_read_statistics(const uint8_t *message, size_t bytes);

#endif
