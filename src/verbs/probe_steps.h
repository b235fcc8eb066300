/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of probe_kernel.h's kernel; a CPU thread may do the same. */
#ifndef GW_VERBS_PROBE_STEPS_H
#define GW_VERBS_PROBE_STEPS_H

#include "src/verbs/probe_kernel.h"

/* Posts op and waits for its completion. */
GW_FN int gw_probe_one_(const struct gw_probe_args *a, struct gw_op op, uint64_t until)
{
    struct ibv_wc wc;
    uint32_t round = 0;
    int err = gw_post_op(a->qp, op, GW_SIGNALED, 0);

    if (err) return err;
    while (gw_poll_cq(a->cq, 1, &wc) != 1) {
        if (gw_clock_ns() >= until) return -ETIMEDOUT;
        gw_pause(round++);
    }
    a->page->status = wc.status;
    return wc.status == IBV_WC_SUCCESS ? 0 : -EIO;
}

/* The NIC's writes may become visible a little after their completion. */
GW_FN int gw_probe_see_(const uint64_t *word, uint64_t value, uint64_t until)
{
    uint32_t round = 0;

    while (gw_ld_acquire_u64(word) != value) {
        if (gw_clock_ns() >= until) return -ETIMEDOUT;
        gw_pause(round++);
    }
    return 0;
}

/*
 * A masked fetch and add of 1 to a byte of all ones. As the byte is a field by itself, no carry leaves it. A
 * NIC that takes it for a plain fetch and add leaves 0x100.
 */
GW_FN void gw_probe_masked_(const struct gw_probe_args *a, uint64_t until)
{
    const uint64_t word = a->page_at + offsetof(struct gw_probe_page, out);
    const uint64_t old = a->page_at + offsetof(struct gw_probe_page, back);
    int err;

    gw_st_relaxed_u64(&a->page->out, 0xff); /* posting releases it */
    err = gw_probe_one_(a, gw_masked_fetch_add_op(old, a->page_key, word, a->page_rkey, 1, 0x80), until);
    if (!err && (gw_probe_see_(&a->page->back, 0xff, until) || gw_probe_see_(&a->page->out, 0, until)))
        err = -EIO;
    a->page->masked = !err ? GW_PROBE_TAKEN : err == -EIO ? GW_PROBE_REFUSED : GW_PROBE_UNTRIED;
}

#endif
