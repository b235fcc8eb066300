/* SPDX-License-Identifier: Apache-2.0 */
/* The server's web page: a request's way and time, and the last requests. */
#ifndef FACE_PAGE_PAGE_H
#define FACE_PAGE_PAGE_H

#include <sys/socket.h>

#include "apps/faceverify/kernels.h"
#include "apps/faceverify/memcache_ring.h"

/* Where the page's numbers come from. The functions are called by a thread of the page's. */
struct face_page_source {
    void *ctx;
    void (*counts)(void *ctx, struct face_counts *sum); /* of all blocks */
    const struct face_recent *recent;                   /* an entry for each block */
    uint32_t blocks;
    float threshold;
    const char *listens, *exec; /* for people; they stay where they are */
    const struct mc_servers *memcached;
};

struct face_page;

/* Serves the page at this address, on threads of its own. It asks for no password: who can reach the
 * address sees the names. 0, or a negative errno with gw_last_error(); -ENOSYS: it was built without
 * libmicrohttpd. */
int face_page_start(const struct sockaddr_storage *address, const struct face_page_source *source,
                    struct face_page **out);
/* Where it is: "127.0.0.1:8080". */
const char *face_page_name(const struct face_page *page);
/* NULL is allowed. */
void face_page_stop(struct face_page *page);

#endif
