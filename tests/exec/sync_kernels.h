/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that test_sync.c launches: two blocks, or a kernel and the host, that tell each other things
 * through memory. */
#ifndef GW_TESTS_SYNC_KERNELS_H
#define GW_TESTS_SYNC_KERNELS_H

#include <gpuwire/kernel.h>

/* How a message is announced, and how that is seen. */
enum announce {
    ANNOUNCE_U64,
    ANNOUNCE_U32,
    ANNOUNCE_U16,
    ANNOUNCE_U8,
    ANNOUNCE_FENCE,
    ANNOUNCE_DOORBELL,
    ANNOUNCE_GPU,
    ANNOUNCE_GPU_FENCE,
    ANNOUNCE_RMW,
    ANNOUNCES
};

/* Each word on lines of its own, so that they travel apart. */
struct sync_page {
    uint64_t flag[32];
    uint64_t ack[32];
    uint64_t data[8][32];
    uint64_t bad[32]; /* [0]: messages that were not what they should be, [1]: waits that gave up */
};

struct message_args {
    struct sync_page *page;
    uint32_t how, n;
};

/* Word i of x and y is used in round i. */
struct buffer_args {
    struct sync_page *page; /* flag: the round block 0 is in, ack: block 1 */
    uint32_t *x, *y, *seen_x, *seen_y;
    uint32_t n, fence;
};

struct count_args {
    uint64_t *word; /* one per way of counting */
    uint32_t n;
};

enum count {
    COUNT_ADD32,
    COUNT_ADD64,
    COUNT_ADD_GPU,
    COUNT_CAS32,
    COUNT_CAS64,
    COUNT_LOCKED,
    COUNT_LOCK,
    COUNT_OR,
    COUNT_AND,
    COUNTS
};

#endif
