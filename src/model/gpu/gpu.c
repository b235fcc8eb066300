/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph becomes a list of kernel launches. All device memory is taken here: constants, one arena, room for
 * the inputs and outputs of gwm_gpu_run.
 */
#include "src/model/gpu/gpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static size_t aligned(size_t bytes)
{
    return (bytes + GWM_ARENA_ALIGN - 1) / GWM_ARENA_ALIGN * GWM_ARENA_ALIGN;
}

static int new_buf(struct gwm_gpu *p, struct gwm_gpu_buf b)
{
    if (b.bytes > p->most) return -E2BIG;
    if (grow((void **)&p->buf, p->nbuf, &p->cap_buf, sizeof(*p->buf))) return -ENOMEM;
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
    if (grow((void **)&p->launch, p->nlaunch, &p->cap_launch, sizeof(*p->launch))) return NULL;
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
    int rc = gwm_gpu_ref(p, at, buf);
    struct gwm_launch *l = &p->launch[p->nlaunch - 1];

    if (!rc) l->fix[l->nfix - 1].ref = false;
    return rc;
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

static size_t tensor_bytes(const struct gwm_gpu *p, int value)
{
    return gwm_bytes(&p->g->value[value]);
}

/* Device memory for run's tensors, one after the other. */
static size_t place_io(struct gwm_gpu *p)
{
    size_t at = 0;

    for (uint32_t i = 0; i < p->g->ninput; i++) {
        p->in_at[i] = at;
        at += aligned(tensor_bytes(p, p->g->input[i]));
    }
    for (uint32_t i = 0; i < p->g->noutput; i++) {
        p->out_at[i] = at;
        at += aligned(tensor_bytes(p, p->g->output[i]));
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
        p->const_bytes += aligned(p->buf[b].bytes);
        if (p->const_bytes > p->most) return -E2BIG;
    }
    return 0;
}

static int copy_constants(struct gwm_gpu *p)
{
    int rc = 0;

    for (int b = 0; b < p->nbuf && !rc; b++) {
        const struct gwm_gpu_buf *f = &p->buf[b];
        if (f->mem == GWM_MEM_ARENA) p->at[b] = (char *)p->arena_mem.dev + p->span[b].offset;
        if (f->mem != GWM_MEM_CONST) continue;
        p->at[b] = (char *)p->const_mem.dev + f->offset;
        if (p->span[b].first >= 0 && f->bytes) rc = gw_copy_in(p->exec, p->at[b], f->data, f->bytes);
    }
    for (int b = 0; b < p->nbuf; b++) { /* the host's copies have served */
        free(p->buf[b].own);
        p->buf[b].own = NULL;
    }
    return rc;
}

static int make_memory(struct gwm_gpu *p)
{
    int rc = place_buffers(p);
    size_t io = place_io(p), other = p->const_bytes + io;

    if (!rc && other > p->most) rc = -E2BIG;
    if (!rc) rc = gwm_arena_plan(p->span, (size_t)p->nbuf, p->most - other, &p->arena_bytes);
    if (!rc) rc = gw_mem_alloc(p->exec, GW_MEM_DEVICE, p->const_bytes + GWM_ARENA_ALIGN, &p->const_mem);
    if (!rc) rc = gw_mem_alloc(p->exec, GW_MEM_DEVICE, p->arena_bytes + GWM_ARENA_ALIGN, &p->arena_mem);
    if (!rc) rc = gw_mem_alloc(p->exec, GW_MEM_DEVICE, io + GWM_ARENA_ALIGN, &p->io_mem);
    return rc ? rc : copy_constants(p);
}

/* Where a launch finds a buffer in this run. */
static struct gwm_ref find(const struct gwm_gpu *p, const struct gwm_where *w, int buf)
{
    const struct gwm_gpu_buf *b = &p->buf[buf];
    struct gwm_ref r = {.type = b->type};
    bool in = b->mem == GWM_MEM_IN, out = b->mem == GWM_MEM_OUT;

    if (w->io && (in || out))
        r.slot = in ? (void *const *)&w->io->in[b->index] : (void *const *)&w->io->out[b->index];
    else if (w->in && in)
        r.at = (void *)w->in[b->index];
    else if (w->in && out)
        r.at = w->out[b->index];
    else
        r.at = w->at[buf];
    return r;
}

void gwm_gpu_args(const struct gwm_gpu *p, const struct gwm_launch *l, const struct gwm_where *w, void *args)
{
    memcpy(args, l->args, l->kernel->arg_size);
    for (int k = 0; k < l->nfix; k++) {
        struct gwm_ref r = find(p, w, l->fix[k].buf);
        memcpy((char *)args + l->fix[k].at, l->fix[k].ref ? (void *)&r : (void *)&r.at,
               l->fix[k].ref ? sizeof(r) : sizeof(r.at));
    }
}

static int call_one(struct gwm_gpu *p, const struct gwm_launch *l, const struct gwm_where *w, void *stream)
{
    void *addr[GWM_FIXES] = {0};

    for (int k = 0; k < l->nfix; k++) addr[l->fix[k].at] = find(p, w, l->fix[k].buf).at;
    return l->call->run(l->call, addr, stream ? stream : gw_exec_stream(p->exec));
}

static int launch_one(struct gwm_gpu *p, const struct gwm_launch *l, const struct gwm_where *w, void *stream)
{
    char args[GW_KERNEL_ARG_MAX] __attribute__((aligned(16)));

    if (l->call) return call_one(p, l, w, stream);
    gwm_gpu_args(p, l, w, args);
    if (stream) return !l->kernel->gpu || l->kernel->gpu(l->grid, l->block, args, stream) ? -EIO : 0;
    int rc = gw_launch(p->exec, l->kernel, l->grid, l->block, args);
    if (!rc && gw_exec_kind(p->exec) == GW_EXEC_CPU)
        rc = gw_exec_sync(p->exec, gw_deadline(GWM_SYNC_NS)); /* its queue is short */
    return rc;
}

int gwm_gpu_enqueue_from(struct gwm_gpu *p, int first, const struct gwm_where *where, void *stream)
{
    int rc = 0;

    if (p->program.ops) return gwm_program_enqueue(p, where, stream);
    for (int i = first; i < p->nlaunch && !rc; i++) rc = launch_one(p, &p->launch[i], where, stream);
    return rc;
}

int gwm_gpu_enqueue_here(struct gwm_gpu *p, int first, void *stream)
{
    const void *in[GW_MODEL_MAX_IO];
    void *out[GW_MODEL_MAX_IO];

    for (uint32_t i = 0; i < p->g->ninput; i++) in[i] = (char *)p->io_mem.dev + p->in_at[i];
    for (uint32_t i = 0; i < p->g->noutput; i++) out[i] = (char *)p->io_mem.dev + p->out_at[i];
    return gwm_gpu_enqueue_from(p, first, &(struct gwm_where){.at = p->at, .in = in, .out = out}, stream);
}

static int run_on_device(struct gwm_gpu *p)
{
    int rc = gwm_gpu_enqueue_here(p, 0, NULL);

    return rc ? rc : gw_exec_sync(p->exec, gw_deadline(GWM_SYNC_NS));
}

static int lower(struct gwm_gpu *p, const struct gwm_msg *msg)
{
    const struct gwm_graph *g = p->g;
    size_t values = (size_t)g->nvalue + 1;

    p->uses = (int *)calloc(values, sizeof(int));
    p->maker = (int *)calloc(values, sizeof(int));
    p->done = (bool *)calloc((size_t)g->nnode + 1, sizeof(bool));
    p->put_off = (bool *)calloc((size_t)g->nnode + 1, sizeof(bool));
    p->as = (int *)malloc(values * GWM_SLOTS * sizeof(int));
    p->picture = (bool *)calloc(values, sizeof(bool));
    if (!p->uses || !p->maker || !p->done || !p->put_off || !p->as || !p->picture) return -ENOMEM;
    p->node = -1;
    gwm_uses(g, p->uses, p->maker);
    gwm_gpu_pictures(p);
    int rc = gwm_gpu_border(p);
    for (int i = 0; i < g->nnode && !rc; i++) {
        p->put_off[i] =
            !p->done[i] && (gwm_gpu_put_off(p, &g->node[i]) || gwm_gpu_attention_part(p, &g->node[i]));
        rc = p->done[i] || p->put_off[i] ? 0 : gwm_gpu_node(p, &g->node[i]);
        if (rc == -ENOTSUP)
            return gwm_fail(msg, rc,
                            "node '%.60s' (%.30s): the GPU has no kernel for it, or not for its size",
                            g->node[i].name, g->node[i].type);
    }
    return rc ? rc : gwm_gpu_finish(p);
}

static int build(struct gwm_gpu *p, const struct gwm_msg *msg)
{
    int rc = lower(p, msg);

    if (rc && rc != -E2BIG) return rc;
    if (!rc) rc = make_memory(p);
    if (rc == -E2BIG)
        return gwm_fail(msg, rc, "weights, inputs, outputs and intermediate results take more than %zu MiB",
                        p->most >> 20);
    if (rc) return gwm_fail(msg, rc, "%s", gw_last_error());
    if (p->resident && (rc = gwm_program_make(p, msg))) return rc;
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
    if (gw_exec_lanes(p->exec) < GWM_CONV_THREADS && !p->resident)
        return gwm_fail(msg, -EINVAL, "a CPU executor needs %d lanes for the GPU's kernels",
                        GWM_CONV_THREADS);
    return 0;
}

/* What lowering made: the memory, too. */
static void free_build(struct gwm_gpu *p)
{
    for (int i = 0; i < p->nlaunch; i++) free_launch(&p->launch[i]);
    for (int i = 0; i < p->nbuf; i++) free(p->buf[i].own);
    gw_mem_free(&p->program_mem);
    gw_mem_free(&p->const_mem);
    gw_mem_free(&p->arena_mem);
    gw_mem_free(&p->io_mem);
    free(p->launch);
    free(p->buf);
    free(p->span);
    free(p->at);
    free(p->uses);
    free(p->maker);
    free(p->done);
    free(p->put_off);
    free(p->as);
    free(p->picture);
}

/* Once more from the start, with pictures in the other layout. */
static void start_again(struct gwm_gpu *p, bool last)
{
    struct gwm_gpu fresh = {.g = p->g,
                            .exec = p->exec,
                            .own_exec = p->own_exec,
                            .gpu_io = p->gpu_io,
                            .half = p->half,
                            .tf32 = p->tf32,
                            .last = last,
                            .lib = p->lib,
                            .timer = p->timer,
                            .cache = p->cache,
                            .most = p->most};

    free_build(p);
    *p = fresh;
}

/* Both layouts of pictures, and the faster one stays. */
static int build_best(struct gwm_gpu *p, const struct gwm_msg *msg)
{
    bool pictures = false;
    int rc = build(p, msg);

    for (int v = 0; v < p->g->nvalue && !rc; v++) pictures |= p->picture[v];
    if (rc || !p->timer || !pictures) return rc;
    float plain = gwm_timer_plan(p->timer, p), last = -1;
    start_again(p, true);
    rc = build(p, msg);
    if (!rc) last = gwm_timer_plan(p->timer, p);
    if (!rc && last >= 0 && (plain < 0 || last <= plain)) return 0;
    start_again(p, false);
    return build(p, msg);
}

/* The libraries may launch what the device cannot; own kernels it always can. */
static int check_graph(struct gwm_gpu *p, const struct gwm_msg *msg)
{
    if (!p->lib || gwm_timer_plan(p->timer, p) >= 0) return 0;
    fprintf(stderr,
            "gpuwire: %s: the libraries' kernels make no graph that the GPU can launch; own kernels "
            "take their place\n",
            msg->file);
    start_again(p, false);
    gwm_lib_close(p->lib);
    p->lib = NULL;
    return build(p, msg);
}

int gwm_gpu_plan(const struct gwm_graph *g, const struct gw_plan_options *o, struct gwm_gpu **plan,
                 const struct gwm_msg *msg)
{
    struct gwm_gpu *p = (struct gwm_gpu *)calloc(1, sizeof(*p));

    if (!p) return -ENOMEM;
    p->g = g;
    p->gpu_io = o->flags & GW_PLAN_GPU_IO;
    p->tf32 = o->flags & GW_PLAN_TF32;
    p->half = o->flags & GW_PLAN_F16;
    p->most = o->memory ? o->memory : GWM_ARENA_MAX;
    p->resident = o->flags & GW_PLAN_RESIDENT;
    int rc = p->resident ? gwm_program_fits(g, msg) : 0;
    if (!rc) rc = find_exec(p, o, msg);
    if (!rc && gw_exec_kind(p->exec) == GW_EXEC_GPU && !(o->flags & (GW_PLAN_OWN | GW_PLAN_RESIDENT)))
        gwm_gpu_measure(p);
    p->last = p->half && !p->timer && !p->resident; /* where it is not measured */
    if (!rc) rc = build_best(p, msg);
    if (!rc) rc = check_graph(p, msg);
    if (!rc && p->timer) p->run_us = gwm_timer_plan(p->timer, p);
    gwm_cache_close(p->cache);
    gwm_timer_close(p->timer);
    p->cache = NULL;
    p->timer = NULL;
    if (rc)
        gwm_gpu_free(p);
    else
        *plan = p;
    return rc;
}

void gwm_gpu_free(struct gwm_gpu *p)
{
    if (!p) return;
    free_build(p);
    gwm_lib_close(p->lib);
    if (p->own_exec) gw_exec_destroy(p->exec);
    free(p);
}

void gwm_gpu_stats(const struct gwm_gpu *p, struct gw_plan_stats *s)
{
    *s = (struct gw_plan_stats){.weight_bytes = p->const_bytes,
                                .arena_bytes = p->arena_bytes,
                                .steps = p->program.ops ? 1 : (uint32_t)p->nlaunch,
                                .run_ns = p->run_us > 0 ? (uint64_t)(p->run_us * 1000) : 0};
}

int gwm_gpu_each(struct gwm_gpu *p, gwm_each one, void *arg)
{
    bool can = gw_exec_kind(p->exec) == GW_EXEC_GPU && !p->program.ops;
    struct gwm_timer *t = can ? gwm_timer_open(p->exec, p->most) : NULL;

    if (!t) return -ENOTSUP;
    for (int i = 0; i < p->nlaunch; i++) {
        const struct gwm_launch *l = &p->launch[i];
        one(arg, l->call ? l->call->name : l->kernel->name, l->node < 0 ? "" : p->g->node[l->node].name,
            gwm_timer_one(t, p, i));
    }
    gwm_timer_close(t);
    return 0;
}

int gwm_gpu_run(struct gwm_gpu *p, const void *const in[], void *const out[])
{
    int rc = 0;

    for (uint32_t i = 0; i < p->g->ninput && !rc; i++)
        rc = gw_copy_in(p->exec, (char *)p->io_mem.dev + p->in_at[i], in[i], tensor_bytes(p, p->g->input[i]));
    if (!rc) rc = run_on_device(p);
    for (uint32_t i = 0; i < p->g->noutput && !rc; i++)
        rc = gw_copy_out(p->exec, out[i], (char *)p->io_mem.dev + p->out_at[i],
                         tensor_bytes(p, p->g->output[i]));
    return rc ? -EIO : 0;
}

int gwm_gpu_enqueue(struct gwm_gpu *p, void *stream, const void *const in[], void *const out[],
                    const struct gw_plan_io *io)
{
    const struct gwm_where where = {.at = p->at, .in = in, .out = out, .io = io};

    /* The executor of the CPU has no streams: there its queue is meant. */
    if (!stream && gw_exec_kind(p->exec) == GW_EXEC_GPU) stream = gw_exec_stream(p->exec);
    return gwm_gpu_enqueue_from(p, 0, &where, stream) ? -EIO : 0;
}
