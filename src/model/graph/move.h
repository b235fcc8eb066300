/* SPDX-License-Identifier: Apache-2.0 */
/* Strides: how boxes of elements are copied and repeated. */
#ifndef GW_MODEL_GRAPH_MOVE_H
#define GW_MODEL_GRAPH_MOVE_H

#include "src/model/graph/shape.h"
#include "src/model/graph/work.h"

/* Strides for common layouts. Dimensions that stay neighbours are merged. */
void gwm_move_permute(struct gwm_move *m, const int32_t *dims, uint32_t rank, const int32_t *perm);
void gwm_move_place(struct gwm_move *m, const struct gwm_shape *box, const struct gwm_shape *dst,
                    const int32_t *at);
/* Does a move write the whole of a result with `count` elements, in order? */
bool gwm_move_dense(const struct gwm_move *m, int32_t count);
/* `first` writes all of a tensor in order, and `then` reads it: `first` becomes a move that does what both
 * do. False, and nothing changed, where that has no strides. */
bool gwm_move_join(struct gwm_move *first, const struct gwm_move *then);
void gwm_broadcast_dims(struct gwm_broadcast *bc, const int32_t *dims, const int32_t *a, const int32_t *b,
                        uint32_t rank);
/* Every step[i]-th element of each dimension, from at[i] on, into a dense box. A step of 0 repeats. */
void gwm_move_slice(struct gwm_move *m, const struct gwm_shape *src, const struct gwm_shape *box,
                    const int32_t *at, const int32_t *step);
int gwm_broadcast(struct gwm_broadcast *bc, struct gwm_shape *out, const struct gwm_shape *a,
                  const struct gwm_shape *b);
int gwm_select_shape(struct gwm_select *s, struct gwm_shape *out, const struct gwm_shape *const in[3]);

#endif
