/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this module know of each other. */
#ifndef GW_FLEET_PAGES_IMPL_H
#define GW_FLEET_PAGES_IMPL_H

#include <pthread.h>
#include <stdbool.h>

#include "src/fleet/pages/image.h"
#include "src/fleet/pages/lane.h"
#include "src/fleet/pages/pages.h"
#include "src/fleet/pages/place.h"

/* Numbers of pages that are free. */
struct fleet_free {
    uint32_t *of, n;
};

struct fleet_weights {
    struct fleet_pages *pages;
    struct fleet_weights *next;
    char *name;
    void *user;
    char *at; /* its addresses */
    struct gw_range range;
    struct gwm_key key;   /* of the file */
    uint32_t *gpu, *host; /* numbers of its pages; room for all that the addresses could hold */
    uint32_t backed;      /* pages that plans work in, until the weights are sealed */
    uint32_t n;           /* that the weights take; 0: they are not sealed */
    uint32_t where;       /* by pages->lock */
    struct fleet_job job; /* of the first of its moves; */
    struct fleet_pages_move *first, **last; /* by pages->lock */
};

struct fleet_pages {
    struct fleet_pages_opts opts;
    size_t page;
    char *folder;
    struct fleet_place_memory *gpu;
    struct gw_mem host;
    void *zeros; /* a page of them */
    pthread_mutex_t lock;
    struct fleet_free free_gpu, free_host, spare; /* spare: beyond the arena; plans are made there */
    uint32_t made;                                /* pages that there are on the GPU */
    bool serving;                                 /* the arena is not for plans any more */
    bool over;
    struct fleet_lane *disk, *bus, *map;
    struct fleet_weights *weights;
};

/* Takes n pages, or none: false. Under the lock. */
bool fleet_free_take(struct fleet_free *f, uint32_t n, uint32_t *of);
void fleet_free_give(struct fleet_free *f, uint32_t n, const uint32_t *of);

/* The bytes of page i of the weights. */
static inline size_t fleet_weights_part(const struct fleet_weights *w, uint32_t i)
{
    size_t page = w->pages->page, at = (size_t)i * page;

    return at >= w->key.bytes ? 0 : w->key.bytes - at < page ? w->key.bytes - at : page;
}

#endif
