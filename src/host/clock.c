/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The epoch for a GPU, whose clock has one of its own. A small kernel and the host write to each other. The
 * GPU's clock is read somewhere between the host's two looks at its own. The shortest of some rounds says
 * best when.
 */
#include <errno.h>
#include <time.h>

#include "src/host/clock_kernel.h"
#include "src/host/server.h"

GW_KERNEL_DECLARE(gw_clock_kernel);

#define FIRST_NS 1000000000u /* the kernel may have to wait for room */
#define AGAIN_NS 10000000000u

static uint64_t epoch_ns(void)
{
    return gw_clock_epoch_ns_(NULL);
}

/* One round: how long it took, UINT64_MAX if it did not end in time, and how far ahead the epoch is. */
static uint64_t one_round(struct gw_clock_page *page, uint32_t i, uint64_t limit_ns, uint64_t *ahead)
{
    uint64_t until = gw_clock_ns() + limit_ns, before = epoch_ns(), took;

    gw_st_release_u32(&page->begun,
                      i); /* release, and acquire below: the host's looks lie around the round */
    while (gw_ld_acquire_u32(&page->done) < i) {
        if (gw_clock_ns() >= until) return UINT64_MAX;
        gw_pause(0);
    }
    took = epoch_ns() - before;
    *ahead = before + took / 2 - gw_ld_relaxed_u64(&page->clock);
    return took;
}

int gw_host_ask_clock(struct gw_host_server *s)
{
    struct gw_clock_page *page = s->clock.host;
    struct gw_clock_args args = {.page = s->clock.dev};
    uint64_t best = UINT64_MAX, ahead = 0, took, at;
    int err = gw_exec_sync(s->clock_exec, 0);

    s->clock_due = gw_clock_ns() + AGAIN_NS;
    if (err) return err; /* the last one has not found room yet */
    gw_st_relaxed_u32(&page->begun, 0);
    gw_st_relaxed_u32(&page->done, 0);
    err = gw_launch(s->clock_exec, &gw_clock_kernel, 1, 1, &args);
    for (uint32_t i = 1; !err && i <= GW_CLOCK_ROUNDS; i++) {
        took = one_round(page, i, i > 1 || s->helper.running ? GW_CLOCK_LIMIT_NS / 4 : FIRST_NS, &at);
        if (took == UINT64_MAX) break;
        if (took < best) best = took, ahead = at;
    }
    if (!err && best == UINT64_MAX)
        err = gw_error(-ETIMEDOUT, "%s has not told its time: it is busy", gw_exec_name(s->exec));
    if (!err) gw_st_relaxed_u64(&s->page->ahead, ahead);
    return err;
}
