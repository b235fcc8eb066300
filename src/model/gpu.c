/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph becomes a list of kernel launches. All device memory is taken here: constants, one arena, room for
 * the inputs and outputs of gwm_gpu_run. The arguments of a launch are complete but for the model's inputs
 * and outputs.
 */
#include "src/model/gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SYNC_NS 30000000000u /* a model that runs longer than that hangs */

static int grow(void **array, int n, int *cap, size_t size)
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
    if (grow((void **)&p->buf, p->nbuf, &p->cap_buf, sizeof(*p->buf))) return -ENOMEM;
    p->buf[p->nbuf] = b;
    return p->nbuf++;
}

static int new_span(struct gwm_gpu *p, size_t bytes)
{
    if (grow((void **)&p->span, p->nspan, &p->cap_span, sizeof(*p->span))) return -ENOMEM;
    p->span[p->nspan] = (struct gwm_span){bytes, -1, -1, 0};
    return p->nspan++;
}

int gwm_gpu_scratch(struct gwm_gpu *p, size_t bytes)
{
    int s = new_span(p, bytes);

    return s < 0 ? s : new_buf(p, (struct gwm_gpu_buf){.mem = GWM_MEM_ARENA, .span = s});
}

/* Copies constants to the end of those collected; their offset, a multiple of 256. */
static int collect(struct gwm_gpu *p, const void *data, size_t bytes, size_t *offset)
{
    size_t need = p->nconst + (bytes + GWM_ARENA_ALIGN - 1) / GWM_ARENA_ALIGN * GWM_ARENA_ALIGN;

    if (need > p->cap_const) {
        size_t cap = need + need / 2;
        char *more = realloc(p->consts, cap);
        if (!more) return -ENOMEM;
        p->consts = more;
        p->cap_const = cap;
    }
    memcpy(p->consts + p->nconst, data, bytes);
    memset(p->consts + p->nconst + bytes, 0, need - p->nconst - bytes);
    *offset = p->nconst;
    p->nconst = need;
    return 0;
}

int gwm_gpu_const(struct gwm_gpu *p, const void *data, size_t bytes)
{
    struct gwm_gpu_buf b = {.mem = GWM_MEM_CONST};

    if (p->nconst > p->most || bytes > p->most - p->nconst) return -E2BIG;
    return collect(p, data, bytes, &b.offset) ? -ENOMEM : new_buf(p, b);
}

int gwm_gpu_launch(struct gwm_gpu *p, const struct gw_kernel *kernel, uint32_t grid, uint32_t block,
                   const void *args)
{
    void *copy = malloc(kernel->arg_size);

    if (!copy || grow((void **)&p->launch, p->nlaunch, &p->cap_launch, sizeof(*p->launch))) {
        free(copy);
        return -ENOMEM;
    }
    memcpy(copy, args, kernel->arg_size);
    p->launch[p->nlaunch++] =
        (struct gwm_launch){.kernel = kernel, .grid = grid, .block = block, .args = copy};
    return 0;
}

int gwm_gpu_fix(struct gwm_gpu *p, size_t at, int buf)
{
    struct gwm_launch *l = &p->launch[p->nlaunch - 1];

    if (buf < 0) return buf;
    l->fix[l->nfix++] = (struct gwm_fix){at, buf};
    if (p->buf[buf].mem == GWM_MEM_ARENA) {
        struct gwm_span *s = &p->span[p->buf[buf].span];
        if (s->first < 0) s->first = p->nlaunch - 1;
        s->last = p->nlaunch - 1;
    }
    return 0;
}

int gwm_gpu_value(struct gwm_gpu *p, int value)
{
    int root = p->g->value[value].root;
    const struct gwm_value *v = &p->g->value[root];
    struct gwm_gpu_buf *b = &p->buf[root];

    if (v->data && b->index < 0) { /* first use */
        if (collect(p, v->data, gwm_bytes(v), &b->offset)) return -ENOMEM;
        b->index = 0;
    } else if (b->mem == GWM_MEM_ARENA && b->span < 0) {
        int s = new_span(p, gwm_bytes(v));
        if (s < 0) return s;
        b->span = s;
    }
    return root;
}

static int value_buffers(struct gwm_gpu *p)
{
    for (int v = 0; v < p->g->nvalue; v++) {
        const struct gwm_value *val = &p->g->value[v];
        struct gwm_gpu_buf b = {.mem = GWM_MEM_ARENA, .index = -1, .span = -1};
        if (val->data)
            b.mem = GWM_MEM_CONST;
        else if (val->input >= 0)
            b = (struct gwm_gpu_buf){.mem = GWM_MEM_IN, .index = val->input};
        else if (val->output >= 0)
            b = (struct gwm_gpu_buf){.mem = GWM_MEM_OUT, .index = val->output};
        if (new_buf(p, b) < 0) return -ENOMEM;
    }
    return 0;
}

/* Would the kernels that read a root read it more than once, or far apart? */
static bool read_often(const struct gwm_gpu *p, int root)
{
    if (p->uses[root] != 1) return true;
    for (int i = 0; i < p->g->nnode; i++) {
        const struct gwm_node *n = &p->g->node[i];
        bool once = n->op == GWM_UNARY || n->op == GWM_BINARY || n->op == GWM_CONCAT || n->op == GWM_PAD;
        if (p->g->value[n->in[0]].root == root) return !once;
    }
    return false;
}

/* Would the kernels write a root in pieces, or does another one read it? */
static bool written_in_pieces(const struct gwm_gpu *p, int root)
{
    if (p->uses[root] != 1 || p->maker[root] < 0) return true;
    enum gwm_op op = p->g->node[p->maker[root]].op;
    return op != GWM_UNARY && op != GWM_BINARY;
}

static int copy(struct gwm_gpu *p, int from, int to, int32_t count)
{
    struct gwm_unary_args a = {.count = count};
    int rc = gwm_gpu_launch(p, &gwm_unary_kernel, (uint32_t)(count + 255) / 256, 256, &a);

    if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_unary_args, x), from);
    return rc ? rc : gwm_gpu_fix(p, offsetof(struct gwm_unary_args, y), to);
}

/* Gives a model's input or output a place in the arena; the buffer of what the caller has. */
static int stage(struct gwm_gpu *p, int root)
{
    struct gwm_gpu_buf outside = p->buf[root];

    p->buf[root] = (struct gwm_gpu_buf){.mem = GWM_MEM_ARENA, .index = -1, .span = -1};
    return new_buf(p, outside);
}

static int stage_inputs(struct gwm_gpu *p)
{
    int rc = 0;

    for (uint32_t i = 0; i < p->g->ninput && !rc && !p->gpu_io; i++) {
        int root = p->g->input[i];
        if (!p->uses[root] || !read_often(p, root)) continue;
        int outside = stage(p, root);
        rc = outside < 0 ? outside : copy(p, outside, gwm_gpu_value(p, root), p->g->value[root].count);
    }
    return rc;
}

/* Nodes write to the arena; the copies come last. */
static int stage_outputs(struct gwm_gpu *p, int outside[])
{
    for (uint32_t i = 0; i < p->g->noutput; i++) {
        int root = p->g->value[p->g->output[i]].root;
        outside[i] = -1;
        if (!p->gpu_io && written_in_pieces(p, root) && (outside[i] = stage(p, root)) < 0) return outside[i];
    }
    return 0;
}

static int copy_outputs(struct gwm_gpu *p, const int outside[])
{
    int rc = 0;

    for (uint32_t i = 0; i < p->g->noutput && !rc; i++) {
        int root = p->g->value[p->g->output[i]].root;
        if (outside[i] >= 0) rc = copy(p, gwm_gpu_value(p, root), outside[i], p->g->value[root].count);
    }
    return rc;
}

/* Device memory for run's tensors, one after the other. */
static size_t place_io(struct gwm_gpu *p)
{
    size_t at = 0;

    for (uint32_t i = 0; i < p->g->ninput; i++) {
        p->in_at[i] = at;
        at += (p->g->info[0][i].bytes + GWM_ARENA_ALIGN - 1) / GWM_ARENA_ALIGN * GWM_ARENA_ALIGN;
    }
    for (uint32_t i = 0; i < p->g->noutput; i++) {
        p->out_at[i] = at;
        at += (p->g->info[1][i].bytes + GWM_ARENA_ALIGN - 1) / GWM_ARENA_ALIGN * GWM_ARENA_ALIGN;
    }
    return at;
}

static void fill_fixed_addresses(struct gwm_gpu *p)
{
    for (int i = 0; i < p->nlaunch; i++) {
        struct gwm_launch *l = &p->launch[i];
        for (int k = 0; k < l->nfix; k++) {
            const struct gwm_gpu_buf *b = &p->buf[l->fix[k].buf];
            char *at = NULL;
            if (b->mem == GWM_MEM_ARENA)
                at = (char *)p->arena_mem.dev + p->span[b->span].offset;
            else if (b->mem == GWM_MEM_CONST)
                at = (char *)p->const_mem.dev + b->offset;
            memcpy((char *)l->args + l->fix[k].at, &at, sizeof(at));
        }
    }
}

/* Launches everything: into a stream of a GPU, or on the executor. */
static int launch_all(struct gwm_gpu *p, void *stream, const void *const in[], void *const out[],
                      const struct gw_plan_io *io)
{
    char args[GW_KERNEL_ARG_MAX] __attribute__((aligned(16)));

    for (int i = 0; i < p->nlaunch; i++) {
        const struct gwm_launch *l = &p->launch[i];
        memcpy(args, l->args, l->kernel->arg_size);
        for (int k = 0; k < l->nfix; k++) {
            const struct gwm_gpu_buf *b = &p->buf[l->fix[k].buf];
            struct gwm_ref r = {0};
            if (b->mem != GWM_MEM_IN && b->mem != GWM_MEM_OUT) continue;
            if (io)
                r.slot = b->mem == GWM_MEM_IN ? (float *const *)&io->in[b->index]
                                              : (float *const *)&io->out[b->index];
            else
                r.at = b->mem == GWM_MEM_IN ? (float *)in[b->index] : (float *)out[b->index];
            memcpy(args + l->fix[k].at, &r, sizeof(r));
        }
        if (stream) {
            if (!l->kernel->gpu || l->kernel->gpu(l->grid, l->block, args, stream)) return -EIO;
            continue;
        }
        int rc = gw_launch(p->exec, l->kernel, l->grid, l->block, args);
        if (!rc && gw_exec_kind(p->exec) == GW_EXEC_CPU)
            rc = gw_exec_sync(p->exec, gw_deadline(SYNC_NS)); /* its queue is short */
        if (rc) return rc;
    }
    return 0;
}

static int run_on_device(struct gwm_gpu *p)
{
    const void *in[GW_MODEL_MAX_IO];
    void *out[GW_MODEL_MAX_IO];

    for (uint32_t i = 0; i < p->g->ninput; i++) in[i] = (char *)p->io_mem.dev + p->in_at[i];
    for (uint32_t i = 0; i < p->g->noutput; i++) out[i] = (char *)p->io_mem.dev + p->out_at[i];
    int rc = launch_all(p, NULL, in, out, NULL);
    return rc ? rc : gw_exec_sync(p->exec, gw_deadline(SYNC_NS));
}

static int make_memory(struct gwm_gpu *p)
{
    size_t io = place_io(p), other = p->nconst + io;
    int rc = other > p->most ? -E2BIG
                             : gwm_arena_plan(p->span, (size_t)p->nspan, p->most - other, &p->arena_bytes);

    if (!rc) rc = gw_mem_alloc(p->exec, GW_MEM_DEVICE, p->nconst + GWM_ARENA_ALIGN, &p->const_mem);
    if (!rc) rc = gw_mem_alloc(p->exec, GW_MEM_DEVICE, p->arena_bytes + GWM_ARENA_ALIGN, &p->arena_mem);
    if (!rc) rc = gw_mem_alloc(p->exec, GW_MEM_DEVICE, io + GWM_ARENA_ALIGN, &p->io_mem);
    if (!rc && p->nconst) rc = gw_copy_in(p->exec, p->const_mem.dev, p->consts, p->nconst);
    free(p->consts);
    p->consts = NULL;
    return rc;
}

static int build(struct gwm_gpu *p, const struct gwm_msg *msg)
{
    const struct gwm_graph *g = p->g;
    int outside[GW_MODEL_MAX_IO], rc = value_buffers(p);

    p->uses = (int *)calloc((size_t)g->nvalue + 1, sizeof(int));
    p->maker = (int *)calloc((size_t)g->nvalue + 1, sizeof(int));
    p->done = (bool *)calloc((size_t)g->nnode + 1, sizeof(bool));
    if (rc || !p->uses || !p->maker || !p->done) return -ENOMEM;
    gwm_uses(g, p->uses, p->maker);
    rc = stage_inputs(p);
    if (!rc) rc = stage_outputs(p, outside);
    for (int i = 0; i < g->nnode && !rc; i++) {
        rc = p->done[i] ? 0 : gwm_gpu_node(p, &g->node[i]);
        if (rc == -ENOTSUP)
            return gwm_fail(msg, rc, "node '%.60s' (%.30s): too large for the GPU's kernels", g->node[i].name,
                            g->node[i].type);
    }
    if (!rc) rc = copy_outputs(p, outside);
    if (rc && rc != -E2BIG) return rc;
    if (!rc) rc = make_memory(p);
    if (rc == -E2BIG)
        return gwm_fail(msg, rc, "weights, inputs, outputs and intermediate results take more than %zu MiB",
                        p->most >> 20);
    if (rc) return gwm_fail(msg, rc, "%s", gw_last_error());
    fill_fixed_addresses(p);
    /* Loads every kernel now: a load while a resident kernel runs would wait for it. */
    rc = gw_exec_kind(p->exec) == GW_EXEC_GPU ? run_on_device(p) : 0;
    return rc ? gwm_fail(msg, rc, "%s", gw_last_error()) : 0;
}

static int find_exec(struct gwm_gpu *p, const struct gw_plan_options *o, const struct gwm_msg *msg)
{
    struct gw_exec_opts opts = {.device = o->device};

    p->exec = o->exec;
    if (!p->exec) {
        int rc = gw_exec_create("gpu", &opts, &p->exec);
        if (rc) return gwm_fail(msg, rc, "%s", gw_last_error());
        p->own_exec = true;
    }
    if (gw_exec_lanes(p->exec) < GWM_CONV_THREADS)
        return gwm_fail(msg, -EINVAL, "a CPU executor needs %d lanes for the GPU's kernels",
                        GWM_CONV_THREADS);
    return 0;
}

int gwm_gpu_plan(const struct gwm_graph *g, const struct gw_plan_options *o, struct gwm_gpu **plan,
                 const struct gwm_msg *msg)
{
    struct gwm_gpu *p = (struct gwm_gpu *)calloc(1, sizeof(*p));

    if (!p) return -ENOMEM;
    p->g = g;
    p->gpu_io = o->flags & GW_PLAN_GPU_IO;
    p->most = o->memory ? o->memory : GWM_ARENA_MAX;
    int rc = find_exec(p, o, msg);
    if (!rc) rc = build(p, msg);
    if (rc)
        gwm_gpu_free(p);
    else
        *plan = p;
    return rc;
}

void gwm_gpu_free(struct gwm_gpu *p)
{
    if (!p) return;
    for (int i = 0; i < p->nlaunch; i++) free(p->launch[i].args);
    gw_mem_free(&p->const_mem);
    gw_mem_free(&p->arena_mem);
    gw_mem_free(&p->io_mem);
    if (p->own_exec) gw_exec_destroy(p->exec);
    free(p->launch);
    free(p->buf);
    free(p->span);
    free(p->consts);
    free(p->uses);
    free(p->maker);
    free(p->done);
    free(p);
}

void gwm_gpu_stats(const struct gwm_gpu *p, struct gw_plan_stats *s)
{
    *s = (struct gw_plan_stats){p->nconst, p->arena_bytes, (uint32_t)p->nlaunch};
}

int gwm_gpu_run(struct gwm_gpu *p, const void *const in[], void *const out[])
{
    int rc = 0;

    for (uint32_t i = 0; i < p->g->ninput && !rc; i++)
        rc = gw_copy_in(p->exec, (char *)p->io_mem.dev + p->in_at[i], in[i], p->g->info[0][i].bytes);
    if (!rc) rc = run_on_device(p);
    for (uint32_t i = 0; i < p->g->noutput && !rc; i++)
        rc = gw_copy_out(p->exec, out[i], (char *)p->io_mem.dev + p->out_at[i], p->g->info[1][i].bytes);
    return rc ? -EIO : 0;
}

int gwm_gpu_enqueue(struct gwm_gpu *p, void *stream, const void *const in[], void *const out[],
                    const struct gw_plan_io *io)
{
    /* The executor of the CPU has no streams: there its queue is meant. */
    if (!stream && gw_exec_kind(p->exec) == GW_EXEC_GPU) stream = gw_exec_stream(p->exec);
    return launch_all(p, stream, in, out, io) ? -EIO : 0;
}
