/* SPDX-License-Identifier: Apache-2.0 */
/* Plain loops that pick elements by index, and that change the type of elements. */
#include <math.h>
#include <string.h>

#include "src/model/graph/activate.h"
#include "src/model/graph/half.h"
#include "src/model/ref/ref.h"

void gwm_ref_gather(const struct gwm_gather *s, size_t width, const void *x, const int64_t *index, void *y)
{
    size_t run = (size_t)s->inner * width;
    char *to = y;

    for (int32_t o = 0; o < s->outer; o++) {
        const char *from = (const char *)x + (size_t)o * (size_t)s->n * run;
        for (int32_t k = 0; k < s->count; k++, to += run) {
            int64_t at = index[k] < 0 ? index[k] + s->n : index[k];
            at = at < 0 ? 0 : at >= s->n ? s->n - 1 : at; /* from a client, perhaps: never outside */
            memcpy(to, from + (size_t)at * run, run);
        }
    }
}

void gwm_ref_interp(const struct gwm_interp *s, const float *x, float *y)
{
    size_t inner = (size_t)s->inner;

    for (int32_t o = 0; o < s->outer; o++, x += (size_t)s->n * inner) {
        for (int32_t k = 0; k < s->count; k++, y += inner) {
            memset(y, 0, inner * sizeof(*y));
            for (int32_t t = k * s->taps; t < (k + 1) * s->taps; t++) {
                const float *from = x + (size_t)s->index[t] * inner, weight = s->weight[t];
                if (s->index[t] < 0) continue;
                for (size_t i = 0; i < inner; i++) y[i] += weight * from[i];
            }
        }
    }
}

/* ---- types ---- */

static uint16_t to_bf16(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double load_real(uint32_t type, const char *p)
{
    uint32_t bits;
    uint16_t h;
    double d;
    float f;

    switch (type) {
    case GW_DTYPE_F16: memcpy(&h, p, 2); return (double)gwm_half_soft(h);
    case GW_DTYPE_BF16:
        memcpy(&h, p, 2);
        bits = (uint32_t)h << 16;
        memcpy(&f, &bits, 4);
        return (double)f;
    case GW_DTYPE_F64: memcpy(&d, p, 8); return d;
    default: memcpy(&f, p, 4); return (double)f;
    }
}

static void store_real(uint32_t type, double d, char *p)
{
    float f = (float)d;
    uint16_t h;

    switch (type) {
    case GW_DTYPE_F16: h = gwm_half_round(f), memcpy(p, &h, 2); break;
    case GW_DTYPE_BF16: h = to_bf16(f), memcpy(p, &h, 2); break;
    case GW_DTYPE_F64: memcpy(p, &d, 8); break;
    default: memcpy(p, &f, 4); break;
    }
}

static int64_t load_int(uint32_t type, const char *p)
{
    int64_t v = 0;

    memcpy(&v, p, gw_dtype_bytes(type));
    switch (type) {
    case GW_DTYPE_BOOL: return v != 0;
    case GW_DTYPE_I8: return (int8_t)v;
    case GW_DTYPE_I16: return (int16_t)v;
    case GW_DTYPE_I32: return (int32_t)v;
    default: return v;
    }
}

void gwm_ref_convert(uint32_t from, uint32_t to, uint32_t into, const void *x, void *y, int32_t count)
{
    size_t wx = gw_dtype_bytes(from), wy = gw_dtype_bytes(into);
    bool source = from <= GW_DTYPE_F64, is_float = to <= GW_DTYPE_F64;

    for (int32_t i = 0; i < count; i++) {
        const char *p = (const char *)x + (size_t)i * wx;
        char *q = (char *)y + (size_t)i * wy;
        double f = source ? load_real(from, p) : 0;
        int64_t v = source ? 0 : load_int(from, p);
        if (is_float) {
            if (!source) f = from == GW_DTYPE_U64 ? (double)(uint64_t)v : (double)v;
            store_real(into, f, q);
            continue;
        }
        if (to == GW_DTYPE_BOOL)
            v = source ? f != 0 : v != 0;
        else if (source)
            v = gwm_whole(to, f);
        if (to != GW_DTYPE_BOOL) v = load_int(to, (const char *)&v); /* the low bytes, as the type has them */
        memcpy(q, &v, wy);
    }
}
