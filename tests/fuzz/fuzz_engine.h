/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_engine.h: a small region between canaries, for the targets that fuzz a whole NIC. */
#ifndef TESTS_FUZZ_FUZZ_ENGINE_H
#define TESTS_FUZZ_FUZZ_ENGINE_H

#include <string.h>

#include "tests/fuzz/stream.h"
#include "tests/sim/rig.h"

enum { WINDOW_OFF = 4096, WINDOW_LEN = 8192, CANARY = 0x5a };

/* A protection domain that holds one region: WINDOW_LEN bytes of the node's memory at WINDOW_OFF. */
struct window {
    struct rig_node *node;
    struct sn_pd *pd;
    struct sn_mr *mr;
    uint32_t key;
    uint64_t iova;
};

static inline void window_open(struct window *w, struct rig_node *node)
{
    struct sn_mr_init init = {.addr = (uintptr_t)node->mem + WINDOW_OFF,
                              .length = WINDOW_LEN,
                              .iova = 0x10000000,
                              .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                        IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                        IBV_ACCESS_MW_BIND};

    w->node = node;
    w->iova = init.iova;
    memset(node->mem, CANARY, WINDOW_OFF + WINDOW_LEN + 4096);
    require(!sn_pd_create(node->nic, &w->pd) && !sn_mr_create(w->pd, &init, &w->mr));
    w->key = sn_mr_key(w->mr);
}

/* Nothing outside of it was written. */
static inline void window_close(struct window *w)
{
    const uint8_t *after = w->node->mem + WINDOW_OFF + WINDOW_LEN;

    require(!sn_mr_destroy(w->mr) && !sn_pd_destroy(w->pd));
    for (uint32_t i = 0; i < 4096; i++) require(w->node->mem[i] == CANARY && after[i] == CANARY);
}

/* The place in a region that a peer or a program names: mostly right, and often around its ends. */
static inline uint64_t take_addr(struct stream *s, const struct window *w)
{
    uint8_t kind = take8(s);
    uint16_t off = take16(s);

    if (kind == 255) return (uint64_t)take32(s) << 32 | take32(s);
    if (kind > 200) return w->iova + WINDOW_LEN - off % 64;
    if (kind > 180) return w->iova - off % 64;
    return w->iova + (kind & 1 ? off % WINDOW_LEN : off % WINDOW_LEN & ~7u);
}
static inline uint32_t take_key(struct stream *s, const struct window *w)
{
    uint8_t kind = take8(s);

    return kind < 240 ? w->key : kind < 250 ? w->key ^ kind : take32(s);
}
static inline uint32_t take_len(struct stream *s)
{
    uint8_t kind = take8(s);
    uint16_t v = take16(s);

    return kind < 200 ? v % 600 : kind < 250 ? v : (uint32_t)v << 16;
}

#endif
