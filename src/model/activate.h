/* SPDX-License-Identifier: Apache-2.0 */
/* activate.h: activation functions of one number, the same in kernels and where constants are folded. */
#ifndef GW_MODEL_ACTIVATE_H
#define GW_MODEL_ACTIVATE_H

#include <math.h>

#include <gpuwire/fn.h>

#include "src/model/graph.h"

GW_FN float gwm_activate(const struct gwm_act *act, float x)
{
    switch (act->kind) {
    case GWM_ACT_RELU: return x > 0 ? x : 0;
    case GWM_ACT_LEAKY: return x > 0 ? x : act->a * x;
    case GWM_ACT_CLIP: return fminf(fmaxf(x, act->a), act->b);
    case GWM_ACT_SIGMOID: return 1 / (1 + expf(-x));
    case GWM_ACT_TANH: return tanhf(x);
    default: return x;
    }
}

#endif
