/* SPDX-License-Identifier: Apache-2.0 */
/* Token ids that grow. */
#include "src/generate/text/ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int gen_ids_add(struct gen_ids *ids, uint32_t id)
{
    if (ids->count == ids->room) {
        size_t room = ids->room ? ids->room * 2 : 64;
        uint32_t *at = realloc(ids->at, room * sizeof(*at));
        if (!at) return -ENOMEM;
        ids->at = at;
        ids->room = room;
    }
    ids->at[ids->count++] = id;
    return 0;
}

void gen_ids_free(struct gen_ids *ids)
{
    free(ids->at);
    memset(ids, 0, sizeof(*ids));
}
