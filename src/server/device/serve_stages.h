/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of the serving loop, as functions of kernels. They wait for requests and make a batch of some,
 * copy it together and apart, and send the answers. The file serve_kernel.h makes a kernel of each,
 * resident_kernel.h one kernel of all.
 *
 * The order of things in memory: a request's completion is polled with acquire semantics (gw_wait_cq). So
 * header and tensors, which the NIC placed before it, are read after it. A stage boundary orders what one
 * stage has read and written before the next. So the model's writes come before the send, whose put publishes
 * them to the NIC.
 */
#ifndef GW_SERVER_DEVICE_SERVE_STAGES_H
#define GW_SERVER_DEVICE_SERVE_STAGES_H

#include <stdbool.h>

#include <gpuwire/group.h>

#include "src/server/device/arrive.h"
#include "src/server/device/conclude.h"
#include "src/server/device/schedule.h"
#include "src/trace/trace.h"

/* Between two looks at the board: on a GPU a trip over the bus; on CPU threads a wake-up, and wake_fd tells
 * of most changes. */
#define GW_SERVE_LOOK_CPU_NS 200000000u
#define GW_SERVE_LOOK_GPU_NS 50000u
#define GW_SERVE_LOOKS       4 /* times as long at most, while requests come */

/* The kernel beside the model: how long it waits for the batch's first kernel, and how much longer than four
 * usual runs for the end. After GW_SERVE_ALONE batches that did not run beside it, it waits no longer. */
#define GW_SERVE_BEGIN_NS   1000000u
#define GW_SERVE_COMPANY_NS 100000000u
#define GW_SERVE_ALONE      8
#define GW_SERVE_NAPS       64 /* of 50 ns each, between two looks at the CQ */

/* Waits for completions until the host or the queue may have something new to do. */
GW_DEV void gw_serve_await(const struct gw_serve_args *a, uint64_t look)
{
    struct ibv_wc wc[GW_SERVE_POLL];
    uint64_t until = gw_clock_ns() + look;
    if (a->work->again < until) until = a->work->again;
    int n = gw_wait_cq(a->cq, GW_SERVE_POLL, wc, until, &a->ctl->shared->stop, a->wake_fd);
    uint64_t now = gw_clock_ns();
    if (n == -EIO) gw_loop_fail(a->ctl, n); /* the NIC has failed: nothing arrives any more */
    /* On CPU threads the host's orders are at hand; a GPU takes them when it looks at the board. */
    if (gw_serve_is_many(a) && a->wake_fd >= 0) gw_serve_take_orders(a);
    for (int i = 0; i < n; i++) gw_serve_arrived(a, &wc[i], now);
    /* A request does not wait for the look. But a peer that floods us must not keep the host waiting. */
    if (n <= 0 || now - a->work->looked > GW_SERVE_LOOKS * look) gw_serve_look(a);
}

/* ---- batches ---- */

/* Says where the model finds its tensors. That is the slot, when the batch is one request that fills it, or
 * that has one tensor each way. Otherwise it is where requests are put together. */
GW_DEV void gw_serve_aim(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    const struct gw_serve_variant *v = &a->variant[w->variant];
    const struct gw_layout *l_in = &a->shape[w->model].in, *l_out = &a->shape[w->model].out;
    const struct gw_serve_item *only = &a->item[0];
    const struct gw_serve_session *s = &a->session[only->session];
    const uint8_t *in = (const uint8_t *)(gw_serve_request_of(a, s, only->slot) + 1);
    uint8_t *out = (uint8_t *)(gw_serve_reply_of(a, s, only->slot) + 1);
    w->direct =
        !v->fixed && w->items == 1 && (w->rows == v->rows || (l_in->tensors == 1 && l_out->tensors == 1));
    for (uint32_t i = 0; i < l_in->tensors; i++)
        a->io->in[i] = w->direct ? in + gw_layout_offset(l_in, i, w->rows) : v->in[i];
    for (uint32_t i = 0; i < l_out->tensors; i++)
        a->io->out[i] = w->direct ? out + gw_layout_offset(l_out, i, w->rows) : v->out[i];
}

/* This thread's share of copying a request's tensors between its slot and the batch. */
GW_DEV void gw_serve_move(const struct gw_serve_args *a, const struct gw_serve_item *item, int output,
                          uint32_t rank, uint32_t size)
{
    const struct gw_serve_session *s = &a->session[item->session];
    const struct gw_serve_variant *v = &a->variant[a->work->variant];
    const struct gw_serve_shape *shape = &a->shape[a->work->model];
    const struct gw_layout *l = output ? &shape->out : &shape->in;
    uint8_t *slot = output ? (uint8_t *)(gw_serve_reply_of(a, s, item->slot) + 1)
                           : (uint8_t *)(gw_serve_request_of(a, s, item->slot) + 1);
    for (uint32_t i = 0; i < l->tensors; i++) {
        uint8_t *own = slot + gw_layout_offset(l, i, item->rows);
        uint8_t *shared =
            (output ? v->out[i] : v->in[i]) + gw_layout_tensor_bytes(l, i, item->at) * !!l->tensor[i].batched;
        gw_copy_share(output ? own : shared, output ? shared : own, gw_layout_tensor_bytes(l, i, item->rows),
                      rank, size);
    }
}

/* Several blocks copy one request when there are enough of them. */
GW_DEV void gw_serve_move_all(const struct gw_serve_args *a, int output)
{
    const struct gw_serve_work *w = a->work;
    uint32_t each = gw_grid_dim() / w->items;
    if (!each) each = 1;
    uint32_t at_once = gw_grid_dim() / each;
    uint32_t rank = gw_block_idx() % each * gw_block_dim() + gw_thread_idx();
    for (uint32_t i = gw_block_idx() / each; i < w->items; i += at_once)
        if (gw_block_idx() < at_once * each)
            gw_serve_move(a, &a->item[i], output, rank, each * gw_block_dim());
}

/* Does the batch need work before the model runs? */
GW_DEV bool gw_serve_gathers(const struct gw_serve_args *a)
{
    return !a->work->direct || a->work->rows < a->variant[a->work->variant].rows;
}

/* This thread's share of n bytes that become 0. */
GW_DEV void gw_serve_zero(uint8_t *at, uint64_t n, uint32_t rank, uint32_t size)
{
    uint64_t head = (0 - (uintptr_t)at) % 8 < n ? (0 - (uintptr_t)at) % 8 : n, words = (n - head) / 8, i;
    for (i = rank; i < head; i += size) at[i] = 0;
    for (i = rank; i < words; i += size) ((uint64_t *)(at + head))[i] = 0;
    for (i = head + 8 * words + rank; i < n; i += size) at[i] = 0;
}

/* Rows that no request fills hold what another client has sent. The model must not see that. */
GW_DEV void gw_serve_clear_rest(const struct gw_serve_args *a)
{
    const struct gw_serve_work *w = a->work;
    const struct gw_layout *in = &a->shape[w->model].in;
    uint32_t rest = a->variant[w->variant].rows - w->rows;
    for (uint32_t i = 0; rest && i < in->tensors; i++)
        if (in->tensor[i].batched)
            gw_serve_zero((uint8_t *)a->io->in[i] + gw_layout_tensor_bytes(in, i, w->rows),
                          gw_layout_tensor_bytes(in, i, rest), gw_global_idx(), gw_global_dim());
}

/* ---- the stages ---- */

/* Makes a batch, and says where its tensors lie. Without one, work->items is 0: the loop is to end. One
 * thread. */
GW_DEV void gw_serve_wait_stage(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    uint64_t look = a->wake_fd >= 0 ? GW_SERVE_LOOK_CPU_NS : GW_SERVE_LOOK_GPU_NS;
    w->items = 0;
    w->failed = 0;
    /* What the host has taken away from a client holds for what has arrived since. */
    if (gw_serve_is_many(a)) gw_serve_take_orders(a);
    gw_serve_drain(a);
    gw_serve_look(a);
    if (gw_loop_ending(a->ctl)) return;
    while (!gw_serve_schedule(a)) {
        if (gw_loop_stopping(a->ctl)) return;
        gw_serve_await(a, look);
    }
    w->started = w->ready = gw_clock_ns();
    w->done = 0;
    w->begun = w->over = 0; /* the end of this kernel comes before the batch's kernels set them */
    GW_TRACE(server, launched, gw_serve_name(a, w->model), w->items, w->rows, w->waiting);
    gw_serve_aim(a);
    if (gw_serve_is_many(a)) gw_st_relaxed_u32(&a->board->busy, w->items); /* before the queue's length */
    gw_serve_tell_waiting(a);
}

/* Does the batch's first kernel run beside this one? A GPU may also start it after this one. */
GW_DEV bool gw_serve_has_begun(const struct gw_serve_args *a, uint64_t until)
{
    while (!gw_ld_relaxed_u32_gpu(&a->work->begun))
        if (gw_clock_ns() > until) return false;
    return true;
}

/* While a batch runs, the first in the queue may become late, and models and leases may come and go. */
GW_DEV void gw_serve_refuse_early(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    uint64_t now = gw_clock_ns();
    if (now - w->looked > GW_SERVE_LOOK_GPU_NS) {
        w->looked = now;
        gw_st_relaxed_u64(&a->board->clock, now); /* a number by itself */
        gw_serve_take_orders(a);
    }
    while (w->waiting && gw_serve_has_room(a, &a->session[gw_serve_waiting(a, 0)->session]))
        if (!gw_serve_turned_away(a, 0, now)) return;
}

/* Runs beside the model: receives what arrives, so that the next batch need not wait for that. It ends with
 * the model, or after a time that no run takes. One thread. */
GW_DEV void gw_serve_company_stage(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    if (!w->items || w->alone >= GW_SERVE_ALONE) return;
    uint64_t now = gw_clock_ns(), longest = 4 * a->variant[w->variant].cost.p99_ns + GW_SERVE_COMPANY_NS;
    if (!gw_serve_has_begun(a, now + GW_SERVE_BEGIN_NS)) {
        w->alone++;
        return;
    }
    while (!gw_ld_relaxed_u32_gpu(&w->over) && gw_clock_ns() < now + longest) {
        gw_serve_drain(a);
        if (gw_serve_is_many(a)) gw_serve_refuse_early(a);
        /* Each look at the CQ is a trip over the bus, which the model may need. */
        for (uint32_t i = 0; i < GW_SERVE_NAPS; i++) gw_pause(GW_SERVE_NAPS);
    }
}

/* Brings the inputs of a batch to one place, and clears the rows that stay empty. Any number of blocks and
 * threads. */
GW_DEV void gw_serve_gather_stage(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    if (!w->items) return;
    /* Flags alone: what they announce is in no memory that the other kernel reads. */
    if (gw_global_idx() == 0) gw_st_relaxed_u32_gpu(&w->begun, 1);
    if (!gw_serve_gathers(a)) return;
    if (!w->direct) gw_serve_move_all(a, 0);
    gw_serve_clear_rest(a);
    if (gw_global_idx() == 0) w->ready = gw_clock_ns();
}

/* Takes the outputs of a batch to the slots. Any number of blocks and threads. */
GW_DEV void gw_serve_scatter_stage(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    if (!w->items) return;
    if (gw_global_idx() == 0) {
        gw_st_relaxed_u32_gpu(&w->over, 1);
        w->done = gw_clock_ns();
    }
    if (!w->direct && !w->failed) gw_serve_move_all(a, 1);
}

/* The thread that posts a session's answers. Neighbours go to different warps, because the threads of one
 * post one after the other. */
GW_DEV uint32_t gw_serve_owner(uint32_t session)
{
    uint32_t warps = gw_block_dim() / 32;
    return warps > 1 ? session % warps * 32 + session / warps % 32 : session % gw_block_dim();
}

/* One block. A session's answers are one thread's. */
GW_DEV void gw_serve_send_stage(const struct gw_serve_args *a)
{
    struct gw_serve_work *w = a->work;
    if (!w->items) return;
    if (gw_thread_idx() == 0) {
        if (!w->done) w->done = gw_clock_ns();
        gw_serve_account(a);
        gw_serve_publish(a);
    }
    gw_syncthreads();
    for (uint32_t i = 0; i < w->items; i++) {
        if (gw_serve_owner(a->item[i].session) != gw_thread_idx()) continue;
        gw_serve_answer(a, &a->item[i]);
        gw_serve_count(a, &a->item[i]);
    }
    gw_syncthreads(); /* all are counted before anyone reads a count for the host */
    for (uint32_t i = 0; i < w->items; i++)
        if (gw_serve_owner(a->item[i].session) == gw_thread_idx()) gw_serve_counted(a, &a->item[i]);
    gw_syncthreads(); /* the last thread may find that a session is broken, and forgets its requests */
    if (gw_thread_idx() == 0) gw_serve_conclude(a);
}

#endif
