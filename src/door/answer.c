/* SPDX-License-Identifier: Apache-2.0 */
/* Makes libmicrohttpd's responses of the door's answers: bytes that lie there, or a body that is made while
 * it is sent. */
#include "src/door/answer.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>

#define NS         1000000000u
#define FLOW_BYTES (16u << 10) /* of a body that is made while it is sent: its pieces are short */

/* The memory that a response is sent from, until it is destroyed. */
struct parts {
    char *text;
    void (*release)(void *ctx);
    void *ctx;
};

static void free_parts(void *arg)
{
    struct parts *p = arg;
    free(p->text);
    if (p->release) p->release(p->ctx);
    free(p);
}

static void drop_answer(struct gw_http_answer *a)
{
    free(a->text);
    if (a->release) a->release(a->ctx);
}

/* Takes what belongs to the answer, unless it returns NULL. */
static struct MHD_Response *make_response(const struct gw_http_answer *a)
{
    struct MHD_IoVec iov[1 + GW_HTTP_PARTS] = {{a->text, a->bytes}};
    char header[24];
    struct parts *p = calloc(1, sizeof(*p));
    if (!p) return NULL;
    *p = (struct parts){a->text, a->release, a->ctx};
    for (uint32_t i = 0; i < a->parts; i++) {
        iov[1 + i].iov_base = a->part[i].data;
        iov[1 + i].iov_len = a->part[i].bytes;
    }
    struct MHD_Response *r = MHD_create_response_from_iovec(iov, 1 + a->parts, free_parts, p);
    if (!r) {
        free(p);
        return NULL;
    }
    snprintf(header, sizeof(header), "%zu", a->bytes);
    if (a->parts) MHD_add_response_header(r, "Inference-Header-Content-Length", header);
    MHD_add_response_header(r, "Content-Type",
                            a->parts  ? "application/octet-stream"
                            : a->type ? a->type
                                      : "application/json");
    return r;
}

/* A body that is made while it is sent. */
struct flowing {
    struct gw_http_answer answer;
    struct gw_door *door;
    struct gw_visitor *visitor; /* of the connection, which outlives its answers */
};

/* The time that the answer takes is not the client's; the time until it has taken this piece is. */
static ssize_t flow_on(void *arg, uint64_t position, char *to, size_t room)
{
    struct flowing *f = arg;
    (void)position;
    gw_door_busy(f->visitor, 1);
    int64_t n = f->answer.more(f->answer.ctx, to, room);
    gw_door_served(f->door, f->visitor);
    gw_door_busy(f->visitor, 0);
    return n > 0              ? (ssize_t)n
           : n == GW_HTTP_END ? MHD_CONTENT_READER_END_OF_STREAM
                              : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void flow_end(void *arg)
{
    struct flowing *f = arg;
    if (f->answer.release) f->answer.release(f->answer.ctx);
    free(f);
}

/* Takes what belongs to the answer, unless it returns NULL. */
static struct MHD_Response *make_flowing(const struct gw_http_answer *a, struct gw_door *door,
                                         struct gw_visitor *v)
{
    struct flowing *f = calloc(1, sizeof(*f));
    if (!f) return NULL;
    *f = (struct flowing){*a, door, v};
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, FLOW_BYTES, flow_on, f, flow_end);
    if (!r) {
        free(f);
        return NULL;
    }
    MHD_add_response_header(r, "Content-Type", a->type);
    MHD_add_response_header(r, "Cache-Control", "no-cache");
    MHD_add_response_header(r, "X-Accel-Buffering", "no"); /* nginx would keep the pieces back */
    return r;
}

/* HTTP counts whole seconds. */
static void add_retry(struct MHD_Response *r, uint64_t retry_ns)
{
    char seconds[24];
    if (!retry_ns) return;
    snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)(retry_ns / NS + (retry_ns % NS != 0)));
    MHD_add_response_header(r, "Retry-After", seconds);
}

struct MHD_Response *gw_http_response(struct gw_http_answer *a, struct gw_door *door, struct gw_visitor *v)
{
    struct MHD_Response *r = a->more ? make_flowing(a, door, v) : make_response(a);
    if (r)
        add_retry(r, a->retry_ns);
    else
        drop_answer(a);
    return r;
}
