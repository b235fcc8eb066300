/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the posting kernel. */
#include <errno.h>
#include <stdlib.h>

#include "src/cli/options.h"
#include "src/cli/perf/perf.h"

GW_KERNEL_DECLARE(perf_post_kernel);
GW_KERNEL_DECLARE(perf_send_kernel);

/* The time is from the first poster's begin to the last one's end. */
static int sum(const struct perf_out *out, uint64_t n, struct perf_row *row)
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

int perf_run(struct gw_exec *exec, const struct perf_opts *o, struct perf_post_args *a, uint32_t *stop_host,
             struct perf_row *row)
{
    uint64_t posters = perf_posters(o);
    struct perf_out *out = calloc(posters, sizeof(*out));
    int err;

    if (!out) return gw_error_errno(-ENOMEM, "results");
    a->by = o->by;
    a->op = o->op;
    a->batch = (uint32_t)o->batch;
    a->signal = (uint32_t)o->signal;
    a->limit_ns = o->seconds * 1000000000u;
    a->patience_ns = PERF_PATIENCE_NS;
    a->pace = o->rate ? posters * UINT64_C(1024000000000) / o->rate : 0;
    if (o->op == PERF_SEND && !a->signal) a->signal = (uint32_t)(o->depth * a->qps / posters / 2);
    if (o->op == PERF_SEND && !a->signal) a->signal = 1;
    gw_st_release_u32(stop_host, 0);
    err = gw_launch(exec, o->op == PERF_SEND ? &perf_send_kernel : &perf_post_kernel, (uint32_t)o->blocks,
                    (uint32_t)o->threads, a);
    /* The kernel ends by itself: it waits for nothing longer than its patience. */
    while (!err && (err = gw_exec_sync(exec, gw_deadline(20000000))) == -ETIMEDOUT) {
        if (gw_interrupted()) gw_st_release_u32(stop_host, 1);
        err = 0;
    }
    if (!err) err = gw_copy_out(exec, out, a->out, posters * sizeof(*out));
    if (!err) err = sum(out, posters, row);
    free(out);
    return err;
}
