/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks have published, as rank 0's server keeps it. */
#ifndef SRC_RANKS_STORE_H
#define SRC_RANKS_STORE_H

#include <stddef.h>
#include <stdint.h>

#include <gpuwire/ranks.h>

/* Bytes with a count of those who keep them: one value goes to many. */
struct gw_ranks_blob {
    uint32_t refs;
    size_t size;
    uint8_t bytes[];
};
struct gw_ranks_blob *gw_ranks_blob_new(size_t size); /* one reference; NULL: no memory */
void gw_ranks_blob_drop(struct gw_ranks_blob *blob);

struct gw_ranks_store;
struct gw_ranks_store *gw_ranks_store_new(uint32_t ranks);
void gw_ranks_store_free(struct gw_ranks_store *store);

/* Keeps a copy. -EEXIST: that key is there; -ENOSPC: the rank's limits; -ENOMEM. */
int gw_ranks_store_put(struct gw_ranks_store *store, uint32_t rank, const char *key, const void *value,
                       size_t size);
/* NULL: not published. The store keeps its reference. */
struct gw_ranks_blob *gw_ranks_store_get(const struct gw_ranks_store *store, uint32_t rank, const char *key);

#endif
