/* SPDX-License-Identifier: Apache-2.0 */
/* Lookups that compare a whole bucket at once. */
#include "src/flow/layout.h"

#ifdef __x86_64__
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx2,bmi,bmi2")))
/* The whole line at once. Its last three words are no keys: `used` masks them. */
TARGET static inline unsigned match_avx512(const struct bucket *b, uint64_t tag)
{
    return _mm512_cmpeq_epi64_mask(_mm512_load_si512(b), _mm512_set1_epi64((long long)tag));
}

#define MATCH  match_avx512
#define LOOKUP gw_flow_lookup_avx512
#include "src/flow/lookup_body.h"
#endif
