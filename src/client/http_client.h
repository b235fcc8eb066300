/* SPDX-License-Identifier: Apache-2.0 */
/* JSON over one kept-alive HTTP connection: the serving client's control path. */
#ifndef GW_CLIENT_HTTP_CLIENT_H
#define GW_CLIENT_HTTP_CLIENT_H

#include <curl/curl.h>
#include <jansson.h>
#include <stdint.h>

struct gw_http;

struct gw_http_opts {
    const char *base;     /* what paths are appended to, as gw_url_parse makes it */
    const char *token;    /* NULL, or the bearer token */
    const char *ca_file;  /* NULL: the system's */
    uint64_t timeout_ns;  /* calls end after it */
    int (*give_up)(void); /* NULL, or calls end soon after it has returned other than 0 */
    size_t max_answer;    /* bytes; 0: 1 MiB */
    const char *program;  /* who should answer, for messages; NULL: `gpuwire serve` */
};

/* It keeps a copy of `base`; the other texts must outlive it. 0, -ENOMEM, or -EINVAL: a token that no header
 * can hold. */
int gw_http_open(const struct gw_http_opts *opts, struct gw_http **out);
void gw_http_close(struct gw_http *h);

/* Sets what every connection to the server needs: encryption, protocols, no proxy. `why` gets
 * CURL_ERROR_SIZE bytes of text when a transfer fails. */
void gw_http_prepare(CURL *curl, const struct gw_http_opts *opts, char *why);
/* Appends the token's header, if there is a token. 0 or -ENOMEM. */
int gw_http_authorize(struct curl_slist **headers, const char *token);
/* Why a transfer failed, as gw_last_error() then says: a negative errno. `program` as in gw_http_opts. */
int gw_http_connection_error(CURL *curl, CURLcode rc, const char *base, const char *why, const char *program);

/* Sends `body` (may be NULL) and parses the answer into *reply, which the caller frees with json_decref().
 * 0: the server answered with 2xx.
 * -ENOENT: 404. -ESTALE: 421, another server is meant. -EACCES: 401 and 403. -EBUSY: 503 and 429.
 * -EINVAL: another 4xx. -EREMOTEIO: another status.
 * -EAGAIN: the server says that it will have room soon.
 * -EPROTO: the answer is not JSON.
 * -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT, -EIO: the connection failed. -EINTR: give_up.
 * gw_last_error() has the reason, in the server's own words where it gave any. */
int gw_http_call(struct gw_http *h, const char *method, const char *path, const json_t *body, json_t **reply);

/* The connection's descriptor, as the last call left it; -1: there is none. */
int gw_http_socket(const struct gw_http *h);
/* The server's address of that connection, in digits; "" when there is none. */
#define GW_HTTP_PEER 64
void gw_http_peer(const struct gw_http *h, char text[GW_HTTP_PEER]);
/* Sets the time after which calls end, from now on. */
void gw_http_set_timeout(struct gw_http *h, uint64_t timeout_ns);
/* Has the other side closed that connection? It reads nothing from it. -1: it has not, and has sent
 * something. */
int gw_http_hung_up(const struct gw_http *h);

#endif
