/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the posting kernel. */
#include <errno.h>
#include <stdlib.h>

#include "src/cli/options.h"
#include "src/cli/perf/perf.h"

GW_KERNEL_DECLARE(perf_post_kernel);
GW_KERNEL_DECLARE(perf_send_kernel);

/* The time is from the first poster's begin to the last one's end. */
static int add_up(const struct perf_out *out, uint64_t n, struct perf_row *row)
{
    uint64_t from = UINT64_MAX, to = 0;
    int err = 0;

    for (uint64_t i = 0; i < n; i++) {
        if (out[i].start < from) from = out[i].start;
        if (out[i].stop > to) to = out[i].stop;
        row->ops += out[i].ops;
        if (!err) err = out[i].err;
    }
    row->ns += to > from ? to - from : 0;
    return err;
}

int perf_sum(struct gw_exec *exec, const struct perf_out *dev, uint64_t n, struct perf_row *row)
{
    struct perf_out *out = calloc(n, sizeof(*out));
    int err = out ? gw_copy_out(exec, out, dev, n * sizeof(*out)) : gw_error_errno(-ENOMEM, "results");

    if (!err) err = add_up(out, n, row);
    free(out);
    return err;
}

int perf_run(struct gw_exec *exec, const struct perf_opts *o, struct perf_post_args *a, uint32_t *stop_host,
             struct perf_row *row)
{
    uint64_t posters = perf_posters(o);
    bool posts;
    int err;

    a->inl = o->inl && a->size <= o->inl;
    posts = o->op == PERF_SEND || a->inl;
    a->by = o->by;
    a->op = o->op;
    a->batch = (uint32_t)o->batch;
    a->signal = (uint32_t)o->signal;
    a->limit_ns = o->seconds * 1000000000u;
    a->patience_ns = PERF_PATIENCE_NS;
    a->pace = o->rate ? posters * UINT64_C(1024000000000) / o->rate : 0;
    if (posts && !a->signal) a->signal = (uint32_t)(o->depth * a->qps / posters / 2);
    if (posts && !a->signal) a->signal = 1;
    gw_st_release_u32(stop_host, 0);
    err = gw_launch(exec, posts ? &perf_send_kernel : &perf_post_kernel, (uint32_t)o->blocks,
                    (uint32_t)o->threads, a);
    /* The kernel ends by itself: it waits for nothing longer than its patience. */
    while (!err && (err = gw_exec_sync(exec, gw_deadline(20000000))) == -ETIMEDOUT) {
        if (gw_interrupted()) gw_st_release_u32(stop_host, 1);
        err = 0;
    }
    return err ? err : perf_sum(exec, a->out, posters, row);
}
