/* SPDX-License-Identifier: Apache-2.0 */
/* activate.h: functions of one number, and of two: the same in kernels and where constants are folded. */
#ifndef GW_MODEL_ACTIVATE_H
#define GW_MODEL_ACTIVATE_H

#include <math.h>
#include <stdbool.h>

#include <gpuwire/dtype.h>
#include <gpuwire/fn.h>

#include "src/model/graph/act.h"

#ifdef __CUDACC__
#include <nv/target>
#endif

/*
 * The larger and the smaller of two numbers; NaN where one of them is, which fmaxf leaves out: a network that
 * has lost its numbers must not answer with plausible ones. GPUs from 8.0 on have an instruction for it.
 */
GW_FN float gwm_larger_plain(float a, float b)
{
    return a > b || a != a ? a : b;
}

GW_FN float gwm_smaller_plain(float a, float b)
{
    return a < b || a != a ? a : b;
}

#ifdef __CUDACC__
static __device__ inline float gwm_larger_fast(float a, float b)
{
    float r;

    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

static __device__ inline float gwm_smaller_fast(float a, float b)
{
    float r;

    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
#endif

GW_FN float gwm_larger(float a, float b)
{
#ifdef __CUDACC__
    NV_IF_TARGET(NV_PROVIDES_SM_80, (return gwm_larger_fast(a, b);))
#endif
    return gwm_larger_plain(a, b);
}

GW_FN float gwm_smaller(float a, float b)
{
#ifdef __CUDACC__
    NV_IF_TARGET(NV_PROVIDES_SM_80, (return gwm_smaller_fast(a, b);))
#endif
    return gwm_smaller_plain(a, b);
}

GW_FN float gwm_elu(float a, float x)
{
    return x > 0 ? x : a * expm1f(x);
}

/* log(1 + e^x), without overflow. */
GW_FN float gwm_softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

/* The Gaussian error linear unit: x times the probability that a normal number is below x. */
GW_FN float gwm_gelu_plain(float x)
{
    return 0.5f * x * (1 + erff(x * 0.70710678f));
}

#ifdef __CUDACC__
/* erff takes a kernel longer than the memory does. So erfc is a polynomial times e^(-z²) here, wrong by at
 * most 1.5e-7 (Abramowitz and Stegun, 7.1.26). */
static __device__ inline float gwm_gelu_fast(float x)
{
    float z = fabsf(x) * 0.70710678f, t = __fdividef(1.f, fmaf(0.3275911f, z, 1.f)), half;

    half = fmaf(fmaf(fmaf(fmaf(1.061405429f, t, -1.453152027f), t, 1.421413741f), t, -0.284496736f), t,
                0.254829592f);
    half *= 0.5f * x * t * __expf(-z * z);
    return x > 16 ? x : x > 0 ? x - half : half; /* beyond it infinity times 0 would be NaN */
}
#endif

GW_FN float gwm_gelu(float x)
{
#ifdef __CUDACC__
    NV_IF_TARGET(NV_IS_DEVICE, (return gwm_gelu_fast(x);))
#endif
    return gwm_gelu_plain(x);
}

GW_SLOW_FN float gwm_activate_rare(int32_t kind, float a, float b, float x)
{
    switch (kind) {
    case GWM_ACT_ERF: return erff(x);
    case GWM_ACT_EXP: return expf(x);
    case GWM_ACT_LOG: return logf(x);
    case GWM_ACT_SQRT: return sqrtf(x);
    case GWM_ACT_RECIPROCAL: return 1 / x;
    case GWM_ACT_POW: return a == 2 ? x * x : a == 0.5f && x >= 0 ? sqrtf(x) : powf(x, a);
    case GWM_ACT_ABS: return fabsf(x);
    case GWM_ACT_NEG: return -x;
    case GWM_ACT_SIGN: return x > 0 ? 1.f : x < 0 ? -1.f : x;
    case GWM_ACT_FLOOR: return floorf(x);
    case GWM_ACT_CEIL: return ceilf(x);
    case GWM_ACT_ROUND: return rintf(x);
    case GWM_ACT_SIN: return sinf(x);
    case GWM_ACT_COS: return cosf(x);
    case GWM_ACT_ELU: return gwm_elu(a, x);
    case GWM_ACT_SELU: return b * gwm_elu(a, x);
    case GWM_ACT_CELU: return x > 0 ? x : a * expm1f(x / a);
    case GWM_ACT_SOFTPLUS: return gwm_softplus(x);
    case GWM_ACT_SOFTSIGN: return x / (1 + fabsf(x));
    case GWM_ACT_MISH: return x * tanhf(gwm_softplus(x));
    default: return x;
    }
}

GW_FN float gwm_activate(const struct gwm_act *act, float x)
{
    switch (act->kind) {
    case GWM_ACT_NONE: return x;
    case GWM_ACT_RELU: return gwm_larger(x, 0);
    case GWM_ACT_LEAKY: return x > 0 ? x : act->a * x;
    case GWM_ACT_CLIP: return gwm_smaller(gwm_larger(x, act->a), act->b);
    case GWM_ACT_SIGMOID: return 1 / (1 + expf(-x));
    case GWM_ACT_TANH: return tanhf(x);
    case GWM_ACT_AFFINE: return act->a * x + act->b;
    case GWM_ACT_HSIGMOID: return gwm_smaller(gwm_larger(act->a * x + act->b, 0), 1);
    case GWM_ACT_HSWISH: return x * fminf(fmaxf(x / 6 + 0.5f, 0), 1);
    case GWM_ACT_SILU: return x / (1 + expf(-act->a * x));
    case GWM_ACT_GELU: return gwm_gelu(x);
    case GWM_ACT_GELU_TANH: return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    default: return gwm_activate_rare(act->kind, act->a, act->b, x);
    }
}

/*
 * Two numbers: the kinds whose result is a number, and those that compare. MORE is what a type's functions
 * are called with at the end: f for float, nothing for double.
 */
#define GWM_BINARY_OF(how, name, type, MORE, smaller, larger)                                                \
    how type name(int32_t kind, type a, type b)                                                              \
    {                                                                                                        \
        type m;                                                                                              \
                                                                                                             \
        switch (kind) {                                                                                      \
        case GWM_ADD: return a + b;                                                                          \
        case GWM_SUB: return a - b;                                                                          \
        case GWM_MUL: return a * b;                                                                          \
        case GWM_DIV: return a / b;                                                                          \
        case GWM_POW: return pow##MORE(a, b);                                                                \
        case GWM_MIN: return smaller(a, b);                                                                  \
        case GWM_MAX: return larger(a, b);                                                                   \
        case GWM_PRELU: return a < 0 ? a * b : a;                                                            \
        case GWM_FMOD: return fmod##MORE(a, b);                                                              \
        default: m = fmod##MORE(a, b); return m != 0 && (m < 0) != (b < 0) ? m + b : m;                      \
        }                                                                                                    \
    }

#define GWM_COMPARE_OF(name, type)                                                                           \
    GW_FN int64_t name(int32_t kind, type a, type b)                                                         \
    {                                                                                                        \
        switch (kind) {                                                                                      \
        case GWM_EQUAL: return a == b;                                                                       \
        case GWM_LESS: return a < b;                                                                         \
        case GWM_LESS_EQUAL: return a <= b;                                                                  \
        case GWM_GREATER: return a > b;                                                                      \
        default: return a >= b;                                                                              \
        }                                                                                                    \
    }

GWM_BINARY_OF(GW_FN, gwm_binary1, float, f, gwm_smaller, gwm_larger)
GWM_COMPARE_OF(gwm_compare1, float)

/* ---- float64, of which there is little: no operator that adds up products has it ---- */

GW_SLOW_FN double gwm_activate_f64(int32_t kind, float fa, float fb, double x)
{
    double a = (double)fa, b = (double)fb, y;

    switch (kind) {
    case GWM_ACT_RELU: return x < 0 ? 0 : x;
    case GWM_ACT_LEAKY: return x > 0 ? x : a * x;
    case GWM_ACT_SIGMOID: return 1 / (1 + exp(-x));
    case GWM_ACT_TANH: return tanh(x);
    case GWM_ACT_AFFINE: return a * x + b;
    case GWM_ACT_ERF: return erf(x);
    case GWM_ACT_EXP: return exp(x);
    case GWM_ACT_LOG: return log(x);
    case GWM_ACT_SQRT: return sqrt(x);
    case GWM_ACT_RECIPROCAL: return 1 / x;
    case GWM_ACT_ABS: return fabs(x);
    case GWM_ACT_NEG: return -x;
    case GWM_ACT_SIGN: return x > 0 ? 1 : x < 0 ? -1 : x;
    case GWM_ACT_FLOOR: return floor(x);
    case GWM_ACT_CEIL: return ceil(x);
    case GWM_ACT_ROUND: return rint(x);
    case GWM_ACT_SIN: return sin(x);
    case GWM_ACT_COS: return cos(x);
    case GWM_ACT_HSIGMOID: y = a * x + b; return y < 0 ? 0 : y > 1 ? 1 : y;
    case GWM_ACT_SOFTPLUS: return x > 40 ? x : log1p(exp(x));
    case GWM_ACT_SOFTSIGN: return x / (1 + fabs(x));
    case GWM_ACT_ELU: return x > 0 ? x : a * expm1(x);
    case GWM_ACT_SELU: return b * (x > 0 ? x : a * expm1(x));
    case GWM_ACT_CELU: return x > 0 ? x : a * expm1(x / a);
    default: return x;
    }
}

GW_FN double gwm_smaller_f64(double a, double b)
{
    return a < b || a != a ? a : b;
}

GW_FN double gwm_larger_f64(double a, double b)
{
    return a > b || a != a ? a : b;
}

GWM_BINARY_OF(GW_SLOW_FN, gwm_binary_f64, double, , gwm_smaller_f64, gwm_larger_f64)
GWM_COMPARE_OF(gwm_compare_f64, double)

/* One element's part of a reduction, but for the logarithm of a sum of powers. */
GW_FN double gwm_part_f64(int32_t kind, double sum, double v)
{
    switch (kind) {
    case GWM_REDUCE_MAX: return gwm_binary_f64(GWM_MAX, sum, v);
    case GWM_REDUCE_MIN: return gwm_binary_f64(GWM_MIN, sum, v);
    case GWM_REDUCE_PROD: return sum * v;
    case GWM_REDUCE_L1: return sum + fabs(v);
    case GWM_REDUCE_L2:
    case GWM_REDUCE_SUM_SQUARE: return sum + v * v;
    default: return sum + v;
    }
}

/* A reduction of n elements, `step` apart. */
GW_SLOW_FN double gwm_reduce_f64(int32_t kind, const double *x, int32_t n, int32_t step)
{
    double sum = kind == GWM_REDUCE_PROD ? 1 : 0;
    int32_t k;

    if (kind == GWM_REDUCE_MAX || kind == GWM_REDUCE_MIN) sum = x[0];
    for (k = 0; k < n; k++) sum = gwm_part_f64(kind, sum, x[k * step]);
    return kind == GWM_REDUCE_MEAN ? sum / n : kind == GWM_REDUCE_L2 ? sqrt(sum) : sum;
}

/*
 * A float as an integer of that type (enum gw_dtype). NaN becomes 0. A number too large for 32 bits, or for
 * 64 where the type has 64, becomes the nearest number of the type. Other numbers keep their low bits.
 */
GW_FN int64_t gwm_whole(uint32_t type, double f)
{
    bool wide = type == GW_DTYPE_I64 || type == GW_DTYPE_U64;
    double least = wide ? -9223372036854775808. : -2147483648.;
    double above = wide ? 9223372036854775808. : type == GW_DTYPE_U32 ? 4294967296. : 2147483648.;

    if (f != f) return 0;
    if (f >= least && f < above) return (int64_t)f;
    switch (type) {
    case GW_DTYPE_U8: return f < 0 ? 0 : UINT8_MAX;
    case GW_DTYPE_I8: return f < 0 ? INT8_MIN : INT8_MAX;
    case GW_DTYPE_U16: return f < 0 ? 0 : UINT16_MAX;
    case GW_DTYPE_I16: return f < 0 ? INT16_MIN : INT16_MAX;
    case GW_DTYPE_U32: return f < 0 ? 0 : UINT32_MAX;
    case GW_DTYPE_I32: return f < 0 ? INT32_MIN : INT32_MAX;
    case GW_DTYPE_U64: return f < 0 ? 0 : f < 18446744073709551616. ? (int64_t)(uint64_t)f : -1;
    default: return f < 0 ? INT64_MIN : INT64_MAX;
    }
}

/* Two integers: all kinds. Sums and products wrap around; a division by 0 gives 0. */
GW_FN int64_t gwm_binary1_i64(int32_t kind, int64_t a, int64_t b)
{
    int64_t r, i;

    switch (kind) {
    case GWM_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case GWM_SUB: return (int64_t)((uint64_t)a - (uint64_t)b);
    case GWM_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case GWM_DIV: return b == 0 ? 0 : b == -1 ? (int64_t) - (uint64_t)a : a / b;
    case GWM_POW:
        for (r = b < 0 ? 0 : 1, i = a; b > 0; b >>= 1, i = (int64_t)((uint64_t)i * (uint64_t)i))
            if (b & 1) r = (int64_t)((uint64_t)r * (uint64_t)i);
        return r;
    case GWM_MIN: return a < b ? a : b;
    case GWM_MAX: return a > b ? a : b;
    case GWM_FMOD: return b == 0 || b == -1 ? 0 : a % b;
    case GWM_MOD: r = b == 0 || b == -1 ? 0 : a % b; return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    case GWM_PRELU: return a < 0 ? (int64_t)((uint64_t)a * (uint64_t)b) : a;
    case GWM_EQUAL: return a == b;
    case GWM_LESS: return a < b;
    case GWM_LESS_EQUAL: return a <= b;
    case GWM_GREATER: return a > b;
    case GWM_GREATER_EQUAL: return a >= b;
    case GWM_AND: return a && b;
    case GWM_OR: return a || b;
    default: return !a != !b;
    }
}

#endif
