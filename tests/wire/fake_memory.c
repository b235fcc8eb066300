/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/wire/fake_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/wire/fake_kernel.h"

/* Contexts: one of each GPU. */
enum { DEPTH = 8 };
static char contexts[FAKE_GPUS];
static int retained[FAKE_GPUS], let_in[FAKE_GPUS][FAKE_GPUS]; /* atomic */
static _Thread_local int current[DEPTH];

static gw_cu_ctx context(int gpu)
{
    return (gw_cu_ctx)(void *)&contexts[gpu];
}

int fake_gpu_of(gw_cu_ctx ctx)
{
    return ctx == context(1);
}

int fake_cuda_current(void)
{
    return fake_ctx_depth ? current[(fake_ctx_depth - 1) % DEPTH] : 0;
}

void fake_cuda_set_current(gw_cu_ctx ctx)
{
    fake_ctx_depth = 1;
    current[0] = fake_gpu_of(ctx);
}

int fake_cuda_retained(int gpu)
{
    return __atomic_load_n(&retained[gpu], __ATOMIC_RELAXED);
}

/* What is memory of the GPU. */
enum { MEMORIES = 128 };
static struct memory memories[MEMORIES];
static pthread_mutex_t memories_lock = PTHREAD_MUTEX_INITIALIZER;

static int add(struct memory m)
{
    int i = 0;

    pthread_mutex_lock(&memories_lock);
    while (i < MEMORIES && memories[i].size) i++;
    if (i < MEMORIES) memories[i] = m;
    pthread_mutex_unlock(&memories_lock);
    return i == MEMORIES;
}

int fake_cuda_add_memory(void *at, size_t size, int gpu, int opened)
{
    return add((struct memory){.base = (uintptr_t)at,
                               .size = size,
                               .gpu = gpu,
                               .ctx = fake_ctx_depth ? fake_cuda_current() : gpu,
                               .opened = opened,
                               .range = (uintptr_t)at,
                               .range_size = size});
}

int fake_cuda_add_mapping(void *at, size_t size, int gpu, uint64_t range, size_t range_size)
{
    return add((struct memory){.base = (uintptr_t)at,
                               .size = size,
                               .gpu = gpu,
                               .ctx = -1,
                               .mapped = 1,
                               .range = range,
                               .range_size = range_size});
}

void fake_cuda_let_in(void *at, int gpu)
{
    pthread_mutex_lock(&memories_lock);
    for (int i = 0; i < MEMORIES; i++)
        if (memories[i].base == (uintptr_t)at) memories[i].let |= 1u << gpu;
    pthread_mutex_unlock(&memories_lock);
}

void fake_cuda_remove_memory(void *at)
{
    pthread_mutex_lock(&memories_lock);
    for (int i = 0; i < MEMORIES; i++)
        if (memories[i].base == (uintptr_t)at) memories[i] = (struct memory){0};
    pthread_mutex_unlock(&memories_lock);
}

struct memory fake_memory(gw_cu_ptr p)
{
    struct memory found = {0};

    pthread_mutex_lock(&memories_lock);
    for (int i = 0; i < MEMORIES; i++)
        if (p - memories[i].base < memories[i].size) found = memories[i];
    pthread_mutex_unlock(&memories_lock);
    return found;
}

int fake_memory_is_of(const struct memory *m, int gpu)
{
    return m->mapped ? m->let >> gpu & 1 : m->ctx == gpu;
}

int fake_cuda_lets(int gpu, const void *at)
{
    struct memory m = fake_memory((uintptr_t)at);

    if (!m.size || fake_memory_is_of(&m, gpu)) return 1;
    if (!m.mapped && !m.opened && __atomic_load_n(&let_in[gpu][m.ctx], __ATOMIC_RELAXED)) return 1;
    __atomic_fetch_add(&fake_faults, 1, __ATOMIC_RELAXED);
    return 0;
}

int fake_attributes(unsigned n, int *attributes, void **data, gw_cu_ptr p)
{
    struct memory m = fake_memory(p);
    int gpu = m.size != 0;

    for (unsigned i = 0; i < n; i++) {
        switch (attributes[i]) {
        case GW_CU_ATTR_CONTEXT: *(gw_cu_ctx *)data[i] = gpu && !m.mapped ? context(m.ctx) : NULL; break;
        case GW_CU_ATTR_MEMORY_TYPE: *(unsigned *)data[i] = gpu ? GW_CU_MEMORY_DEVICE : 0; break;
        case GW_CU_ATTR_IS_MANAGED: *(unsigned *)data[i] = gpu ? fake_managed : 0; break;
        case GW_CU_ATTR_DEVICE_ORDINAL: *(int *)data[i] = gpu ? m.gpu : -2; break;
        case GW_CU_ATTR_IPC_CAPABLE: *(unsigned *)data[i] = gpu && !m.opened && !m.mapped; break;
        case GW_CU_ATTR_RANGE_START: *(gw_cu_ptr *)data[i] = m.range; break;
        case GW_CU_ATTR_RANGE_SIZE: *(size_t *)data[i] = m.range_size; break;
        case GW_CU_ATTR_MAPPING_BASE: *(gw_cu_ptr *)data[i] = m.base; break;
        case GW_CU_ATTR_MAPPING_SIZE: *(size_t *)data[i] = m.size; break;
        default: return 1;
        }
    }
    return 0;
}

void fake_uuid(int gpu, uint8_t uuid[16])
{
    const char *name = getenv("FAKE_GPU");

    memset(uuid, name ? name[0] : 0, 16);
    uuid[15] = (uint8_t)(uuid[15] + gpu);
}

int fake_push(gw_cu_ctx ctx)
{
    current[fake_ctx_depth++ % DEPTH] = fake_gpu_of(ctx);
    return 0;
}

int fake_pop(gw_cu_ctx *ctx)
{
    *ctx = NULL;
    fake_ctx_depth--;
    return 0;
}

int fake_retain(gw_cu_ctx *ctx, gw_cu_device dev)
{
    if (dev < 0 || dev >= FAKE_GPUS) return 101; /* no such device */
    __atomic_store_n(&retained[dev], 1, __ATOMIC_RELAXED);
    *ctx = context(dev);
    return 0;
}

int fake_device_get(gw_cu_device *dev, int ordinal)
{
    *dev = ordinal;
    return ordinal < 0 || ordinal >= FAKE_GPUS ? 101 : 0;
}

int fake_can_access_peer(int *can, gw_cu_device dev, gw_cu_device peer)
{
    *can = fake_peers && dev != peer;
    return 0;
}

int fake_enable_peer(gw_cu_ctx peer, unsigned flags)
{
    int *in = &let_in[fake_cuda_current()][fake_gpu_of(peer)];

    if (!fake_ctx_depth) fake_outside++;
    if (!fake_peers || flags || fake_gpu_of(peer) == fake_cuda_current()) return 217;
    return __atomic_exchange_n(in, 1, __ATOMIC_RELAXED) ? GW_CU_PEER_ACCESS_ALREADY_ENABLED : 0;
}

void fake_memory_reset(void)
{
    memset(let_in, 0, sizeof(let_in));
}
