/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GW_SHARED on the CPU. All threads of a block that come to the same declaration (its key) get the same
 * object. The first one that comes lays it out in the block's arena. Outside a kernel every thread is a block
 * of its own, whose objects live as long as the thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/exec/cpu.h"

/* Uninitialised, as on a GPU, but recognisably so. */
#define POISON 0xa5

static void *in_block(struct gw_cpu_block *b, const void *key, size_t size)
{
    uint32_t i, need = ((uint32_t)size + GW_CPU_SHARED_ALIGN - 1) & ~(GW_CPU_SHARED_ALIGN - 1);

    for (i = 0; i < b->nshared; i++) {
        if (b->shared[i].key == key) return b->shared[i].memory;
    }
    if (b->nshared == GW_CPU_SHARED_COUNT || need > GW_CPU_ARENA - b->arena_used) {
        /* nvcc would not have compiled it. The objects overlap; the launch fails, and says why. */
        gw_cpu_block_fault(b, "its GW_SHARED objects take more than 48 KiB");
        return b->arena;
    }
    b->shared[i].key = key;
    b->shared[i].memory = b->arena + b->arena_used;
    b->nshared++;
    b->arena_used += need;
    return memset(b->shared[i].memory, POISON, size);
}

/* ---- outside a kernel ---------------------------------------------------------------------------------- */

struct object {
    struct object *next;
    const void *key;
    void *memory;
};

static pthread_key_t objects_key;
static pthread_once_t objects_once = PTHREAD_ONCE_INIT;

static void free_objects(void *list)
{
    struct object *o = list, *next;

    for (; o; o = next) {
        next = o->next;
        free(o->memory);
        free(o);
    }
}

static void make_key(void)
{
    pthread_key_create(&objects_key, free_objects);
}

static void *in_thread(const void *key, size_t size)
{
    struct object *o;

    pthread_once(&objects_once, make_key);
    for (o = pthread_getspecific(objects_key); o; o = o->next) {
        if (o->key == key) return o->memory;
    }
    o = malloc(sizeof(*o));
    if (o)
        o->memory = aligned_alloc(GW_CPU_SHARED_ALIGN,
                                  (size + GW_CPU_SHARED_ALIGN - 1) & ~(size_t)(GW_CPU_SHARED_ALIGN - 1));
    if (!o || !o->memory) {
        /* Like a stack that cannot grow: the caller is a kernel's function, which has no way to go on
         * without. */
        fputs("gpuwire: no memory for a GW_SHARED object\n", stderr);
        abort();
    }
    o->key = key;
    o->next = pthread_getspecific(objects_key);
    pthread_setspecific(objects_key, o);
    return memset(o->memory, POISON, size);
}

void *gw_cpu_shared(const void *key, size_t size)
{
    struct gw_cpu_block *b = gw_cpu_self.block;
    void *memory;

    if (!b) return in_thread(key, size);
    if (b->lanes == 1) return in_block(b, key, size);
    pthread_mutex_lock(&b->shared_lock);
    memory = in_block(b, key, size);
    pthread_mutex_unlock(&b->shared_lock);
    return memory;
}
