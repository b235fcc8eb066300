/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a plan: its steps, one after the other. */
#include <stddef.h>

#include "src/model/cpu/run.h"

#include "src/model/cpu/dnnl_join.h"
#include "src/model/cpu/dnnl_plan.h"
#include "src/model/cpu/ordinary.h"
#include "src/model/cpu/steps.h"
#include "src/model/ref/ref.h"

static void run_own(struct gwm_cpu *p, const struct gwm_node *n)
{
    for (uint32_t i = 0; i < n->nin; i++) p->args[i] = gwm_cpu_at(p, p->g->value[n->in[i]].root);
    gwm_ref_eval(n, p->g, p->args, gwm_cpu_at(p, n->out));
}

int gwm_cpu_run(struct gwm_cpu *p, const void *const in[], void *const out[])
{
    int err = 0;

    p->in = in;
    p->out = out;
    p->careful = p->wary && !gwm_is_ordinary(p->g, in);
    if (p->set_threads) p->set_threads(p->threads); /* it is a property of the calling thread */
    for (int i = 0; i < p->nstep && !err; i++) {
        if (p->step[i].prim)
            err = gwm_dnnl_run(p, p->step[i].prim);
        else if (p->step[i].join)
            gwm_join_run(p, p->step[i].join);
        else
            run_own(p, p->step[i].node);
    }
    p->in = NULL;
    p->out = NULL;
    return err;
}
