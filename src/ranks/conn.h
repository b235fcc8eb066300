/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of rank 0's server: frames come in whole, and go out when there is room. */
#ifndef SRC_RANKS_CONN_H
#define SRC_RANKS_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "src/ranks/store.h"
#include "src/ranks/wire.h"

#define GW_RANKS_NOBODY UINT32_MAX

struct gw_ranks_out;

struct gw_ranks_conn {
    int fd;
    uint32_t rank;  /* GW_RANKS_NOBODY: it has not said yet */
    uint64_t since; /* when it came */
    /* the frame that is coming in */
    struct gw_ranks_head head;
    uint8_t *body;
    size_t got;
    /* what is to go out; `sent` bytes of the first frame have left */
    struct gw_ranks_out *first, **last;
    size_t sent, queued;
    bool broken;                /* to be dropped */
    uint32_t lookups;           /* that wait */
    struct gw_ranks_blob *part; /* what it brought to the gather that is under way */
};

/* Owns the socket. NULL: no memory. */
struct gw_ranks_conn *gw_ranks_conn_new(int fd);
void gw_ranks_conn_free(struct gw_ranks_conn *c);

/* Reads what is there of one frame. True: it is whole, in c->head and c->body, until the next call. What
 * is no frame, or a longer one than this connection may send, breaks the connection. */
bool gw_ranks_conn_read(struct gw_ranks_conn *c);

/* Queues a frame and sends what goes at once. body: NULL, or a blob, of which it keeps a reference.
 * head->size is set here. A connection that takes nothing for too long breaks. */
void gw_ranks_conn_put(struct gw_ranks_conn *c, struct gw_ranks_head head, struct gw_ranks_blob *body);
void gw_ranks_conn_flush(struct gw_ranks_conn *c);

/* The same with a text as its body. */
void gw_ranks_conn_say(struct gw_ranks_conn *c, struct gw_ranks_head head, const char *text);

#endif
