/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce.h: makes one vector of several. Included by collective.h; names that end in _ are private.
 *
 * A thread does its share of the elements: 16 bytes at a time where all addresses allow it, else one by
 * one. For each element it goes through the inputs in their order, and rounds to the type after each.
 */
#include <gpuwire/collective.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_COLLECTIVE_REDUCE_H
#define GPUWIRE_DETAIL_COLLECTIVE_REDUCE_H

/* ---- types --------------------------------------------------------------------------------------------- */

GW_FN float gw_float_of_bits_(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

GW_FN uint32_t gw_bits_of_float_(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

GW_FN float gw_of_bf16_(uint16_t v)
{
    return gw_float_of_bits_((uint32_t)v << 16);
}

/* To the nearest, ties to even. */
GW_FN uint16_t gw_to_bf16_(float f)
{
    uint32_t bits = gw_bits_of_float_(f);

    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40); /* NaN stays one */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

GW_FN float gw_of_f16_(uint16_t v)
{
    uint32_t sign = (uint32_t)(v & 0x8000) << 16, rest = v & 0x7fffu;

    if (rest >= 0x7c00) return gw_float_of_bits_(sign | 0x7f800000u | (rest & 0x3ff) << 13);
    if (rest >= 0x0400) return gw_float_of_bits_(sign | ((rest << 13) + 0x38000000u));
    /* Below the smallest normal number: rest * 2^-24, exactly. */
    return gw_float_of_bits_(sign | gw_bits_of_float_((float)rest * gw_float_of_bits_(0x33800000u)));
}

/* To the nearest, ties to even. */
GW_FN uint16_t gw_to_f16_(float f)
{
    uint32_t bits = gw_bits_of_float_(f), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffffu;

    if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00);
    if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00); /* rounds to infinity */
    if (rest >= 0x38800000u)
        return (uint16_t)(sign | ((rest - 0x38000000u + 0xfff + (rest >> 13 & 1)) >> 13));
    /* Adding 0.5 leaves it in the last ten bits, rounded as an addition rounds. */
    return (uint16_t)(sign | (gw_bits_of_float_(gw_float_of_bits_(rest) + 0.5f) - 0x3f000000u));
}

#define GW_SAME_(v)       (v)
#define GW_OP_SUM_(a, b)  ((a) + (b))
#define GW_OP_PROD_(a, b) ((a) * (b))
#define GW_OP_MAX_(a, b)  ((a) > (b) ? (a) : (b))
#define GW_OP_MIN_(a, b)  ((a) < (b) ? (a) : (b))
/* Of floating-point numbers: a NaN of either side stays. */
#define GW_OP_MAXF_(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define GW_OP_MINF_(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))

/* ---- loops --------------------------------------------------------------------------------------------- */

/* What a reduction reads and writes. in[r]: rank r's. */
struct gw_reduce_ {
    void *to;
    const uint8_t *const *in;
    uint64_t count; /* elements */
    uint32_t inputs;
    uint32_t dtype, op;
    uint32_t scale; /* GW_AVG: what the last result is divided by; else 1 */
};

/* One type with one operator, element by element from `first` on. `math` is the type that it is calculated
 * in. */
#define GW_REDUCE_EACH_(name, type, math, load, store, OP)                                                   \
    GW_FN void name##_each_(const struct gw_reduce_ *r, uint64_t first, uint32_t size)                       \
    {                                                                                                        \
        uint64_t i;                                                                                          \
        uint32_t k;                                                                                          \
                                                                                                             \
        GW_NO_UNROLL_                                                                                        \
        for (i = first; i < r->count; i += size) {                                                           \
            math v = load(((const type *)r->in[0])[i]);                                                      \
                                                                                                             \
            GW_NO_UNROLL_                                                                                    \
            for (k = 1; k < r->inputs; k++)                                                                  \
                v = load((type)store((math)OP(v, (math)load(((const type *)r->in[k])[i]))));                 \
            if (r->scale > 1) v = (math)(v / (math)r->scale);                                                \
            ((type *)r->to)[i] = (type)store(v);                                                             \
        }                                                                                                    \
    }

/* The same, 16 bytes at a time, and what is left over one by one. */
#define GW_REDUCE_LOOP_(name, type, math, load, store, OP)                                                   \
    GW_REDUCE_EACH_(name, type, math, load, store, OP)                                                       \
    GW_FN void name##_(const struct gw_reduce_ *r, uint32_t rank, uint32_t size, uint64_t units)             \
    {                                                                                                        \
        enum { EACH = 16 / sizeof(type) };                                                                   \
        uint64_t at, n, u;                                                                                   \
        uint32_t k, e;                                                                                       \
                                                                                                             \
        gw_reduce_share_(units, rank, size, &at, &n);                                                        \
        GW_NO_UNROLL_                                                                                        \
        for (u = at; n--; u += GW_ON_GPU ? size : 1) {                                                       \
            union {                                                                                          \
                struct gw_u128 all;                                                                          \
                type each[EACH];                                                                             \
            } a, b;                                                                                          \
                                                                                                             \
            a.all = ((const struct gw_u128 *)r->in[0])[u];                                                   \
            GW_NO_UNROLL_                                                                                    \
            for (k = 1; k < r->inputs; k++) {                                                                \
                b.all = ((const struct gw_u128 *)r->in[k])[u];                                               \
                for (e = 0; e < EACH; e++)                                                                   \
                    a.each[e] = (type)store((math)OP((math)load(a.each[e]), (math)load(b.each[e])));         \
            }                                                                                                \
            if (r->scale > 1)                                                                                \
                for (e = 0; e < EACH; e++)                                                                   \
                    a.each[e] = (type)store((math)((math)load(a.each[e]) / (math)r->scale));                 \
            ((struct gw_u128 *)r->to)[u] = a.all;                                                            \
        }                                                                                                    \
        name##_each_(r, units *EACH + rank, size);                                                           \
    }

/* The same for types whose pieces of 16 bytes are more code than they are worth: all one by one. */
#define GW_REDUCE_SMALL_(name, type, math, load, store, OP)                                                  \
    GW_REDUCE_EACH_(name, type, math, load, store, OP)                                                       \
    GW_FN void name##_(const struct gw_reduce_ *r, uint32_t rank, uint32_t size, uint64_t units)             \
    {                                                                                                        \
        (void)units;                                                                                         \
        name##_each_(r, rank, size);                                                                         \
    }

/* A thread's units: neighbouring threads of a GPU take neighbouring ones, a CPU thread a stretch. */
GW_FN void gw_reduce_share_(uint64_t units, uint32_t rank, uint32_t size, uint64_t *at, uint64_t *n)
{
    if (GW_ON_GPU) {
        *at = rank;
        *n = units > rank ? (units - rank + size - 1) / size : 0;
    } else {
        uint64_t part = (units + size - 1) / size;

        *at = part * rank < units ? part * rank : units;
        *n = units - *at < part ? units - *at : part;
    }
}

/* A type whose loop has all four operators. */
#define GW_REDUCE_TYPE_(LOOP, name, type, math, load, store, F)                                              \
    LOOP(gw_sum_##name, type, math, load, store, GW_OP_SUM_)                                                 \
    LOOP(gw_prod_##name, type, math, load, store, GW_OP_PROD_)                                               \
    LOOP(gw_max_##name, type, math, load, store, GW_OP_MAX##F##_)                                            \
    LOOP(gw_min_##name, type, math, load, store, GW_OP_MIN##F##_)                                            \
    GW_SLOW_DEV void gw_reduce_##name##_(const struct gw_reduce_ *r, uint32_t rank, uint32_t size,           \
                                         uint64_t units)                                                     \
    {                                                                                                        \
        if (r->op == GW_PROD)                                                                                \
            gw_prod_##name##_(r, rank, size, units);                                                         \
        else if (r->op == GW_MAX)                                                                            \
            gw_max_##name##_(r, rank, size, units);                                                          \
        else if (r->op == GW_MIN)                                                                            \
            gw_min_##name##_(r, rank, size, units);                                                          \
        else                                                                                                 \
            gw_sum_##name##_(r, rank, size, units);                                                          \
    }

/* Sums and products of signed integers are those of unsigned ones, which wrap. */
#define GW_REDUCE_SIGNED_(LOOP, name, type, of_unsigned)                                                     \
    LOOP(gw_max_##name, type, type, GW_SAME_, GW_SAME_, GW_OP_MAX_)                                          \
    LOOP(gw_min_##name, type, type, GW_SAME_, GW_SAME_, GW_OP_MIN_)                                          \
    GW_SLOW_DEV void gw_reduce_##name##_(const struct gw_reduce_ *r, uint32_t rank, uint32_t size,           \
                                         uint64_t units)                                                     \
    {                                                                                                        \
        if (r->op == GW_MAX)                                                                                 \
            gw_max_##name##_(r, rank, size, units);                                                          \
        else if (r->op == GW_MIN)                                                                            \
            gw_min_##name##_(r, rank, size, units);                                                          \
        else                                                                                                 \
            of_unsigned(r, rank, size, units);                                                               \
    }

GW_REDUCE_TYPE_(GW_REDUCE_LOOP_, f32, float, float, GW_SAME_, GW_SAME_, F)
GW_REDUCE_TYPE_(GW_REDUCE_LOOP_, f64, double, double, GW_SAME_, GW_SAME_, F)
GW_REDUCE_TYPE_(GW_REDUCE_LOOP_, f16, uint16_t, float, gw_of_f16_, gw_to_f16_, F)
GW_REDUCE_TYPE_(GW_REDUCE_LOOP_, bf16, uint16_t, float, gw_of_bf16_, gw_to_bf16_, F)
GW_REDUCE_TYPE_(GW_REDUCE_SMALL_, u8, uint8_t, uint32_t, GW_SAME_, GW_SAME_, )
GW_REDUCE_TYPE_(GW_REDUCE_SMALL_, u16, uint16_t, uint32_t, GW_SAME_, GW_SAME_, )
GW_REDUCE_TYPE_(GW_REDUCE_LOOP_, u32, uint32_t, uint32_t, GW_SAME_, GW_SAME_, )
GW_REDUCE_TYPE_(GW_REDUCE_LOOP_, u64, uint64_t, uint64_t, GW_SAME_, GW_SAME_, )
GW_REDUCE_SIGNED_(GW_REDUCE_SMALL_, i8, int8_t, gw_reduce_u8_)
GW_REDUCE_SIGNED_(GW_REDUCE_SMALL_, i16, int16_t, gw_reduce_u16_)
GW_REDUCE_SIGNED_(GW_REDUCE_LOOP_, i32, int32_t, gw_reduce_u32_)
GW_REDUCE_SIGNED_(GW_REDUCE_LOOP_, i64, int64_t, gw_reduce_u64_)
#undef GW_REDUCE_SIGNED_
#undef GW_REDUCE_TYPE_
#undef GW_REDUCE_SMALL_
#undef GW_REDUCE_LOOP_
#undef GW_REDUCE_EACH_

/* Bytes of an element, as gw_dtype_bytes; 0: there is no such type. */
GW_FN uint32_t gw_coll_bytes_(uint32_t dtype)
{
    if (dtype == GW_DTYPE_F64 || dtype == GW_DTYPE_U64 || dtype == GW_DTYPE_I64) return 8;
    if (dtype == GW_DTYPE_F32 || dtype == GW_DTYPE_U32 || dtype == GW_DTYPE_I32) return 4;
    if (dtype == GW_DTYPE_F16 || dtype == GW_DTYPE_BF16 || dtype == GW_DTYPE_U16 || dtype == GW_DTYPE_I16)
        return 2;
    return dtype >= GW_DTYPE_F32 && dtype <= GW_DTYPE_I64;
}

/* This thread's share of a reduction by `size` threads, of which it is number `rank`. It orders nothing. */
GW_SLOW_DEV void gw_reduce_run_(const struct gw_reduce_ *r, uint32_t rank, uint32_t size)
{
    uintptr_t at = (uintptr_t)r->to;
    uint64_t units;
    uint32_t k;

    for (k = 0; k < r->inputs; k++) at |= (uintptr_t)r->in[k];
    units = at & 15 ? 0 : r->count / (16 / gw_coll_bytes_(r->dtype));
    switch (r->dtype) {
    case GW_DTYPE_F32: gw_reduce_f32_(r, rank, size, units); break;
    case GW_DTYPE_F64: gw_reduce_f64_(r, rank, size, units); break;
    case GW_DTYPE_F16: gw_reduce_f16_(r, rank, size, units); break;
    case GW_DTYPE_BF16: gw_reduce_bf16_(r, rank, size, units); break;
    case GW_DTYPE_I8: gw_reduce_i8_(r, rank, size, units); break;
    case GW_DTYPE_I16: gw_reduce_i16_(r, rank, size, units); break;
    case GW_DTYPE_U16: gw_reduce_u16_(r, rank, size, units); break;
    case GW_DTYPE_I32: gw_reduce_i32_(r, rank, size, units); break;
    case GW_DTYPE_U32: gw_reduce_u32_(r, rank, size, units); break;
    case GW_DTYPE_I64: gw_reduce_i64_(r, rank, size, units); break;
    case GW_DTYPE_U64: gw_reduce_u64_(r, rank, size, units); break;
    default: gw_reduce_u8_(r, rank, size, units); break;
    }
}

#endif
