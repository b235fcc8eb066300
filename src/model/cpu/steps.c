/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers and steps that a plan is made of: how they are added, and where a buffer lies in a run. */
#include <errno.h>
#include <stdlib.h>

#include "src/model/cpu/steps.h"

static void *steps_grow(void *array, int n, int *cap, size_t size)
{
    if (n < *cap) return array;
    int more = *cap ? 2 * *cap : 64;
    void *p = realloc(array, (size_t)more * size);
    if (p) *cap = more;
    return p;
}

int gwm_cpu_buf(struct gwm_cpu *p, size_t bytes)
{
    void *a = steps_grow(p->buf, p->nbuf, &p->cap_buf, sizeof(*p->buf));

    if (!a) return -ENOMEM;
    p->buf = (struct gwm_buf *)a;
    p->buf[p->nbuf] = (struct gwm_buf){.kind = GWM_BUF_ARENA, .bytes = bytes, .first = -1, .last = -1};
    return p->nbuf++;
}

int gwm_cpu_step(struct gwm_cpu *p, const struct gwm_node *node, struct gwm_prim *prim)
{
    void *a = steps_grow(p->step, p->nstep, &p->cap_step, sizeof(*p->step));

    if (!a) return -ENOMEM;
    p->step = (struct gwm_step *)a;
    p->step[p->nstep] = (struct gwm_step){.node = node, .prim = prim};
    return p->nstep++;
}

void gwm_cpu_use(struct gwm_cpu *p, int buf)
{
    struct gwm_buf *b = &p->buf[buf];

    if (b->first < 0) b->first = p->nstep - 1;
    b->last = p->nstep - 1;
}

void *gwm_cpu_at(const struct gwm_cpu *p, int buf)
{
    const struct gwm_buf *b = &p->buf[buf];

    switch (b->kind) {
    case GWM_BUF_FIXED: return b->fixed;
    case GWM_BUF_IN: return p->in ? (void *)p->in[b->index] : NULL;
    case GWM_BUF_OUT: return p->out ? p->out[b->index] : NULL;
    default: return p->arena ? p->arena + b->span->offset : NULL;
    }
}
