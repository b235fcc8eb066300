/* SPDX-License-Identifier: Apache-2.0 */
/* Included by channel_kernels.c for the CPU and by channel_kernels.cu for the GPU. */
#include "tests/socket/channel_kernels.h"

/* The first 8 bytes of a message are its seed and number, the rest follows from them. */
GW_FN uint8_t byte_of(uint64_t seed, uint32_t i)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xd1b54a32d192ed03u;

    return i < 8 ? (uint8_t)(seed >> 8 * i) : (uint8_t)(x >> 40 ^ x >> 17);
}

GW_DEV void fill(enum gw_group g, uint8_t *to, uint32_t bytes, uint64_t seed)
{
    uint32_t i;

    for (i = gw_group_rank(g); i < bytes; i += gw_group_size(g)) to[i] = byte_of(seed, i);
    gw_group_sync(g);
}

/* The number of wrong bytes, the same in all threads. */
GW_DEV uint32_t count_wrong(enum gw_group g, const uint8_t *from, uint32_t bytes, uint64_t seed)
{
    uint32_t i, wrong = 0, all = 0;

    /* By the first thread alone: what all have copied must be visible to it. */
    if (gw_group_rank(g) == 0)
        for (i = 0; i < bytes; i++) wrong += from[i] != byte_of(seed, i);
    all = (uint32_t)gw_group_first(g, wrong);
    return all;
}

GW_FN uint64_t seed_in(const uint8_t *from)
{
    uint64_t seed = 0;
    uint32_t i;

    for (i = 0; i < 8; i++) seed |= (uint64_t)from[i] << 8 * i;
    return seed;
}

/* Whether the message is the one that must come next. With `any`: the next one of its sender, which is told
 * by the upper half of the seed; next[] counts them. */
GW_DEV int check(enum gw_group g, const struct channel_step *s, const uint8_t *from, uint32_t bytes,
                 uint64_t seed, uint32_t *next)
{
    if (s->any) {
        seed = seed_in(from);
        if (seed >> 32 >= 4 || (uint32_t)seed != next[seed >> 32]) return CH_WRONG;
        next[seed >> 32]++;
    }
    return count_wrong(g, from, bytes, seed) ? CH_WRONG : 0;
}

#define CH_FORM(g, name, ...)                                                                                \
    ((g) == GW_BLOCK  ? gw_channel_##name(__VA_ARGS__)                                                       \
     : (g) == GW_WARP ? gw_channel_##name##_warp(__VA_ARGS__)                                                \
                      : gw_channel_##name##_thread(__VA_ARGS__))

GW_DEV void give_back(enum gw_group g, struct gw_channel *ch)
{
    if (g == GW_BLOCK)
        gw_channel_give_back(ch);
    else if (g == GW_WARP)
        gw_channel_give_back_warp(ch);
    else
        gw_channel_give_back_thread(ch);
}

GW_DEV int call(const struct channel_step *s, struct gw_channel *ch, uint8_t *buffer, uint64_t seed,
                uint32_t *next)
{
    uint64_t deadline = s->limit_ns ? gw_clock_ns() + s->limit_ns : 0;
    enum gw_group g = (enum gw_group)s->form;
    const void *msg;
    void *slot;
    int err;

    switch (s->op) {
    case CH_SEND: fill(g, buffer, ch->bytes, seed); return CH_FORM(g, send, ch, buffer, deadline);
    case CH_RESERVE:
        err = CH_FORM(g, reserve, ch, &slot, deadline);
        if (err) return err;
        fill(g, (uint8_t *)slot, ch->bytes, seed);
        return CH_FORM(g, commit, ch, gw_clock_ns() + 60000000000u);
    case CH_RECV:
        err = CH_FORM(g, recv, ch, buffer, deadline);
        gw_group_sync(g);
        return err ? err : check(g, s, buffer, ch->bytes, seed, next);
    case CH_BORROW:
        err = CH_FORM(g, borrow, ch, &msg, deadline);
        if (err) return err;
        err = check(g, s, (const uint8_t *)msg, ch->bytes, seed, next);
        give_back(g, ch);
        return err;
    default: return CH_FORM(g, finish, ch, deadline);
    }
}

GW_DEV void run_step(const struct channel_args *a, const struct channel_step *s, struct channel_result *r)
{
    uint32_t bytes = (a->all[s->ch].bytes + 15) & ~15u, me = s->each ? gw_thread_idx() : 0, i;
    uint8_t *buffer = a->buffer + (size_t)bytes * (gw_block_idx() * gw_block_dim() + me);
    uint32_t next[4] = {0, 0, 0, 0};
    int err = 0;

    if (s->form == GW_THREAD && !s->each && gw_thread_idx()) return;
    if (s->form == GW_WARP && gw_warp_idx()) return;
    for (i = 0; i < s->n && !err; i++)
        err = call(s, &a->all[s->ch + me], buffer, s->seed + ((uint64_t)me << 20) + i, next);
    if (gw_group_rank((enum gw_group)s->form)) return;
    gw_add_relaxed_u32_gpu(&r->done, i - (err != 0));
    if (err) gw_cas_relaxed_u32_gpu(&r->err, 0, (uint32_t)err);
}

GW_KERNEL(channel_kernel, struct channel_args, a)
{
    const struct channel_script *script = &a->script[gw_block_idx()];
    uint32_t i;

    for (i = 0; i < script->steps; i++) {
        run_step(a, &script->step[i], &a->result[gw_block_idx() * CH_STEPS + i]);
        gw_syncthreads();
    }
}
