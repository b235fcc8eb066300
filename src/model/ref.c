/* SPDX-License-Identifier: Apache-2.0 */
/* Plain loops for everything that is not worth a library: they fold constants and serve the CPU back-end. */
#include "src/model/graph.h"

#include <math.h>
#include <string.h>

#include "src/model/activate.h"

void gwm_ref_unary(const struct gwm_act *act, const float *x, float *y, int32_t n)
{
    if (act->kind == GWM_ACT_NONE) {
        memcpy(y, x, (size_t)n * sizeof(*y));
        return;
    }
    for (int32_t i = 0; i < n; i++) y[i] = gwm_activate(act, x[i]);
}

/* Steps an odometer over all but the last dimension and keeps two offsets; false after the last row. */
static bool next_row(int32_t rank, const int32_t *dims, int32_t *at, const int32_t *sa, const int32_t *sb,
                     int32_t *a, int32_t *b)
{
    for (int32_t i = rank - 2; i >= 0; i--) {
        *a += sa[i];
        *b += sb[i];
        if (++at[i] < dims[i]) return true;
        *a -= sa[i] * dims[i];
        *b -= sb[i] * dims[i];
        at[i] = 0;
    }
    return false;
}

static void binary_row(enum gwm_binary kind, const float *a, int32_t sa, const float *b, int32_t sb, float *y,
                       int32_t n)
{
    switch (kind) {
    case GWM_ADD:
        for (int32_t i = 0; i < n; i++) y[i] = a[i * sa] + b[i * sb];
        break;
    case GWM_SUB:
        for (int32_t i = 0; i < n; i++) y[i] = a[i * sa] - b[i * sb];
        break;
    case GWM_MUL:
        for (int32_t i = 0; i < n; i++) y[i] = a[i * sa] * b[i * sb];
        break;
    case GWM_DIV:
        for (int32_t i = 0; i < n; i++) y[i] = a[i * sa] / b[i * sb];
        break;
    }
}

void gwm_ref_binary(const struct gwm_node *node, const float *a, const float *b, float *y)
{
    const struct gwm_broadcast *bc = &node->binary.bc;
    int32_t at[GW_MODEL_MAX_RANK] = {0}, oa = 0, ob = 0, last = bc->rank - 1, n = bc->dims[last];

    do {
        binary_row(node->binary.kind, a + oa, bc->a[last], b + ob, bc->b[last], y, n);
        if (node->act.kind != GWM_ACT_NONE) gwm_ref_unary(&node->act, y, y, n);
        y += n;
    } while (next_row(bc->rank, bc->dims, at, bc->a, bc->b, &oa, &ob));
}

void gwm_ref_move(const struct gwm_move *m, const float *x, float *y)
{
    int32_t at[GW_MODEL_MAX_RANK] = {0}, from = 0, to = m->offset, last = m->rank - 1, n = m->dims[last];
    int32_t sf = m->from[last], st = m->to[last];

    do {
        if (sf == 1 && st == 1)
            memcpy(y + to, x + from, (size_t)n * sizeof(*y));
        else
            for (int32_t i = 0; i < n; i++) y[to + i * st] = x[from + i * sf];
    } while (next_row(m->rank, m->dims, at, m->from, m->to, &from, &to));
}

void gwm_ref_softmax(const struct gwm_softmax *s, const float *x, float *y)
{
    for (int32_t o = 0; o < s->outer; o++) {
        for (int32_t i = 0; i < s->inner; i++) {
            const float *px = x + o * s->n * s->inner + i;
            float *py = y + o * s->n * s->inner + i, max = px[0], sum = 0;
            for (int32_t k = 1; k < s->n; k++) max = fmaxf(max, px[k * s->inner]);
            for (int32_t k = 0; k < s->n; k++) {
                float e = expf(px[k * s->inner] - max);
                py[k * s->inner] = e;
                sum += e;
            }
            for (int32_t k = 0; k < s->n; k++) py[k * s->inner] /= sum;
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
            max = fmaxf(max, v);
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

bool gwm_ref_eval(const struct gwm_node *n, const struct gwm_graph *g, const float *const *in, float *out)
{
    int32_t count = g->value[n->out].count;

    switch (n->op) {
    case GWM_UNARY: gwm_ref_unary(&n->act, in[0], out, count); return true;
    case GWM_BINARY: gwm_ref_binary(n, in[0], in[1], out); return true;
    case GWM_SOFTMAX: gwm_ref_softmax(&n->softmax, in[0], out); return true;
    case GWM_PAD:
        for (int32_t i = 0; i < count; i++) out[i] = n->mv.pad_value;
        gwm_ref_move(&n->mv.move[0], in[0], out);
        return true;
    case GWM_MOVE:
    case GWM_CONCAT:
        for (uint32_t i = 0; i < n->nin; i++) gwm_ref_move(&n->mv.move[i], in[i], out);
        return true;
    default: return false;
    }
}
