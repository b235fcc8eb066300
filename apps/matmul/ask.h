/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h: a client that is a kernel. Each of its blocks has a connection, asks for products, and checks
 * each. */
#ifndef MATMUL_ASK_H
#define MATMUL_ASK_H

#include <gpuwire/socket.h>

#include "product.h"

#include "pattern.h"

struct mm_ask_result {
    int32_t err; /* why it ended early, or 0 */
    uint32_t answered, busy, wrong;
    uint64_t ns; /* from the first request to the last answer */
    uint64_t slowest_ns;
};

struct mm_ask_args {
    struct gw_net *net;
    uint32_t n, type, requests, rdma; /* requests: of each block */
    uint64_t limit_ns;                /* for one request */
    uint8_t *memory;                  /* `stride` bytes for each block */
    uint64_t stride;
    struct mm_ask_result *results; /* one for each block */
    const uint32_t *stop;          /* not 0: end */
    socklen_t addr_len;
    struct sockaddr_storage addr;
};

/* What each block needs: two vectors, a request and an answer. */
static inline uint64_t mm_ask_bytes(uint32_t type, uint32_t n)
{
    uint64_t all = 2 * n * sizeof(double) + 128 + mm_in_bytes(type, n) + mm_out_bytes(n);

    return (all + 255) / 256 * 256;
}

GW_KERNEL_DECLARE(mm_ask);

#endif
