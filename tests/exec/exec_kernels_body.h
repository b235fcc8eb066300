/* SPDX-License-Identifier: Apache-2.0 */
/* Included by exec_kernels.c for the CPU and by exec_kernels.cu for the GPU. */
#include "tests/exec/exec_kernels.h"

GW_KERNEL(whoami_kernel, struct whoami_args, a)
{
    struct whoami *w = &a->out[gw_global_idx()];

    w->thread = gw_thread_idx();
    w->block_dim = gw_block_dim();
    w->block = gw_block_idx();
    w->grid_dim = gw_grid_dim();
    w->lane = gw_lane();
    w->warp = gw_warp_idx();
    w->warp_size = gw_warp_size();
    w->mask = gw_warp_mask();
}

/* Each thread passes its value to its mirror image through shared memory, again and again. */
GW_KERNEL(reverse_kernel, struct out_args, a)
{
    GW_SHARED(struct block_u32, s);
    uint32_t t = gw_thread_idx(), n = gw_block_dim(), v = gw_global_idx(), i;

    for (i = 0; i < TEST_ROUNDS; i++) {
        s->v[t] = v + i;
        gw_syncthreads();
        v = s->v[n - 1 - t];
        gw_syncthreads();
    }
    a->out[gw_global_idx()] = v;
}

/* Two objects, one of them in a function that is called twice. */
GW_DEV uint32_t shared_sum(uint32_t v)
{
    GW_SHARED(struct block_u32, s);
    uint32_t i, sum = 0;

    s->v[gw_thread_idx()] = v;
    gw_syncthreads();
    for (i = 0; i < gw_block_dim(); i++) sum += s->v[i];
    gw_syncthreads();
    return sum;
}

GW_KERNEL(shared_kernel, struct out_args, a)
{
    GW_SHARED(uint32_t, first);
    uint32_t one, two;

    if (gw_thread_idx() == 0) *first = 1000 * gw_block_idx();
    one = shared_sum(1);
    two = shared_sum(gw_thread_idx());
    a->out[gw_global_idx()] = *first + one + 2 * two;
}

/* All threads add to one word, which counts each of them, and tells each another number. */
GW_KERNEL(shared_add_kernel, struct out_args, a)
{
    GW_SHARED(struct block_u32, s);
    uint32_t t = gw_thread_idx(), n = gw_block_dim(), i, old = 0;

    s->v[t] = 0;
    gw_syncthreads();
    for (i = 0; i < TEST_ROUNDS; i++) old = gw_shared_add_u32(&s->v[0], 1);
    gw_syncthreads();
    a->out[gw_global_idx()] = s->v[0] == n * TEST_ROUNDS && old < s->v[0];
}

/* Threads that have returned are not waited for: every second one leaves before each barrier. */
GW_KERNEL(leave_kernel, struct out_args, a)
{
    GW_SHARED(struct block_u32, s);
    uint32_t t = gw_thread_idx(), n = gw_block_dim(), step, i;

    s->v[t] = 0;
    gw_syncthreads();
    for (step = 1; step < n; step *= 2) {
        if (t % (2 * step)) {
            a->out[gw_global_idx()] = step;
            return;
        }
        s->v[t] += 1;
        gw_syncthreads();
    }
    /* Thread 0 alone is left. The others' counts add up to the rounds that they took part in. */
    for (i = 1; i < n; i++) s->v[0] += s->v[i];
    a->out[gw_global_idx()] = s->v[0];
}

/* out: a word per thread, 0 when all was right, else the number of the first check that failed. */
GW_DEV uint32_t check_warp(void)
{
    uint32_t lane = gw_lane(), size = gw_warp_size(), mask = gw_warp_mask(), i, bits = 0;

    for (i = 0; i < size; i += 3) bits |= 1u << i;
    for (i = 0; i < TEST_ROUNDS; i++) {
        uint64_t big = (uint64_t)(lane + i) << 40 | lane;

        if (gw_ballot(mask, lane % 3 == 0) != bits) return 1;
        if (gw_ballot(0xffffffffu, 1) != mask) return 2;
        if (gw_any(mask, lane == i % size) != 1 || gw_any(mask, 0) != 0) return 3;
        if (gw_all(mask, lane < size) != 1 || gw_all(mask, lane != i % size) != 0) return 4;
        if (gw_shfl_u32(mask, lane * 7 + i, i % size) != i % size * 7 + i) return 5;
        if (gw_shfl_u32(mask, lane, (lane + 1) % size) != (lane + 1) % size) return 6;
        if (gw_shfl_u64(mask, big, size - 1) != ((uint64_t)(size - 1 + i) << 40 | (size - 1))) return 7;
    }
    return 0;
}

GW_KERNEL(warp_kernel, struct out_args, a)
{
    a->out[gw_global_idx()] = check_warp();
}

/* gw_syncwarp makes what a lane wrote visible to the others of its mask. */
GW_KERNEL(syncwarp_kernel, struct out_args, a)
{
    GW_SHARED(struct block_u32, s);
    uint32_t t = gw_thread_idx(), base = t & ~31u, size = gw_warp_size(), v = t, i;

    for (i = 0; i < TEST_ROUNDS; i++) {
        s->v[t] = v;
        gw_syncwarp(gw_warp_mask());
        v = s->v[base + (t - base + 1) % size];
        gw_syncwarp(gw_warp_mask());
    }
    a->out[gw_global_idx()] = v == base + (t - base + TEST_ROUNDS) % size ? 0 : 1;
}

/* Parts of a warp call warp functions independently of each other, a different number of times; then all
 * meet. */
GW_DEV uint32_t check_parts(void)
{
    uint32_t lane = gw_lane(), all = gw_warp_mask(), low = all & 0x55555555u, high = all & ~low;
    uint32_t mine = lane & 1 ? high : low, rounds = lane & 1 ? TEST_ROUNDS : 3, leader = lane & 1, i;

    for (i = 0; i < rounds; i++) {
        if (gw_ballot(mine, 1) != mine) return 11;
        if (gw_shfl_u32(mine, lane + i, leader) != leader + i) return 12;
    }
    if (gw_ballot(all, lane & 1) != high) return 13;
    return 0;
}

/* Lane 0 meets lane 1 and lane 2 in turn, which both wait for it at once, with masks that overlap. */
GW_DEV uint32_t check_pairs(void)
{
    uint32_t lane = gw_lane(), i;

    if (gw_warp_size() < 3) return 0;
    for (i = 0; i < TEST_ROUNDS; i++) {
        if (lane == 0) {
            if (gw_shfl_u32(3, 100, 1) != 101) return 21;
            if (gw_shfl_u32(5, 100, 2) != 102) return 22;
        } else if (lane == 1) {
            if (gw_shfl_u32(3, 101, 0) != 100) return 23;
        } else if (lane == 2) {
            if (gw_shfl_u32(5, 102, 0) != 100) return 24;
        }
    }
    return 0;
}

GW_KERNEL(parts_kernel, struct out_args, a)
{
    uint32_t bad = check_parts();

    gw_syncwarp(gw_warp_mask());
    a->out[gw_global_idx()] = bad ? bad : check_pairs();
}

/* Waits, with a bound, until the host sets the flag. */
GW_KERNEL(wait_kernel, struct flag_args, a)
{
    uint64_t give_up = gw_clock_ns() + 60000000000u;
    uint32_t i, v = 0;

    if (gw_global_idx() != 0) return;
    for (i = 0; !v && gw_clock_ns() < give_up; i++) {
        v = gw_ld_acquire_u32(a->flag);
        gw_pause(i);
    }
    *a->out = v;
}

GW_KERNEL(bell_kernel, struct bell_args, a)
{
    uint64_t start = gw_clock_ns(), now = start;
    uint32_t i;

    if (gw_global_idx() != 0) return;
    gw_mmio_st64(a->reg, 0x0123456789abcdefu);
    for (i = 0; i < 100000000 && now - start < 2000000; i++) now = gw_clock_ns();
    *a->clock = now - start;
}

/* Mistakes of kernels that the CPU executor finds. */
GW_KERNEL(mixed_kernel, struct out_args, a)
{
    if (gw_lane() == 0)
        a->out[0] = gw_ballot(gw_warp_mask(), 1);
    else
        gw_syncwarp(gw_warp_mask());
}
