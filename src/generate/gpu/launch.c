/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of launches, and what runs them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/gpu/inside.h"

#define LAUNCH_SYNC_NS UINT64_C(600000000000) /* CPU threads: a kernel that runs longer than that hangs */

static int launch_add(struct gen_launches *l, const struct gen_launch *q)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 64;
        struct gen_launch *more = realloc(l->at, cap * sizeof(*more));
        if (!more) return -ENOMEM;
        l->at = more, l->cap = cap;
    }
    l->at[l->n++] = *q;
    return 0;
}

int gen_gpu_launch(struct gen_launches *l, const struct gw_kernel *kernel, uint64_t grid, uint32_t block,
                   const void *arg)
{
    struct gen_launch q = {.kernel = kernel, .grid = (uint32_t)grid, .block = block};

    if (grid > INT32_MAX)
        return gw_error(-EINVAL, "%s: it would need %llu blocks", kernel->name, (unsigned long long)grid);
    q.arg = malloc(kernel->arg_size);
    if (!q.arg) return -ENOMEM;
    memcpy(q.arg, arg, kernel->arg_size);
    int err = launch_add(l, &q);
    if (err) free(q.arg);
    return err;
}

int gen_gpu_call(struct gen_launches *l, struct gwm_call *call, void *const address[GEN_GPU_ADDRESSES])
{
    struct gen_launch q = {.call = call};

    memcpy(q.address, address, sizeof(q.address));
    int err = launch_add(l, &q);
    if (err) call->free(call);
    return err;
}

void gen_gpu_forget(struct gen_launches *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        free(l->at[i].arg);
        if (l->at[i].call) l->at[i].call->free(l->at[i].call);
    }
    free(l->at);
    *l = (struct gen_launches){0};
}

int gen_gpu_put(const struct gen_launch *q, void *stream)
{
    bool failed = q->call ? q->call->run(q->call, q->address, stream) != 0
                          : !q->kernel->gpu || q->kernel->gpu(q->grid, q->block, q->arg, stream) != 0;

    return failed ? gw_error(-EIO, "%s: CUDA does not start it", q->call ? q->call->name : q->kernel->name)
                  : 0;
}

int gen_gpu_run(struct gw_exec *exec, const struct gen_launches *l, void *stream)
{
    int err = 0;

    for (uint32_t i = 0; i < l->n && !err; i++) {
        const struct gen_launch *q = &l->at[i];
        if (stream || q->call) {
            err = gen_gpu_put(q, stream ? stream : gw_exec_stream(exec));
            continue;
        }
        err = gw_launch(exec, q->kernel, q->grid, q->block, q->arg);
        if (!err && gw_exec_kind(exec) == GW_EXEC_CPU) /* its queue is short */
            err = gw_exec_sync(exec, gw_deadline(LAUNCH_SYNC_NS));
    }
    return err;
}
