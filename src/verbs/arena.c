/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A first-fit allocator over a few large pieces of executor memory. It is used only when queue pairs and CQs
 * are made and destroyed, so it is simple. Each chunk has a sorted list of its used stretches. The list lies
 * outside the memory itself, which the CPU may not even see.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "src/verbs/impl.h"

struct stretch {
    size_t from, to;
    struct stretch *next;
};

struct gw_arena_chunk {
    struct gw_mem mem;
    struct stretch *used; /* by address */
    struct gw_arena_chunk *next;
};

void gw_arena_init(struct gw_arena *a, struct gw_exec *exec, enum gw_mem_kind kind, size_t chunk_bytes)
{
    memset(a, 0, sizeof(*a));
    a->exec = exec;
    a->kind = kind;
    a->chunk_bytes = chunk_bytes;
    pthread_mutex_init(&a->lock, NULL);
}

void gw_arena_fini(struct gw_arena *a)
{
    if (!a->exec) return;
    while (a->chunks) {
        struct gw_arena_chunk *c = a->chunks;

        a->chunks = c->next;
        while (c->used) {
            struct stretch *s = c->used;

            c->used = s->next;
            free(s);
        }
        gw_mem_free(&c->mem);
        free(c);
    }
    pthread_mutex_destroy(&a->lock);
    memset(a, 0, sizeof(*a));
}

/* The first gap of the chunk that fits; its stretch is entered into the list. */
static struct stretch *verbs_arena_place(struct gw_arena_chunk *c, size_t size, size_t align)
{
    struct stretch **at = &c->used, *s;
    size_t from = 0;

    for (; *at; at = &(*at)->next) {
        if ((*at)->from >= from && (*at)->from - from >= size) break;
        from = ((*at)->to + align - 1) & ~(align - 1);
    }
    if (!*at && (from > c->mem.size || c->mem.size - from < size)) return NULL;
    s = malloc(sizeof(*s));
    if (!s) return NULL;
    s->from = from;
    s->to = from + size;
    s->next = *at;
    *at = s;
    GW_ASSERT(s->to <= c->mem.size && (!s->next || s->to <= s->next->from));
    return s;
}

static struct gw_arena_chunk *verbs_arena_grow(struct gw_arena *a, size_t size)
{
    struct gw_arena_chunk *c = calloc(1, sizeof(*c));

    GW_ASSERT_HELD(&a->lock);
    if (!c) return NULL;
    if (gw_mem_alloc(a->exec, a->kind, size > a->chunk_bytes ? size : a->chunk_bytes, &c->mem)) {
        free(c);
        return NULL;
    }
    c->next = a->chunks;
    a->chunks = c;
    return c;
}

/* Freed stretches are used again: the next owner must find zeros, as in a new chunk. */
int gw_arena_clear(struct gw_arena *a, const struct gw_piece *p)
{
    void *zeros;
    int err;

    if (p->host) {
        memset(p->host, 0, p->size);
        return 0;
    }
    zeros = calloc(1, p->size);
    if (!zeros) return -ENOMEM;
    err = gw_copy_in(a->exec, p->dev, zeros, p->size);
    free(zeros);
    return err;
}

int gw_arena_alloc(struct gw_arena *a, size_t size, size_t align, struct gw_piece *p)
{
    struct gw_arena_chunk *c;
    struct stretch *s = NULL;
    int err = -ENOMEM;

    if (align < 64) align = 64; /* no two pieces share a line */
    size = (size + 63) & ~(size_t)63;
    pthread_mutex_lock(&a->lock);
    for (c = a->chunks; c; c = c->next)
        if ((s = verbs_arena_place(c, size, align))) break;
    if (!s && (c = verbs_arena_grow(a, size))) s = verbs_arena_place(c, size, align);
    if (s) {
        p->dev = (uint8_t *)c->mem.dev + s->from;
        p->host = c->mem.host ? (uint8_t *)c->mem.host + s->from : NULL;
        p->size = size;
        err = gw_arena_clear(a, p);
    }
    pthread_mutex_unlock(&a->lock);
    if (s && err) gw_arena_free(a, p->dev);
    return err;
}

/* Offset of an address in the chunk, or SIZE_MAX. */
static size_t offset_in(const struct gw_arena_chunk *c, const void *any)
{
    uintptr_t x = (uintptr_t)any, host = (uintptr_t)c->mem.host, dev = (uintptr_t)c->mem.dev;

    if (host && x >= host && x - host < c->mem.size) return x - host;
    if (x >= dev && x - dev < c->mem.size) return x - dev;
    return SIZE_MAX;
}

void gw_arena_free(struct gw_arena *a, const void *any)
{
    struct gw_arena_chunk *c;

    if (!any) return;
    pthread_mutex_lock(&a->lock);
    for (c = a->chunks; c; c = c->next) {
        size_t off = offset_in(c, any);
        struct stretch **at = &c->used;

        if (off == SIZE_MAX) continue;
        while (*at && (*at)->from != off) at = &(*at)->next;
        if (*at) {
            struct stretch *s = *at;

            *at = s->next;
            free(s);
        }
        break;
    }
    pthread_mutex_unlock(&a->lock);
}

void *gw_arena_dev(struct gw_arena *a, const void *host)
{
    struct gw_arena_chunk *c;
    void *dev = NULL;

    pthread_mutex_lock(&a->lock);
    for (c = a->chunks; c && !dev; c = c->next) {
        uintptr_t x = (uintptr_t)host, base = (uintptr_t)c->mem.host;

        if (base && x >= base && x - base < c->mem.size) dev = (uint8_t *)c->mem.dev + (x - base);
    }
    pthread_mutex_unlock(&a->lock);
    return dev;
}
