/* SPDX-License-Identifier: Apache-2.0 */
/* Included by probe_kernel.c for the CPU and by probe_kernel.cu for the GPU. */
#include "src/verbs/probe_steps.h"

GW_FN void gw_probe_reached_(const struct gw_probe_args *a, uint32_t step)
{
    gw_st_release_u32(&a->page->step, step);
}

GW_KERNEL(gw_probe_kernel, struct gw_probe_args, a)
{
    const uint64_t out = a->page_at + offsetof(struct gw_probe_page, out);
    const uint64_t back = a->page_at + offsetof(struct gw_probe_page, back);
    const uint64_t memory = (uint64_t)(uintptr_t)a->memory, until = gw_clock_ns() + a->limit_ns;
    int err;

    if (gw_global_idx()) return;
    gw_st_relaxed_u64(&a->page->out, a->value); /* posting releases it */
    gw_probe_reached_(a, GW_PROBE_POSTED);
    err = gw_probe_one_(a, gw_put_op(out, a->page_key, back, a->page_rkey, 8), until);
    if (!err || err == -EIO) gw_probe_reached_(a, GW_PROBE_COMPLETED);
    if (!err) err = gw_probe_see_(&a->page->back, a->value, until);
    if (err) return;
    gw_probe_reached_(a, GW_PROBE_LOOPED);
    if (a->masked) gw_probe_masked_(a, until);
    if (!memory) return;
    gw_st_relaxed_u64(&a->page->back, 0);
    err = gw_probe_one_(a, gw_put_op(out, a->page_key, memory, a->memory_rkey, 8), until);
    if (!err) err = gw_probe_one_(a, gw_put_op(memory, a->memory_key, back, a->page_rkey, 8), until);
    if (!err) err = gw_probe_see_(&a->page->back, a->value, until);
    if (!err) err = gw_probe_see_(a->memory, a->value, until);
    if (!err) gw_probe_reached_(a, GW_PROBE_SAW);
}
