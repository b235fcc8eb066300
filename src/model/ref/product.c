/* SPDX-License-Identifier: Apache-2.0 */
/* Plain loops for sums of products: matrices, convolutions and their transpose. */
#include <string.h>

#include "src/model/ref/ref.h"

static void one_product(const struct gwm_gemm *q, const float *a, const float *b, float *y)
{
    size_t am = q->ta ? 1 : (size_t)q->k, ak = q->ta ? (size_t)q->m : 1;
    size_t bk = q->tb ? 1 : (size_t)q->n, bn = q->tb ? (size_t)q->k : 1;

    for (size_t m = 0; m < (size_t)q->m; m++) {
        for (size_t n = 0; n < (size_t)q->n; n++) {
            float sum = 0;
            for (size_t k = 0; k < (size_t)q->k; k++) sum += a[m * am + k * ak] * b[k * bk + n * bn];
            *y++ = q->alpha * sum + (q->bias ? q->bias[n] : 0);
        }
    }
}

void gwm_ref_gemm(const struct gwm_gemm *q, const float *a, const float *b, float *y)
{
    const struct gwm_broadcast *bc = &q->batch;
    const int32_t *const stride[] = {bc->a, bc->b};
    int32_t at[GW_MODEL_MAX_RANK] = {0}, o[2] = {0}, last = bc->rank - 1;

    do {
        for (int32_t i = 0; i < bc->dims[last]; i++, y += (size_t)q->m * (size_t)q->n)
            one_product(q, a + o[0] + i * bc->a[last], b + o[1] + i * bc->b[last], y);
    } while (gwm_next_row(bc->rank, bc->dims, at, stride, o, 2));
}

/* The part of one output channel that comes from one input channel; or, of a transposed one, goes back to it.
 */
static void plane(const struct gwm_window *w, bool back, const float *weight, const float *x, float *y)
{
    for (int32_t oy = 0; oy < w->oh; oy++) {
        for (int32_t ox = 0; ox < w->ow; ox++) {
            for (int32_t t = 0; t < w->kh * w->kw; t++) {
                int32_t iy = oy * w->sh - w->top + t / w->kw * w->dh,
                        ix = ox * w->sw - w->left + t % w->kw * w->dw;
                if (iy < 0 || iy >= w->h || ix < 0 || ix >= w->w) continue;
                if (back)
                    y[iy * w->w + ix] += weight[t] * x[oy * w->ow + ox];
                else
                    y[oy * w->ow + ox] += weight[t] * x[iy * w->w + ix];
            }
        }
    }
}

static void ref_product_start(const float *bias, int32_t channels, size_t area, float *y)
{
    for (int32_t c = 0; c < channels; c++)
        for (size_t i = 0; i < area; i++) *y++ = bias ? bias[c] : 0;
}

void gwm_ref_conv(const struct gwm_conv *c, const float *x, float *y)
{
    const struct gwm_window *w = &c->win;
    int32_t per = w->c / c->group, each = c->oc / c->group;
    size_t in = (size_t)w->h * (size_t)w->w, out = (size_t)w->oh * (size_t)w->ow,
           taps = (size_t)w->kh * (size_t)w->kw;

    for (int32_t n = 0; n < w->n; n++, x += (size_t)w->c * in, y += (size_t)c->oc * out) {
        ref_product_start(c->bias, c->oc, out, y);
        for (int32_t o = 0; o < c->oc; o++)
            for (int32_t i = 0; i < per; i++)
                plane(w, false, c->weight + ((size_t)o * (size_t)per + (size_t)i) * taps,
                      x + (size_t)(o / each * per + i) * in, y + (size_t)o * out);
    }
}

void gwm_ref_deconv(const struct gwm_conv *c, const float *x, float *y)
{
    struct gwm_window w =
        c->win; /* seen as the convolution that it transposes: from the output to the input */
    int32_t per = w.c / c->group, each = c->oc / c->group;
    size_t in = (size_t)w.h * (size_t)w.w, out = (size_t)w.oh * (size_t)w.ow,
           taps = (size_t)w.kh * (size_t)w.kw;

    w.h = c->win.oh, w.w = c->win.ow, w.oh = c->win.h, w.ow = c->win.w;
    for (int32_t n = 0; n < w.n; n++, x += (size_t)w.c * in, y += (size_t)c->oc * out) {
        ref_product_start(c->bias, c->oc, out, y);
        for (int32_t i = 0; i < w.c; i++)
            for (int32_t o = 0; o < each; o++)
                plane(&w, true, c->weight + ((size_t)i * (size_t)each + (size_t)o) * taps, x + (size_t)i * in,
                      y + (size_t)(i / per * each + o) * out);
    }
}
