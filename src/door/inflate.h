/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies that come compressed: gzip and deflate (RFC 9110's codings). */
#ifndef GW_DOOR_INFLATE_H
#define GW_DOOR_INFLATE_H

#include <stddef.h>

struct gw_inflate;

/* Does the server take this Content-Encoding? 1: yes, and *out unpacks it (NULL: it is not packed; text NULL
 * means the same); 0: no; -1: out of memory. */
int gw_inflate_open(const char *encoding, struct gw_inflate **out);
/* Unpacks the next piece, and gives what comes out to `take`. 0; -1: it is damaged. */
int gw_inflate_piece(struct gw_inflate *z, const void *data, size_t bytes,
                     void (*take)(void *ctx, const char *data, size_t bytes), void *ctx);
/* Has the end been reached? */
int gw_inflate_over(const struct gw_inflate *z);
void gw_inflate_free(struct gw_inflate *z); /* NULL is allowed */

#endif
