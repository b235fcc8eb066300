/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory: registering, forgetting, listing. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inference.pb-c.h"
#include "src/server/grpc/methods.h"
#include "src/server/grpc/reply.h"

typedef Inference__SystemSharedMemoryStatusResponse__RegionsEntry entry_t;
typedef Inference__SystemSharedMemoryStatusResponse__RegionStatus status_t;

static int copy_name(char *to, size_t size, const char *from, struct gw_infer_error *error)
{
    if (strlen(from) >= size)
        return gw_infer_fail(error, GW_INFER_INVALID, "a region's name and key have %zu bytes at most",
                             size - 1);
    memcpy(to, from, strlen(from) + 1);
    return 0;
}

/* The server opens the file with its own rights: for a client that is known, and still there. */
static int check_here(struct gw_grpc_turn *turn, struct gw_infer_error *error)
{
    if (gw_grpc_turn_is_here(turn)) return 0;
    return gw_infer_fail(
        error, GW_INFER_INVALID,
        "shared memory: only for users of the server's host, by a direct connection that stays open");
}

void gw_grpc_system_register(void *service, struct gw_grpc_turn *turn)
{
    struct gw_grpc_service *s = service;
    struct gw_grpc_arena arena;
    struct gw_infer_error error;
    Inference__SystemSharedMemoryRegisterResponse r = INFERENCE__SYSTEM_SHARED_MEMORY_REGISTER_RESPONSE__INIT;
    const Inference__SystemSharedMemoryRegisterRequest *q =
        (const Inference__SystemSharedMemoryRegisterRequest *)gw_grpc_request(
            turn, &inference__system_shared_memory_register_request__descriptor, &arena);
    if (q) {
        struct gw_region_info info = {.offset = q->offset, .bytes = q->byte_size};
        if (copy_name(info.name, sizeof(info.name), q->name, &error) ||
            copy_name(info.key, sizeof(info.key), q->key, &error) || check_here(turn, &error) ||
            gw_region_register(gw_infer_regions(s->infer), gw_grpc_turn_who(turn), &info, &error))
            gw_grpc_fail(turn, &error);
        else
            gw_grpc_reply(turn, &r.base);
    }
    gw_grpc_arena_close(&arena);
}

void gw_grpc_system_unregister(void *service, struct gw_grpc_turn *turn)
{
    struct gw_grpc_service *s = service;
    struct gw_grpc_arena arena;
    Inference__SystemSharedMemoryUnregisterResponse r =
        INFERENCE__SYSTEM_SHARED_MEMORY_UNREGISTER_RESPONSE__INIT;
    const Inference__SystemSharedMemoryUnregisterRequest *q =
        (const Inference__SystemSharedMemoryUnregisterRequest *)gw_grpc_request(
            turn, &inference__system_shared_memory_unregister_request__descriptor, &arena);
    if (q) {
        gw_region_unregister(gw_infer_regions(s->infer), GW_REGION_SYSTEM, gw_grpc_turn_who(turn), q->name);
        gw_grpc_reply(turn, &r.base);
    }
    gw_grpc_arena_close(&arena);
}

/* ---- the list ---- */

/* One region, and what names it in the list. */
struct region {
    struct gw_region_info info;
    status_t status;
    entry_t entry;
};

/* Adds the i-th region to the list. False: there is none, or no memory. */
static bool grpc_memory_add(struct gw_grpc_service *s, struct gw_grpc_turn *turn, const char *name,
                            struct gw_grpc_arena *arena, entry_t **list, uint32_t i)
{
    struct gw_region_info info;
    if (!gw_region_status(gw_infer_regions(s->infer), GW_REGION_SYSTEM, gw_grpc_turn_who(turn), name, i,
                          &info))
        return false;
    struct region *r = gw_grpc_arena_take(arena, sizeof(*r));
    if (!r) return false;
    r->info = info;
    inference__system_shared_memory_status_response__region_status__init(&r->status);
    inference__system_shared_memory_status_response__regions_entry__init(&r->entry);
    r->status.name = r->entry.key = r->info.name;
    r->status.key = r->info.key;
    r->status.offset = info.offset;
    r->status.byte_size = info.bytes;
    r->entry.value = &r->status;
    list[i] = &r->entry;
    return true;
}

#define MAX_REGIONS 256 /* regions that are listed: more cannot be registered */

void gw_grpc_system_status(void *service, struct gw_grpc_turn *turn)
{
    struct gw_grpc_service *s = service;
    struct gw_grpc_arena arena;
    struct gw_infer_error error;
    entry_t *list[MAX_REGIONS];
    Inference__SystemSharedMemoryStatusResponse r = INFERENCE__SYSTEM_SHARED_MEMORY_STATUS_RESPONSE__INIT;
    const Inference__SystemSharedMemoryStatusRequest *q =
        (const Inference__SystemSharedMemoryStatusRequest *)gw_grpc_request(
            turn, &inference__system_shared_memory_status_request__descriptor, &arena);
    if (q) {
        while (r.n_regions < MAX_REGIONS &&
               grpc_memory_add(s, turn, q->name, &arena, list, (uint32_t)r.n_regions))
            r.n_regions++;
        r.regions = list;
        if (*q->name && !r.n_regions) {
            gw_infer_fail(&error, GW_INFER_NOT_FOUND, "Unable to find system shared memory region: '%.200s'",
                          q->name);
            gw_grpc_fail(turn, &error);
        } else {
            gw_grpc_reply(turn, &r.base);
        }
    }
    gw_grpc_arena_close(&arena);
}

/* ---- memory of GPUs ---- */

typedef Inference__CudaSharedMemoryStatusResponse__RegionsEntry cuda_entry_t;
typedef Inference__CudaSharedMemoryStatusResponse__RegionStatus cuda_status_t;

struct cuda_region {
    struct gw_region_info info;
    cuda_status_t status;
    cuda_entry_t entry;
};

/* As add. */
static bool add_cuda(struct gw_grpc_service *s, struct gw_grpc_turn *turn, const char *name,
                     struct gw_grpc_arena *arena, cuda_entry_t **list, uint32_t i)
{
    struct gw_region_info info;
    if (!gw_region_status(gw_infer_regions(s->infer), GW_REGION_CUDA, gw_grpc_turn_who(turn), name, i, &info))
        return false;
    struct cuda_region *r = gw_grpc_arena_take(arena, sizeof(*r));
    if (!r) return false;
    r->info = info;
    inference__cuda_shared_memory_status_response__region_status__init(&r->status);
    inference__cuda_shared_memory_status_response__regions_entry__init(&r->entry);
    r->status.name = r->entry.key = r->info.name;
    r->status.device_id = info.device;
    r->status.byte_size = info.bytes;
    r->entry.value = &r->status;
    list[i] = &r->entry;
    return true;
}

void gw_grpc_cuda_status(void *service, struct gw_grpc_turn *turn)
{
    struct gw_grpc_service *s = service;
    struct gw_grpc_arena arena;
    struct gw_infer_error error;
    cuda_entry_t *list[MAX_REGIONS];
    Inference__CudaSharedMemoryStatusResponse r = INFERENCE__CUDA_SHARED_MEMORY_STATUS_RESPONSE__INIT;
    const Inference__CudaSharedMemoryStatusRequest *q =
        (const Inference__CudaSharedMemoryStatusRequest *)gw_grpc_request(
            turn, &inference__cuda_shared_memory_status_request__descriptor, &arena);
    if (q) {
        while (r.n_regions < MAX_REGIONS && add_cuda(s, turn, q->name, &arena, list, (uint32_t)r.n_regions))
            r.n_regions++;
        r.regions = list;
        if (*q->name && !r.n_regions) {
            gw_infer_fail(&error, GW_INFER_NOT_FOUND, "Unable to find cuda shared memory region: '%.200s'",
                          q->name);
            gw_grpc_fail(turn, &error);
        } else {
            gw_grpc_reply(turn, &r.base);
        }
    }
    gw_grpc_arena_close(&arena);
}

void gw_grpc_cuda_register(void *service, struct gw_grpc_turn *turn)
{
    struct gw_grpc_service *s = service;
    struct gw_grpc_arena arena;
    struct gw_infer_error error;
    Inference__CudaSharedMemoryRegisterResponse r = INFERENCE__CUDA_SHARED_MEMORY_REGISTER_RESPONSE__INIT;
    const Inference__CudaSharedMemoryRegisterRequest *q =
        (const Inference__CudaSharedMemoryRegisterRequest *)gw_grpc_request(
            turn, &inference__cuda_shared_memory_register_request__descriptor, &arena);
    if (q) {
        struct gw_region_info info = {.bytes = q->byte_size, .device = (uint64_t)q->device_id};
        if (copy_name(info.name, sizeof(info.name), q->name, &error) || check_here(turn, &error) ||
            gw_infer_register_cuda(s->infer, gw_grpc_turn_who(turn), &info, q->raw_handle.data,
                                   q->raw_handle.len, &error))
            gw_grpc_fail(turn, &error);
        else
            gw_grpc_reply(turn, &r.base);
    }
    gw_grpc_arena_close(&arena);
}

void gw_grpc_cuda_unregister(void *service, struct gw_grpc_turn *turn)
{
    struct gw_grpc_service *s = service;
    struct gw_grpc_arena arena;
    struct gw_infer_error error;
    Inference__CudaSharedMemoryUnregisterResponse r = INFERENCE__CUDA_SHARED_MEMORY_UNREGISTER_RESPONSE__INIT;
    const Inference__CudaSharedMemoryUnregisterRequest *q =
        (const Inference__CudaSharedMemoryUnregisterRequest *)gw_grpc_request(
            turn, &inference__cuda_shared_memory_unregister_request__descriptor, &arena);
    if (q) {
        if (gw_infer_unregister_cuda(s->infer, gw_grpc_turn_who(turn), q->name, &error))
            gw_grpc_fail(turn, &error);
        else
            gw_grpc_reply(turn, &r.base);
    }
    gw_grpc_arena_close(&arena);
}
