/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oneDNN's part of a plan: its engine, the memory that its primitives are bound to, and a run of one. The
 * library's few own small allocations per call are not ours to avoid.
 */
#include <errno.h>
#include <stdlib.h>

#include "src/model/cpu/dnnl_plan.h"

#include "src/model/cpu/dnnl.h"
#include "src/model/cpu/dnnl_careful.h"
#include "src/model/cpu/dnnl_join.h"
#include "src/model/cpu/steps.h"

int gwm_dnnl_new(struct gwm_cpu *p)
{
    p->dnnl = calloc(1, sizeof(*p->dnnl));
    if (!p->dnnl) return -ENOMEM;
    dnnl_status_t s = dnnl_engine_create(&p->dnnl->engine, dnnl_cpu, 0);
    return gwm_dnnl_status(
        s ? s : dnnl_stream_create(&p->dnnl->stream, p->dnnl->engine, dnnl_stream_default_flags));
}

void gwm_dnnl_free(struct gwm_dnnl *d)
{
    if (!d) return;
    gwm_prims_free(d->prims);
    for (struct gwm_form *f = d->forms, *next; f; f = next) {
        next = f->next;
        md_free(f->md);
        free(f);
    }
    gwm_join_free(d->joins);
    if (d->stream) dnnl_stream_destroy(d->stream);
    if (d->engine) dnnl_engine_destroy(d->engine);
    free(d);
}

/* Inputs and outputs get their address at each run; NULL instead of DNNL_MEMORY_NONE would have the library
 * allocate. */
static dnnl_status_t bind_one(struct gwm_cpu *p, int buf, md_t md, dnnl_memory_t *mem)
{
    void *at = gwm_cpu_at(p, buf);

    return dnnl_memory_create(mem, md, p->dnnl->engine, at ? at : DNNL_MEMORY_NONE);
}

int gwm_dnnl_bind(struct gwm_cpu *p)
{
    for (struct gwm_prim *q = p->dnnl->prims; q; q = q->next) {
        dnnl_status_t s =
            q->scratch < 0 ? dnnl_success : bind_one(p, q->scratch, q->scratch_md, &q->scratch_mem);
        for (int i = 0; i < q->nargs && !s; i++) s = bind_one(p, q->a[i].buf, q->a[i].md, &q->a[i].mem);
        if (s) return gwm_dnnl_status(s);
        p->wary = p->wary || ((q->bare || q->own) && !q->always);
    }
    return 0;
}

int gwm_dnnl_run(struct gwm_cpu *p, struct gwm_prim *q)
{
    bool careful = q->always || p->careful;

    if (careful && q->own) {
        q->own(p, q);
        return 0;
    }
    int err = gwm_prim_execute(p, q, careful && q->bare ? q->bare : q->prim, NULL, NULL);
    if (!err && careful && q->bare) gwm_careful_act(p, q);
    return err;
}
