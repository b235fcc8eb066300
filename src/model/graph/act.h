/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one number, and of two: which there are. activate.h computes them. */
#ifndef GW_MODEL_GRAPH_ACT_H
#define GW_MODEL_GRAPH_ACT_H

#include <stdint.h>

/* A function of one element. On I64: NONE, RELU, ABS, NEG, SIGN, NOT. */
enum gwm_act_kind {
    GWM_ACT_NONE,
    GWM_ACT_RELU,
    GWM_ACT_LEAKY, /* x < 0 ? a x : x */
    GWM_ACT_CLIP,  /* min(max(x, a), b) */
    GWM_ACT_SIGMOID,
    GWM_ACT_TANH,
    GWM_ACT_AFFINE,   /* a x + b */
    GWM_ACT_HSIGMOID, /* min(max(a x + b, 0), 1) */
    GWM_ACT_HSWISH,   /* x min(max(x / 6 + 1/2, 0), 1) */
    GWM_ACT_SILU,     /* x sigmoid(a x) */
    GWM_ACT_GELU,     /* with erf */
    GWM_ACT_GELU_TANH,
    GWM_ACT_ERF,
    GWM_ACT_EXP,
    GWM_ACT_LOG,
    GWM_ACT_SQRT,
    GWM_ACT_RECIPROCAL,
    GWM_ACT_POW, /* x to the a */
    GWM_ACT_ABS,
    GWM_ACT_NEG,
    GWM_ACT_SIGN,
    GWM_ACT_FLOOR,
    GWM_ACT_CEIL,
    GWM_ACT_ROUND, /* halves to even */
    GWM_ACT_SIN,
    GWM_ACT_COS,
    GWM_ACT_ELU,  /* x < 0 ? a (e^x - 1) : x */
    GWM_ACT_SELU, /* b times ELU */
    GWM_ACT_CELU, /* x < 0 ? a (e^(x/a) - 1) : x */
    GWM_ACT_SOFTPLUS,
    GWM_ACT_SOFTSIGN,
    GWM_ACT_MISH,
    GWM_ACT_NOT, /* I64 only */
};

struct gwm_act {
    int32_t kind;
    float a, b;
};

/* Comparisons and the logical ones give I64, 0 or 1. */
enum gwm_binary {
    GWM_ADD,
    GWM_SUB,
    GWM_MUL,
    GWM_DIV,
    GWM_POW,
    GWM_MIN,
    GWM_MAX,
    GWM_MOD,   /* the sign is the divisor's */
    GWM_FMOD,  /* the sign is the dividend's */
    GWM_PRELU, /* a < 0 ? a b : a */
    GWM_EQUAL,
    GWM_LESS,
    GWM_LESS_EQUAL,
    GWM_GREATER,
    GWM_GREATER_EQUAL,
    GWM_AND, /* these three on I64 only */
    GWM_OR,
    GWM_XOR,
};

enum gwm_reduce_kind {
    GWM_REDUCE_SUM,
    GWM_REDUCE_MEAN,
    GWM_REDUCE_MAX,
    GWM_REDUCE_MIN,
    GWM_REDUCE_PROD,
    GWM_REDUCE_L1,
    GWM_REDUCE_L2,
    GWM_REDUCE_SUM_SQUARE,
    GWM_REDUCE_LOG_SUM_EXP,
    GWM_REDUCE_ARGMAX, /* the result is I64 */
    GWM_REDUCE_ARGMIN,
};

#endif
