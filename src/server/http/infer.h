/* SPDX-License-Identifier: Apache-2.0 */
/* POST v2/models/M[/versions/V]/infer: JSON, or JSON followed by tensors (the binary tensor data extension).
 * The body goes from the connection into the slot as it comes, and the answer leaves from the slot. */
#ifndef GW_SERVER_HTTP_INFER_H
#define GW_SERVER_HTTP_INFER_H

#include <stdbool.h>

#include "src/door/httpd.h"
#include "src/door/room.h"
#include "src/server/requests/infer.h"

struct gw_http_infer;

struct gw_http_infer_opts {
    struct gw_infer *infer;
    uint64_t most;        /* bytes of one body's JSON */
    struct gw_room *room; /* for all that are being received */
};

/* Is it such a call's path? */
bool gw_http_is_infer(const char *path);
/* Begins one. NULL: out of memory. */
struct gw_http_infer *gw_http_infer_open(const struct gw_http_infer_opts *opts,
                                         const struct gw_http_request *r);
/* The body's next piece. */
void gw_http_infer_piece(struct gw_http_infer *c, const char *data, size_t bytes);
/* The body is there: runs the inference. */
void gw_http_infer_finish(struct gw_http_infer *c, struct gw_http_answer *answer);
/* Or it never will be, and this is the answer; `why` is a constant. */
void gw_http_infer_refuse(struct gw_http_infer *c, unsigned status, const char *why);
/* When the answer has left, or never will. */
void gw_http_infer_free(struct gw_http_infer *c);

#endif
