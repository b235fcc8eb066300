/* SPDX-License-Identifier: Apache-2.0 */
/* Which version of the arithmetic this processor gets. */
#include "src/generate/cpu/kernels.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* __builtin_cpu_supports does not know F16C in every compiler. AVX2, which is asked for too, says that the
 * system keeps these registers. */
static bool kernels_have_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

const struct gen_cpu_kernels *gen_cpu_kernels(const char *name)
{
#if defined(__x86_64__)
    const struct gen_cpu_kernels *avx512 = &gen_cpu_kernels_avx512, *avx2 = &gen_cpu_kernels_avx2;
    bool has2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && kernels_have_f16c();
    bool has512 = has2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");

    if (has512 && (!name || !strcmp(name, avx512->name))) return avx512;
    if (has2 && (!name || !strcmp(name, avx2->name))) return avx2;
#endif
    return !name || !strcmp(name, gen_cpu_kernels_plain.name) ? &gen_cpu_kernels_plain : NULL;
}
