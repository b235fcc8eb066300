/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts of roots and of constants. */
#ifndef GW_MODEL_CPU_DNNL_LAYOUT_H
#define GW_MODEL_CPU_DNNL_LAYOUT_H

#include "src/model/cpu/dnnl.h"

/* A root in that layout or, without one, in the layout that it was made in (NULL when that is
 * C order). */
const struct gwm_form *gwm_form_find(const struct gwm_cpu *p, int root, const_md_t md);
/* A buffer for a root in another layout than C order. */
int gwm_form_add(struct gwm_cpu *p, int root, const_md_t md, bool made);
/* How the result of a convolution or a pool looks in C order (a product's is always in it). */
md_t gwm_dnnl_c_order(const struct gwm_cpu *p, int root);
/* The buffer that holds `root` in layout `want`; `have` is how its C-order buffer looks to the primitive that
 * asks. Adds a reorder when there is none yet. */
int gwm_dnnl_in_layout(struct gwm_cpu *p, int root, const_md_t have, const_md_t want);
/* Root `root` lies in that layout in a buffer that another root no longer needs. */
int gwm_form_share(struct gwm_cpu *p, int root, const_md_t md, int buf);
/* Makes sure that a root's buffer in C order is written. */
int gwm_dnnl_plain(struct gwm_cpu *p, int root);
/* Adds a step that copies a buffer from one layout to another. */
int gwm_dnnl_reorder(struct gwm_cpu *p, int from, const_md_t from_md, int to, const_md_t to_md);
/* Brings constants from one layout into another, now; the buffer's number. */
int gwm_fixed_in_layout(struct gwm_cpu *p, const float *data, const_md_t have, const_md_t want);
/* A copy of a bias times a factor, so that its memory is aligned as the library likes it. */
int gwm_fixed_bias(struct gwm_cpu *p, const float *bias, int32_t n, float factor);

#endif
