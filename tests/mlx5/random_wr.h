/* SPDX-License-Identifier: Apache-2.0 */
/* random_wr.h: random work requests whose entries point to real memory; a pool keeps what they point to. */
#ifndef GW_TESTS_MLX5_RANDOM_WR_H
#define GW_TESTS_MLX5_RANDOM_WR_H

#include <string.h>

#include <gpuwire/mlx5.h>
#include "tests/rnd.h"

enum { RANDOM_WR_MAX_SGE = 60 };

struct random_wr_pool {
    struct rnd rnd;
    struct gw_mlx5_sge sge[RANDOM_WR_MAX_SGE];
    uint8_t bytes[4096];
};

static inline void random_wr_init(struct random_wr_pool *p, uint64_t seed)
{
    p->rnd.state = seed;
    rnd_bytes(&p->rnd, p->bytes, sizeof(p->bytes));
}

/* Entries for `room` inline bytes at most, anywhere in the pool's bytes, some empty. */
static inline void random_inline_sges(struct random_wr_pool *p, uint32_t n, uint32_t room)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t len = rnd_below(&p->rnd, 4) ? rnd_below(&p->rnd, room + 1) : 0;

        if (rnd_below(&p->rnd, 2) && len > 40) len = rnd_below(&p->rnd, 40);
        p->sge[i].addr = (uintptr_t)(p->bytes + rnd_below(&p->rnd, (uint32_t)sizeof(p->bytes) - len));
        p->sge[i].length = len;
        p->sge[i].lkey = (uint32_t)rnd64(&p->rnd);
        room -= len;
    }
}

/* A valid request with at most max_sge entries (60 or fewer); it lives until the next one. */
static inline struct gw_mlx5_wr random_wr(struct random_wr_pool *p, uint32_t max_sge)
{
    static const uint8_t ops[] = {GW_MLX5_SEND,      GW_MLX5_SEND_IMM, GW_MLX5_SEND_INVAL, GW_MLX5_WRITE,
                                  GW_MLX5_WRITE_IMM, GW_MLX5_READ,     GW_MLX5_ATOMIC_CS,  GW_MLX5_ATOMIC_FA,
                                  GW_MLX5_MASKED_CS, GW_MLX5_MASKED_FA};
    struct rnd *r = &p->rnd;
    struct gw_mlx5_wr wr;
    uint32_t i;
    int atomic;

    memset(&wr, 0, sizeof(wr));
    wr.opcode = ops[rnd_below(r, sizeof(ops))];
    atomic = gw_mlx5_is_atomic(wr.opcode);
    wr.flags = (uint8_t)((rnd_below(r, 2) ? GW_MLX5_SIGNALED : 0) |
                         (rnd_below(r, 4) ? 0 : GW_MLX5_SOLICITED) | (rnd_below(r, 4) ? 0 : GW_MLX5_FENCE));
    wr.inl = !atomic && wr.opcode != GW_MLX5_READ && rnd_below(r, 3) == 0;
    wr.num_sge = atomic ? 1 : rnd_below(r, rnd_below(r, 4) ? 5 : max_sge + 1);
    if (wr.num_sge > max_sge) wr.num_sge = max_sge;
    wr.sge = p->sge;
    wr.imm_be = (uint32_t)rnd64(r);
    wr.rkey = (uint32_t)rnd64(r);
    wr.raddr = rnd64(r) & ~UINT64_C(7);
    wr.swap_or_add = rnd64(r);
    wr.compare = rnd64(r);
    wr.swap_mask = rnd64(r);
    wr.compare_mask = rnd64(r);
    if (wr.inl) {
        random_inline_sges(p, wr.num_sge, (GW_MLX5_MAX_DS - 2) * GW_MLX5_UNIT - 4);
        return wr;
    }
    for (i = 0; i < wr.num_sge; i++) {
        p->sge[i].addr = rnd64(r);
        p->sge[i].lkey = (uint32_t)rnd64(r);
        p->sge[i].length = atomic ? 8 : rnd_below(r, 5) ? 1 + rnd_below(r, 1 << 20) : 0;
    }
    return wr;
}

/* One that libibverbs has a name for. */
static inline struct gw_mlx5_wr random_ibv_wr(struct random_wr_pool *p, uint32_t max_sge)
{
    struct gw_mlx5_wr wr;

    do wr = random_wr(p, max_sge);
    while (wr.opcode == GW_MLX5_MASKED_CS || wr.opcode == GW_MLX5_MASKED_FA);
    return wr;
}

/* The same for a UD queue pair, with where it goes. */
struct random_ud {
    struct gw_mlx5_wr wr;
    struct gw_mlx5_av av;
    uint32_t dqpn, qkey;
};

static inline struct random_ud random_ud(struct random_wr_pool *p, uint32_t max_sge)
{
    struct random_ud u;

    do u.wr = random_wr(p, max_sge);
    while (gw_mlx5_ud_units(&u.wr) < 0);
    rnd_bytes(&p->rnd, (uint8_t *)&u.av, sizeof(u.av));
    u.av.rsvd4 = 0;
    u.dqpn = (uint32_t)rnd64(&p->rnd) & 0xffffff;
    u.qkey = (uint32_t)rnd64(&p->rnd);
    return u;
}

#endif
