/* SPDX-License-Identifier: Apache-2.0 */
/* The table of methods that the server answers by gRPC. */
#include "src/server/grpc/methods.h"

#include <stdbool.h>
#include <string.h>

#include <gpuwire/sync.h>

#include "health.pb-c.h"
#include "inference.pb-c.h"
#include "src/server/grpc/reply.h"

static bool grpc_methods_ready(const struct gw_grpc_service *s)
{
    struct gw_infer_error why;
    return !gw_infer_check_ready(s->infer, &why) && !gw_ld_relaxed_u32(&s->closing); /* a number by itself */
}

static void server_live(void *service, struct gw_grpc_turn *turn)
{
    Inference__ServerLiveResponse r = INFERENCE__SERVER_LIVE_RESPONSE__INIT;
    (void)service;
    r.live = 1;
    gw_grpc_reply(turn, &r.base);
}

static void server_ready(void *service, struct gw_grpc_turn *turn)
{
    Inference__ServerReadyResponse r = INFERENCE__SERVER_READY_RESPONSE__INIT;
    r.ready = grpc_methods_ready(service);
    gw_grpc_reply(turn, &r.base);
}

/* Every model that is there is ready. */
static void model_ready(void *service, struct gw_grpc_turn *turn)
{
    struct gw_grpc_service *s = service;
    struct gw_grpc_arena arena;
    struct gw_infer_error error;
    struct gw_infer_model m;
    Inference__ModelReadyResponse r = INFERENCE__MODEL_READY_RESPONSE__INIT;
    const Inference__ModelReadyRequest *q = (const Inference__ModelReadyRequest *)gw_grpc_request(
        turn, &inference__model_ready_request__descriptor, &arena);
    if (q) {
        gw_infer_enter(s->infer);
        r.ready = grpc_methods_ready(s) && !gw_infer_find(s->infer, q->name, q->version, &m, &error);
        gw_infer_leave(s->infer);
        gw_grpc_reply(turn, &r.base);
    }
    gw_grpc_arena_close(&arena);
}

static void grpc_methods_server_metadata(void *service, struct gw_grpc_turn *turn)
{
    static const char *const extensions[] = {"model_configuration", "model_repository", "statistics",
                                             "system_shared_memory", "rdma"};
    Inference__ServerMetadataResponse r = INFERENCE__SERVER_METADATA_RESPONSE__INIT;
    (void)service;
    r.name = (char *)"gpuwire";
    r.version = (char *)GW_VERSION;
    r.extensions = (char **)extensions;
    r.n_extensions = sizeof(extensions) / sizeof(extensions[0]);
    gw_grpc_reply(turn, &r.base);
}

static void grpc_methods_health(void *service, struct gw_grpc_turn *turn)
{
    struct gw_grpc_arena arena;
    Grpc__Health__V1__HealthCheckResponse r = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    const Grpc__Health__V1__HealthCheckRequest *q =
        (const Grpc__Health__V1__HealthCheckRequest *)gw_grpc_request(
            turn, &grpc__health__v1__health_check_request__descriptor, &arena);
    if (q && *q->service && strcmp(q->service, "inference.GRPCInferenceService")) {
        gw_grpc_refuse(turn, GW_GRPC_NOT_FOUND, "no such service; \"\" is the whole server");
    } else if (q) {
        r.status = grpc_methods_ready(service)
                       ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                       : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
        gw_grpc_reply(turn, &r.base);
    }
    gw_grpc_arena_close(&arena);
}

static void unsupported(void *service, struct gw_grpc_turn *turn)
{
    (void)service;
    gw_grpc_refuse(turn, GW_GRPC_UNIMPLEMENTED, "this server does not support the call");
}

#define SERVICE(method) "/inference.GRPCInferenceService/" method

const struct gw_grpc_method gw_grpc_methods[] = {
    {.path = SERVICE("ModelInfer"), .waits = 1, .run = gw_grpc_model_infer},
    {.path = SERVICE("ModelStreamInfer"), .waits = 1, .stream = 1, .run = gw_grpc_model_infer},
    {.path = SERVICE("ServerLive"), .health = 1, .run = server_live},
    {.path = SERVICE("ServerReady"), .health = 1, .run = server_ready},
    {.path = SERVICE("ModelReady"), .waits = 1, .run = model_ready},
    {.path = SERVICE("ServerMetadata"), .run = grpc_methods_server_metadata},
    {.path = SERVICE("ModelMetadata"), .waits = 1, .run = gw_grpc_model_metadata},
    {.path = SERVICE("ModelConfig"), .waits = 1, .run = gw_grpc_model_config},
    {.path = SERVICE("ModelStatistics"), .waits = 1, .run = gw_grpc_model_statistics},
    {.path = SERVICE("RepositoryIndex"), .run = gw_grpc_repository_index},
    {.path = SERVICE("RepositoryModelLoad"), .waits = 1, .run = gw_grpc_repository_load},
    {.path = SERVICE("RepositoryModelUnload"), .waits = 1, .run = gw_grpc_repository_unload},
    {.path = SERVICE("SystemSharedMemoryStatus"), .run = gw_grpc_system_status},
    {.path = SERVICE("SystemSharedMemoryRegister"), .run = gw_grpc_system_register},
    {.path = SERVICE("SystemSharedMemoryUnregister"), .run = gw_grpc_system_unregister},
    {.path = SERVICE("CudaSharedMemoryStatus"), .run = gw_grpc_cuda_status},
    {.path = SERVICE("CudaSharedMemoryRegister"), .waits = 1, .run = gw_grpc_cuda_register},
    {.path = SERVICE("CudaSharedMemoryUnregister"), .waits = 1, .run = gw_grpc_cuda_unregister},
    {.path = SERVICE("TraceSetting"), .run = unsupported},
    {.path = SERVICE("LogSettings"), .run = unsupported},
    {.path = "/grpc.health.v1.Health/Check", .health = 1, .run = grpc_methods_health},
    {0},
};
