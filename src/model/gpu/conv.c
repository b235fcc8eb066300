/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions: the ways to do one; of own kernels which tiles, and the tables they read. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/model/gpu/conv.h"

#include "src/model/gpu/cudnn.h"
#include "src/model/gpu/form.h"
#include "src/model/gpu/launch.h"
#include "src/model/gpu/lt.h"
#include "src/model/gpu/pick.h"
#include "src/model/gpu/product.h"
#include "src/model/gpu/weights.h"
#include "src/model/kernels/args.h"

#define WANT_BLOCKS  256 /* blocks that keep a large GPU's multiprocessors busy */
#define MAX_SPLITS   32
#define MANY_THREADS 32768 /* fewer go in small blocks, so that more multiprocessors get one */

struct tile {
    const struct gw_kernel *kernel;
    int32_t m, n;
};

static int32_t gpu_conv_up(int32_t n, int32_t unit)
{
    return (n + unit - 1) / unit;
}

/* Wide tiles for many positions; the lowest that hold the channels. */
static struct tile pick_tile(int32_t channels, int32_t positions)
{
    if (positions <= 1024 && channels > 16) return (struct tile){&gwm_conv_64x32, 64, 32};
    if (channels <= 16) return (struct tile){&gwm_conv_16x128, 16, 128};
    if (channels <= 32) return (struct tile){&gwm_conv_32x128, 32, 128};
    return (struct tile){&gwm_conv_64x128, 64, 128};
}

/* groups × taps × mpad out of oc × taps, zeros where it is padded. */
static int pack_weights(struct gwm_gpu *p, const struct gwm_conv *c, const struct gwm_conv_args *a,
                        int32_t taps)
{
    size_t m = (size_t)(c->oc / c->group),
           bytes = (size_t)c->group * (size_t)a->taps * (size_t)a->mpad * sizeof(float);
    float *w = (float *)calloc(1, bytes);

    if (!w) return -ENOMEM;
    for (size_t g = 0; g < (size_t)c->group; g++)
        for (size_t o = 0; o < m; o++)
            for (size_t k = 0; k < (size_t)taps; k++)
                w[(g * (size_t)a->taps + k) * (size_t)a->mpad + o] =
                    c->weight[(g * m + o) * (size_t)taps + k];
    return gwm_gpu_take(p, w, bytes, GW_DTYPE_F32);
}

static int pack_taps(struct gwm_gpu *p, const struct gwm_conv *c, int32_t padded, int32_t taps)
{
    const struct gwm_window *w = &c->win;
    struct gwm_tap *t = (struct gwm_tap *)calloc((size_t)padded, sizeof(*t));

    if (!t) return -ENOMEM;
    for (int32_t k = 0; k < padded; k++) {
        int32_t row = k / w->kw % w->kh * w->dh, col = k % w->kw * w->dw, plane = k / w->kw / w->kh;
        if (k < taps)
            t[k] = (struct gwm_tap){plane * w->h * w->w + row * w->w + col, row, col, 0};
        else
            t[k].row = GWM_NO_TAP;
    }
    return gwm_gpu_take(p, t, (size_t)padded * sizeof(*t), GW_DTYPE_I32);
}

/* The form in which a way that can do any reads its input and its addend, and writes. */
static uint32_t any_form(const struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to)
{
    bool view = p->g->value[n->in[0]].root != n->in[0];
    uint32_t out = gwm_gpu_out_form(p, to->out);

    return view ? out & ~GWM_LAST : out;
}

/* A grid, and how many warps share a filter. */
struct threads {
    int32_t grid, block, share;
};

/* A grid of that number of threads. */
static struct threads threads_for(int32_t count)
{
    int32_t block = count < MANY_THREADS ? 64 : 256;

    return (struct threads){gpu_conv_up(count, block), block, 1};
}

/* A kernel whose threads compute one output element or several, in any form. */
static int any(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to,
               const struct gw_kernel *k, const struct threads *t, int weight)
{
    const struct gwm_conv *c = &n->conv;
    struct gwm_direct_args a = {
        .act = to->act, .win = c->win, .oc = c->oc, .group = c->group, .count = p->g->value[to->out].count};
    uint32_t form = any_form(p, n, to), in = p->half ? GWM_HALF : 0;
    int x = gwm_gpu_in(p, n->in[0], (form & GWM_LAST) | in, false);
    int add = to->add < 0 ? 0 : gwm_gpu_in(p, to->add, form, false);
    int bias = gwm_conv_bias(p, c, false), y = gwm_gpu_out(p, to->out, form, false);

    a.last = (form & GWM_LAST) != 0;
    a.share = t->share;
    int err = gwm_gpu_launch(p, k, (uint32_t)t->grid, (uint32_t)t->block, &a);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_direct_args, x), x);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_direct_args, y), y);
    if (!err && to->add >= 0) err = gwm_gpu_ref(p, offsetof(struct gwm_direct_args, add), add);
    if (!err) err = gwm_gpu_fix(p, offsetof(struct gwm_direct_args, weight), weight);
    return err ? err : gwm_gpu_fix(p, offsetof(struct gwm_direct_args, bias), bias);
}

/* Would a picture of one position be N H W C? Its form says no: there both layouts are the same. */
static int direct(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    (void)setting;
    if (to->block > 1 || (gwm_gpu_form(p, to->out, GWM_LAST) != gwm_gpu_form(p, n->in[0], GWM_LAST) &&
                          (any_form(p, n, to) & GWM_LAST)))
        return -ENOTSUP;
    struct threads t = threads_for(p->g->value[to->out].count);
    return any(p, n, to, &gwm_conv_direct, &t, gwm_conv_weights(p, &n->conv, false, false));
}

/* The kernel that computes several neighbours of a row for this filter, or NULL. */
static const struct gw_kernel *runs_kernel(const struct gwm_window *w)
{
    static const struct {
        int32_t k, step;
        const struct gw_kernel *kernel;
    } all[] = {{3, 1, &gwm_conv_depthwise_3_1},
               {5, 1, &gwm_conv_depthwise_5_1},
               {7, 1, &gwm_conv_depthwise_7_1},
               {3, 2, &gwm_conv_depthwise_3_2},
               {5, 2, &gwm_conv_depthwise_5_2}};

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (w->kh == all[i].k && w->kw == all[i].k && w->sw == all[i].step && w->dw == 1)
            return all[i].kernel;
    return NULL;
}

/* One filter per channel, with a kernel for pictures whose channels lie together. */
static int by_channel(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to,
                      const struct gw_kernel *kernel, const struct threads *t)
{
    const struct gwm_conv *c = &n->conv;
    size_t channels = (size_t)c->oc, taps = (size_t)c->win.kh * (size_t)c->win.kw;

    if (to->block > 1 || c->group != c->oc || c->win.c != c->oc || c->oc % 4 || !kernel ||
        !(any_form(p, n, to) & gwm_gpu_form(p, n->in[0], GWM_LAST)))
        return -ENOTSUP;
    float *w = (float *)malloc(channels * taps * sizeof(*w));
    for (size_t i = 0; w && i < channels * taps; i++) w[i] = c->weight[i % channels * taps + i / channels];
    return any(p, n, to, kernel, t, gwm_gpu_take(p, w, channels * taps * sizeof(*w), GW_DTYPE_F32));
}

/* `setting`: a warp for each row of the filter; each warp for itself. */
static int runs(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    const struct gwm_window *w = &n->conv.win;
    int32_t warps = w->kh == 3 ? 6 : w->kh, share = setting ? 1 : w->kh;
    int32_t all = w->n * w->oh * gpu_conv_up(w->ow, GWM_RUN) * (n->conv.oc / 4);
    struct threads t = {gpu_conv_up(all, warps / share * 32), 32 * warps, share};

    return by_channel(p, n, to, runs_kernel(w), &t);
}

/* Four channels of one element a thread. */
static int depthwise(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    struct threads t = threads_for(p->g->value[to->out].count / 4);

    (void)setting;
    return by_channel(p, n, to, &gwm_conv_depthwise, &t);
}

/* A layer of channels each of which sees all of the others, of pictures of one position: a thin product. */
static int gpu_conv_thin(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    const struct gwm_conv *c = &n->conv;
    const struct gwm_window *w = &c->win;
    uint32_t half = p->half ? GWM_HALF : 0;
    struct gwm_gemm_args g = {.act = to->act,
                              .batch = {.rank = 1, .dims = {1}},
                              .ym = c->oc,
                              .alpha = 1,
                              .m = w->n,
                              .n = c->oc,
                              .k = w->c,
                              .am = w->c,
                              .ak = 1,
                              .bk = 1,
                              .bn = w->c,
                              .products = 1};

    (void)setting;
    if (to->block > 1 || c->group > 1 || w->h * w->w > 1 || w->oh * w->ow > 1 || w->kh * w->kw > 1 ||
        w->n > GWM_THIN_MOST)
        return -ENOTSUP;
    int x = gwm_gpu_in(p, n->in[0], half, false), add = to->add < 0 ? 0 : gwm_gpu_in(p, to->add, half, false);
    int y = gwm_gpu_out(p, to->out, gwm_gpu_out_form(p, to->out), false);
    int err = gwm_gpu_launch(p, &gwm_thin_kernel, gwm_thin_grid(&g), 256, &g);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_gemm_args, a), x);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_gemm_args, b), gwm_conv_weights(p, c, false, p->half));
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_gemm_args, y), y);
    if (!err && to->add >= 0) err = gwm_gpu_ref(p, offsetof(struct gwm_gemm_args, add), add);
    return err ? err : gwm_gpu_fix(p, offsetof(struct gwm_gemm_args, bias), gwm_conv_bias(p, c, false));
}

/* Cuts the sum over taps when there are too few tiles to fill the GPU. */
static void gpu_conv_split(struct gwm_conv_args *a, int64_t blocks)
{
    int32_t steps = a->taps / GWM_CONV_STEP, most = steps / 16; /* a piece is worth a second launch */

    a->splits = (int32_t)(blocks < WANT_BLOCKS ? (WANT_BLOCKS + blocks - 1) / blocks : 1);
    if (a->splits > most) a->splits = most;
    if (a->splits > MAX_SPLITS) a->splits = MAX_SPLITS;
    if (a->splits < 1) a->splits = 1;
    a->taps_per_split = gpu_conv_up(steps, a->splits) * GWM_CONV_STEP;
    a->splits = gpu_conv_up(a->taps, a->taps_per_split);
}

/* The memory that a tiled convolution reads and writes besides tables. */
struct tiled {
    int x, add, y, bias, partial; /* buffers; add and partial may be -1 */
};

/* The sum of the pieces: a second launch. */
static int gpu_conv_finish(struct gwm_gpu *p, const struct gwm_conv_args *a, int32_t count,
                           const struct tiled *t)
{
    struct gwm_finish_args f = {.conv = *a, .count = count};
    int err = gwm_gpu_launch(p, &gwm_conv_finish, (uint32_t)gpu_conv_up(count, 256), 256, &f);

    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_finish_args, conv.y), t->y);
    if (!err && t->add >= 0) err = gwm_gpu_ref(p, offsetof(struct gwm_finish_args, conv.add), t->add);
    if (!err) err = gwm_gpu_fix(p, offsetof(struct gwm_finish_args, conv.bias), t->bias);
    return err ? err : gwm_gpu_fix(p, offsetof(struct gwm_finish_args, conv.partial), t->partial);
}

static int launch_tiles(struct gwm_gpu *p, const struct gwm_conv *c, const struct gwm_conv_args *a,
                        const struct gw_kernel *k, const struct tiled *t)
{
    int32_t taps = c->win.c / c->group * c->win.kh * c->win.kw;
    int64_t blocks = (int64_t)a->tiles_m * a->tiles_n * c->group * c->win.n * a->splits;
    int32_t count = c->win.n * c->oc * c->win.oh * c->win.ow;

    if (blocks > INT32_MAX) return -ENOTSUP;
    int err = gwm_gpu_launch(p, k, (uint32_t)blocks, GWM_CONV_THREADS, a);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_conv_args, x), t->x);
    if (!err) err = gwm_gpu_fix(p, offsetof(struct gwm_conv_args, weight), pack_weights(p, c, a, taps));
    if (!err) err = gwm_gpu_fix(p, offsetof(struct gwm_conv_args, tap), pack_taps(p, c, a->taps, taps));
    if (!err) err = gwm_gpu_fix(p, offsetof(struct gwm_conv_args, bias), t->bias);
    if (!err && a->splits > 1) err = gwm_gpu_fix(p, offsetof(struct gwm_conv_args, partial), t->partial);
    if (err || a->splits > 1) return err ? err : gpu_conv_finish(p, a, count, t);
    if (t->add >= 0) err = gwm_gpu_ref(p, offsetof(struct gwm_conv_args, add), t->add);
    return err ? err : gwm_gpu_ref(p, offsetof(struct gwm_conv_args, y), t->y);
}

/* In fp32 and C order; the result is converted to what the plan wants. */
static int tiles(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, int setting)
{
    const struct gwm_conv *c = &n->conv;
    const struct gwm_window *w = &c->win;
    int32_t m = c->oc / c->group, positions = w->oh * w->ow, taps = w->c / c->group * w->kh * w->kw;
    struct tile k = pick_tile(m, positions);
    struct gwm_conv_args a = {.act = to->act,
                              .n = w->n,
                              .c = w->c,
                              .h = w->h,
                              .w = w->w,
                              .oh = w->oh,
                              .ow = w->ow,
                              .oc = c->oc,
                              .group = c->group,
                              .taps = gpu_conv_up(taps, GWM_CONV_STEP) * GWM_CONV_STEP,
                              .mpad = gpu_conv_up(m, k.m) * k.m,
                              .sh = w->sh,
                              .sw = w->sw,
                              .top = w->top,
                              .left = w->left,
                              .tiles_m = gpu_conv_up(m, k.m),
                              .tiles_n = gpu_conv_up(positions, k.n),
                              .block = to->block,
                              .block_first = to->block_first};
    struct tiled t = {.x = gwm_gpu_in(p, n->in[0], 0, false), .add = -1, .partial = -1};
    uint32_t form = gwm_gpu_out_form(p, to->out);
    size_t bytes = (size_t)p->g->value[to->out].count * sizeof(float);

    (void)setting;
    gpu_conv_split(&a, (int64_t)a.tiles_m * a.tiles_n * c->group * w->n);
    if (a.splits > 1 && (t.partial = gwm_gpu_scratch(p, bytes * (size_t)a.splits, GW_DTYPE_F32)) < 0)
        return t.partial;
    if (to->add >= 0 && (t.add = gwm_gpu_in(p, to->add, 0, false)) < 0) return t.add;
    t.bias = gwm_conv_bias(p, c, false);
    t.y = form ? gwm_gpu_scratch(p, bytes, GW_DTYPE_F32) : gwm_gpu_out(p, to->out, 0, false);
    int err = launch_tiles(p, c, &a, k.kernel, &t);
    if (err || !form) return err;
    return gwm_gpu_convert(p, to->out, t.y, 0, gwm_gpu_out(p, to->out, form, false), form);
}

/* All that the time of a convolution depends on. */
static void gpu_conv_describe(const struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to,
                              char *what, size_t size)
{
    const struct gwm_conv *c = &n->conv;
    const struct gwm_window *w = &c->win;
    uint32_t form = gwm_gpu_out_form(p, to->out) | gwm_gpu_wanted(p, p->g->value[n->in[0]].root) << 2;

    snprintf(what, size,
             "conv %d %d %d %d %d %d %d k %d %d s %d %d d %d %d p %d %d %d %d to %d %d %d form %u%s", w->n,
             w->c, w->h, w->w, c->oc, c->group, w->oh * w->ow, w->kh, w->kw, w->sh, w->sw, w->dh, w->dw,
             w->top, w->left, w->bottom, w->right, to->act.kind, to->add >= 0, to->block, form,
             p->tf32 ? " tf32" : "");
}

int gwm_gpu_conv(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to)
{
    static const struct gwm_way many[] = {{"thin", 1, gpu_conv_thin},
                                          {"tiles", 1, tiles},
                                          {"direct", 1, direct},
                                          {"cudnn", GWM_LIB_SETTINGS, gwm_lib_cudnn},
                                          {"pointwise", GWM_LIB_SETTINGS, gwm_lib_pointwise},
                                          {0}},
                                few[] = {{"runs", 2, runs},
                                         {"depthwise", 1, depthwise},
                                         {"direct", 1, direct},
                                         {"tiles", 1, tiles},
                                         {"cudnn", GWM_LIB_SETTINGS, gwm_lib_cudnn},
                                         {0}},
                                one[] = {{"direct", 1, direct}, {0}};
    const struct gwm_conv *c = &n->conv;
    char what[256];

    gpu_conv_describe(p, n, to, what, sizeof(what));
    /* Tiles hold channels of one group: with few of them they are mostly empty. */
    if (p->resident) return gwm_gpu_pick(p, n, to, what, one);
    return gwm_gpu_pick(p, n, to, what, c->oc / c->group < 4 ? few : many);
}
