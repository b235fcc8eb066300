/* SPDX-License-Identifier: Apache-2.0 */
/* A graph becomes a list of steps on the CPU: oneDNN for products and windows, own loops for the rest. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "src/model/cpu/plan.h"

#include "src/model/cpu/constants.h"
#include "src/model/cpu/dnnl_layout.h"
#include "src/model/cpu/dnnl_nodes.h"
#include "src/model/cpu/dnnl_plan.h"
#include "src/model/cpu/ordinary.h"
#include "src/model/cpu/steps.h"
#include "src/model/graph/msg.h"
#include "src/model/graph/slim.h"

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
        int err = gwm_dnnl_plain(p, g->value[n->in[i]].root);
        if (err) return err;
    }
    int s = gwm_cpu_step(p, n, NULL);
    if (s < 0) return s;
    for (uint32_t i = 0; i < n->nin; i++) gwm_cpu_use(p, g->value[n->in[i]].root);
    gwm_cpu_use(p, n->out);
    p->plain[n->out] = true;
    return 0;
}

/* May the numbers be NaN that n, and what follows it in the same step, computes with or makes? */
static bool is_odd(const struct gwm_cpu *p, const struct gwm_node *n)
{
    const struct gwm_graph *g = p->g;
    int next = gwm_sole_reader(g, p->uses, g->value[n->out].root, (int)(n - g->node));

    return p->odd[g->value[n->out].root] || (next >= 0 && p->odd[g->value[g->node[next].out].root]);
}

static int add_node(struct gwm_cpu *p, const struct gwm_node *n)
{
    p->odd_node = is_odd(p, n);
    int err = p->done[n - p->g->node] ? 0 : gwm_dnnl_add(p, n);

    return err == -ENOTSUP ? add_own(p, n) : err;
}

/* Room of that size in the arena; *at is where. */
static int plan_take_room(struct gwm_cpu *p, size_t bytes, char **at)
{
    int err;

    *at = gwm_arena_find(p->room, bytes, &err);
    if (*at || err) return err;
    *at = (char *)aligned_alloc(GWM_ARENA_ALIGN, bytes);
    p->arena_added = bytes;
    return *at ? gwm_arena_add(p->room, *at, bytes, *at, free) : -ENOMEM;
}

static int make_arena(struct gwm_cpu *p)
{
    int err;

    p->span = (struct gwm_span *)calloc((size_t)p->nbuf + 1, sizeof(*p->span));
    if (!p->span) return -ENOMEM;
    for (int b = 0; b < p->nbuf; b++) {
        bool used = p->buf[b].kind == GWM_BUF_ARENA && p->buf[b].first >= 0;
        p->buf[b].span = &p->span[b];
        p->span[b] = (struct gwm_span){used ? p->buf[b].bytes : 0, p->buf[b].first, p->buf[b].last, 0};
    }
    err = gwm_arena_plan(p->span, (size_t)p->nbuf, p->most - p->weight_bytes, &p->arena_bytes);
    return err ? err : plan_take_room(p, p->arena_bytes + GWM_ARENA_ALIGN, &p->arena);
}

/* oneDNN's threads are OpenMP's, which we have no other reason to link; a build of it without them has no
 * such name. */
static void find_threads(struct gwm_cpu *p, uint32_t threads)
{
    p->threads = threads ? (int)threads : 1;
    *(void **)&p->set_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (p->set_threads) p->set_threads(p->threads);
}

static int cpu_plan_build(struct gwm_cpu *p, const struct gwm_msg *msg)
{
    const struct gwm_graph *g = p->g;
    int err = value_buffers(p);

    if (!err) err = gwm_dnnl_new(p);
    for (int i = 0; i < g->nnode && !err; i++) err = add_node(p, &g->node[i]);
    for (uint32_t o = 0; o < g->noutput && !err; o++) err = gwm_dnnl_plain(p, g->value[g->output[o]].root);
    if (!err) err = gwm_constants_place(p);
    if (!err) err = make_arena(p);
    if (err == -E2BIG)
        return gwm_fail(msg, err, "weights and intermediate results take more than %zu MiB", p->most >> 20);
    return err ? err : gwm_dnnl_bind(p);
}

/* What the plan shares, or its own. */
static int find_memory(struct gwm_cpu *p, const struct gw_plan_options *o)
{
    int err = o->weights ? 0 : gw_weights_create(NULL, &p->own_weights);

    if (!err && !o->arena) err = gw_plan_arena_create(NULL, &p->own_room);
    p->weights = o->weights ? o->weights : p->own_weights;
    p->room = o->arena ? o->arena : p->own_room;
    return err;
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
    int err = p->plain && p->args && p->done && p->uses && p->maker && p->odd ? 0 : -ENOMEM;
    if (!err) gwm_uses(g, p->uses, p->maker);
    if (!err) err = gwm_odd(g, p->odd);
    if (!err) err = find_memory(p, o);
    struct gwm_mark mark = err ? (struct gwm_mark){0} : gwm_weights_mark(p->weights);
    if (!err && (err = cpu_plan_build(p, msg))) gwm_weights_back(p->weights, mark);
    if (err)
        gwm_cpu_free(p);
    else
        *plan = p;
    return err;
}

void gwm_cpu_free(struct gwm_cpu *p)
{
    if (!p) return;
    gwm_dnnl_free(p->dnnl);
    gw_weights_free(p->own_weights);
    gw_plan_arena_free(p->own_room);
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

/* Primitives of the library have their own copies of weights and biases. */
void gwm_cpu_needs(const struct gwm_cpu *p, struct gwm_slim *s)
{
    const struct gwm_graph *g = p->g;
    bool *copied = (bool *)calloc((size_t)g->nnode + 1, sizeof(*copied));

    s->full = s->full || !copied;
    if (!copied) return;
    for (int i = 0; i < g->nnode; i++)
        copied[i] = g->node[i].op == GWM_CONV || g->node[i].op == GWM_DECONV || g->node[i].op == GWM_GEMM;
    for (int i = 0; i < p->nstep; i++)
        if (p->step[i].node) copied[p->step[i].node - g->node] = false;
    gwm_slim_nodes(s, g, copied);
    for (int b = 0; b < p->nbuf; b++)
        if (p->buf[b].kind == GWM_BUF_FIXED && p->buf[b].first >= 0) gwm_slim_need(s, p->buf[b].fixed);
    free(copied);
}

void gwm_cpu_stats(const struct gwm_cpu *p, struct gw_plan_stats *s)
{
    *s = (struct gw_plan_stats){.weight_bytes = p->weight_bytes,
                                .arena_bytes = p->own_room ? p->arena_bytes : p->arena_added,
                                .steps = (uint32_t)p->nstep,
                                .shares = (p->own_weights ? 0 : GW_PLAN_SHARES_WEIGHTS) |
                                          (p->own_room ? 0 : GW_PLAN_SHARES_ARENA)};
}
