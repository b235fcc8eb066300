/* SPDX-License-Identifier: Apache-2.0 */
/* Plain loops for every node: they fold constants, serve the CPU back-end and are what tests compare with. */
#ifndef GW_MODEL_REF_H
#define GW_MODEL_REF_H

#include <stdbool.h>
#include <stddef.h>

#include "src/model/graph/graph.h"

/* Any node, from the addresses of its inputs. */
void gwm_ref_eval(const struct gwm_node *n, const struct gwm_graph *g, const void *const *in, void *out);

void gwm_ref_act(const struct gwm_act *act, const float *x, float *y, int32_t n);
void gwm_ref_move(const struct gwm_move *m, size_t width, const void *x,
                  void *y); /* width: bytes of an element */
void gwm_ref_softmax(const struct gwm_softmax *s, const float *x, float *y);
void gwm_ref_reduce(const struct gwm_reduce *r, uint32_t dtype, const void *x, void *y);
void gwm_ref_norm(const struct gwm_norm *s, const float *x, const float *scale, const float *bias, float *y);
void gwm_ref_cumsum(const struct gwm_cumsum *s, uint32_t dtype, const void *x, void *y);
void gwm_ref_pool(const struct gwm_pool *p, const float *x, float *y);
void gwm_ref_conv(const struct gwm_conv *c, const float *x, float *y);
void gwm_ref_deconv(const struct gwm_conv *c, const float *x, float *y);
void gwm_ref_gemm(const struct gwm_gemm *q, const float *a, const float *b, float *y);
void gwm_ref_gather(const struct gwm_gather *s, size_t width, const void *x, const int64_t *index, void *y);
void gwm_ref_interp(const struct gwm_interp *s, const float *x, float *y);
void gwm_ref_convert(uint32_t from, uint32_t to, uint32_t into, const void *x, void *y, int32_t count);
void gwm_ref_unary(const struct gwm_act *act, uint32_t dtype, const void *x, void *y, int32_t n);
void gwm_ref_binary(const struct gwm_node *n, const struct gwm_graph *g, const void *a, const void *b,
                    void *out);
void gwm_ref_select(const struct gwm_select *s, uint32_t dtype, const void *const *in, void *out);

/* Steps an odometer over all but the last of `rank` dimensions and keeps an offset for each of n strided
 * views; false after the last row. */
bool gwm_next_row(int32_t rank, const int32_t *dims, int32_t *at, const int32_t *const *stride,
                  int32_t *offset, int n);

#endif
