/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fast.h: loops of fmaf on a CPU. Without the processor's own instruction, fmaf is a call of the C library.
 * So such a loop is compiled twice: MR_FAST_CPU is for processors with AVX2 and FMA, and mr_fast_cpu says
 * whether this is one. On a GPU it is none, and the plain function is the fast one.
 */
#ifndef MAPREDUCE_FAST_H
#define MAPREDUCE_FAST_H

#include <gpuwire/fn.h>

#if defined(__x86_64__) && !defined(__CUDACC__)
#define MR_FAST_CPU   static __attribute__((unused, target("avx2,fma")))
#define mr_fast_cpu() (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#else
#define MR_FAST_CPU   GW_FN
#define mr_fast_cpu() 0
#endif

#endif
