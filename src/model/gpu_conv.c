/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions: which kernel, which tiles, and the tables it reads. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/gpu.h"

#define WANT_BLOCKS 256 /* so many keep a large GPU's multiprocessors busy */
#define MAX_SPLITS  32

struct tile {
    const struct gw_kernel *kernel;
    int32_t m, n;
};

static int32_t up(int32_t n, int32_t unit)
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
    int b = gwm_gpu_const(p, w, bytes);
    free(w);
    return b;
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
    int b = gwm_gpu_const(p, t, (size_t)padded * sizeof(*t));
    free(t);
    return b;
}

static int pack_bias(struct gwm_gpu *p, const struct gwm_conv *c)
{
    float *b = (float *)calloc((size_t)c->oc, sizeof(*b));

    if (!b) return -ENOMEM;
    if (c->bias) memcpy(b, c->bias, (size_t)c->oc * sizeof(*b));
    int n = gwm_gpu_const(p, b, (size_t)c->oc * sizeof(*b));
    free(b);
    return n;
}

static int direct(struct gwm_gpu *p, const struct gwm_node *n)
{
    const struct gwm_conv *c = &n->conv;
    struct gwm_direct_args a = {
        .act = n->act, .win = c->win, .oc = c->oc, .group = c->group, .count = p->g->value[n->out].count};
    size_t weights = (size_t)c->oc * (size_t)(c->win.c / c->group) * (size_t)c->win.kh * (size_t)c->win.kw;
    int rc = gwm_gpu_launch(p, &gwm_conv_direct, (uint32_t)up(a.count, 256), 256, &a);

    if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_direct_args, x), gwm_gpu_value(p, n->in[0]));
    if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_direct_args, y), gwm_gpu_value(p, n->out));
    if (!rc)
        rc = gwm_gpu_fix(p, offsetof(struct gwm_direct_args, weight),
                         gwm_gpu_const(p, c->weight, weights * 4));
    return rc ? rc : gwm_gpu_fix(p, offsetof(struct gwm_direct_args, bias), pack_bias(p, c));
}

/* Cuts the sum over taps when there are too few tiles to fill the GPU. */
static void split(struct gwm_conv_args *a, int64_t blocks)
{
    int32_t steps = a->taps / GWM_CONV_STEP, most = steps / 16; /* a piece is worth a second launch */

    a->splits = (int32_t)(blocks < WANT_BLOCKS ? (WANT_BLOCKS + blocks - 1) / blocks : 1);
    if (a->splits > most) a->splits = most;
    if (a->splits > MAX_SPLITS) a->splits = MAX_SPLITS;
    if (a->splits < 1) a->splits = 1;
    a->taps_per_split = up(steps, a->splits) * GWM_CONV_STEP;
    a->splits = up(a->taps, a->taps_per_split);
}

/* The sum of the pieces: a second launch. */
static int finish(struct gwm_gpu *p, const struct gwm_conv_args *a, int32_t count, const struct gwm_store *to,
                  int bias, int partial)
{
    struct gwm_finish_args f = {.conv = *a, .count = count};
    int rc = gwm_gpu_launch(p, &gwm_conv_finish, (uint32_t)up(count, 256), 256, &f);

    if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_finish_args, conv.y), gwm_gpu_value(p, to->out));
    if (!rc && to->add >= 0)
        rc = gwm_gpu_fix(p, offsetof(struct gwm_finish_args, conv.add), gwm_gpu_value(p, to->add));
    if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_finish_args, conv.bias), bias);
    return rc ? rc : gwm_gpu_fix(p, offsetof(struct gwm_finish_args, conv.partial), partial);
}

int gwm_gpu_conv(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to)
{
    const struct gwm_conv *c = &n->conv;
    const struct gwm_window *w = &c->win;
    int32_t m = c->oc / c->group, positions = w->oh * w->ow, taps = w->c / c->group * w->kh * w->kw;
    int partial = -1;

    if (m < 4 && to->out == n->out) return direct(p, n);
    struct tile t = pick_tile(m, positions);
    struct gwm_conv_args a = {.act = to->act,
                              .n = w->n,
                              .c = w->c,
                              .h = w->h,
                              .w = w->w,
                              .oh = w->oh,
                              .ow = w->ow,
                              .oc = c->oc,
                              .group = c->group,
                              .taps = up(taps, GWM_CONV_STEP) * GWM_CONV_STEP,
                              .mpad = up(m, t.m) * t.m,
                              .sh = w->sh,
                              .sw = w->sw,
                              .top = w->top,
                              .left = w->left,
                              .tiles_m = up(m, t.m),
                              .tiles_n = up(positions, t.n),

                              .block = to->block,
                              .block_first = to->block_first};
    int64_t blocks = (int64_t)a.tiles_m * a.tiles_n * c->group * w->n;
    split(&a, blocks);
    if (blocks * a.splits > INT32_MAX) return -ENOTSUP;
    int32_t count = p->g->value[n->out].count;
    int bias = pack_bias(p, c);
    if (a.splits > 1 && (partial = gwm_gpu_scratch(p, (size_t)count * (size_t)a.splits * sizeof(float))) < 0)
        return partial;
    int rc = gwm_gpu_launch(p, t.kernel, (uint32_t)(blocks * a.splits), GWM_CONV_THREADS, &a);
    if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_conv_args, x), gwm_gpu_value(p, n->in[0]));
    if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_conv_args, weight), pack_weights(p, c, &a, taps));
    if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_conv_args, tap), pack_taps(p, c, a.taps, taps));
    if (!rc) rc = gwm_gpu_fix(p, offsetof(struct gwm_conv_args, bias), bias);
    if (!rc && a.splits > 1) rc = gwm_gpu_fix(p, offsetof(struct gwm_conv_args, partial), partial);
    if (rc || a.splits > 1) return rc ? rc : finish(p, &a, count, to, bias, partial);
    if (to->add >= 0) rc = gwm_gpu_fix(p, offsetof(struct gwm_conv_args, add), gwm_gpu_value(p, to->add));
    return rc ? rc : gwm_gpu_fix(p, offsetof(struct gwm_conv_args, y), gwm_gpu_value(p, to->out));
}
