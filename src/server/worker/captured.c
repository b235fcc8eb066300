/* SPDX-License-Identifier: Apache-2.0 */
/* The back-end for captured CUDA graphs. */
#include "src/server/worker/captured.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>

#include "src/loop/child.h"

struct captured {
    struct gw_tensor_info info[2][GW_MODEL_MAX_IO]; /* [1] are the outputs; the names are copies */
    uint32_t count[2], graphs;
    struct graph {
        uint32_t rows;
        void *graph; /* a copy */
    } graph[GW_SERVING_MAX_BATCHES];
};

struct plan {
    void *graph; /* the model's */
};

/* ---- what the program says ---- */

static int captured_check_name(const char *model, const char *name, uint32_t i)
{
    size_t n = name ? strnlen(name, 256) : 0;
    if (n && n < 256) return 0;
    return gw_error(-EINVAL, "model %s: tensor %u needs a name of 1 to 255 bytes", model, i);
}

/* `batched`: a batch's dimension comes before the row's own. */
static int take_tensor(const char *model, const struct gw_serving_tensor *t, uint32_t batched,
                       struct gw_tensor_info *out)
{
    if (!gw_dtype_bytes(t->dtype) || t->rank > GW_MODEL_MAX_RANK - batched)
        return gw_error(-EINVAL, "model %s: tensor %s has no such type, or over %u dimensions", model,
                        t->name, GW_MODEL_MAX_RANK - batched);
    *out = (struct gw_tensor_info){.dtype = t->dtype, .rank = t->rank + batched, .batched = batched};
    out->bytes = gw_dtype_bytes(t->dtype);
    out->dims[0] = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        out->dims[i + batched] = t->dims[i];
        if (!t->dims[i] || __builtin_mul_overflow(out->bytes, t->dims[i], &out->bytes) ||
            out->bytes > GW_LAYOUT_MAX_BYTES)
            return gw_error(-EINVAL, "model %s: tensor %s is empty or larger than 2 GiB", model, t->name);
    }
    out->name = strdup(t->name);
    return out->name ? 0 : -ENOMEM;
}

static int take_tensors(const char *model, const struct gw_serving_captured *c, int output,
                        struct captured *m)
{
    uint32_t n = output ? c->outputs : c->inputs, batched = c->graph[0].rows > 0;
    const struct gw_serving_tensor *t = output ? c->output : c->input;
    if (!n || n > GW_MODEL_MAX_IO || !t)
        return gw_error(-EINVAL, "model %s: must have 1 to %d %s", model, GW_MODEL_MAX_IO,
                        output ? "outputs" : "inputs");
    for (uint32_t i = 0; i < n; i++) {
        int err = captured_check_name(model, t[i].name, i);
        if (!err) err = take_tensor(model, &t[i], batched, &m->info[output][i]);
        if (err) return err;
        m->count[output]++;
    }
    return 0;
}

static bool captured_is_address(const void *p)
{
    return p && (uintptr_t)p % GW_MODEL_ALIGN == 0;
}

static int captured_check_graph(const char *model, const struct gw_serving_captured *c, uint32_t k)
{
    const struct gw_serving_graph *g = &c->graph[k];
    int fits = k ? g->rows > c->graph[k - 1].rows && c->graph[0].rows : 1;
    if (!g->graph || !fits || g->rows > GW_SERVING_MAX_ROWS)
        return gw_error(-EINVAL, "model %s: graphs must be for ascending numbers of rows, %d at most", model,
                        GW_SERVING_MAX_ROWS);
    for (uint32_t i = 0; i < c->inputs; i++) fits &= captured_is_address(g->in[i]);
    for (uint32_t i = 0; i < c->outputs; i++) fits &= captured_is_address(g->out[i]);
    return fits ? 0
                : gw_error(-EINVAL,
                           "model %s: a tensor's address in the graph of %u rows is no multiple of %d", model,
                           g->rows, GW_MODEL_ALIGN);
}

static int take_graphs(const char *model, const struct gw_serving_captured *c, struct captured *m)
{
    for (uint32_t k = 0; k < c->graphs; k++) {
        int err = captured_check_graph(model, c, k);
        if (!err) err = gw_child_clone(c->graph[k].graph, &m->graph[k].graph);
        if (err) return err;
        m->graph[k].rows = c->graph[k].rows ? c->graph[k].rows : 1;
        m->graphs++;
    }
    return 0;
}

/* ---- the back-end ---- */

static void captured_unload(void *model)
{
    struct captured *m = model;
    for (uint32_t k = 0; k < m->graphs; k++) gw_child_drop(m->graph[k].graph);
    for (int o = 0; o < 2; o++)
        for (uint32_t i = 0; i < m->count[o]; i++) free((void *)m->info[o][i].name);
    free(m);
}

static uint32_t captured_count(const void *model, int output)
{
    return ((const struct captured *)model)->count[output];
}

static const struct gw_tensor_info *captured_info(const void *model, int output, uint32_t i)
{
    return &((const struct captured *)model)->info[output][i];
}

static int captured_make_plan(const void *model, const struct gw_plan_options *options, void **plan,
                              char *err, size_t errlen)
{
    const struct captured *m = model;
    uint32_t rows = options->rows ? options->rows : 1;
    *plan = NULL;
    for (uint32_t k = 0; k < m->graphs && options->place == GW_PLACE_GPU; k++) {
        if (m->graph[k].rows != rows) continue;
        struct plan *p = malloc(sizeof(*p));
        if (!p) return -ENOMEM;
        p->graph = m->graph[k].graph;
        *plan = p;
        return 0;
    }
    if (err) snprintf(err, errlen, "no graph was captured for %u rows on a GPU", rows);
    return -ENOTSUP;
}

static void captured_stats(const void *plan, struct gw_plan_stats *s)
{
    (void)plan;
    memset(s, 0, sizeof(*s)); /* the memory is the program's */
}

static int captured_run(void *plan, const void *const in[], void *const out[])
{
    (void)plan, (void)in, (void)out;
    return gw_error(-ENOTSUP, "a captured graph runs at its own addresses, in a loop");
}

static int captured_enqueue(void *plan, void *stream, const void *const in[], void *const out[])
{
    (void)stream;
    return captured_run(plan, in, out);
}

/* The addresses are the graph's own. */
static int captured_enqueue_indirect(void *plan, void *stream, const struct gw_plan_io *io)
{
    (void)io;
    return gw_child_put(stream, ((struct plan *)plan)->graph);
}

static int captured_load(const void *bytes, size_t len, const char *file, void **model, char *err,
                         size_t errlen)
{
    (void)bytes, (void)len, (void)model;
    if (err) snprintf(err, errlen, "%s: captured graphs are not read from files", file);
    return -ENOTSUP;
}

static const struct gw_model_backend backend = {
    .abi = GW_MODEL_ABI,
    .name = "cudagraph",
    .load = captured_load,
    .unload = captured_unload,
    .count = captured_count,
    .info = captured_info,
    .plan = captured_make_plan,
    .plan_free = free,
    .stats = captured_stats,
    .run = captured_run,
    .enqueue = captured_enqueue,
    .enqueue_indirect = captured_enqueue_indirect,
};

int gw_captured_open(const char *name, const struct gw_serving_captured *c, struct gw_model **model)
{
    if (!c->graphs || c->graphs > GW_SERVING_MAX_BATCHES || !c->graph)
        return gw_error(-EINVAL, "model %s: must have 1 to %d graphs", name, GW_SERVING_MAX_BATCHES);
    struct captured *m = calloc(1, sizeof(*m));
    if (!m) return -ENOMEM;
    int err = take_tensors(name, c, 0, m);
    if (!err) err = take_tensors(name, c, 1, m);
    if (!err) err = take_graphs(name, c, m);
    if (!err) err = gw_model_wrap(&backend, m, model);
    if (err) captured_unload(m);
    return err;
}

static const struct gw_serving_graph *graph_for(const struct gw_serving_captured *c, uint32_t rows)
{
    for (uint32_t k = 0; k < c->graphs; k++)
        if ((c->graph[k].rows ? c->graph[k].rows : 1) == rows) return &c->graph[k];
    return NULL;
}

int gw_captured_place(void *ctx, struct gw_serve_variant *v)
{
    const struct gw_serving_captured *c = ctx;
    const struct gw_serving_graph *g = graph_for(c, v->rows);
    if (!g) return gw_error(-EINVAL, "no graph was captured for %u rows", v->rows);
    v->fixed = 1;
    for (uint32_t i = 0; i < c->inputs; i++) v->in[i] = g->in[i];
    for (uint32_t i = 0; i < c->outputs; i++) v->out[i] = g->out[i];
    return 0;
}

int gw_captured_run(const struct gw_worker_fixed *f, const void *const in[], void *const out[])
{
    const struct gw_serving_graph *g = graph_for(f->ctx, f->v->rows);
    int err = g ? 0 : -EINVAL;
    for (uint32_t i = 0; !err && i < f->in->tensors; i++)
        err = gw_copy_in(f->exec, f->v->in[i], in[i], gw_layout_tensor_bytes(f->in, i, f->v->rows));
    if (!err) err = gw_child_launch(gw_exec_stream(f->exec), g->graph);
    for (uint32_t i = 0; !err && i < f->out->tensors; i++)
        err = gw_copy_out(f->exec, out[i], f->v->out[i], gw_layout_tensor_bytes(f->out, i, f->v->rows));
    return err;
}

int gw_captured_example(const struct gw_worker_fixed *f, void *const in[])
{
    int err = 0;
    for (uint32_t i = 0; !err && i < f->in->tensors; i++)
        err = gw_copy_out(f->exec, in[i], f->v->in[i], gw_layout_tensor_bytes(f->in, i, f->v->rows));
    return err;
}
