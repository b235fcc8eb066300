/* SPDX-License-Identifier: Apache-2.0 */
/* Included by loop_kernels.c for the CPU and by loop_kernels.cu for the GPU. */
#include "tests/loop/loop_kernels.h"

/* Counts its iterations in page->seen[1 + block]. */
GW_KERNEL(loop_count_kernel, struct loop_args, a)
{
    uint64_t *mine = &a->page->seen[1 + gw_block_idx() % 4];

    if (gw_thread_idx() == 0) gw_st_relaxed_u64(mine, gw_ld_relaxed_u64(mine) + 1);
}

/* Ends the loop with an error in iteration number limit. */
GW_KERNEL(loop_fail_kernel, struct loop_args, a)
{
    uint64_t n;

    if (gw_global_idx() != 0) return;
    n = gw_ld_relaxed_u64(&a->page->seen[0]) + 1;
    gw_st_relaxed_u64(&a->page->seen[0], n);
    if (n == a->limit) {
        gw_loop_fail(a->ctl, a->error);
        gw_loop_fail(a->ctl, -EDOM); /* the first one counts */
    }
}

/* Waits for a request that is not answered yet, and polls for it: on a CPU it burns a core, as the GPU burns
 * a warp. */
GW_KERNEL(loop_wait_kernel, struct loop_args, a)
{
    uint64_t answered;
    uint32_t i;

    if (gw_global_idx() != 0) return;
    answered = gw_ld_relaxed_u64(&a->page->answer);
    for (i = 0; gw_ld_acquire_u64(&a->page->request) == answered; i++) {
        if (i % 64 == 0 && gw_loop_stopping(a->ctl)) return;
        gw_pause(i);
    }
}

/* Makes something of the request. */
GW_KERNEL(loop_work_kernel, struct loop_args, a)
{
    if (gw_global_idx() == 0 && !gw_loop_stopping(a->ctl)) a->page->middle = 3 * a->page->request;
}

GW_KERNEL(loop_answer_kernel, struct loop_args, a)
{
    if (gw_global_idx() != 0 || gw_loop_stopping(a->ctl)) return;
    gw_st_release_u64(&a->page->answer,
                      a->page->middle / 3); /* middle, which the host checks, before answer */
}

/* Does not ask whether to stop, as it should; it gives up after limit nanoseconds. */
GW_KERNEL(loop_deaf_kernel, struct loop_args, a)
{
    uint64_t start = gw_clock_ns();
    uint32_t i;

    for (i = 0; gw_clock_ns() - start < a->limit; i++) gw_pause(i);
}

GW_KERNEL(loop_empty_kernel, struct loop_args, a)
{
    (void)a;
}

/* Writes where nothing is. GPU only: it ends all CUDA work of the process. */
GW_KERNEL(loop_wild_kernel, struct loop_args, a)
{
    if (gw_global_idx() == 0) *(volatile uint32_t *)(uintptr_t)(a->limit + 64) = 1;
}

/* Picks no variant, then 1, 2 and so on up to limit, and none again; counts its picks in page->seen[0]. */
GW_KERNEL(loop_pick_kernel, struct loop_args, a)
{
    struct loop_page *p = a->page;
    uint32_t variant = (uint32_t)(p->middle % (a->limit + 1));

    if (gw_global_idx() != 0 || gw_loop_ending(a->ctl)) return;
    p->middle++;
    if (!variant) return;
    gw_st_relaxed_u64(&p->seen[0], p->seen[0] + 1);
    gw_loop_pick(a->ctl, variant);
    p->answer = variant; /* the variant's stages see it */
}

/* Picks the variant that the host has told of, if any. */
GW_KERNEL(loop_pick_told_kernel, struct loop_args, a)
{
    struct loop_page *p = a->page;
    /* Acquire: the host has made the variant ready before. */
    uint32_t variant = (uint32_t)gw_ld_acquire_u64(&p->told);

    if (gw_global_idx() != 0 || gw_loop_ending(a->ctl) || !variant) return;
    p->answer = 1;
    gw_loop_pick(a->ctl, variant);
}

/* Waits for the loop_mark_kernel of this iteration, which runs beside it; a second at most. */
GW_KERNEL(loop_company_kernel, struct loop_args, a)
{
    struct loop_page *p = a->page;
    uint64_t until = gw_clock_ns() + 1000000000u;
    uint32_t i;

    if (gw_global_idx() != 0) return;
    for (i = 0; gw_ld_acquire_u64(&p->seen[5]) == p->seen[6] && gw_clock_ns() < until; i++) gw_pause(i);
    if (gw_ld_acquire_u64(&p->seen[5]) == p->seen[6]) gw_loop_fail(a->ctl, -ETIME);
    gw_st_relaxed_u64(&p->seen[6], p->seen[6] + 1);
}

GW_KERNEL(loop_mark_kernel, struct loop_args, a)
{
    if (gw_global_idx() == 0) gw_st_release_u64(&a->page->seen[5], a->page->seen[5] + 1);
}

/* After both: both have run. */
GW_KERNEL(loop_joined_kernel, struct loop_args, a)
{
    if (gw_global_idx() == 0 && a->page->seen[5] != a->page->seen[6]) gw_loop_fail(a->ctl, -EBADE);
}

/* A stage of variant `limit`: counts its runs in page->seen[limit]; ends the loop when it was not the one
 * picked. */
GW_KERNEL(loop_variant_kernel, struct loop_args, a)
{
    if (gw_global_idx() != 0) return;
    gw_st_relaxed_u64(&a->page->seen[a->limit], a->page->seen[a->limit] + 1);
    if (a->page->answer != a->limit) gw_loop_fail(a->ctl, -EBADE);
}
