/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's side: rank, size, and a text that rank 0 gives to all. */
#ifndef SRC_RANKS_PMIX_H
#define SRC_RANKS_PMIX_H

#include <stddef.h>
#include <stdint.h>

struct gw_ranks_pmix;

struct gw_ranks_place {
    uint32_t rank, size, local_size;
};

/* Connects to the launcher. -ENOSYS with a line: there is no PMIx in this build, on this host, or around this
 * process. A process that has joined must end with gw_ranks_pmix_leave: else the launcher takes it for
 * dead. */
int gw_ranks_pmix_join(struct gw_ranks_place *place, struct gw_ranks_pmix **out);

/* All ranks call it: rank 0's text becomes that of all. -ETIMEDOUT, -EIO, -EPROTO with a line. */
int gw_ranks_pmix_share(struct gw_ranks_pmix *pmix, char *text, size_t size, uint64_t deadline_ns);

/* NULL is allowed. */
void gw_ranks_pmix_leave(struct gw_ranks_pmix *pmix);

#endif
