/* SPDX-License-Identifier: Apache-2.0 */
/* Launches that walk over elements, eight at a time where they lie together. */
#include <errno.h>

#include "src/model/gpu/elements.h"

#include "src/model/gpu/launch.h"
#include "src/model/kernels/args.h"

#define MAX_BLOCKS 4096 /* kernels over elements walk on from there */

int gwm_gpu_over(struct gwm_gpu *p, const struct gw_kernel *kernel, int32_t count, const void *args)
{
    uint32_t n = ((uint32_t)count + 255) / 256;

    return gwm_gpu_launch(p, kernel, n < MAX_BLOCKS ? n : MAX_BLOCKS, 256, args);
}

int32_t gwm_gpu_eights(int32_t count)
{
    return (count - 1) / 8 + 1;
}

int gwm_gpu_activate(struct gwm_gpu *p, const struct gwm_act *act, int buf, int32_t count)
{
    struct gwm_unary_args a = {.act = *act, .count = count};

    if (act->kind == GWM_ACT_NONE) return 0;
    int err = gwm_gpu_over(p, &gwm_unary_kernel, gwm_gpu_eights(count), &a);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_unary_args, x), buf);
    return err ? err : gwm_gpu_ref(p, offsetof(struct gwm_unary_args, y), buf);
}

/* Numbers that plans compute with, eight of which lie together on both sides wherever one looks? */
static bool move_by_eights(const struct gwm_gpu *p, const struct gwm_move *m, int x, int y)
{
    int in = m->rank - 1;

    if (p->buf[x].type > GW_DTYPE_F16 || p->buf[y].type > GW_DTYPE_F16 || m->from[in] != 1 ||
        m->to[in] != 1 || (m->dims[in] | m->start | m->offset) % 8)
        return false;
    for (int d = 0; d < in; d++)
        if ((m->from[d] | m->to[d]) % 8) return false;
    return true;
}

int gwm_gpu_move_one(struct gwm_gpu *p, const struct gwm_move *m, int x, int y)
{
    struct gwm_move_args a = {.move = *m, .count = 1};

    for (int32_t d = 0; d < m->rank; d++) a.count *= m->dims[d];
    if (x < 0 || y < 0) return x < 0 ? x : y;
    if (!a.count) return 0;
    int err = move_by_eights(p, m, x, y) ? gwm_gpu_over(p, &gwm_move8_kernel, a.count / 8, &a)
                                         : gwm_gpu_over(p, &gwm_move_kernel, a.count, &a);
    if (!err) err = gwm_gpu_ref(p, offsetof(struct gwm_move_args, x), x);
    return err ? err : gwm_gpu_ref(p, offsetof(struct gwm_move_args, y), y);
}
