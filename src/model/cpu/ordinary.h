/* SPDX-License-Identifier: Apache-2.0 */
/* Ordinary numbers: finite, and so small that sums and products in a network make no infinities of them.
 * Where all numbers are so, no NaN can come up, and libraries that hide NaN may compute. */
#ifndef GW_MODEL_ORDINARY_H
#define GW_MODEL_ORDINARY_H

#include "src/model/graph/graph.h"

#define GWM_ORDINARY 1048576.f /* the largest */

/* Are all inputs of a run ordinary? */
bool gwm_is_ordinary(const struct gwm_graph *g, const void *const in[]);
/* odd[v]: root v may hold NaN or infinities although the inputs are ordinary. 0 or -ENOMEM. */
int gwm_odd(const struct gwm_graph *g, bool *odd);

#endif
