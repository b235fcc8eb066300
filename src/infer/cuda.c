/* SPDX-License-Identifier: Apache-2.0 */
#include "src/infer/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_NS 5000
#define STAGE   ((uint64_t)1 << 20) /* bytes of pinned memory that copies go through */

/* The driver's stable ABI, set down here so that this builds where there is no CUDA. */
typedef unsigned long long cu_ptr;
typedef void *cu_ctx, *cu_stream, *cu_event;
typedef struct {
    uint8_t bytes[GW_CUDA_HANDLE];
} cu_ipc;
enum {
    RANGE_START = 11,
    RANGE_SIZE = 12,
    NON_BLOCKING = 1,
    LAZY_PEER_ACCESS = 1,
    NO_TIMING = 2,
    NOT_READY = 600
};

static struct driver {
    int (*device_get)(int *device, int ordinal);
    int (*ctx_state)(int device, unsigned *flags, int *active);
    int (*ctx_retain)(cu_ctx *ctx, int device);
    int (*ctx_push)(cu_ctx ctx);
    int (*ctx_pop)(cu_ctx *ctx);
    int (*ipc_open)(cu_ptr *p, cu_ipc handle, unsigned flags);
    int (*ipc_close)(cu_ptr p);
    int (*attributes)(unsigned n, int *attribute, void **data, cu_ptr p);
    int (*host_alloc)(void **p, size_t bytes, unsigned flags);
    int (*host_free)(void *p);
    int (*stream_create)(cu_stream *stream, unsigned flags);
    int (*stream_destroy)(cu_stream stream);
    int (*event_create)(cu_event *event, unsigned flags);
    int (*event_destroy)(cu_event event);
    int (*event_record)(cu_event event, cu_stream stream);
    int (*event_query)(cu_event event);
    int (*to_device)(cu_ptr to, const void *from, size_t bytes, cu_stream stream);
    int (*to_host)(void *to, cu_ptr from, size_t bytes, cu_stream stream);
} driver;

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
#define SYMBOL(field, name)                                                                                  \
    {                                                                                                        \
        name, offsetof(struct driver, field)                                                                 \
    }
    SYMBOL(device_get, "cuDeviceGet"),
    SYMBOL(ctx_state, "cuDevicePrimaryCtxGetState"),
    SYMBOL(ctx_retain, "cuDevicePrimaryCtxRetain"),
    SYMBOL(ctx_push, "cuCtxPushCurrent_v2"),
    SYMBOL(ctx_pop, "cuCtxPopCurrent_v2"),
    SYMBOL(ipc_open, "cuIpcOpenMemHandle_v2"),
    SYMBOL(ipc_close, "cuIpcCloseMemHandle"),
    SYMBOL(attributes, "cuPointerGetAttributes"),
    SYMBOL(host_alloc, "cuMemHostAlloc"),
    SYMBOL(host_free, "cuMemFreeHost"),
    SYMBOL(stream_create, "cuStreamCreate"),
    SYMBOL(stream_destroy, "cuStreamDestroy_v2"),
    SYMBOL(event_create, "cuEventCreate"),
    SYMBOL(event_destroy, "cuEventDestroy_v2"),
    SYMBOL(event_record, "cuEventRecord"),
    SYMBOL(event_query, "cuEventQuery"),
    SYMBOL(to_device, "cuMemcpyHtoDAsync_v2"),
    SYMBOL(to_host, "cuMemcpyDtoHAsync_v2"),
#undef SYMBOL
};

struct gw_cuda_memory {
    cu_ctx ctx; /* the GPU's primary one, which stays */
    cu_ptr at;
    cu_stream stream;
    cu_event copied;
    void *stage;
    uint64_t stage_bytes;
};

/* A process that uses a GPU has loaded the driver. It is called by one thread at a time, the server's. */
static int load_driver(void)
{
    static int loaded;
    void *lib = loaded ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!lib) return loaded;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *f = dlsym(lib, symbols[i].name);
        if (!f) return 0;
        memcpy((uint8_t *)&driver + symbols[i].at, &f, sizeof(f));
    }
    loaded = 1;
    return 1;
}

/* The primary context, if the process uses that GPU. */
static int find_context(uint64_t device, cu_ctx *ctx)
{
    int found, active = 0;
    unsigned flags;
    return device <= 1023 && load_driver() && !driver.device_get(&found, (int)device) &&
           !driver.ctx_state(found, &flags, &active) && active && !driver.ctx_retain(ctx, found);
}

static int refuse(struct gw_infer_error *error, const char *why)
{
    return gw_infer_fail(error, GW_INFER_INVALID, "Unable to open CUDA shared memory: %s", why);
}

static int has_bytes(cu_ptr p, uint64_t bytes)
{
    int attributes[] = {RANGE_START, RANGE_SIZE};
    cu_ptr start = 0;
    size_t size = 0;
    void *data[] = {&start, &size};
    return !driver.attributes(2, attributes, data, p) && p >= start && p - start <= size &&
           bytes <= size - (p - start);
}

/* In the memory's context. */
static int open_memory(struct gw_cuda_memory *m, const uint8_t handle[GW_CUDA_HANDLE], uint64_t bytes,
                       struct gw_infer_error *error)
{
    cu_ipc ipc;
    memcpy(ipc.bytes, handle, sizeof(ipc.bytes));
    if (driver.ipc_open(&m->at, ipc, LAZY_PEER_ACCESS)) {
        m->at = 0;
        return refuse(error, "the handle names no memory of another process on this GPU");
    }
    if (!has_bytes(m->at, bytes)) return refuse(error, "byte_size goes beyond the memory");
    m->stage_bytes = bytes < STAGE ? bytes : STAGE;
    if (driver.host_alloc(&m->stage, m->stage_bytes, 0) || driver.stream_create(&m->stream, NON_BLOCKING) ||
        driver.event_create(&m->copied, NO_TIMING))
        return gw_infer_fail(error, GW_INFER_INTERNAL,
                             "CUDA shared memory: the GPU's driver has no memory left");
    return 0;
}

int gw_cuda_map(const uint8_t handle[GW_CUDA_HANDLE], uint64_t device, uint64_t bytes,
                struct gw_cuda_memory **out, struct gw_infer_error *error)
{
    cu_ctx ctx, popped;
    if (!find_context(device, &ctx))
        return gw_infer_fail(error, GW_INFER_UNSUPPORTED,
                             "CUDA shared memory is not supported here: this server uses no GPU %llu",
                             (unsigned long long)device);
    struct gw_cuda_memory *m = calloc(1, sizeof(*m));
    if (!m) return gw_infer_fail(error, GW_INFER_INTERNAL, "out of memory");
    m->ctx = ctx;
    if (driver.ctx_push(ctx)) {
        free(m);
        return refuse(error, "the GPU's context cannot be used");
    }
    int wrong = open_memory(m, handle, bytes, error);
    driver.ctx_pop(&popped);
    if (wrong)
        gw_cuda_unmap(m);
    else
        *out = m;
    return wrong;
}

void gw_cuda_unmap(struct gw_cuda_memory *m)
{
    cu_ctx popped;
    if (!m) return;
    if (!driver.ctx_push(m->ctx)) {
        if (m->copied) driver.event_destroy(m->copied);
        if (m->stream) driver.stream_destroy(m->stream);
        if (m->stage) driver.host_free(m->stage);
        if (m->at) driver.ipc_close(m->at);
        driver.ctx_pop(&popped);
    }
    free(m);
}

/* ---- copies: through pinned memory, since the driver would allocate some for any other ---- */

static int copy_piece(struct gw_cuda_memory *m, cu_ptr at, size_t bytes, int out)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};
    int wrong = out ? driver.to_host(m->stage, at, bytes, m->stream)
                    : driver.to_device(at, m->stage, bytes, m->stream);
    if (!wrong) wrong = driver.event_record(m->copied, m->stream);
    if (wrong) return wrong;
    while ((wrong = driver.event_query(m->copied)) == NOT_READY) nanosleep(&look, NULL);
    return wrong;
}

int gw_cuda_read(struct gw_cuda_memory *m, uint64_t offset, uint64_t bytes, void *to)
{
    cu_ctx popped;
    int wrong = 0;
    if (driver.ctx_push(m->ctx)) return -EIO;
    for (uint64_t done = 0, n; !wrong && done < bytes; done += n) {
        n = bytes - done < m->stage_bytes ? bytes - done : m->stage_bytes;
        wrong = copy_piece(m, m->at + offset + done, n, 1);
        if (!wrong) memcpy((uint8_t *)to + done, m->stage, n);
    }
    driver.ctx_pop(&popped);
    return wrong ? -EIO : 0;
}

int gw_cuda_write(struct gw_cuda_memory *m, uint64_t offset, uint64_t bytes, const void *from)
{
    cu_ctx popped;
    int wrong = 0;
    if (driver.ctx_push(m->ctx)) return -EIO;
    for (uint64_t done = 0, n; !wrong && done < bytes; done += n) {
        n = bytes - done < m->stage_bytes ? bytes - done : m->stage_bytes;
        memcpy(m->stage, (const uint8_t *)from + done, n);
        wrong = copy_piece(m, m->at + offset + done, n, 0);
    }
    driver.ctx_pop(&popped);
    return wrong ? -EIO : 0;
}
