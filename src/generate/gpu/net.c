/* SPDX-License-Identifier: Apache-2.0 */
/* A row program as a network on a GPU: how it is made, and what the worker asks of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/gpu/inside.h"

static void net_free(void *net)
{
    struct gen_gpu *g = net;

    for (uint32_t i = 0; i < GEN_NET_SIZES; i++) gen_gpu_forget(&g->list[i]);
    gen_gpu_unload(g);
    gw_mem_free(&g->arena);
    gw_mem_free(&g->partial);
    gw_mem_free(&g->tiles);
    gw_mem_free(&g->work);
    if (g->lt) gwm_lt_close(g->lt);
    free(g->p.op);
    free(g->item);
    free(g->value);
    free(g);
}

static void net_shape(const void *net, struct gen_net_shape *out)
{
    *out = ((const struct gen_gpu *)net)->shape;
}

static int net_bind(void *net, struct gw_exec *exec, struct gen_net_memory *m)
{
    struct gen_gpu *g = net;
    const struct gen_cache *c = &m->cache;

    if (g->bound) return gw_error(-EBUSY, "the network is bound already");
    if (exec != g->exec) return gw_error(-EINVAL, "the network was made for another executor");
    if (!m->step || !c->at || !m->logits || c->dtype != g->o.cache_type || c->layers < g->shape.layers ||
        c->heads < g->shape.heads || c->width != g->shape.width || m->logit_stride < g->shape.vocab)
        return gw_error(-EINVAL, "cache or logits have another shape than the network");
    g->memory = *m;
    g->bound = true;
    return 0;
}

static int net_item(struct gen_gpu *g, const struct gen_item *it, uint32_t size, struct gen_launches *l)
{
    if (it->kind == GEN_LINEAR) return gen_gpu_linear(g, it, size, l);
    if (it->kind == GEN_ATTEND) return gen_gpu_attend(g, it, size, l);
    return gen_gpu_each(g, it, size, l);
}

/* The launches for that number of rows. */
static int net_list(struct gen_gpu *g, uint32_t size, const struct gen_launches **out)
{
    struct gen_launches *l = NULL;
    int err = 0;

    for (uint32_t i = 0; i < g->shape.sizes; i++)
        if (g->shape.size[i] == size) l = &g->list[i];
    if (!g->bound || !l) return gw_error(-EINVAL, "there are no kernels for steps of %u rows", size);
    if (!l->n) {
        err = gen_gpu_tiles(g, size, l);
        for (uint32_t i = 0; i < g->items && !err; i++) err = net_item(g, &g->item[i], size, l);
        if (err) gen_gpu_forget(l);
    }
    *out = l;
    return err;
}

static int net_call(void *ctx, void *stream)
{
    return gen_gpu_put(ctx, stream);
}

static int net_add(void *net, struct gw_loop *loop, uint32_t variant, uint32_t size)
{
    const struct gen_launches *l = NULL;
    int err = net_list(net, size, &l);

    for (uint32_t i = 0; !err && i < l->n; i++) {
        const struct gen_launch *q = &l->at[i];
        struct gw_loop_stage s = {
            .kernel = q->kernel, .grid = q->grid, .block = q->block, .arg = q->arg, .variant = variant};
        if (q->call) s.name = q->call->name, s.enqueue = net_call, s.ctx = (void *)q;
        err = gw_loop_add(loop, &s);
    }
    return err;
}

int gen_gpu_enqueue(struct gen_net *net, uint32_t size, void *stream)
{
    struct gen_gpu *g = net->own;
    const struct gen_launches *l = NULL;
    int err = net_list(g, size, &l);

    return err ? err : gen_gpu_run(g->exec, l, stream);
}

/* The numbers of rows for which there are graphs. */
static int net_sizes(struct gen_gpu *g)
{
    static const uint32_t usual[] = {1, 2, 4, 8, 16, 32, 64, 256, 1024};
    const uint32_t *size = g->o.sizes ? g->o.size : usual;
    uint32_t n = g->o.sizes ? g->o.sizes : sizeof(usual) / sizeof(*usual), last = 0;

    for (uint32_t i = 0; i < n && size[i] < g->o.max_rows; i++) {
        if (size[i] <= last || g->shape.sizes + 1 == GEN_NET_SIZES)
            return gw_error(-EINVAL, "sizes of steps must ascend, and be %u at most", GEN_NET_SIZES);
        g->shape.size[g->shape.sizes++] = last = size[i];
    }
    g->shape.size[g->shape.sizes++] = g->o.max_rows;
    return 0;
}

static bool net_is_type(uint32_t type)
{
    return type == GW_DTYPE_F32 || type == GW_DTYPE_F16 || type == GW_DTYPE_BF16;
}

static int net_options(const struct gen_program *p, const struct gen_gpu_options *o)
{
    if (!o->exec || !o->max_rows || o->max_rows > GEN_MAX_ROWS || !o->lanes || o->lanes > GEN_MAX_LANES)
        return gw_error(-EINVAL, "a network needs an executor, 1 to %u rows, and 1 to %u lanes", GEN_MAX_ROWS,
                        GEN_MAX_LANES);
    if (!net_is_type(o->type) || !net_is_type(o->cache_type))
        return gw_error(-EINVAL, "a network computes with FP32, FP16 or BF16");
    if (gw_exec_lanes(o->exec) < GEN_GPU_LANES)
        return gw_error(-EINVAL, "the GPU's kernels need an executor with %u lanes; this has %u",
                        GEN_GPU_LANES, gw_exec_lanes(o->exec));
    for (uint32_t i = 0; i < p->ops; i++)
        if (p->op[i].kind == GEN_ATTEND &&
            (p->op[i].head > GEN_GPU_HEAD || p->op[i].value_head > GEN_GPU_HEAD))
            return gw_error(-EINVAL, "operator %u has heads of %u elements; on a GPU there are %u at most", i,
                            p->op[i].head > p->op[i].value_head ? p->op[i].head : p->op[i].value_head,
                            GEN_GPU_HEAD);
    return 0;
}

/* Memory that all sizes share. */
static int net_memory(struct gen_gpu *g)
{
    uint64_t partial = 0;
    int err;

    for (uint32_t i = 0; i < g->items; i++)
        for (uint32_t s = 0; s < g->shape.sizes && g->item[i].kind == GEN_ATTEND; s++) {
            uint64_t bytes = gen_gpu_partial(g, &g->item[i], g->shape.size[s]);
            if (bytes > partial) partial = bytes;
        }
    err = gw_mem_alloc(g->exec, GW_MEM_DEVICE, g->arena_bytes + 1, &g->arena);
    if (!err) err = gw_mem_alloc(g->exec, GW_MEM_DEVICE, partial + 1, &g->partial);
    if (!err) err = gw_mem_alloc(g->exec, GW_MEM_DEVICE, gen_gpu_tiles_bytes(g), &g->tiles);
    if (!err && g->lt) err = gw_mem_alloc(g->exec, GW_MEM_DEVICE, GWM_LIB_WORK, &g->work);
    return err;
}

static int net_make(struct gen_gpu *g, const struct gen_program *p)
{
    g->p = *p;
    g->p.op = malloc(p->ops * sizeof(*p->op));
    g->item = calloc(p->ops, sizeof(*g->item));
    g->value = calloc(p->values, sizeof(*g->value));
    if (!g->p.op || !g->item || !g->value) return -ENOMEM;
    memcpy(g->p.op, p->op, p->ops * sizeof(*p->op));
    g->shape = (struct gen_net_shape){.kind = "program",
                                      .vocab = p->vocab,
                                      .max_position = p->max_position,
                                      .layers = p->layers,
                                      .heads = p->heads,
                                      .width = p->head,
                                      .dtype = g->o.cache_type};
    int err = net_sizes(g);
    if (!err) err = gen_gpu_plan(g);
    if (!err) err = gen_gpu_upload(g);
    if (!err) err = net_memory(g);
    g->p.width = NULL; /* the program may go */
    return err;
}

int gen_gpu_net(const struct gen_program *p, const struct gen_gpu_options *options, struct gen_net *out)
{
    static const struct gen_net_ops ops = {
        .shape = net_shape, .bind = net_bind, .add = net_add, .free = net_free};
    struct gen_gpu_options o = *options;

    if (!o.type) o.type = GW_DTYPE_BF16;
    if (!o.cache_type) o.cache_type = o.type;
    int err = net_options(p, &o);
    if (err) return err;
    struct gen_gpu *g = calloc(1, sizeof(*g));
    if (!g) return -ENOMEM;
    g->exec = o.exec;
    g->o = o;
    g->threads =
        gw_exec_kind(o.exec) == GW_EXEC_GPU ? GEN_GPU_THREADS : 4; /* CPU threads take long to start */
    if (gw_exec_kind(o.exec) == GW_EXEC_GPU && !o.own && !o.same) g->lt = gwm_lt_open();
    err = net_make(g, p);
    if (err) {
        net_free(g);
        return err;
    }
    *out = (struct gen_net){&ops, g};
    return 0;
}
