/* SPDX-License-Identifier: Apache-2.0 */
/* A serving loop inside one kernel: it waits for requests, runs the models' programs and sends the
 * answers, without a launch. Only a batch size whose plan is not small makes it end: its graph runs then,
 * and afterwards this kernel again.
 *
 * Thread 0 of block 0 waits and schedules, while the other blocks wait where all meet (gwm_meet). A
 * meeting also orders memory: what the NIC has placed, which the first thread has acquired, is visible to all
 * blocks after it. */
#ifndef GW_SERVER_DEVICE_RESIDENT_KERNEL_H
#define GW_SERVER_DEVICE_RESIDENT_KERNEL_H

#include "src/model/kernels/program_run.h"
#include "src/server/device/resident_args.h"
#include "src/server/device/serve_stages.h"

/* Under load no thread waits, so none asks whether to stop. That is a trip over the bus, so it is asked this
 * rarely. */
#define GW_RESIDENT_LOOK_NS 20000u

GW_DEV int gw_resident_stops(struct gw_loop_ctl *ctl)
{
    uint64_t now = gw_clock_ns();
    if (now - ctl->looked_ns < GW_RESIDENT_LOOK_NS) return 0;
    ctl->looked_ns = now;
    return gw_loop_stopping(ctl);
}

/* Makes the next batch. One thread. */
GW_DEV void gw_resident_next(const struct gw_resident_args *r)
{
    const struct gw_serve_args *a = &r->serve;
    struct gw_serve_work *w = a->work;
    r->here->runs = 0;
    w->items = 0;
    if (r->here->again && gw_resident_stops(a->ctl)) return;
    r->here->again = 1;
    gw_serve_wait_stage(a);
    if (!w->items) return;
    if (r->program[w->variant].ops) {
        gwm_program_aim(&r->program[w->variant], a->io);
        r->here->runs = 1;
    } else {
        gw_loop_pick(a->ctl, w->variant + 1);
    }
}

GW_KERNEL(gw_resident, struct gw_resident_args, r)
{
    const struct gw_serve_args *a = &r->serve;
    const struct gw_serve_work *w = a->work;
    if (gw_global_idx() == 0) r->here->again = 0;
    for (;;) {
        if (gw_global_idx() == 0) gw_resident_next(r);
        gwm_meet(r->meeting);
        if (!r->here->runs) return;
        if (gw_serve_gathers(a)) {
            gw_serve_gather_stage(a);
            gwm_meet(r->meeting);
        }
        gwm_program_run(&r->program[w->variant]);
        if (!w->direct) {
            gwm_meet(r->meeting);
            gw_serve_scatter_stage(a);
        }
        /* After it only block 0 looks at the batch, which it changes. */
        gwm_meet(r->meeting);
        if (gw_block_idx() == 0) gw_serve_send_stage(a);
    }
}

#endif
