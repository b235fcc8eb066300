/* SPDX-License-Identifier: Apache-2.0 */
/* Loops of our own in place of oneDNN's primitives where NaN could be: they keep it. They treat
 * all elements alike, so the layout does not matter. */
#include <errno.h>
#include <math.h>

#include "src/model/cpu/dnnl_careful.h"

#include "src/model/cpu/steps.h"
#include "src/model/ref/ref.h"

#define AT_ONCE (1 << 20)

static int careful_arg(const struct gwm_prim *q, int arg)
{
    int i = 0;

    while (i < q->nargs && q->a[i].arg != arg) i++;
    return i;
}

static float *careful_at(const struct gwm_cpu *p, const struct gwm_prim *q, int arg, size_t *count)
{
    int i = careful_arg(q, arg);

    *count = dnnl_memory_desc_get_size(q->a[i].md) / sizeof(float);
    return gwm_cpu_at(p, q->a[i].buf);
}

static void careful_apply(const struct gwm_act *act, const float *x, float *y, size_t count)
{
    for (size_t i = 0; i < count; i += AT_ONCE)
        gwm_ref_act(act, x + i, y + i, (int32_t)(count - i < AT_ONCE ? count - i : AT_ONCE));
}

void gwm_careful_act(struct gwm_cpu *p, struct gwm_prim *q)
{
    size_t count;
    float *y = careful_at(p, q, DNNL_ARG_DST, &count);

    careful_apply(&q->act, y, y, count);
}

void gwm_careful_unary(struct gwm_cpu *p, struct gwm_prim *q)
{
    size_t count;
    const float *x = careful_at(p, q, DNNL_ARG_SRC, &count);

    careful_apply(&q->node->act, x, careful_at(p, q, DNNL_ARG_DST, &count), count);
}

void gwm_careful_softmax(struct gwm_cpu *p, struct gwm_prim *q)
{
    size_t count;
    const float *x = careful_at(p, q, DNNL_ARG_SRC, &count);

    gwm_ref_softmax(&q->node->softmax, x, careful_at(p, q, DNNL_ARG_DST, &count));
}

int gwm_careful_room(struct gwm_cpu *p, struct gwm_prim *q)
{
    static const int args[2] = {DNNL_ARG_SRC, DNNL_ARG_DST};

    for (int i = 0; i < 2; i++) {
        int b = gwm_cpu_buf(p, dnnl_memory_desc_get_size(q->a[careful_arg(q, args[i])].md));
        if (b < 0) return b;
        gwm_cpu_use(p, b);
        q->spare[i] = b;
    }
    return 0;
}

/* The largest element of each window; then the largest of numbers that say what it had: NaN, or infinities
 * below 0 alone, of which the library makes the least number. */
void gwm_careful_pool(struct gwm_cpu *p, struct gwm_prim *q)
{
    size_t from, to;
    const float *x = careful_at(p, q, DNNL_ARG_SRC, &from);
    float *y = careful_at(p, q, DNNL_ARG_DST, &to), *is = gwm_cpu_at(p, q->spare[0]),
          *had = gwm_cpu_at(p, q->spare[1]);

    for (size_t i = 0; i < from; i++) is[i] = x[i] != x[i] ? 2 : x[i] > -INFINITY ? 1 : 0;
    if (gwm_prim_execute(p, q, q->prim, is, had) || gwm_prim_execute(p, q, q->prim, NULL, NULL)) return;
    for (size_t i = 0; i < to; i++) y[i] = had[i] > 1 ? NAN : had[i] > 0 ? y[i] : -INFINITY;
}
