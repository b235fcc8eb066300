/* SPDX-License-Identifier: Apache-2.0 */
/* vector.h: a function compiled for several kinds of processors, of which the program takes the best. */
#ifndef MAPREDUCE_VECTOR_H
#define MAPREDUCE_VECTOR_H

#ifdef __x86_64__
/* GCC takes half of a register unless told otherwise. clang does not know the word. */
#ifdef __clang__
#define VECTOR_AVX512 "avx512f,avx512dq,avx512vl,fma"
#else
#define VECTOR_AVX512 "avx512f,avx512dq,avx512vl,fma,prefer-vector-width=512"
#endif

/* Defines `static void name parameters { the rest }`, which is called as `name arguments`. */
#define VECTOR_VARIANTS(name, parameters, arguments, ...)                                                    \
    static void name##_plain parameters __VA_ARGS__                                                          \
        __attribute__((target("avx2,fma"))) static void name##_avx2 parameters __VA_ARGS__                   \
        __attribute__((target(                                                                               \
            VECTOR_AVX512))) static void name##_avx512 parameters __VA_ARGS__ static void name parameters    \
    {                                                                                                        \
        __builtin_cpu_init();                                                                                \
        if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))                        \
            name##_avx512 arguments;                                                                         \
        else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))                            \
            name##_avx2 arguments;                                                                           \
        else                                                                                                 \
            name##_plain arguments;                                                                          \
    }
#else
#define VECTOR_VARIANTS(name, parameters, arguments, ...) static void name parameters __VA_ARGS__
#endif

#endif
