/* SPDX-License-Identifier: Apache-2.0 */
/* The lookup for all other processors. */
#include "src/flow/table.h"

#define TARGET
static inline unsigned lookup_match(const struct bucket *b, uint64_t tag)
{
    unsigned ways = 0;
    for (unsigned w = 0; w < WAYS; w++) ways |= (unsigned)(b->key[w] == tag) << w;
    return ways;
}

#define MATCH  lookup_match
#define LOOKUP gw_flow_lookup_scalar
#include "src/flow/lookup_body.h"
