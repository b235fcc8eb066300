/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of what a peer knows: models by name, workers by identity, leases by worker and number.
 * Entries are part of the things; the caller compares keys. */
#ifndef GW_FLEET_WIRE_TABLE_H
#define GW_FLEET_WIRE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct fleet_entry {
    struct fleet_entry *next;
    uint64_t hash;
};

/* All zero is an empty table. */
struct fleet_table {
    struct fleet_entry **slot;
    uint32_t slots, n;
};

uint64_t fleet_table_hash(uint64_t seed, const void *key, size_t bytes);
/* -ENOMEM. */
int fleet_table_add(struct fleet_table *t, struct fleet_entry *e, uint64_t hash);
void fleet_table_remove(struct fleet_table *t, struct fleet_entry *e);
/* The first entry of that hash, and those after it. NULL: there is no other. */
struct fleet_entry *fleet_table_find(const struct fleet_table *t, uint64_t hash);
struct fleet_entry *fleet_table_next(const struct fleet_entry *e);
void fleet_table_free(struct fleet_table *t);

#endif
