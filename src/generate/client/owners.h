/* SPDX-License-Identifier: Apache-2.0 */
/* How many slots each client of a door has, by its name: a table with a fixed number of entries. */
#ifndef GW_GENERATE_CLIENT_OWNERS_H
#define GW_GENERATE_CLIENT_OWNERS_H

#include <stdint.h>

#include "src/door/who.h"

struct gen_owner {
    struct gen_owner *next; /* of its bucket, or of those that are free */
    uint32_t slots;
    char who[GW_WHO_TEXT];
};

struct gen_owners {
    struct gen_owner *all, **bucket, *free;
    uint32_t mask;
};

/* Room for n names at a time. 0 or -ENOMEM. */
int gen_owners_make(struct gen_owners *o, uint32_t n);
void gen_owners_free(struct gen_owners *o);
/* The name's entry; a new one has no slots, and is free again when gen_owner_give has none left to count.
 * There is always room when each entry has at least one slot. */
struct gen_owner *gen_owner_find(struct gen_owners *o, const char *who);
/* One slot less. */
void gen_owner_give(struct gen_owners *o, struct gen_owner *owner);

#endif
