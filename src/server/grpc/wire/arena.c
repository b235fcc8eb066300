/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates the parts of one decoded message, up to a limit, and frees them at once. */
#include "src/server/grpc/wire/arena.h"

#include <stdlib.h>

#define CHUNK  (16u << 10)
#define SLACK  (1u << 20) /* any message may take this much */
#define FACTOR 8u         /* a packed INT64 takes 8 bytes for 1 */
#define ALIGN  16u

struct gw_grpc_chunk {
    struct gw_grpc_chunk *next;
    size_t size, used;
    _Alignas(ALIGN) unsigned char bytes[];
};

static void *grpc_arena_take(void *arena, size_t bytes)
{
    return gw_grpc_arena_take((struct gw_grpc_arena *)arena, bytes);
}

static void grpc_arena_keep(void *arena, void *p)
{
    (void)arena, (void)p; /* all is freed together */
}

void gw_grpc_arena_open(struct gw_grpc_arena *a, size_t message_bytes)
{
    *a = (struct gw_grpc_arena){
        .allocator = {grpc_arena_take, grpc_arena_keep, a},
        .most = message_bytes < (SIZE_MAX - SLACK) / FACTOR ? message_bytes * FACTOR + SLACK : SIZE_MAX};
}

void gw_grpc_arena_close(struct gw_grpc_arena *a)
{
    for (struct gw_grpc_chunk *c = a->chunk, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    a->chunk = NULL;
}

void *gw_grpc_arena_take(struct gw_grpc_arena *a, size_t bytes)
{
    struct gw_grpc_chunk *c = a->chunk;
    if (bytes > a->most) return NULL;
    size_t want = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (want < bytes) return NULL;
    if (!c || want > c->size - c->used) {
        size_t size = want > CHUNK ? want : CHUNK;
        if (size > a->most - a->used) return NULL;
        c = malloc(sizeof(*c) + size);
        if (!c) return NULL;
        c->next = a->chunk;
        c->size = size;
        c->used = 0;
        a->chunk = c;
        a->used += size;
    }
    void *p = c->bytes + c->used;
    c->used += want;
    return p;
}
