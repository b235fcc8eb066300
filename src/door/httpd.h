/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server under the serving API: a thread of libmicrohttpd for each connection, all of which sleep
 * when no call comes. So a call that takes its time delays no other connection's. Bodies are short JSON, or
 * come in pieces; they may be compressed (gzip, deflate). */
#ifndef GW_DOOR_HTTPD_H
#define GW_DOOR_HTTPD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/door/answer.h"
#include "src/door/proxies.h"

struct gw_httpd;

#define GW_HTTP_MAX_BODY ((uint64_t)64 << 20)

struct gw_http_request {
    const char *method, *path;
    const json_t *body;     /* NULL: it had none, or a stream takes it */
    const void *connection; /* names the TCP connection until closed() is called with it */
    const char *who;        /* the client, as src/door/who.h tells clients apart */
};

/* A header of the call that is being handled, on its thread; NULL: it has none of that name. */
const char *gw_http_header(const struct gw_http_request *r, const char *name);
/* Is the client a user of this host that has the connection open at this moment? */
bool gw_http_is_here(const struct gw_http_request *r);
/* Has the client closed its end of the connection, or gone? Its calls need not be answered. */
int gw_http_gone(void *connection);
/* Waits until the descriptor is readable: 0. -EPIPE: the client has gone, as gw_http_gone tells. -ETIMEDOUT:
 * at deadline_ns. The time does not count against the client. On the thread of the connection's call. */
int gw_http_wait(const void *connection, int fd, uint64_t deadline_ns);
/* While it is busy, the time that passes does not count against the client. A call sets it, and ends it. */
void gw_http_busy(const void *connection, int busy);
/* {"error": why}; what is no UTF-8 in it becomes a question mark. */
json_t *gw_http_error(const char *why);

/* A part of the page that browsers show. */
struct gw_http_file {
    const char *path, *type;
    const unsigned char *data;
    const size_t *bytes;
};

/* All may be called by several threads at once. */
struct gw_httpd_handler {
    void *ctx;
    /* Answers one call: returns the HTTP status and sets *reply to a new reference. A string is sent as plain
     * text, the rest as JSON. */
    unsigned (*call)(void *ctx, const struct gw_http_request *request, json_t **reply);
    void (*closed)(void *ctx, const void *connection);
    /* May the connection be silent for as long as it likes? */
    bool (*stays)(void *ctx, const void *connection);
    /* A call whose body may be long: it comes in pieces. NULL: it is not such a call, or there is no memory.
     * The same thread calls the functions below: piece any number of times, then finish, or refuse when the
     * body cannot be taken (neither when the connection ended), then drop. `open` NULL: there are none. */
    void *(*open)(void *ctx, const struct gw_http_request *request);
    void (*piece)(void *stream, const char *data, size_t bytes);
    void (*finish)(void *stream, struct gw_http_answer *answer);
    void (*refuse)(void *stream, unsigned status, const char *why);
    void (*drop)(void *stream);
    /* The body of a refusal that the door itself makes, as a new reference; NULL: gw_http_error. */
    json_t *(*error)(unsigned status, const char *why);
    /* Files that are answered without a token, to GET and HEAD: a page. It ends with one that has no path.
     * NULL: none. */
    const struct gw_http_file *files;
};

struct gw_httpd_opts {
    const char *option;     /* that chooses the port, for messages; NULL: --port */
    const char *host;       /* a numeric address; NULL: 127.0.0.1 */
    uint16_t port;          /* 0: any free one */
    uint32_t max_each;      /* connections that one client may have; 0: a quarter of all there may be */
    uint64_t patience_ns;   /* time for each call on a connection without a session; 0: 20 s */
    uint64_t max_body;      /* bytes of a body that comes in pieces; 0: GW_HTTP_MAX_BODY */
    const char *cert, *key; /* PEM texts: the server speaks TLS; NULL: plain */
    const char *token;      /* that each call must bring ("Authorization: Bearer …"); NULL: none */
    int open_health;        /* 1: calls of v2/health, and health, need no token */
    /* 1: with a token, root and this process' own user may call without it. Such a call must not come from a
     * web page of another site (origin.h), and its body must be application/json. */
    int owner_calls;
    /* further names of this server, with commas between them (origin.h); NULL: none */
    const char *host_names;
    const char *host_option;          /* that sets them, for messages; NULL: --host-name */
    const char *each_option;          /* that sets max_each, for messages; NULL: none */
    const struct gw_proxies *proxies; /* whose X-Forwarded-For counts; NULL: none */
};

/* Listens. The number of connections follows from the descriptors that the process may have: some are left
 * over. 0 or a negative errno with the reason in gw_last_error(). */
int gw_httpd_start(const struct gw_httpd_opts *opts, const struct gw_httpd_handler *handler,
                   struct gw_httpd **out);
uint16_t gw_httpd_port(const struct gw_httpd *h);
/* Closes connections that have stayed too long. It is called now and then, by one thread. */
void gw_httpd_tend(struct gw_httpd *h);
void gw_httpd_stop(struct gw_httpd *h);

#endif
