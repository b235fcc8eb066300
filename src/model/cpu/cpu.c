/* SPDX-License-Identifier: Apache-2.0 */
/* A graph becomes a list of steps on the CPU: oneDNN for products and windows, own loops for the rest. */
#include "src/model/cpu/cpu.h"
#include "src/model/cpu/ordinary.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void *grow(void *array, int n, int *cap, size_t size)
{
    if (n < *cap) return array;
    int more = *cap ? 2 * *cap : 64;
    void *p = realloc(array, (size_t)more * size);
    if (p) *cap = more;
    return p;
}

int gwm_cpu_buf(struct gwm_cpu *p, size_t bytes)
{
    void *a = grow(p->buf, p->nbuf, &p->cap_buf, sizeof(*p->buf));

    if (!a) return -ENOMEM;
    p->buf = (struct gwm_buf *)a;
    p->buf[p->nbuf] = (struct gwm_buf){.kind = GWM_BUF_ARENA, .bytes = bytes, .first = -1, .last = -1};
    return p->nbuf++;
}

int gwm_cpu_step(struct gwm_cpu *p, const struct gwm_node *node, struct gwm_prim *prim)
{
    void *a = grow(p->step, p->nstep, &p->cap_step, sizeof(*p->step));

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

/* One buffer per value; those of views stay unused. */
static int value_buffers(struct gwm_cpu *p)
{
    for (int v = 0; v < p->g->nvalue; v++) {
        const struct gwm_value *val = &p->g->value[v];
        int b = gwm_cpu_buf(p, gwm_bytes(val));
        if (b < 0) return b;
        if (val->data) {
            p->buf[b].kind = GWM_BUF_FIXED;
            p->buf[b].fixed = (void *)val->data;
        } else if (val->input >= 0) {
            p->buf[b].kind = GWM_BUF_IN;
            p->buf[b].index = val->input;
        } else if (val->output >= 0) {
            p->buf[b].kind = GWM_BUF_OUT;
            p->buf[b].index = val->output;
        }
        p->plain[v] = val->data || val->input >= 0;
    }
    return 0;
}

static int add_own(struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_graph *g = p->g;

    for (uint32_t i = 0; i < n->nin; i++) {
        int rc = gwm_dnnl_plain(p, g->value[n->in[i]].root);
        if (rc) return rc;
    }
    int s = gwm_cpu_step(p, n, NULL);
    if (s < 0) return s;
    for (uint32_t i = 0; i < n->nin; i++) gwm_cpu_use(p, g->value[n->in[i]].root);
    gwm_cpu_use(p, n->out);
    p->plain[n->out] = true;
    return 0;
}

/* May numbers be NaN that n, and what comes behind it in the same step, computes with or makes? */
static bool is_odd(const struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_graph *g = p->g;
    int next = gwm_sole_reader(g, p->uses, g->value[n->out].root, (int)(n - g->node));

    return p->odd[g->value[n->out].root] || (next >= 0 && p->odd[g->value[g->node[next].out].root]);
}

static int add_node(struct gwm_cpu *p, const struct gwm_node *n)
{
    p->odd_node = is_odd(p, n);
    int rc = p->done[n - p->g->node] ? 0 : gwm_dnnl_add(p, n);

    return rc == -ENOTSUP ? add_own(p, n) : rc;
}

static int make_arena(struct gwm_cpu *p)
{
    int rc;

    p->span = (struct gwm_span *)calloc((size_t)p->nbuf + 1, sizeof(*p->span));
    if (!p->span) return -ENOMEM;
    for (int b = 0; b < p->nbuf; b++) {
        bool used = p->buf[b].kind == GWM_BUF_ARENA && p->buf[b].first >= 0;
        p->buf[b].span = &p->span[b];
        p->span[b] = (struct gwm_span){used ? p->buf[b].bytes : 0, p->buf[b].first, p->buf[b].last, 0};
    }
    rc = gwm_arena_plan(p->span, (size_t)p->nbuf, p->most - p->weight_bytes, &p->arena_bytes);
    if (rc) return rc;
    p->arena = (char *)aligned_alloc(GWM_ARENA_ALIGN, p->arena_bytes + GWM_ARENA_ALIGN);
    return p->arena ? 0 : -ENOMEM;
}

/* oneDNN's threads are OpenMP's, which we have no other reason to link; a build of it without them has no
 * such name. */
static void find_threads(struct gwm_cpu *p, uint32_t threads)
{
    p->threads = threads ? (int)threads : 1;
    *(void **)&p->set_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (p->set_threads) p->set_threads(p->threads);
}

static int build(struct gwm_cpu *p, const struct gwm_msg *msg)
{
    const struct gwm_graph *g = p->g;
    int rc = value_buffers(p);

    if (!rc) rc = gwm_dnnl_new(p);
    for (int i = 0; i < g->nnode && !rc; i++) rc = add_node(p, &g->node[i]);
    for (uint32_t o = 0; o < g->noutput && !rc; o++) rc = gwm_dnnl_plain(p, g->value[g->output[o]].root);
    if (!rc) rc = make_arena(p);
    if (rc == -E2BIG)
        return gwm_fail(msg, rc, "weights and intermediate results take more than %zu MiB", p->most >> 20);
    return rc ? rc : gwm_dnnl_bind(p);
}

int gwm_cpu_plan(const struct gwm_graph *g, const struct gw_plan_options *o, struct gwm_cpu **plan,
                 const struct gwm_msg *msg)
{
    struct gwm_cpu *p = (struct gwm_cpu *)calloc(1, sizeof(*p));
    uint32_t most = 1;

    if (!p) return -ENOMEM;
    for (int i = 0; i < g->nnode; i++) most = g->node[i].nin > most ? g->node[i].nin : most;
    p->g = g;
    p->plain = (bool *)calloc((size_t)g->nvalue + 1, sizeof(bool));
    p->done = (bool *)calloc((size_t)g->nnode + 1, sizeof(bool));
    p->uses = (int *)calloc((size_t)g->nvalue + 1, sizeof(int));
    p->maker = (int *)calloc((size_t)g->nvalue + 1, sizeof(int));
    p->odd = (bool *)calloc((size_t)g->nvalue + 1, sizeof(bool));
    p->args = (const void **)calloc(most, sizeof(*p->args));
    p->most = o->memory ? o->memory : GWM_ARENA_MAX;
    find_threads(p, o->threads);
    int rc = p->plain && p->args && p->done && p->uses && p->maker && p->odd ? 0 : -ENOMEM;
    if (!rc) gwm_uses(g, p->uses, p->maker);
    if (!rc) rc = gwm_odd(g, p->odd);
    if (!rc) rc = build(p, msg);
    if (rc)
        gwm_cpu_free(p);
    else
        *plan = p;
    return rc;
}

void gwm_cpu_free(struct gwm_cpu *p)
{
    if (!p) return;
    gwm_dnnl_free(p->dnnl);
    free(p->arena);
    free(p->span);
    free(p->buf);
    free(p->step);
    free(p->plain);
    free(p->done);
    free(p->uses);
    free(p->maker);
    free(p->odd);
    free(p->args);
    free(p);
}

void gwm_cpu_stats(const struct gwm_cpu *p, struct gw_plan_stats *s)
{
    *s = (struct gw_plan_stats){
        .weight_bytes = p->weight_bytes, .arena_bytes = p->arena_bytes, .steps = (uint32_t)p->nstep};
}

static void run_own(struct gwm_cpu *p, const struct gwm_node *n)
{
    for (uint32_t i = 0; i < n->nin; i++) p->args[i] = gwm_cpu_at(p, p->g->value[n->in[i]].root);
    gwm_ref_eval(n, p->g, p->args, gwm_cpu_at(p, n->out));
}

int gwm_cpu_run(struct gwm_cpu *p, const void *const in[], void *const out[])
{
    int rc = 0;

    p->in = in;
    p->out = out;
    p->careful = p->wary && !gwm_is_ordinary(p->g, in);
    if (p->set_threads) p->set_threads(p->threads); /* it is a property of the calling thread */
    for (int i = 0; i < p->nstep && !rc; i++) {
        if (p->step[i].prim)
            rc = gwm_dnnl_run(p, p->step[i].prim);
        else if (p->step[i].join)
            gwm_join_run(p, p->step[i].join);
        else
            run_own(p, p->step[i].node);
    }
    p->in = NULL;
    p->out = NULL;
    return rc;
}
