/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with TF32 factors, for CPU threads: there they are fp32. */
#include "src/model/kernels/attention.h"

#define GWM_ATTEND(size, a) gwm_attend_rows(a, size)
GWM_ATTENTIONS(gwm_attention_tf32_)
