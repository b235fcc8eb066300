/* SPDX-License-Identifier: Apache-2.0 */
/* Maps GPU memory of a client by the CUDA driver, and copies to and from it. */
#include "src/server/requests/cuda.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/cuda/driver.h"

#define LOOK_NS 5000
#define STAGE   ((uint64_t)1 << 20) /* bytes of pinned memory that copies go through */

struct gw_cuda_memory {
    const struct gw_cuda_driver *api;
    gw_cu_ctx ctx; /* the GPU's primary one, which stays */
    int device;    /* the GPU */
    gw_cu_ptr at;
    gw_cu_stream stream;
    gw_cu_event copied;
    void *stage;
    uint64_t stage_bytes;
};

_Static_assert(sizeof(gw_cu_ipc) == GW_CUDA_HANDLE, "the handle is the driver's");

static bool shares(const struct gw_cuda_driver *api)
{
    return api && api->device_get && api->primary_ctx_state && api->ipc_open && api->ipc_close;
}

/* The primary context, if the process uses that GPU. Then it has loaded the driver. */
static bool find_context(const struct gw_cuda_driver *api, uint64_t device, gw_cu_ctx *ctx)
{
    gw_cu_device found;
    int active = 0;
    unsigned flags;
    return device <= 1023 && shares(api) && !api->device_get(&found, (int)device) &&
           !api->primary_ctx_state(found, &flags, &active) && active && !api->primary_ctx_retain(ctx, found);
}

static int infer_cuda_refuse(struct gw_infer_error *error, const char *why)
{
    return gw_infer_fail(error, GW_INFER_INVALID, "Unable to open CUDA shared memory: %s", why);
}

static bool has_bytes(const struct gw_cuda_driver *api, gw_cu_ptr p, uint64_t bytes)
{
    int attributes[] = {GW_CU_ATTR_RANGE_START, GW_CU_ATTR_RANGE_SIZE};
    gw_cu_ptr start = 0;
    size_t size = 0;
    void *data[] = {&start, &size};
    return !api->pointer_get_attributes(2, attributes, data, p) && p >= start && p - start <= size &&
           bytes <= size - (p - start);
}

/* In the memory's context. */
static int infer_cuda_open_memory(struct gw_cuda_memory *m, const uint8_t handle[GW_CUDA_HANDLE],
                                  uint64_t bytes, struct gw_infer_error *error)
{
    const struct gw_cuda_driver *api = m->api;
    gw_cu_ipc ipc;
    memcpy(ipc.bytes, handle, sizeof(ipc.bytes));
    if (api->ipc_open(&m->at, ipc, GW_CU_IPC_LAZY_PEER_ACCESS)) {
        m->at = 0;
        return infer_cuda_refuse(error, "the handle names no memory of another process on this GPU");
    }
    if (!has_bytes(api, m->at, bytes)) return infer_cuda_refuse(error, "byte_size goes beyond the memory");
    m->stage_bytes = bytes < STAGE ? bytes : STAGE;
    if (api->host_alloc(&m->stage, m->stage_bytes, 0) ||
        api->stream_create(&m->stream, GW_CU_STREAM_NON_BLOCKING) ||
        api->event_create(&m->copied, GW_CU_EVENT_DISABLE_TIMING))
        return gw_infer_fail(error, GW_INFER_INTERNAL,
                             "CUDA shared memory: the GPU's driver has no memory left");
    return 0;
}

int gw_cuda_map(const uint8_t handle[GW_CUDA_HANDLE], uint64_t device, uint64_t bytes,
                struct gw_cuda_memory **out, struct gw_infer_error *error)
{
    const struct gw_cuda_driver *api = gw_cuda_driver_loaded();
    gw_cu_ctx ctx, popped;
    if (!find_context(api, device, &ctx))
        return gw_infer_fail(error, GW_INFER_UNSUPPORTED,
                             "CUDA shared memory is not supported here: this server uses no GPU %llu",
                             (unsigned long long)device);
    struct gw_cuda_memory *m = calloc(1, sizeof(*m));
    if (!m) return gw_infer_fail(error, GW_INFER_INTERNAL, "out of memory");
    m->api = api;
    m->ctx = ctx;
    m->device = (int)device;
    if (api->ctx_push(ctx)) {
        free(m);
        return infer_cuda_refuse(error, "the GPU's context cannot be used");
    }
    int wrong = infer_cuda_open_memory(m, handle, bytes, error);
    api->ctx_pop(&popped);
    if (wrong)
        gw_cuda_unmap(m);
    else
        *out = m;
    return wrong;
}

void gw_cuda_unmap(struct gw_cuda_memory *m)
{
    gw_cu_ctx popped;
    if (!m) return;
    if (!m->api->ctx_push(m->ctx)) {
        if (m->copied) m->api->event_destroy(m->copied);
        if (m->stream) m->api->stream_destroy(m->stream);
        if (m->stage) m->api->host_free(m->stage);
        if (m->at) m->api->ipc_close(m->at);
        m->api->ctx_pop(&popped);
    }
    free(m);
}

/* ---- copies for the host: through pinned memory, since the driver would allocate some for any other ---- */

/* Waits for what the stream has been given. */
static int wait_copied(struct gw_cuda_memory *m)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};
    int wrong = m->api->event_record(m->copied, m->stream);
    if (wrong) return wrong;
    while ((wrong = m->api->event_query(m->copied)) == GW_CU_NOT_READY) nanosleep(&look, NULL);
    return wrong;
}

static int copy_piece(struct gw_cuda_memory *m, gw_cu_ptr at, size_t bytes, int out)
{
    int wrong = out ? m->api->copy_to_host(m->stage, at, bytes, m->stream)
                    : m->api->copy_to_device(at, m->stage, bytes, m->stream);
    return wrong ? wrong : wait_copied(m);
}

int gw_cuda_read(struct gw_cuda_memory *m, uint64_t offset, uint64_t bytes, void *to)
{
    gw_cu_ctx popped;
    int wrong = 0;
    if (m->api->ctx_push(m->ctx)) return -EIO;
    for (uint64_t done = 0, n; !wrong && done < bytes; done += n) {
        n = bytes - done < m->stage_bytes ? bytes - done : m->stage_bytes;
        wrong = copy_piece(m, m->at + offset + done, n, 1);
        if (!wrong) memcpy((uint8_t *)to + done, m->stage, n);
    }
    m->api->ctx_pop(&popped);
    return wrong ? -EIO : 0;
}

int gw_cuda_write(struct gw_cuda_memory *m, uint64_t offset, uint64_t bytes, const void *from)
{
    gw_cu_ctx popped;
    int wrong = 0;
    if (m->api->ctx_push(m->ctx)) return -EIO;
    for (uint64_t done = 0, n; !wrong && done < bytes; done += n) {
        n = bytes - done < m->stage_bytes ? bytes - done : m->stage_bytes;
        memcpy(m->stage, (const uint8_t *)from + done, n);
        wrong = copy_piece(m, m->at + offset + done, n, 0);
    }
    m->api->ctx_pop(&popped);
    return wrong ? -EIO : 0;
}

/* ---- copies that the host has no part in ---- */

bool gw_cuda_reaches(const struct gw_cuda_memory *m, const void *at, uint64_t bytes)
{
    int attributes[] = {GW_CU_ATTR_MEMORY_TYPE, GW_CU_ATTR_DEVICE_ORDINAL}, device = -1;
    unsigned type = 0;
    void *data[] = {&type, &device};
    gw_cu_ptr p = (uintptr_t)at;
    if (!m->api->copy || m->api->pointer_get_attributes(2, attributes, data, p)) return false;
    if (type != GW_CU_MEMORY_HOST && (type != GW_CU_MEMORY_DEVICE || device != m->device)) return false;
    return has_bytes(m->api, p, bytes);
}

int gw_cuda_copy(struct gw_cuda_memory *m, uint64_t offset, uint64_t bytes, void *other, int out)
{
    gw_cu_ptr own = m->at + offset, there = (uintptr_t)other;
    gw_cu_ctx popped;
    if (m->api->ctx_push(m->ctx)) return -EIO;
    int wrong = m->api->copy(out ? there : own, out ? own : there, bytes, m->stream);
    if (!wrong) wrong = wait_copied(m);
    m->api->ctx_pop(&popped);
    return wrong ? -EIO : 0;
}
