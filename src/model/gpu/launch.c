/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers and launches that a plan is made of. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/gpu/launch.h"

static int launch_grow(void **array, int n, int *cap, size_t size)
{
    if (n < *cap) return 0;
    int more = *cap ? 2 * *cap : 64;
    void *p = realloc(*array, (size_t)more * size);
    if (!p) return -ENOMEM;
    *array = p;
    *cap = more;
    return 0;
}

static int new_buf(struct gwm_gpu *p, struct gwm_gpu_buf b)
{
    if (b.bytes > p->most) return -E2BIG;
    if (launch_grow((void **)&p->buf, p->nbuf, &p->cap_buf, sizeof(*p->buf))) return -ENOMEM;
    p->buf[p->nbuf] = b;
    return p->nbuf++;
}

int gwm_gpu_scratch(struct gwm_gpu *p, size_t bytes, uint32_t type)
{
    return new_buf(p, (struct gwm_gpu_buf){.mem = GWM_MEM_ARENA, .type = type, .bytes = bytes});
}

int gwm_gpu_outside(struct gwm_gpu *p, enum gwm_mem mem, int index, uint32_t type)
{
    return new_buf(p, (struct gwm_gpu_buf){.mem = mem, .index = index, .type = type});
}

int gwm_gpu_static(struct gwm_gpu *p, const void *data, size_t bytes, uint32_t type)
{
    return new_buf(p, (struct gwm_gpu_buf){.mem = GWM_MEM_CONST, .type = type, .bytes = bytes, .data = data});
}

int gwm_gpu_take(struct gwm_gpu *p, void *data, size_t bytes, uint32_t type)
{
    int b = data ? gwm_gpu_static(p, data, bytes, type) : -ENOMEM;

    if (b < 0)
        free(data);
    else
        p->buf[b].own = data;
    return b;
}

static struct gwm_launch *new_launch(struct gwm_gpu *p)
{
    if (launch_grow((void **)&p->launch, p->nlaunch, &p->cap_launch, sizeof(*p->launch))) return NULL;
    memset(&p->launch[p->nlaunch], 0, sizeof(*p->launch));
    p->launch[p->nlaunch].node = p->node;
    return &p->launch[p->nlaunch++];
}

int gwm_gpu_launch(struct gwm_gpu *p, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
                   const void *args)
{
    void *copy = malloc(kernel->arg_size);
    struct gwm_launch *l = copy ? new_launch(p) : NULL;

    if (!l) {
        free(copy);
        return -ENOMEM;
    }
    memcpy(copy, args, kernel->arg_size);
    l->kernel = kernel;
    l->grid = grid;
    l->block = block;
    l->args = copy;
    return 0;
}

int gwm_gpu_call(struct gwm_gpu *p, struct gwm_call *call)
{
    struct gwm_launch *l = new_launch(p);

    if (l)
        l->call = call;
    else
        call->free(call);
    return l ? 0 : -ENOMEM;
}

int gwm_gpu_ref(struct gwm_gpu *p, size_t at, int buf)
{
    struct gwm_launch *l = &p->launch[p->nlaunch - 1];

    if (buf < 0) return buf;
    l->fix[l->nfix++] = (struct gwm_fix){at, buf, true};
    return 0;
}

int gwm_gpu_fix(struct gwm_gpu *p, size_t at, int buf)
{
    int err = gwm_gpu_ref(p, at, buf);
    struct gwm_launch *l = &p->launch[p->nlaunch - 1];

    if (!err) l->fix[l->nfix - 1].ref = false;
    return err;
}

static void free_launch(struct gwm_launch *l)
{
    free(l->args);
    if (l->call) l->call->free(l->call);
}

void gwm_gpu_back(struct gwm_gpu *p, int nlaunch, int nbuf)
{
    while (p->nlaunch > nlaunch) free_launch(&p->launch[--p->nlaunch]);
    for (int i = 0; i < p->g->nvalue * GWM_SLOTS; i++)
        if (p->as[i] >= nbuf) p->as[i] = -1;
    while (p->nbuf > nbuf) free(p->buf[--p->nbuf].own);
}

void gwm_gpu_drop(struct gwm_gpu *p)
{
    for (int i = 0; i < p->nlaunch; i++) free_launch(&p->launch[i]);
    for (int i = 0; i < p->nbuf; i++) free(p->buf[i].own);
    free(p->launch);
    free(p->buf);
}
