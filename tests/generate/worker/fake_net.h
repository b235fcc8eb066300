/* SPDX-License-Identifier: Apache-2.0 */
/* A network for tests: its next token is a hash of all tokens of the lane, which it reads from the cache. A
 * page that is another lane's shows so. */
#ifndef GW_TEST_GENERATE_FAKE_NET_H
#define GW_TEST_GENERATE_FAKE_NET_H

#include "src/generate/net/net.h"

#define FAKE_VOCAB 1000u

struct fake_net {
    struct gen_net_memory memory;
    uint32_t rows;     /* of a step, at most */
    uint32_t sleep_us; /* that each step takes; atomic */
    int fail;          /* not 0: steps fail; atomic */
    uint64_t steps;    /* atomic */
};

/* For CPU executors. *own outlives it. */
struct gen_net fake_net_of(struct fake_net *own);
/* The token after n tokens, as the network has it. */
uint32_t fake_net_next(const uint32_t *token, uint32_t n);

#endif
