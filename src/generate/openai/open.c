/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and ends the door of OpenAI's API. */
#include "src/generate/openai/door.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/openai/shared.h"
#include "src/generate/openai/page.h"

#define DOOR_EACH 512u /* connections of one client: programs keep one for each request that is under way */

static void openai_closed(void *ctx, const void *connection)
{
    const struct gen_openai_door *d = ctx;
    if (d->beside.path) d->beside.closed(d->beside.ctx, connection);
}

static bool openai_stays(void *ctx, const void *connection)
{
    const struct gen_openai_door *d = ctx;
    return d->beside.path && d->beside.stays(d->beside.ctx, connection);
}

static struct gw_httpd_handler openai_handler(struct gen_openai_door *d)
{
    return (struct gw_httpd_handler){.ctx = d,
                                     .call = gen_openai_call,
                                     .closed = openai_closed,
                                     .stays = openai_stays,
                                     .open = gen_openai_post,
                                     .piece = gen_openai_post_piece,
                                     .finish = gen_openai_post_finish,
                                     .refuse = gen_openai_post_refuse,
                                     .drop = gen_openai_post_drop,
                                     .error = gen_refusal_door,
                                     .files = gen_openai_page()};
}

static int openai_listen(struct gen_openai_door *d, const struct gw_http_door_opts *o,
                         const struct gw_httpd_handler *handler)
{
    struct gw_httpd_handler metrics = {.ctx = d,
                                       .call = gen_openai_call_metrics,
                                       .closed = openai_closed,
                                       .stays = openai_stays,
                                       .error = gen_refusal_door};
    struct gw_http_door_opts opts = *o;
    opts.max_body = d->max_body;
    return gw_http_ports_open(&opts, o->connections_each ? o->connections_each : DOOR_EACH, handler, &metrics,
                              &d->ports);
}

int gen_openai_make(const struct gen_openai_opts *o, struct gen_openai_door **out,
                    struct gw_httpd_handler *handler)
{
    struct gen_openai_door *d = calloc(1, sizeof(*d));
    if (!d) return -ENOMEM;
    d->service = o->service;
    d->services = o->services;
    d->access = o->access;
    d->executor = o->executor;
    d->beside = o->beside;
    d->max_body = o->http.max_body ? o->http.max_body : GEN_OPENAI_MAX_BODY;
    d->since = time(NULL);
    gw_room_open(&d->room, 4 * d->max_body);
    *handler = openai_handler(d);
    *out = d;
    return 0;
}

int gen_openai_open(const struct gen_openai_opts *o, struct gen_openai_door **out)
{
    struct gw_httpd_handler handler;
    int err = gen_openai_make(o, out, &handler);
    if (err) return err;
    err = openai_listen(*out, &o->http, &handler);
    if (!err) return 0;
    gen_openai_close(*out);
    *out = NULL;
    return err;
}

void gen_openai_add(struct gen_openai_door *d, struct gen_service *s)
{
    uint32_t n = d->services;
    d->service[n] = s;
    /* Threads that see the new count see the service: they load it with acquire semantics. */
    __atomic_store_n(&d->services, n + 1, __ATOMIC_RELEASE);
}

uint16_t gen_openai_port(const struct gen_openai_door *d)
{
    return gw_httpd_port(d->ports.httpd);
}

bool gen_openai_knows(void *door, const char *path)
{
    const struct gen_openai_door *d = door;
    size_t n = d->beside.path ? strlen(d->beside.path) : 0;
    if (n && !strncmp(path, d->beside.path, n) && (!path[n] || path[n] == '/')) return true;
    return !strncmp(path, "/v1/", 4) || gen_openai_is_post(path);
}

void gen_openai_tend(void *door)
{
    struct gen_openai_door *d = door;
    gw_http_ports_tend(&d->ports);
}

void gen_openai_close(void *door)
{
    struct gen_openai_door *d = door;
    gw_http_ports_stop(&d->ports);
    gw_room_close(&d->room);
    free(d);
}
