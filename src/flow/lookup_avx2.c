/* SPDX-License-Identifier: Apache-2.0 */
/* Lookups that compare four keys at once. */
#include "src/flow/layout.h"

#ifdef __x86_64__
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2")))
TARGET static inline unsigned match_avx2(const struct bucket *b, uint64_t tag)
{
    __m256i keys = _mm256_load_si256((const __m256i *)(const void *)b);
    __m256i same = _mm256_cmpeq_epi64(keys, _mm256_set1_epi64x((long long)tag));
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(same)) | (unsigned)(b->key[4] == tag) << 4;
}

#define MATCH  match_avx2
#define LOOKUP gw_flow_lookup_avx2
#include "src/flow/lookup_body.h"
#endif
