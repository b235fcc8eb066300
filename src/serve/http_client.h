/* SPDX-License-Identifier: Apache-2.0 */
/* JSON over one kept-alive HTTP connection: the serving client's control path. */
#ifndef GW_SERVE_HTTP_CLIENT_H
#define GW_SERVE_HTTP_CLIENT_H

#include <jansson.h>
#include <stdint.h>

struct gw_http;

/* `server` is HOST, HOST:PORT or [IPV6]:PORT; the port is 8000 when absent. Calls end after timeout_ns, or
 * soon after give_up (NULL: never) has returned other than 0. 0 or a negative errno. */
int gw_http_open(const char *server, uint64_t timeout_ns, int (*give_up)(void), struct gw_http **out);
void gw_http_close(struct gw_http *h);

/* Sends `body` (may be NULL) and parses the answer into *reply, which the caller frees with json_decref().
 * 0: the server answered with 2xx.
 * -ENOENT: 404. -EBUSY: 503 and 429. -EINVAL: another 4xx. -EREMOTEIO: another status.
 * -EAGAIN: the server says that it will have room soon.
 * -EPROTO: the answer is not JSON.
 * -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT, -EIO: the connection failed. -EINTR: give_up.
 * gw_last_error() has the reason, in the server's own words where it gave any. */
int gw_http_call(struct gw_http *h, const char *method, const char *path, const json_t *body, json_t **reply);

/* Copies what a server has said, so that nothing of it steers a terminal. Returns `to`. */
const char *gw_plain_text(char *to, size_t size, const char *from);

#endif
