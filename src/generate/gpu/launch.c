/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of launches, and what runs them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/gpu/inside.h"

#define LAUNCH_SYNC_NS UINT64_C(600000000000) /* CPU threads: a kernel that runs longer than that hangs */

int gen_gpu_launch(struct gen_launches *l, const struct gw_kernel *kernel, uint64_t grid, uint32_t block,
                   const void *arg)
{
    if (grid > INT32_MAX)
        return gw_error(-EINVAL, "%s: it would need %llu blocks", kernel->name, (unsigned long long)grid);
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 64;
        struct gen_launch *more = realloc(l->at, cap * sizeof(*more));
        if (!more) return -ENOMEM;
        l->at = more, l->cap = cap;
    }
    void *copy = malloc(kernel->arg_size);
    if (!copy) return -ENOMEM;
    memcpy(copy, arg, kernel->arg_size);
    l->at[l->n++] = (struct gen_launch){kernel, (uint32_t)grid, block, copy};
    return 0;
}

void gen_gpu_forget(struct gen_launches *l)
{
    for (uint32_t i = 0; i < l->n; i++) free(l->at[i].arg);
    free(l->at);
    *l = (struct gen_launches){0};
}

int gen_gpu_run(struct gw_exec *exec, const struct gen_launches *l, void *stream)
{
    int err = 0;

    for (uint32_t i = 0; i < l->n && !err; i++) {
        const struct gen_launch *q = &l->at[i];
        if (stream) {
            err = !q->kernel->gpu || q->kernel->gpu(q->grid, q->block, q->arg, stream) ? -EIO : 0;
            if (err) gw_error(err, "%s: CUDA does not start it", q->kernel->name);
            continue;
        }
        err = gw_launch(exec, q->kernel, q->grid, q->block, q->arg);
        if (!err && gw_exec_kind(exec) == GW_EXEC_CPU) /* its queue is short */
            err = gw_exec_sync(exec, gw_deadline(LAUNCH_SYNC_NS));
    }
    return err;
}
