/* SPDX-License-Identifier: Apache-2.0 */
/* Counts names. */
#include "src/ranks/count.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/ranks/client.h"

int64_t gw_ranks_count(struct gw_ranks *ranks, const char *name)
{
    struct gw_ranks_name *n;
    int64_t count;

    pthread_mutex_lock(&ranks->lock);
    for (n = ranks->names; n && strcmp(n->name, name); n = n->next)
        ;
    if (!n && (n = calloc(1, sizeof(*n)))) {
        strcpy(n->name, name); /* the caller has checked its length */
        n->next = ranks->names;
        ranks->names = n;
    }
    count = n ? (int64_t)n->n++ : -ENOMEM;
    pthread_mutex_unlock(&ranks->lock);
    return count < 0 ? gw_error(-ENOMEM, "%s: no memory", name) : count;
}
