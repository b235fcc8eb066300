/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that plans have in common. Constants are found by a hash of their bytes: batch sizes of one model
 * mostly want the same forms of them, and what differs is kept apart. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/graph/share.h"

#include "src/model/graph/arena.h"

#define SHARE_SLACK 64 /* bytes that vector code may read past the end */

struct block {
    void *memory;
    void (*release)(void *memory);
};

struct blocks {
    struct block *of;
    size_t n, cap;
};

struct entry {
    struct gwm_key key;
    char *at;
    size_t next; /* of its bucket; number + 1 */
};

struct gw_weights {
    struct gw_range range; /* at NULL: memory of its own */
    uint64_t bytes;        /* of the range, taken; or of all constants */
    struct entry *entry;
    size_t entries, cap;
    size_t *bucket, nbucket; /* number + 1 of the newest entry; a power of two */
    struct blocks blocks;
};

struct gw_plan_arena {
    struct gw_range range;
    uint64_t backed;
    char *at; /* the room that was added last: the largest */
    size_t bytes;
    struct blocks blocks;
};

static void blocks_back(struct blocks *b, size_t n)
{
    for (; b->n > n; b->n--) b->of[b->n - 1].release(b->of[b->n - 1].memory);
}

static int blocks_add(struct blocks *b, void *memory, void (*release)(void *memory))
{
    if (b->n == b->cap) {
        size_t more = b->cap ? 2 * b->cap : 16;
        struct block *of = (struct block *)realloc(b->of, more * sizeof(*of));
        if (!of) {
            release(memory);
            return -ENOMEM;
        }
        b->of = of;
        b->cap = more;
    }
    b->of[b->n++] = (struct block){memory, release};
    return 0;
}

/* ---- constants ---- */

static uint64_t stir(uint64_t h, uint64_t word, uint64_t by)
{
    h = (h ^ word) * by;
    return h ^ h >> 29;
}

void gwm_key_more(struct gwm_key *key, const void *data, size_t bytes)
{
    uint64_t a = key->a, b = key->b;

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, (const char *)data + i, bytes - i < 8 ? bytes - i : 8);
        a = stir(a, word, 0x9e3779b97f4a7c15u);
        b = stir(b, word << 32 | word >> 32, 0xc2b2ae3d27d4eb4fu);
    }
    *key = (struct gwm_key){a, b, key->bytes + bytes};
}

struct gwm_key gwm_key_of(const void *data, size_t bytes)
{
    struct gwm_key k = {.a = 0x243f6a8885a308d3u, .b = 0x13198a2e03707344u};

    gwm_key_more(&k, data, bytes);
    return k;
}

int gw_weights_create(const struct gw_range *range, struct gw_weights **weights)
{
    struct gw_weights *w = (struct gw_weights *)calloc(1, sizeof(*w));

    *weights = NULL;
    if (range && (uintptr_t)range->at % GWM_ARENA_ALIGN) {
        free(w);
        return -EINVAL;
    }
    if (!w) return -ENOMEM;
    if (range) w->range = *range;
    *weights = w;
    return 0;
}

void gw_weights_free(struct gw_weights *w)
{
    if (!w) return;
    blocks_back(&w->blocks, 0);
    free(w->blocks.of);
    free(w->entry);
    free(w->bucket);
    free(w);
}

uint64_t gw_weights_bytes(const struct gw_weights *w)
{
    return w->bytes;
}

size_t gwm_weights_room(size_t bytes)
{
    return (bytes + SHARE_SLACK + GWM_ARENA_ALIGN - 1) / GWM_ARENA_ALIGN * GWM_ARENA_ALIGN;
}

bool gwm_weights_given(const struct gw_weights *w)
{
    return w->range.at;
}

char *gwm_weights_find(const struct gw_weights *w, const struct gwm_key *key)
{
    for (size_t i = w->nbucket ? w->bucket[key->a & (w->nbucket - 1)] : 0; i; i = w->entry[i - 1].next) {
        const struct entry *e = &w->entry[i - 1];
        if (e->key.a == key->a && e->key.b == key->b && e->key.bytes == key->bytes) return e->at;
    }
    return NULL;
}

static void weights_link(struct gw_weights *w, size_t i)
{
    size_t *bucket = &w->bucket[w->entry[i].key.a & (w->nbucket - 1)];

    w->entry[i].next = *bucket;
    *bucket = i + 1;
}

static int weights_grow(struct gw_weights *w)
{
    size_t more = w->cap ? 2 * w->cap : 64, *bucket;
    struct entry *e;

    if (w->entries < w->cap) return 0;
    e = (struct entry *)realloc(w->entry, more * sizeof(*e));
    if (e) w->entry = e;
    bucket = e ? (size_t *)calloc(more, sizeof(*bucket)) : NULL;
    if (!bucket) return -ENOMEM;
    free(w->bucket);
    w->bucket = bucket;
    w->nbucket = w->cap = more;
    for (size_t i = 0; i < w->entries; i++) weights_link(w, i);
    return 0;
}

int gwm_weights_note(struct gw_weights *w, const struct gwm_key *key, char *at)
{
    int err = weights_grow(w);

    if (err) return err;
    w->entry[w->entries] = (struct entry){.key = *key, .at = at};
    weights_link(w, w->entries++);
    w->bytes += gwm_weights_room(key->bytes);
    return 0;
}

int gwm_weights_place(struct gw_weights *w, const struct gwm_key *key, char **at)
{
    size_t room = gwm_weights_room(key->bytes);

    if (room > w->range.most - w->bytes) return -E2BIG;
    int err = w->range.back ? w->range.back(w->range.ctx, w->bytes + room) : 0;
    *at = (char *)w->range.at + w->bytes;
    return err ? err : gwm_weights_note(w, key, *at);
}

int gwm_weights_keep(struct gw_weights *w, void *memory, void (*release)(void *memory))
{
    return blocks_add(&w->blocks, memory, release);
}

struct gwm_mark gwm_weights_mark(const struct gw_weights *w)
{
    return (struct gwm_mark){w->entries, w->blocks.n, w->bytes};
}

void gwm_weights_back(struct gw_weights *w, struct gwm_mark mark)
{
    /* Newest first: each is the first of its bucket then. */
    for (; w->entries > mark.entries; w->entries--) {
        const struct entry *e = &w->entry[w->entries - 1];
        w->bucket[e->key.a & (w->nbucket - 1)] = e->next;
    }
    blocks_back(&w->blocks, mark.blocks);
    w->bytes = mark.bytes;
}

/* ---- room for intermediate results ---- */

int gw_plan_arena_create(const struct gw_range *range, struct gw_plan_arena **arena)
{
    struct gw_plan_arena *a = (struct gw_plan_arena *)calloc(1, sizeof(*a));

    *arena = NULL;
    if (range && (uintptr_t)range->at % GWM_ARENA_ALIGN) {
        free(a);
        return -EINVAL;
    }
    if (!a) return -ENOMEM;
    if (range) a->range = *range;
    *arena = a;
    return 0;
}

void gw_plan_arena_free(struct gw_plan_arena *a)
{
    if (!a) return;
    gwm_arena_clear(a);
    free(a->blocks.of);
    free(a);
}

char *gwm_arena_find(struct gw_plan_arena *a, size_t bytes, int *err)
{
    bool more = bytes > a->backed;

    *err = 0;
    if (!a->range.at) return a->at && bytes <= a->bytes ? a->at : NULL;
    if (bytes > a->range.most) *err = -E2BIG;
    if (!*err && more && a->range.back) *err = a->range.back(a->range.ctx, bytes);
    if (!*err && more) a->backed = bytes;
    return *err ? NULL : (char *)a->range.at;
}

int gwm_arena_add(struct gw_plan_arena *a, char *at, size_t bytes, void *memory,
                  void (*release)(void *memory))
{
    int err = blocks_add(&a->blocks, memory, release);

    if (err) return err;
    a->at = at;
    a->bytes = bytes;
    return 0;
}

void gwm_arena_clear(struct gw_plan_arena *a)
{
    blocks_back(&a->blocks, 0);
    a->at = NULL;
    a->bytes = 0;
}
