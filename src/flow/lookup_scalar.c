/* SPDX-License-Identifier: Apache-2.0 */
/* Lookups for any processor. */
#include "src/flow/layout.h"

#define TARGET
static inline unsigned match_scalar(const struct bucket *b, uint64_t tag)
{
    unsigned ways = 0;
    for (unsigned w = 0; w < WAYS; w++) ways |= (unsigned)(b->key[w] == tag) << w;
    return ways;
}

#define MATCH  match_scalar
#define LOOKUP gw_flow_lookup_scalar
#include "src/flow/lookup_body.h"
