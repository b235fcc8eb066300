/* SPDX-License-Identifier: Apache-2.0 */
/* Included by sync_kernels.c for the CPU and by sync_kernels.cu for the GPU. */
#include "tests/exec/sync_kernels.h"

/* Every wait ends: a test that fails must not hang. */
#define GIVE_UP 60000000000u

GW_DEV void announce(void *flag, uint32_t how, uint64_t i)
{
    switch (how) {
    case ANNOUNCE_U64: gw_st_release_u64(flag, i); break;
    case ANNOUNCE_U32: gw_st_release_u32(flag, (uint32_t)i); break;
    case ANNOUNCE_U16: gw_st_release_u16(flag, (uint16_t)i); break;
    case ANNOUNCE_U8: gw_st_release_u8(flag, (uint8_t)i); break;
    case ANNOUNCE_FENCE:
        gw_fence_release();
        gw_st_relaxed_u64(flag, i);
        break;
    case ANNOUNCE_DOORBELL:
        gw_fence_release();
        gw_mmio_st64(flag, i);
        break;
    case ANNOUNCE_GPU: gw_st_release_u32_gpu(flag, (uint32_t)i); break;
    case ANNOUNCE_GPU_FENCE:
        gw_fence_gpu();
        gw_st_relaxed_u32_gpu(flag, (uint32_t)i);
        break;
    default: gw_exch_release_u64(flag, i); break;
    }
}

GW_DEV int announced(void *flag, uint32_t how, uint64_t i)
{
    int yes;

    switch (how) {
    case ANNOUNCE_U64:
    case ANNOUNCE_DOORBELL: return gw_ld_acquire_u64(flag) == i;
    case ANNOUNCE_U32: return gw_ld_acquire_u32(flag) == (uint32_t)i;
    case ANNOUNCE_U16: return gw_ld_acquire_u16(flag) == (uint16_t)i;
    case ANNOUNCE_U8: return gw_ld_acquire_u8(flag) == (uint8_t)i;
    case ANNOUNCE_FENCE:
        yes = gw_ld_relaxed_u64(flag) == i;
        gw_fence_acquire();
        return yes;
    case ANNOUNCE_GPU: return gw_ld_acquire_u32_gpu(flag) == (uint32_t)i;
    case ANNOUNCE_GPU_FENCE:
        yes = gw_ld_relaxed_u32_gpu(flag) == (uint32_t)i;
        gw_fence_gpu();
        return yes;
    default: return gw_add_acquire_u64(flag, 0) == i;
    }
}

GW_DEV void await(void *flag, uint32_t how, uint64_t i, uint64_t *gave_up)
{
    uint64_t end = gw_clock_ns() + GIVE_UP;
    uint32_t round;

    for (round = 0; !announced(flag, how, i); round++) {
        if (round % 64 == 63 && gw_clock_ns() > end) {
            gw_st_relaxed_u64(gave_up, 1);
            return;
        }
        gw_pause(round);
    }
}

/* The data are written and read by plain accesses: only the announcement orders them. */
GW_DEV void sender(const struct message_args *a)
{
    struct sync_page *p = a->page;
    uint32_t i, k;

    for (i = 1; i <= a->n && !gw_ld_relaxed_u64(&p->bad[1]); i++) {
        for (k = 0; k < 8; k++) p->data[k][0] = (uint64_t)i * 100 + k;
        announce(&p->flag[0], a->how, i);
        await(&p->ack[0], a->how, i, &p->bad[1]);
    }
}

GW_DEV void receiver(const struct message_args *a)
{
    struct sync_page *p = a->page;
    uint32_t i, k;

    for (i = 1; i <= a->n && !gw_ld_relaxed_u64(&p->bad[1]); i++) {
        await(&p->flag[0], a->how, i, &p->bad[1]);
        for (k = 0; k < 8; k++) {
            if (p->data[k][0] != (uint64_t)i * 100 + k) p->bad[0]++;
        }
        announce(&p->ack[0], a->how, i);
    }
}

GW_KERNEL(message_kernel, struct message_args, a)
{
    if (gw_thread_idx() != 0) return;
    if (gw_block_idx() == 0)
        sender(a);
    else
        receiver(a);
}

/* The kernel's side of a conversation with the host, which is the sender. */
GW_KERNEL(echo_kernel, struct message_args, a)
{
    if (gw_global_idx() == 0) receiver(a);
}

/* Store buffering: both blocks write, then read what the other writes. With the fence they cannot both miss
 * it. */
GW_KERNEL(buffer_kernel, struct buffer_args, a)
{
    uint32_t me = gw_block_idx(), i;
    uint32_t *mine = me ? a->y : a->x, *other = me ? a->x : a->y, *seen = me ? a->seen_x : a->seen_y;
    uint64_t *here = me ? &a->page->ack[0] : &a->page->flag[0],
             *there = me ? &a->page->flag[0] : &a->page->ack[0];

    if (gw_thread_idx() != 0) return;
    for (i = 0; i < a->n && !gw_ld_relaxed_u64(&a->page->bad[1]); i++) {
        uint64_t end = gw_clock_ns() + GIVE_UP;
        uint32_t round;

        gw_st_relaxed_u64(here, i + 1);
        for (round = 0; gw_ld_relaxed_u64(there) < i + 1; round++) {
            if (round % 64 == 63 && gw_clock_ns() > end) gw_st_relaxed_u64(&a->page->bad[1], 1);
            if (gw_ld_relaxed_u64(&a->page->bad[1])) return;
            gw_pause(round);
        }
        gw_st_relaxed_u32(&mine[i], 1);
        if (a->fence) gw_fence_sc();
        seen[i] = gw_ld_relaxed_u32(&other[i]);
    }
}

GW_DEV void count_by_cas(const struct count_args *a)
{
    uint32_t v32 = gw_ld_relaxed_u32(&a->word[COUNT_CAS32]), old32;
    uint64_t v64 = gw_ld_relaxed_u64(&a->word[COUNT_CAS64]), old64;

    while ((old32 = gw_cas_relaxed_u32(&a->word[COUNT_CAS32], v32, v32 + 1)) != v32) v32 = old32;
    while ((old64 = gw_cas_acq_rel_u64_gpu(&a->word[COUNT_CAS64], v64, v64 + 1)) != v64) v64 = old64;
}

/* A plain counter under a lock made of exchange. */
GW_DEV void count_locked(const struct count_args *a)
{
    uint64_t end = gw_clock_ns() + GIVE_UP;
    uint32_t round;

    for (round = 0; gw_exch_acquire_u32_gpu(&a->word[COUNT_LOCK], 1); round++) {
        if (gw_clock_ns() > end) return;
        gw_pause(round);
    }
    a->word[COUNT_LOCKED]++;
    gw_st_release_u32_gpu(&a->word[COUNT_LOCK], 0);
}

GW_KERNEL(count_kernel, struct count_args, a)
{
    uint32_t i;

    for (i = 0; i < a->n; i++) {
        gw_add_relaxed_u32(&a->word[COUNT_ADD32], 1);
        gw_add_acq_rel_u64(&a->word[COUNT_ADD64], (uint64_t)1 << 32);
        gw_add_relaxed_u64_gpu(&a->word[COUNT_ADD_GPU], 3);
        count_by_cas(a);
        if (gw_thread_idx() == 0) count_locked(a);
    }
    gw_or_relaxed_u64(&a->word[COUNT_OR], (uint64_t)1 << gw_global_idx() % 64);
    gw_and_release_u32_gpu(&a->word[COUNT_AND], ~(1u << gw_global_idx() % 32));
}
