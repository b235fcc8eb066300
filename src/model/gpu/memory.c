/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of a plan: constants, one arena, room for the inputs and outputs of gwm_gpu_run. All of it is
 * taken when the plan is made, so a run allocates nothing.
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

/* When each buffer of the arena is needed; and where constants go, of which unused ones take no place. */
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
        if (p->buf[b].mem != GWM_MEM_CONST) continue;
        p->buf[b].offset = p->const_bytes;
        p->const_bytes += memory_aligned(p->buf[b].bytes);
        if (p->const_bytes > p->most) return -E2BIG;
    }
    return 0;
}

static int copy_constants(struct gwm_gpu *p)
{
    int err = 0;

    for (int b = 0; b < p->nbuf && !err; b++) {
        const struct gwm_gpu_buf *f = &p->buf[b];
        if (f->mem == GWM_MEM_ARENA) p->at[b] = (char *)p->arena_mem.dev + p->span[b].offset;
        if (f->mem != GWM_MEM_CONST) continue;
        p->at[b] = (char *)p->const_mem.dev + f->offset;
        if (p->span[b].first >= 0 && f->bytes) err = gw_copy_in(p->exec, p->at[b], f->data, f->bytes);
    }
    for (int b = 0; b < p->nbuf; b++) { /* the host's copies have served */
        free(p->buf[b].own);
        p->buf[b].own = NULL;
    }
    return err;
}

int gwm_gpu_memory(struct gwm_gpu *p)
{
    int err = place_buffers(p);
    size_t io = place_io(p), other = p->const_bytes + io;

    if (!err && other > p->most) err = -E2BIG;
    if (!err) err = gwm_arena_plan(p->span, (size_t)p->nbuf, p->most - other, &p->arena_bytes);
    if (!err) err = gw_mem_alloc(p->exec, GW_MEM_DEVICE, p->const_bytes + GWM_ARENA_ALIGN, &p->const_mem);
    if (!err) err = gw_mem_alloc(p->exec, GW_MEM_DEVICE, p->arena_bytes + GWM_ARENA_ALIGN, &p->arena_mem);
    if (!err) err = gw_mem_alloc(p->exec, GW_MEM_DEVICE, io + GWM_ARENA_ALIGN, &p->io_mem);
    return err ? err : copy_constants(p);
}

void gwm_gpu_memory_free(struct gwm_gpu *p)
{
    gw_mem_free(&p->program_mem);
    gw_mem_free(&p->const_mem);
    gw_mem_free(&p->arena_mem);
    gw_mem_free(&p->io_mem);
    free(p->span);
    free(p->at);
}
