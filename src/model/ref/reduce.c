/* SPDX-License-Identifier: Apache-2.0 */
/* Plain loops for what runs along an axis or over a window: reductions, normalisation, softmax, sums so far,
 * pools. */
#include <math.h>

#include "src/model/graph/activate.h"
#include "src/model/ref/ref.h"

void gwm_ref_softmax(const struct gwm_softmax *s, const float *x, float *y)
{
    for (int32_t o = 0; o < s->outer; o++) {
        for (int32_t i = 0; i < s->inner; i++) {
            const float *px = x + o * s->n * s->inner + i;
            float *py = y + o * s->n * s->inner + i, max = px[0], sum = 0;
            for (int32_t k = 1; k < s->n; k++) max = gwm_larger(max, px[k * s->inner]);
            for (int32_t k = 0; k < s->n; k++) {
                float e = expf(px[k * s->inner] - max);
                py[k * s->inner] = s->log ? px[k * s->inner] - max : e;
                sum += e;
            }
            float by = s->log ? logf(sum) : sum;
            for (int32_t k = 0; k < s->n; k++)
                py[k * s->inner] = s->log ? py[k * s->inner] - by : py[k * s->inner] / by;
        }
    }
}

/* One result of floats: n elements, `step` apart. Sums are taken in double: long rows lose nothing. */
static float reduce_floats(enum gwm_reduce_kind kind, const float *x, int32_t n, int32_t step)
{
    double sum = kind == GWM_REDUCE_PROD ? 1 : 0;
    float most = x[0];

    for (int32_t k = 0; k < n; k++) {
        float v = x[(size_t)k * (size_t)step];
        switch (kind) {
        case GWM_REDUCE_MAX:
        case GWM_REDUCE_LOG_SUM_EXP: most = gwm_larger(most, v); break;
        case GWM_REDUCE_MIN: most = gwm_smaller(most, v); break;
        case GWM_REDUCE_PROD: sum *= (double)v; break;
        case GWM_REDUCE_L1: sum += fabs((double)v); break;
        case GWM_REDUCE_L2:
        case GWM_REDUCE_SUM_SQUARE: sum += (double)v * (double)v; break;
        default: sum += (double)v; break;
        }
    }
    switch (kind) {
    case GWM_REDUCE_MEAN: return (float)(sum / n);
    case GWM_REDUCE_MAX:
    case GWM_REDUCE_MIN: return most;
    case GWM_REDUCE_L2: return (float)sqrt(sum);
    case GWM_REDUCE_LOG_SUM_EXP:
        if (isinf(most)) most = 0; /* infinity less infinity would be NaN */
        for (int32_t k = 0; k < n; k++) sum += exp((double)x[(size_t)k * (size_t)step] - (double)most);
        return (float)(log(sum) + (double)most);
    default: return (float)sum;
    }
}

static int64_t reduce_ints(enum gwm_reduce_kind kind, const int64_t *x, int32_t n, int32_t step)
{
    uint64_t sum = kind == GWM_REDUCE_PROD; /* wraps around */
    int64_t most = x[0];

    for (int32_t k = 0; k < n; k++) {
        int64_t v = x[(size_t)k * (size_t)step];
        switch (kind) {
        case GWM_REDUCE_MAX: most = v > most ? v : most; break;
        case GWM_REDUCE_MIN: most = v < most ? v : most; break;
        case GWM_REDUCE_PROD: sum *= (uint64_t)v; break;
        case GWM_REDUCE_L1: sum += v < 0 ? -(uint64_t)v : (uint64_t)v; break;
        case GWM_REDUCE_SUM_SQUARE: sum += (uint64_t)v * (uint64_t)v; break;
        default: sum += (uint64_t)v; break;
        }
    }
    if (kind == GWM_REDUCE_MAX || kind == GWM_REDUCE_MIN) return most;
    return kind == GWM_REDUCE_MEAN ? (int64_t)sum / n : (int64_t)sum;
}

/* -1, 0, 1: which is larger. 0 for NaN, too. */
#define order_of(a, b) (((a) > (b)) - ((a) < (b)))

static int64_t arg_best(const struct gwm_reduce *r, uint32_t dtype, const void *x, size_t first)
{
    bool most = r->kind == GWM_REDUCE_ARGMAX;
    size_t best = first;
    int32_t at = 0;

    for (int32_t k = 1; k < r->n; k++) {
        size_t i = first + (size_t)k * (size_t)r->inner;
        int order = dtype == GWM_F32   ? order_of(((const float *)x)[i], ((const float *)x)[best])
                    : dtype == GWM_F64 ? order_of(((const double *)x)[i], ((const double *)x)[best])
                                       : order_of(((const int64_t *)x)[i], ((const int64_t *)x)[best]);
        bool less = order<0, greater = order> 0;
        if ((most ? greater : less) || (r->last && !less && !greater)) {
            best = i;
            at = k;
        }
    }
    return at;
}

void gwm_ref_reduce(const struct gwm_reduce *r, uint32_t dtype, const void *x, void *y)
{
    for (int32_t o = 0; o < r->outer; o++) {
        for (int32_t i = 0; i < r->inner; i++) {
            size_t first = (size_t)o * (size_t)r->n * (size_t)r->inner + (size_t)i;
            size_t to = (size_t)o * (size_t)r->inner + (size_t)i;
            if (r->kind >= GWM_REDUCE_ARGMAX)
                ((int64_t *)y)[to] = arg_best(r, dtype, x, first);
            else if (dtype == GWM_F64)
                ((double *)y)[to] =
                    gwm_reduce_f64((int32_t)r->kind, (const double *)x + first, r->n, r->inner);
            else if (dtype == GWM_F32)
                ((float *)y)[to] = reduce_floats(r->kind, (const float *)x + first, r->n, r->inner);
            else
                ((int64_t *)y)[to] = reduce_ints(r->kind, (const int64_t *)x + first, r->n, r->inner);
        }
    }
}

void gwm_ref_norm(const struct gwm_norm *s, const float *x, const float *scale, const float *bias, float *y)
{
    for (int32_t o = 0; o < s->outer; o++, x += s->n, y += s->n) {
        double sum = 0, squares = 0;
        for (int32_t i = 0; i < s->n && !s->rms; i++) sum += (double)x[i];
        float mean = (float)(sum / s->n);
        for (int32_t i = 0; i < s->n; i++) squares += (double)(x[i] - mean) * (double)(x[i] - mean);
        float by = (float)(1 / sqrt(squares / s->n + (double)s->epsilon));
        for (int32_t i = 0; i < s->n; i++) {
            int32_t c = (int32_t)(((int64_t)o * s->n + i) / s->inner % s->channels);
            y[i] = (x[i] - mean) * by * scale[c] + bias[c];
        }
    }
}

void gwm_ref_cumsum(const struct gwm_cumsum *s, uint32_t dtype, const void *x, void *y)
{
    for (int32_t o = 0; o < s->outer; o++) {
        for (int32_t i = 0; i < s->inner; i++) {
            double sum = 0;
            uint64_t whole = 0;
            for (int32_t k = 0; k < s->n; k++) {
                size_t at =
                    ((size_t)o * (size_t)s->n + (size_t)(s->reverse ? s->n - 1 - k : k)) * (size_t)s->inner +
                    (size_t)i;
                double before = sum;
                uint64_t whole_before = whole;
                if (dtype == GWM_F32) {
                    sum += (double)((const float *)x)[at];
                    ((float *)y)[at] = (float)(s->exclusive ? before : sum);
                } else if (dtype == GWM_F64) {
                    sum += ((const double *)x)[at];
                    ((double *)y)[at] = s->exclusive ? before : sum;
                } else {
                    whole += (uint64_t)((const int64_t *)x)[at];
                    ((int64_t *)y)[at] = (int64_t)(s->exclusive ? whole_before : whole);
                }
            }
        }
    }
}
/* One window of one plane. */
static float pool_window(const struct gwm_pool *p, const float *x, int32_t oy, int32_t ox)
{
    const struct gwm_window *w = &p->win;
    int32_t y0 = oy * w->sh - w->top, x0 = ox * w->sw - w->left, inside = 0, counted = 0;
    float max = -INFINITY, sum = 0;

    for (int32_t ky = 0; ky < w->kh; ky++) {
        for (int32_t kx = 0; kx < w->kw; kx++) {
            int32_t iy = y0 + ky * w->dh, ix = x0 + kx * w->dw;
            /* Rounding up can push a window past the padding; what lies there does not count. */
            counted += iy < w->h + w->bottom && ix < w->w + w->right;
            if (iy < 0 || iy >= w->h || ix < 0 || ix >= w->w) continue;
            float v = x[iy * w->w + ix];
            max = gwm_larger(max, v);
            sum += v;
            inside++;
        }
    }
    if (!p->average) return max;
    int32_t n = p->count_pads ? counted : inside;
    return n ? sum / (float)n : 0;
}

void gwm_ref_pool(const struct gwm_pool *p, const float *x, float *y)
{
    const struct gwm_window *w = &p->win;

    for (int32_t c = 0; c < w->n * w->c; c++, x += w->h * w->w)
        for (int32_t oy = 0; oy < w->oh; oy++)
            for (int32_t ox = 0; ox < w->ow; ox++) *y++ = pool_window(p, x, oy, ox);
}
