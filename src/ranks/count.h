/* SPDX-License-Identifier: Apache-2.0 */
/* Names that all ranks count alike: what they make together under one name is told apart by its number. */
#ifndef SRC_RANKS_COUNT_H
#define SRC_RANKS_COUNT_H

#include <stdint.h>

#include <gpuwire/ranks.h>

/* How often it was called with this name (shorter than GW_RANKS_KEY) before, or -ENOMEM with a line. Any
 * thread. */
int64_t gw_ranks_count(struct gw_ranks *ranks, const char *name);

#endif
