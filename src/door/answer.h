/* SPDX-License-Identifier: Apache-2.0 */
/* What a call of the HTTP server is answered with. */
#ifndef GW_DOOR_ANSWER_H
#define GW_DOOR_ANSWER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "src/door/connections.h"

/* Bytes that are sent from where they lie. */
struct gw_http_part {
    const void *data;
    size_t bytes;
};
#define GW_HTTP_PARTS 16

struct gw_http_answer {
    unsigned status;
    int last;          /* 1: the connection is closed after it */
    uint64_t retry_ns; /* of a refusal: when it is worth trying again; 0: it does not say */
    json_t *json;      /* the reference is the server's; or */
    char *text;        /* the server frees it; JSON unless `type` says otherwise */
    size_t bytes;
    const char *type;
    /* The bytes after the text: an answer of the binary tensor data extension. */
    uint32_t parts;
    struct gw_http_part part[GW_HTTP_PARTS];
    /* Or a body that is made while it is sent. The call's thread asks for the next bytes when the client has
     * taken those before; it may wait in there. Returns how many it has written, 1 … room; GW_HTTP_END: the
     * body is whole; GW_HTTP_CUT: the connection is cut. A client that takes none for the connection's
     * patience is cut, too. */
    int64_t (*more)(void *ctx, char *to, size_t room);
    void (*release)(void *ctx); /* NULL, or called once when all has been sent, or nothing more will be */
    void *ctx;
};
#define GW_HTTP_END (-1)
#define GW_HTTP_CUT (-2)

struct MHD_Response;

/* The response to a call of that visitor's connection, whose `json` has become `text`. It takes what belongs
 * to the answer. NULL: no memory, and the answer is released. */
struct MHD_Response *gw_http_response(struct gw_http_answer *a, struct gw_door *door, struct gw_visitor *v);

#endif
