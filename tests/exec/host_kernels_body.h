/* SPDX-License-Identifier: Apache-2.0 */
/* Included by host_kernels.c for the CPU and by host_kernels.cu for the GPU. */
#include "tests/exec/host_kernels.h"

GW_FN uint64_t until(uint64_t limit_ns)
{
    return limit_ns ? gw_clock_ns() + limit_ns : 0;
}

GW_KERNEL(add_kernel, struct add_args, a)
{
    if (a->check == ~a->add) gw_add_relaxed_u64(a->to, a->add);
}

GW_KERNEL(again_kernel, struct again_args, a)
{
    struct again_args next = *a;
    int err;

    if (gw_global_idx()) return;
    next.depth--;
    if (a->depth) {
        err = gw_host_launch_thread(a->h, HK_AGAIN, 1, 1, &next, gw_clock_ns() + a->limit_ns * a->depth);
        a->result[a->depth - 1] = err;
    }
    gw_add_relaxed_u64(a->add.to, a->add.add);
}

/* On the CPU executor a warp function with a mask that leaves out the caller makes a launch fail. */
GW_KERNEL(wrong_kernel, struct add_args, a)
{
    (void)a;
    gw_syncwarp(gw_warp_mask() & ~(1u << gw_lane()));
}

GW_DEV int launch(const struct ask_args *a, uint64_t deadline)
{
    enum gw_group g = (enum gw_group)a->form;

    return g == GW_BLOCK  ? gw_host_launch(a->h, a->kernel, a->grid, a->block, a->add, deadline)
           : g == GW_WARP ? gw_host_launch_warp(a->h, a->kernel, a->grid, a->block, a->add, deadline)
                          : gw_host_launch_thread(a->h, a->kernel, a->grid, a->block, a->add, deadline);
}

GW_DEV int start(const struct ask_args *a, uint64_t *ticket, uint64_t deadline)
{
    enum gw_group g = (enum gw_group)a->form;

    return g == GW_BLOCK ? gw_host_start(a->h, a->kernel, a->grid, a->block, a->add, ticket, deadline)
           : g == GW_WARP
               ? gw_host_start_warp(a->h, a->kernel, a->grid, a->block, a->add, ticket, deadline)
               : gw_host_start_thread(a->h, a->kernel, a->grid, a->block, a->add, ticket, deadline);
}

GW_DEV int wait(const struct ask_args *a, uint64_t ticket, uint64_t deadline)
{
    enum gw_group g = (enum gw_group)a->form;

    return g == GW_BLOCK  ? gw_host_wait(a->h, ticket, deadline)
           : g == GW_WARP ? gw_host_wait_warp(a->h, ticket, deadline)
                          : gw_host_wait_thread(a->h, ticket, deadline);
}

GW_DEV void ask(const struct ask_args *a)
{
    uint64_t ticket = 0;
    int err = 0, stale = 0;
    uint32_t i;

    for (i = 0; i < a->times && !err; i++) {
        if (a->how == ASK_LAUNCH) {
            err = launch(a, until(a->limit_ns));
        } else {
            err = start(a, a->how == ASK_START ? &ticket : NULL, until(a->limit_ns));
            if (!err && a->how == ASK_START) err = wait(a, ticket, until(a->limit_ns));
        }
    }
    if (a->how == ASK_START) stale = wait(a, ticket, 0);
    if (gw_group_rank((enum gw_group)a->form) == 0) {
        a->result[0] = err;
        a->result[1] = stale;
    }
    if (a->seen) a->seen[gw_thread_idx()] = gw_ld_relaxed_u64(a->add->to);
}

GW_KERNEL(ask_kernel, struct ask_args, a)
{
    if (a->form == GW_THREAD && gw_thread_idx()) return;
    if (a->form == GW_WARP && gw_warp_idx()) return;
    ask(a);
}

GW_KERNEL(print_kernel, struct print_args, a)
{
    uint32_t i;

    for (i = 0; i < a->lines; i++)
        if (gw_printf(a->h, "%u %u %u %s\n", gw_block_idx(), gw_thread_idx(), i, i & 1 ? "odd" : "even"))
            gw_add_relaxed_u64(a->refused, 1);
}

GW_KERNEL(time_kernel, struct time_args, a)
{
    uint64_t *at = a->at + 2 * gw_global_idx(), end = gw_clock_ns() + 1000000;

    at[0] = gw_time(a->h);
    while (gw_clock_ns() < end) gw_pause(0);
    at[1] = gw_time(a->h);
}
