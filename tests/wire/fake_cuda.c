/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/wire/fake_cuda.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/wire/fake_kernel.h"
#include "tests/wire/fake_memory.h"

uint8_t *fake_gpu;
int fake_peers, fake_faults, fake_direct;
unsigned fake_managed, fake_outside, fake_allocations;
_Thread_local unsigned fake_ctx_depth;
int fake_fail_copies, fake_dead;
uint64_t fake_log[FAKE_LOG];
unsigned fake_logged;

/* Work of the streams; positions only grow. */
enum { QUEUE = 1024, STREAMS = 256, EVENTS = 1024 };
struct work {
    void *dst;
    const void *src;
    size_t len;
};
static struct stream {
    struct work work[QUEUE];
    unsigned head, tail;
    int kernels; /* that run in it */
    int gpu;
} streams[STREAMS];
static struct event {
    struct stream *stream;
    unsigned after; /* done when the stream's head has come this far */
    unsigned looks;
} events[EVENTS];
static unsigned streams_made, events_made;
static unsigned long long ctx_id;
static const struct gw_cuda_driver api;

void fake_cuda_note(const void *dst)
{
    if (!fake_memory((uintptr_t)dst).size) return;
    /* Several NICs' threads copy at once. */
    uint32_t at = (uint32_t)__atomic_fetch_add(&fake_logged, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&fake_log[at % FAKE_LOG], (uintptr_t)dst, __ATOMIC_RELAXED);
}

static void run(struct stream *s, unsigned until)
{
    for (; (int)(until - s->head) > 0; s->head++) {
        struct work *w = &s->work[s->head % QUEUE];
        memcpy(w->dst, w->src, w->len);
        fake_cuda_note(w->dst);
    }
}

static int in_context(void)
{
    if (!fake_ctx_depth) fake_outside++;
    return 0;
}

static int f_get_id(gw_cu_ctx ctx, unsigned long long *id)
{
    (void)ctx;
    *id = ctx_id;
    return 0;
}

static int f_host_alloc(void **p, size_t size, unsigned flags)
{
    (void)flags;
    fake_allocations++;
    *p = malloc(size);
    return *p ? in_context() : 2;
}

static int f_host_free(void *p)
{
    free(p);
    return 0;
}

static int f_stream_create(gw_cu_stream *s, unsigned flags)
{
    if (flags != GW_CU_STREAM_NON_BLOCKING || streams_made == STREAMS) return 1;
    streams[streams_made].gpu = fake_cuda_current();
    *s = (gw_cu_stream)&streams[streams_made++];
    return in_context();
}

static int f_event_create(gw_cu_event *e, unsigned flags)
{
    (void)flags;
    if (events_made == EVENTS) return 1;
    *e = (gw_cu_event)&events[events_made++];
    return in_context();
}

static int f_stream_destroy(gw_cu_stream s)
{
    (void)s;
    return 0;
}

static int f_event_destroy(gw_cu_event e)
{
    (void)e;
    return 0;
}

static int f_event_record(gw_cu_event e, gw_cu_stream s)
{
    struct event *event = (struct event *)e;

    event->stream = (struct stream *)s;
    event->after = event->stream->tail;
    event->looks = 0;
    return in_context();
}

static int f_event_query(gw_cu_event e)
{
    struct event *event = (struct event *)e;

    in_context();
    if (fake_dead) return 719;
    if (__atomic_load_n(&event->stream->kernels, __ATOMIC_ACQUIRE)) return GW_CU_NOT_READY;
    if (!event->looks++) return GW_CU_NOT_READY;
    run(event->stream, event->after);
    return 0;
}

static int queue(struct stream *s, void *dst, const void *src, size_t len)
{
    in_context();
    if (fake_fail_copies) {
        fake_fail_copies--;
        return 1;
    }
    if (s->tail - s->head == QUEUE) run(s, s->head + 1);
    s->work[s->tail++ % QUEUE] = (struct work){dst, src, len};
    return 0;
}

/* An engine reads and writes what is its own context's. */
static int own(gw_cu_ptr p, gw_cu_stream s)
{
    struct memory m = fake_memory(p);

    int gpu = ((struct stream *)s)->gpu;

    if (m.size && fake_memory_is_of(&m, gpu) && gpu == fake_cuda_current()) return 1;
    __atomic_fetch_add(&fake_faults, 1, __ATOMIC_RELAXED);
    return 0;
}

static int f_copy_peer(gw_cu_ptr dst, gw_cu_ctx dst_ctx, gw_cu_ptr src, gw_cu_ctx src_ctx, size_t len,
                       gw_cu_stream s)
{
    struct memory to = fake_memory(dst), from = fake_memory(src);

    if (!fake_memory_is_of(&to, fake_gpu_of(dst_ctx)) || !fake_memory_is_of(&from, fake_gpu_of(src_ctx))) {
        __atomic_fetch_add(&fake_faults, 1, __ATOMIC_RELAXED);
        return 1;
    }
    return queue((struct stream *)s, (void *)(uintptr_t)dst, (void *)(uintptr_t)src, len);
}

static int f_to_device(gw_cu_ptr dst, const void *src, size_t len, gw_cu_stream s)
{
    return own(dst, s) ? queue((struct stream *)s, (void *)(uintptr_t)dst, src, len) : 1;
}

static int f_to_host(void *dst, gw_cu_ptr src, size_t len, gw_cu_stream s)
{
    return own(src, s) ? queue((struct stream *)s, dst, (void *)(uintptr_t)src, len) : 1;
}

/* Any memory of this GPU's, and of the host. */
static int f_copy(gw_cu_ptr dst, gw_cu_ptr src, size_t len, gw_cu_stream s)
{
    if (fake_memory(dst).size && !own(dst, s)) return 1;
    if (fake_memory(src).size && !own(src, s)) return 1;
    __atomic_fetch_add(&fake_direct, 1, __ATOMIC_RELAXED);
    return queue((struct stream *)s, (void *)(uintptr_t)dst, (void *)(uintptr_t)src, len);
}

static int f_error_name(gw_cu_result r, const char **name)
{
    *name = r == 719   ? "CUDA_ERROR_LAUNCH_FAILED"
            : r == 701 ? "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
            : r == 221 ? "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"
                       : "CUDA_ERROR_INVALID_VALUE";
    return 0;
}

static int f_module_load(gw_cu_module *m, const void *text)
{
    *m = (gw_cu_module)(uintptr_t)text;
    return fake_kernel == FAKE_KERNEL_REFUSED ? 221 : in_context();
}

static int f_module_function(gw_cu_function *f, gw_cu_module m, const char *name)
{
    *f = (gw_cu_function)m;
    return strcmp(name, "gw_copy") ? 500 : in_context();
}

static int f_launch(gw_cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                    unsigned bz, unsigned shared, gw_cu_stream s, void **args, void **extra)
{
    (void)f, (void)shared, (void)extra;
    in_context();
    if (gx * gy * gz != 1 || bx * by * bz != SN_KERNEL_THREADS) return 1;
    if (fake_kernel == FAKE_KERNEL_NO_LAUNCH) return 701;
    return fake_kernel_launch(((struct stream *)s)->gpu, &((struct stream *)s)->kernels, args);
}

void fake_cuda_reset(void)
{
    fake_kernel_end_all();
    if (!fake_gpu) {
        fake_gpu = malloc(FAKE_GPU_SIZE);
        fake_cuda_add_memory(fake_gpu, FAKE_GPU_SIZE, 0, 0);
    }
    memset(fake_gpu, 0, FAKE_GPU_SIZE);
    fake_managed = fake_outside = 0;
    fake_fail_copies = fake_dead = fake_faults = fake_peers = 0;
    fake_memory_reset();
    fake_kernel = FAKE_KERNEL_REFUSED;
    fake_logged = 0;
    ctx_id++; /* as if the context had been destroyed and another made at its address */
}

static const struct gw_cuda_driver api = {.pointer_get_attributes = fake_attributes,
                                          .primary_ctx_retain = fake_retain,
                                          .ctx_push = fake_push,
                                          .ctx_pop = fake_pop,
                                          .ctx_get_id = f_get_id,
                                          .host_alloc = f_host_alloc,
                                          .host_free = f_host_free,
                                          .stream_create = f_stream_create,
                                          .stream_destroy = f_stream_destroy,
                                          .event_create = f_event_create,
                                          .event_destroy = f_event_destroy,
                                          .event_record = f_event_record,
                                          .event_query = f_event_query,
                                          .copy_to_device = f_to_device,
                                          .copy_to_host = f_to_host,
                                          .copy = f_copy,
                                          .error_name = f_error_name,
                                          .device_get = fake_device_get,
                                          .can_access_peer = fake_can_access_peer,
                                          .enable_peer = fake_enable_peer,
                                          .copy_peer = f_copy_peer,
                                          .module_load = f_module_load,
                                          .module_function = f_module_function,
                                          .launch = f_launch};

const struct gw_cuda_driver *fake_cuda_api(void)
{
    return &api;
}
