/* SPDX-License-Identifier: Apache-2.0 */
/* Token ids that grow. */
#ifndef GW_GENERATE_TEXT_IDS_H
#define GW_GENERATE_TEXT_IDS_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed, it is empty; the owner frees it. */
struct gen_ids {
    uint32_t *at;
    size_t count, room;
};

/* Appends one id: 0 or -ENOMEM. */
int gen_ids_add(struct gen_ids *ids, uint32_t id);
/* Frees the ids; it is empty then. */
void gen_ids_free(struct gen_ids *ids);

#endif
