/* SPDX-License-Identifier: Apache-2.0 */
/* The server's gRPC services: inference.GRPCInferenceService and grpc.health.v1.Health. */
#ifndef GW_SERVER_GRPC_METHODS_H
#define GW_SERVER_GRPC_METHODS_H

#include "src/server/grpc/call.h"
#include "src/server/requests/infer.h"

/* The methods' ctx. */
struct gw_grpc_service {
    struct gw_infer *infer;
    const char *version; /* of the server */
    int closing;         /* atomic: the server is about to end */
};

/* Ends with one that has no path. */
extern const struct gw_grpc_method gw_grpc_methods[];

/* In files of their own. */
void gw_grpc_model_infer(void *service, struct gw_grpc_turn *turn);
void gw_grpc_model_metadata(void *service, struct gw_grpc_turn *turn);
void gw_grpc_model_config(void *service, struct gw_grpc_turn *turn);
void gw_grpc_model_statistics(void *service, struct gw_grpc_turn *turn);
void gw_grpc_repository_index(void *service, struct gw_grpc_turn *turn);
void gw_grpc_repository_load(void *service, struct gw_grpc_turn *turn);
void gw_grpc_repository_unload(void *service, struct gw_grpc_turn *turn);
void gw_grpc_system_status(void *service, struct gw_grpc_turn *turn);
void gw_grpc_system_register(void *service, struct gw_grpc_turn *turn);
void gw_grpc_system_unregister(void *service, struct gw_grpc_turn *turn);
void gw_grpc_cuda_status(void *service, struct gw_grpc_turn *turn);
void gw_grpc_cuda_register(void *service, struct gw_grpc_turn *turn);
void gw_grpc_cuda_unregister(void *service, struct gw_grpc_turn *turn);

#endif
