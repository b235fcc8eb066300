/* SPDX-License-Identifier: Apache-2.0 */
/* Which version of the arithmetic this processor gets. */
#include "src/generate/cpu/kernels.h"

#include <string.h>

const struct gen_cpu_kernels *gen_cpu_kernels(const char *name)
{
#if defined(__x86_64__)
    const struct gen_cpu_kernels *avx512 = &gen_cpu_kernels_avx512, *avx2 = &gen_cpu_kernels_avx2;
    bool has2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    bool has512 = has2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");

    if (has512 && (!name || !strcmp(name, avx512->name))) return avx512;
    if (has2 && (!name || !strcmp(name, avx2->name))) return avx2;
#endif
    return !name || !strcmp(name, gen_cpu_kernels_plain.name) ? &gen_cpu_kernels_plain : NULL;
}
