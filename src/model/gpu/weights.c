/* SPDX-License-Identifier: Apache-2.0 */
/* Weights and biases of convolutions as constants of a plan, in the order and type that a kernel reads. */
#include <stdlib.h>

#include "src/model/gpu/weights.h"

#include "src/model/gpu/launch.h"
#include "src/model/graph/half.h"

int gwm_conv_bias(struct gwm_gpu *p, const struct gwm_conv *c, bool half)
{
    size_t bytes = (size_t)c->oc * (half ? 2 : 4);
    void *b = calloc(1, bytes);

    for (int32_t i = 0; b && c->bias && i < c->oc; i++) {
        if (half)
            ((uint16_t *)b)[i] = gwm_half_round(c->bias[i]);
        else
            ((float *)b)[i] = c->bias[i];
    }
    return gwm_gpu_take(p, b, bytes, half ? GW_DTYPE_F16 : GW_DTYPE_F32);
}

int gwm_conv_weights(struct gwm_gpu *p, const struct gwm_conv *c, bool last, bool half)
{
    size_t per = (size_t)(c->win.c / c->group), taps = (size_t)c->win.kh * (size_t)c->win.kw,
           count = (size_t)c->oc * per * taps, bytes = count * (half ? 2 : 4);

    if (!half && (!last || taps == 1)) return gwm_gpu_static(p, c->weight, bytes, GW_DTYPE_F32);
    void *w = malloc(bytes);
    for (size_t i = 0; w && i < count; i++) {
        size_t from = last ? i / per / taps * per * taps + i % per * taps + i / per % taps : i;
        if (half)
            ((uint16_t *)w)[i] = gwm_half_round(c->weight[from]);
        else
            ((float *)w)[i] = c->weight[from];
    }
    return gwm_gpu_take(p, w, bytes, half ? GW_DTYPE_F16 : GW_DTYPE_F32);
}
