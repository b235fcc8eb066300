/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that reduce, normalise, look up, choose and convert: each is one launch, in C order. */
#include <errno.h>

#include "src/model/gpu/plain.h"

#include "src/model/gpu/elements.h"
#include "src/model/gpu/form.h"
#include "src/model/gpu/launch.h"
#include "src/model/gpu/weights.h"
#include "src/model/kernels/args.h"

#define MOST_OPERANDS 4

/* Buffers of a node in C order: its inputs, and last its output. */
struct operands {
    int buf[MOST_OPERANDS];
    uint32_t n;
};

static int get_operands(struct gwm_gpu *p, const struct gwm_node *n, struct operands *o)
{
    uint32_t half = p->half ? GWM_HALF : 0;

    o->n = n->nin + 1;
    if (o->n > MOST_OPERANDS) return -ENOTSUP;
    for (uint32_t i = 0; i < n->nin; i++)
        if ((o->buf[i] = gwm_gpu_in(p, n->in[i], half, false)) < 0) return o->buf[i];
    o->buf[n->nin] = gwm_gpu_out(p, n->out, gwm_gpu_out_form(p, n->out) & ~GWM_LAST, false);
    return o->buf[n->nin] < 0 ? o->buf[n->nin] : 0;
}

/* The launch made last has them one after the other from the start of its arguments. */
static int put_operands(struct gwm_gpu *p, const struct operands *o)
{
    int err = 0;

    for (uint32_t i = 0; i < o->n && !err; i++) err = gwm_gpu_ref(p, i * sizeof(struct gwm_ref), o->buf[i]);
    return err;
}

/* Threads for a run of n elements, four at a time: as few as take no more rounds than 128 would. */
static uint32_t row_threads(int32_t n)
{
    uint32_t fours = (uint32_t)n / 4, rounds = (fours + 127) / 128;

    return ((fours + rounds - 1) / rounds + 31) / 32 * 32;
}

static int plain_norm(struct gwm_gpu *p, const struct gwm_node *n, const struct operands *o)
{
    struct gwm_norm_args a = {.s = n->norm, .act = n->act};
    bool rows = a.s.inner == 1 && a.s.channels == a.s.n && a.s.n > 0 && a.s.n % 4 == 0 &&
                a.s.n <= 128 * GWM_NORM_MAX && !p->resident;
    uint32_t per_block = 128 / (uint32_t)gwm_norm_lanes(a.s.n);
    int err;

    if (rows && a.s.n <= GWM_SHORT_MAX)
        err = gwm_gpu_launch(p, &gwm_norm_short_kernel, (uint32_t)(a.s.outer - 1) / per_block + 1, 128, &a);
    else if (rows)
        err = gwm_gpu_launch(p, &gwm_norm_row_kernel, (uint32_t)a.s.outer, row_threads(a.s.n), &a);
    else
        err = gwm_gpu_launch(p, &gwm_norm_kernel, (uint32_t)a.s.outer, a.s.n >= 4096 ? 512 : 128, &a);

    return err ? err : put_operands(p, o);
}

/* A block for each result where that keeps more threads busy. */
static int plain_reduce(struct gwm_gpu *p, const struct gwm_node *n, const struct operands *o)
{
    struct gwm_reduce_args a = {.r = n->reduce};
    int32_t count = a.r.outer * a.r.inner;
    bool ints = p->g->value[n->in[0]].dtype != GWM_F32 || a.r.kind >= GWM_REDUCE_ARGMAX;
    bool blocks = !ints && a.r.n >= 32 && (a.r.inner == 1 || count < 16384);
    int err = blocks ? gwm_gpu_launch(p, &gwm_reduce_kernel, (uint32_t)count, 128, &a)
                     : gwm_gpu_over(p, &gwm_reduce_thread_kernel, count, &a);

    return err ? err : put_operands(p, o);
}

static int interp(struct gwm_gpu *p, const struct gwm_node *n, const struct operands *o, int32_t count)
{
    const struct gwm_interp *s = &n->interp;
    struct gwm_interp_args a = {
        .n = s->n, .inner = s->inner, .to = s->count, .taps = s->taps, .count = count};
    size_t bytes = (size_t)s->count * (size_t)s->taps * 4;
    int index = gwm_gpu_static(p, s->index, bytes, GW_DTYPE_I32);
    int weight = gwm_gpu_static(p, s->weight, bytes, GW_DTYPE_F32);
    int err = gwm_gpu_over(p, &gwm_interp_kernel, count, &a);

    if (!err) err = put_operands(p, o);
    if (!err) err = gwm_gpu_fix(p, offsetof(struct gwm_interp_args, index), index);
    return err ? err : gwm_gpu_fix(p, offsetof(struct gwm_interp_args, weight), weight);
}

static int deconv(struct gwm_gpu *p, const struct gwm_node *n, const struct operands *o, int32_t count)
{
    const struct gwm_conv *c = &n->conv;
    struct gwm_direct_args a = {.act = n->act, .win = c->win, .oc = c->oc, .group = c->group, .count = count};
    size_t weights = (size_t)c->win.c * (size_t)(c->oc / c->group) * (size_t)c->win.kh * (size_t)c->win.kw;
    int weight = gwm_gpu_static(p, c->weight, weights * sizeof(float), GW_DTYPE_F32);
    int bias = gwm_conv_bias(p, c, false), err = gwm_gpu_over(p, &gwm_deconv_kernel, count, &a);

    if (!err) err = put_operands(p, o);
    if (!err) err = gwm_gpu_fix(p, offsetof(struct gwm_direct_args, weight), weight);
    return err ? err : gwm_gpu_fix(p, offsetof(struct gwm_direct_args, bias), bias);
}

int gwm_gpu_plain(struct gwm_gpu *p, const struct gwm_node *n)
{
    int32_t count = p->g->value[n->out].count;
    struct operands o;
    int err = get_operands(p, n, &o);

    if (err) return err;
    switch (n->op) {
    case GWM_NORM: return plain_norm(p, n, &o);
    case GWM_REDUCE: return plain_reduce(p, n, &o);
    case GWM_INTERP: return interp(p, n, &o, count);
    case GWM_DECONV: return deconv(p, n, &o, count);
    case GWM_CUMSUM: {
        struct gwm_cumsum_args a = {.s = n->cumsum};
        err = gwm_gpu_over(p, &gwm_cumsum_kernel, a.s.outer * a.s.inner, &a);
        break;
    }
    case GWM_GATHER: {
        struct gwm_gather_args a = {.s = n->gather, .count = count};
        err = gwm_gpu_over(p, &gwm_gather_kernel, count, &a);
        break;
    }
    case GWM_SELECT: {
        struct gwm_select_args a = {.s = n->select, .count = count};
        err = gwm_gpu_over(p, &gwm_select_kernel, count, &a);
        break;
    }
    case GWM_CONVERT: {
        struct gwm_convert_args a = {.to = n->convert.to, .count = count};
        a.positive = p->g->value[n->in[0]].type == GW_DTYPE_U64;
        err = gwm_gpu_over(p, &gwm_convert_kernel, count, &a);
        break;
    }
    default: return -ENOTSUP;
    }
    return err ? err : put_operands(p, &o);
}
