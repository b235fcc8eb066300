/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of a plan: constants, one arena, room for the inputs and outputs of gwm_gpu_run. All of it is
 * taken when the plan is made, or is there already, so a run allocates nothing.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/model/gpu/memory.h"

static size_t memory_aligned(size_t bytes)
{
    return (bytes + GWM_ARENA_ALIGN - 1) / GWM_ARENA_ALIGN * GWM_ARENA_ALIGN;
}

/* Device memory for run's tensors, one after the other. */
static size_t place_io(struct gwm_gpu *p)
{
    size_t at = 0;

    for (uint32_t i = 0; i < p->g->ninput; i++) {
        p->in_at[i] = at;
        at += memory_aligned(gwm_bytes(&p->g->value[p->g->input[i]]));
    }
    for (uint32_t i = 0; i < p->g->noutput; i++) {
        p->out_at[i] = at;
        at += memory_aligned(gwm_bytes(&p->g->value[p->g->output[i]]));
    }
    return at;
}

/* When each buffer is needed; constants that nothing reads take no place. */
static int place_buffers(struct gwm_gpu *p)
{
    p->span = (struct gwm_span *)calloc((size_t)p->nbuf + 1, sizeof(*p->span));
    p->at = (char **)calloc((size_t)p->nbuf + 1, sizeof(*p->at));
    if (!p->span || !p->at) return -ENOMEM;
    for (int b = 0; b < p->nbuf; b++) p->span[b].first = -1;
    for (int i = 0; i < p->nlaunch; i++) {
        for (int k = 0; k < p->launch[i].nfix; k++) {
            int b = p->launch[i].fix[k].buf;
            if (p->span[b].first < 0) p->span[b].first = i;
            p->span[b].last = i;
        }
    }
    for (int b = 0; b < p->nbuf; b++) {
        if (p->span[b].first < 0) continue;
        if (p->buf[b].mem == GWM_MEM_ARENA) p->span[b].bytes = p->buf[b].bytes;
    }
    return 0;
}

static void memory_release(void *memory)
{
    gw_mem_free((struct gw_mem *)memory);
    free(memory);
}

/* Device memory that weights or a room will keep. */
static struct gw_mem *memory_take(struct gwm_gpu *p, size_t bytes, int *err)
{
    struct gw_mem *m = (struct gw_mem *)calloc(1, sizeof(*m));

    *err = m ? gw_mem_alloc(p->exec, GW_MEM_DEVICE, bytes, m) : -ENOMEM;
    if (!*err) return m;
    free(m);
    return NULL;
}

static bool is_read(const struct gwm_gpu *p, int b)
{
    return p->buf[b].mem == GWM_MEM_CONST && p->span[b].first >= 0 && p->buf[b].bytes;
}

/* Puts constants that are not there yet at the caller's addresses, or where `*own` says. */
static int put_constant(struct gwm_gpu *p, int b, const struct gwm_key *key, char **own)
{
    int err;

    if (gwm_weights_given(p->weights)) {
        err = gwm_weights_place(p->weights, key, &p->at[b]);
    } else {
        p->at[b] = *own;
        *own += gwm_weights_room(key->bytes);
        err = gwm_weights_note(p->weights, key, p->at[b]);
    }
    p->const_bytes += gwm_weights_room(key->bytes);
    return err ? err : gw_copy_in(p->exec, p->at[b], p->buf[b].data, key->bytes);
}

/* Finds the constants that are there already, and says what room the others need. */
static size_t find_constants(struct gwm_gpu *p, struct gwm_key *key)
{
    size_t fresh = 0;

    for (int b = 0; b < p->nbuf; b++) {
        if (!is_read(p, b)) continue;
        key[b] = gwm_key_of(p->buf[b].data, p->buf[b].bytes);
        p->at[b] = gwm_weights_find(p->weights, &key[b]);
        if (!p->at[b]) fresh += gwm_weights_room(key[b].bytes);
    }
    return fresh;
}

static int copy_constants(struct gwm_gpu *p, const struct gwm_key *key, size_t fresh)
{
    struct gw_mem *m = NULL;
    int err = 0;

    if (fresh && !gwm_weights_given(p->weights)) {
        m = memory_take(p, fresh + GWM_ARENA_ALIGN, &err);
        if (!err) err = gwm_weights_keep(p->weights, m, memory_release);
    }
    char *own = m && !err ? (char *)m->dev : NULL;
    for (int b = 0; b < p->nbuf && !err; b++) {
        if (!is_read(p, b)) continue;
        p->at[b] = gwm_weights_find(p->weights, &key[b]); /* one before may have been its like */
        if (!p->at[b]) err = put_constant(p, b, &key[b], &own);
    }
    for (int b = 0; b < p->nbuf; b++) { /* the host's copies have served */
        free(p->buf[b].own);
        p->buf[b].own = NULL;
    }
    return err;
}

/* Room for intermediate results, and after them for run's tensors. */
static int memory_take_room(struct gwm_gpu *p, size_t io)
{
    size_t arena = memory_aligned(p->arena_bytes) + GWM_ARENA_ALIGN, bytes = arena + io + GWM_ARENA_ALIGN;
    int err;

    p->arena = gwm_arena_find(p->room, bytes, &err);
    if (!p->arena && !err) {
        struct gw_mem *m = memory_take(p, bytes, &err);
        if (!err) p->arena = (char *)m->dev;
        if (!err) err = gwm_arena_add(p->room, p->arena, bytes, m, memory_release);
        p->arena_added = bytes;
    }
    p->io = p->arena + arena;
    for (int b = 0; b < p->nbuf && !err; b++)
        if (p->buf[b].mem == GWM_MEM_ARENA) p->at[b] = p->arena + p->span[b].offset;
    return err;
}

int gwm_gpu_memory(struct gwm_gpu *p)
{
    struct gwm_key *key = (struct gwm_key *)calloc((size_t)p->nbuf + 1, sizeof(*key));
    int err = key ? place_buffers(p) : -ENOMEM;
    size_t fresh = err ? 0 : find_constants(p, key), io = place_io(p);

    if (!err && (fresh > p->most || io > p->most - fresh)) err = -E2BIG;
    if (!err) err = gwm_arena_plan(p->span, (size_t)p->nbuf, p->most - fresh - io, &p->arena_bytes);
    if (!err) err = copy_constants(p, key, fresh);
    if (!err) err = memory_take_room(p, io);
    free(key);
    return err;
}

void gwm_gpu_memory_free(struct gwm_gpu *p)
{
    gw_mem_free(&p->program_mem);
    free(p->span);
    free(p->at);
}
