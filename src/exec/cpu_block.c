/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a block among themselves: barrier, warp functions, shared memory. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/detail/held.h>

#include "src/exec/cpu.h"

__thread struct gw_cpu_thread gw_cpu_self = {0, 1, 0, 1, NULL};

void gw_futex_wait(uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void gw_futex_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- barrier ------------------------------------------------------------------------------------------- */

#define GENERATION(s) ((uint32_t)(s))
#define ARRIVED(s)    ((uint32_t)((s) >> 32 & 0xffff))
#define EXPECTED(s)   ((uint32_t)((s) >> 48))
#define STATE(generation, arrived, expected)                                                                 \
    ((uint64_t)(generation) | (uint64_t)(arrived) << 32 | (uint64_t)(expected) << 48)

/* The generation is the low half of the state, which on a little-endian machine lies first. */
static uint32_t *generation_word(struct gw_cpu_block *b)
{
    return (uint32_t *)(void *)&b->barrier;
}

void gw_cpu_syncthreads(void)
{
    struct gw_cpu_block *b = gw_cpu_self.block;
    uint64_t old, s = gw_ld_relaxed_u64(&b->barrier);
    int last;

    for (;; s = old) {
        uint32_t arrived = ARRIVED(s) + 1;

        last = arrived == EXPECTED(s);
        /* Release: what this thread wrote is visible to those that see the new generation. Acquire: for the
         * last one, which does not wait, what the others wrote before they arrived is visible. */
        old = gw_cas_acq_rel_u64(&b->barrier, s,
                                 last ? STATE(GENERATION(s) + 1, 0, EXPECTED(s)) : s + STATE(0, 1, 0));
        if (old == s) break;
    }
    if (last) {
        gw_futex_wake(generation_word(b));
        return;
    }
    while (GENERATION(gw_ld_acquire_u64(&b->barrier)) == GENERATION(s))
        gw_futex_wait(generation_word(b), GENERATION(s));
}

/* A thread that returned is expected no more; it may be the one that all others wait for. */
static void barrier_drop(struct gw_cpu_block *b)
{
    uint64_t old, s = gw_ld_relaxed_u64(&b->barrier);
    int release;

    for (;; s = old) {
        uint32_t expected = EXPECTED(s) - 1;

        release = expected && ARRIVED(s) == expected;
        old = gw_cas_acq_rel_u64(&b->barrier, s,
                                 release ? STATE(GENERATION(s) + 1, 0, expected)
                                         : STATE(GENERATION(s), ARRIVED(s), expected));
        if (old == s) break;
    }
    if (release) gw_futex_wake(generation_word(b));
}

/* ---- warp functions ------------------------------------------------------------------------------------ */

void gw_cpu_block_fault(struct gw_cpu_block *b, const char *what)
{
    const char *none = NULL;

    __atomic_compare_exchange_n(&b->fault, &none, what, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static uint64_t lane_result(const struct gw_cpu_warp_state *w, uint32_t lane, uint32_t members)
{
    const struct gw_cpu_lane *l = &w->lane[lane];
    uint64_t ballot = 0;
    uint32_t i;

    switch (l->op) {
    case GW_CPU_SHFL:
        /* A lane that does not take part has no value; a pattern that is easy to recognise stands for it. */
        return members >> (l->src & 31) & 1 ? w->lane[l->src & 31].value : 0xdeadbeefdeadbeefu;
    case GW_CPU_BALLOT:
        for (i = 0; i < 32; i++) {
            if (members >> i & 1) ballot |= w->lane[i].value << i;
        }
        return ballot;
    default: return 0;
    }
}

/* When all lanes that `lane` waits for wait for the same: gives them their results. Returns whether. */
static int cpu_block_complete(struct gw_cpu_block *b, struct gw_cpu_warp_state *w, uint32_t lane)
{
    uint32_t i, members = w->lane[lane].mask & w->live;

    GW_ASSERT_HELD(&w->lock);
    for (i = 0; i < 32; i++) {
        if ((members >> i & 1) && w->lane[i].mask != w->lane[lane].mask) return 0;
    }
    for (i = 0; i < 32; i++) {
        if (!(members >> i & 1)) continue;
        if (w->lane[i].op != w->lane[lane].op)
            gw_cpu_block_fault(b, "the lanes of a warp called different warp functions with one mask");
        w->lane[i].result = lane_result(w, i, members);
    }
    for (i = 0; i < 32; i++) {
        if (!(members >> i & 1)) continue;
        GW_ASSERT(!w->lane[i].done);
        w->lane[i].mask = 0;
        gw_st_release_u32(&w->lane[i].done,
                          1); /* after the result, and after all that the members did before */
    }
    gw_add_release_u32(&w->turn, 1);
    return 1;
}

uint64_t gw_cpu_warp(enum gw_cpu_warp_op op, uint32_t mask, uint64_t v, uint32_t src)
{
    struct gw_cpu_block *b = gw_cpu_self.block;
    struct gw_cpu_warp_state *w = &b->warp[gw_cpu_self.thread_idx >> 5];
    uint32_t lane = gw_cpu_self.thread_idx & 31, turn;
    struct gw_cpu_lane *me = &w->lane[lane];

    if (!(mask >> lane & 1)) {
        gw_cpu_block_fault(b, "a lane called a warp function with a mask that does not name it");
        mask |= 1u << lane;
    }
    pthread_mutex_lock(&w->lock);
    me->mask = mask;
    me->op = op;
    me->src = src;
    me->value = v;
    me->done = 0;
    if (cpu_block_complete(b, w, lane)) {
        pthread_mutex_unlock(&w->lock);
        gw_futex_wake(&w->turn);
        return me->result;
    }
    pthread_mutex_unlock(&w->lock);
    for (;;) {
        turn = gw_ld_acquire_u32(&w->turn);
        /* turn was read first: when done comes after this look, turn has changed and the sleep returns at
         * once. */
        if (gw_ld_acquire_u32(&me->done)) return me->result;
        gw_futex_wait(&w->turn, turn);
    }
}

/* The others wait for a lane that returned no more. */
static void warp_leave(struct gw_cpu_block *b, uint32_t thread)
{
    struct gw_cpu_warp_state *w = &b->warp[thread >> 5];
    uint32_t lane;
    int any = 0;

    pthread_mutex_lock(&w->lock);
    w->live &= ~(1u << (thread & 31));
    for (lane = 0; lane < 32; lane++) {
        if (w->lane[lane].mask) any |= cpu_block_complete(b, w, lane);
    }
    pthread_mutex_unlock(&w->lock);
    if (any) gw_futex_wake(&w->turn);
}

/* ---- a block's life ------------------------------------------------------------------------------------ */

int gw_cpu_block_init(struct gw_cpu_block *b, uint32_t max_lanes)
{
    uint32_t i;

    memset(b, 0, sizeof(*b));
    b->nwarps = (max_lanes + 31) / 32;
    b->warp = calloc(b->nwarps, sizeof(*b->warp));
    b->arena = aligned_alloc(GW_CPU_SHARED_ALIGN, GW_CPU_ARENA);
    if (!b->warp || !b->arena) {
        free(b->warp);
        free(b->arena);
        b->warp = NULL;
        b->arena = NULL;
        return -ENOMEM;
    }
    for (i = 0; i < b->nwarps; i++) pthread_mutex_init(&b->warp[i].lock, NULL);
    pthread_mutex_init(&b->shared_lock, NULL);
    return 0;
}

void gw_cpu_block_destroy(struct gw_cpu_block *b)
{
    uint32_t i;

    if (!b->warp) return;
    for (i = 0; i < b->nwarps; i++) pthread_mutex_destroy(&b->warp[i].lock);
    pthread_mutex_destroy(&b->shared_lock);
    free(b->warp);
    free(b->arena);
    b->warp = NULL;
}

void gw_cpu_block_start(struct gw_cpu_block *b, uint32_t lanes)
{
    uint32_t i;

    b->lanes = lanes;
    b->nshared = 0;
    b->arena_used = 0;
    if (lanes == 1) return; /* it never comes to the rest */
    gw_st_relaxed_u32(&b->running, lanes);
    gw_st_relaxed_u64(&b->barrier, STATE(GENERATION(gw_ld_relaxed_u64(&b->barrier)), 0, lanes));
    for (i = 0; i < (lanes + 31) / 32; i++)
        b->warp[i].live = lanes - 32 * i >= 32 ? 0xffffffffu : (1u << (lanes - 32 * i)) - 1;
}

void gw_cpu_block_leave(struct gw_cpu_block *b, uint32_t thread, int last)
{
    uint32_t turn;

    if (b->lanes == 1) {
        gw_cpu_block_start(b, 1);
        return;
    }
    turn = gw_ld_relaxed_u32(&b->turn); /* it cannot change before this thread has left */
    warp_leave(b, thread);
    barrier_drop(b);
    /* acq_rel: the last one resets what the others have used, after they did. */
    if (gw_add_acq_rel_u32(&b->running, UINT32_MAX) == 1) {
        gw_cpu_block_start(b, b->lanes);
        gw_add_release_u32(&b->turn, 1); /* after the reset */
        gw_futex_wake(&b->turn);
        return;
    }
    if (last) return; /* the launch is not over before the last one, which resets first, is done */
    while (gw_ld_acquire_u32(&b->turn) == turn) gw_futex_wait(&b->turn, turn);
}
