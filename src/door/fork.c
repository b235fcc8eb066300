/* SPDX-License-Identifier: Apache-2.0 */
/* Gives each call to one of two handlers. */
#include "src/door/fork.h"

#include <stdlib.h>

/* A body that comes in pieces, and whose it is. */
struct fork_stream {
    const struct gw_httpd_handler *of;
    void *stream;
};

static const struct gw_httpd_handler *fork_of(struct gw_http_fork *f, const char *path)
{
    return f->is_beside(f->beside.ctx, path) ? &f->beside : &f->own;
}

static unsigned fork_call(void *ctx, const struct gw_http_request *r, json_t **reply)
{
    const struct gw_httpd_handler *h = fork_of(ctx, r->path);

    return h->call(h->ctx, r, reply);
}

static void fork_closed(void *ctx, const void *connection)
{
    struct gw_http_fork *f = ctx;

    f->own.closed(f->own.ctx, connection);
    f->beside.closed(f->beside.ctx, connection);
}

static bool fork_stays(void *ctx, const void *connection)
{
    struct gw_http_fork *f = ctx;

    return f->own.stays(f->own.ctx, connection) || f->beside.stays(f->beside.ctx, connection);
}

static void *fork_open(void *ctx, const struct gw_http_request *r)
{
    const struct gw_httpd_handler *h = fork_of(ctx, r->path);
    struct fork_stream *s = h->open ? malloc(sizeof(*s)) : NULL;

    if (!s) return NULL;
    *s = (struct fork_stream){h, h->open(h->ctx, r)};
    if (s->stream) return s;
    free(s);
    return NULL;
}

static void fork_piece(void *stream, const char *data, size_t bytes)
{
    const struct fork_stream *s = stream;

    s->of->piece(s->stream, data, bytes);
}

static void fork_finish(void *stream, struct gw_http_answer *answer)
{
    const struct fork_stream *s = stream;

    s->of->finish(s->stream, answer);
}

static void fork_refuse(void *stream, unsigned status, const char *why)
{
    const struct fork_stream *s = stream;

    s->of->refuse(s->stream, status, why);
}

static void fork_drop(void *stream)
{
    struct fork_stream *s = stream;

    s->of->drop(s->stream);
    free(s);
}

struct gw_httpd_handler gw_http_fork_handler(struct gw_http_fork *f)
{
    return (struct gw_httpd_handler){.ctx = f,
                                     .call = fork_call,
                                     .closed = fork_closed,
                                     .stays = fork_stays,
                                     .open = fork_open,
                                     .piece = fork_piece,
                                     .finish = fork_finish,
                                     .refuse = fork_refuse,
                                     .drop = fork_drop,
                                     .error = f->own.error,
                                     .files = f->own.files};
}
