/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for requests that follow from the request's id: cheap to make, and to check without keeping
 * them. */
#ifndef GW_LOAD_DATA_H
#define GW_LOAD_DATA_H

#include <stdint.h>

/* Fills `count` elements: reals from 0 to 2, whole numbers from 0 to 127, booleans. `part` tells apart the
 * tensors of one request. */
void gw_data_fill(uint32_t dtype, void *to, uint64_t count, uint64_t id, uint32_t part);
/* Are these the elements that gw_data_fill makes, bit for bit? */
int gw_data_is(uint32_t dtype, const void *at, uint64_t count, uint64_t id, uint32_t part);

#endif
