/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with fp16 factors, for CPU threads: there a thread has a row. */
#include "src/model/kernels/attention.h"

#define GWM_ATTEND(size, a) gwm_attend_rows(a, size)
GWM_ATTENTIONS(gwm_attention_)
