/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the server's HTTP API by libcurl, on one connection that stays open. */
#include "src/client/http_client.h"
#include "src/door/plain.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <gpuwire/error.h>

#include "src/door/plain.h"

#define MAX_ANSWER (1u << 20) /* a server that sends more is not one of ours; opts.max_answer */

#define LOOK_MS 100 /* how often give_up is asked */

struct gw_http {
    CURLM *multi; /* easy calls could not be ended from outside for a second */
    CURL *curl;
    struct gw_http_opts opts;
    char *base;
    char *answer;
    size_t answer_bytes, answer_room;
    curl_socket_t socket;
    char why[CURL_ERROR_SIZE];
};

static size_t keep_answer(char *data, size_t size, size_t count, void *arg)
{
    struct gw_http *h = arg;
    size_t bytes = size * count;
    size_t most = h->opts.max_answer ? h->opts.max_answer : MAX_ANSWER;
    if (bytes > most - h->answer_bytes) return 0; /* curl ends the transfer with an error */
    if (h->answer_bytes + bytes >= h->answer_room) {
        size_t room = 2 * (h->answer_bytes + bytes) + 1;
        char *bigger = realloc(h->answer, room);
        if (!bigger) return 0;
        h->answer = bigger;
        h->answer_room = room;
    }
    memcpy(h->answer + h->answer_bytes, data, bytes);
    h->answer_bytes += bytes;
    h->answer[h->answer_bytes] = 0;
    return bytes;
}

void gw_http_prepare(CURL *curl, const struct gw_http_opts *opts, char *why)
{
    why[0] = 0;
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    /* A session lives as long as the connection that opened it, which curl would give up after two idle
     * minutes. */
    curl_easy_setopt(curl, CURLOPT_MAXAGE_CONN, 365L * 24 * 3600);
    /* RDMA passes no proxy, so the control path must not either; and a proxy would see the token. */
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    if (opts->ca_file) curl_easy_setopt(curl, CURLOPT_CAINFO, opts->ca_file);
}

int gw_http_authorize(struct curl_slist **headers, const char *token)
{
    char *line;
    if (!token) return 0;
    if (asprintf(&line, "Authorization: Bearer %s", token) < 0) return -ENOMEM;
    struct curl_slist *more = curl_slist_append(*headers, line);
    free(line);
    if (!more) return -ENOMEM;
    *headers = more;
    return 0;
}

int gw_http_open(const struct gw_http_opts *opts, struct gw_http **out)
{
    if (opts->token)
        for (const char *t = opts->token; *t; t++)
            if (*t <= ' ' || *t > '~')
                return gw_error(-EINVAL, "the token has a character that is not printable ASCII");
    struct gw_http *h = calloc(1, sizeof(*h));
    if (!h) return -ENOMEM;
    h->opts = *opts;
    h->socket = CURL_SOCKET_BAD;
    h->base = strdup(opts->base);
    h->multi = curl_multi_init();
    h->curl = curl_easy_init();
    if (!h->curl || !h->multi || !h->base) {
        gw_http_close(h);
        return -ENOMEM;
    }
    gw_http_prepare(h->curl, opts, h->why);
    curl_easy_setopt(h->curl, CURLOPT_TIMEOUT_MS, (long)(opts->timeout_ns / 1000000));
    curl_easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, keep_answer);
    curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, h);
    *out = h;
    return 0;
}

void gw_http_close(struct gw_http *h)
{
    if (!h) return;
    if (h->curl) curl_easy_cleanup(h->curl);
    if (h->multi) curl_multi_cleanup(h->multi); /* closes the connection */
    free(h->base);
    free(h->answer);
    free(h);
}

int gw_http_connection_error(CURL *curl, CURLcode rc, const char *base, const char *why, const char *program)
{
    long number = 0;
    if (!why[0]) why = curl_easy_strerror(rc);
    switch (rc) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return gw_error(-EHOSTUNREACH, "server %s: %s; check the name", base, why);
    case CURLE_COULDNT_CONNECT:
        curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &number);
        if (number)
            why = strerror((int)number); /* curl's own text says how long it took, each time another */
        return gw_error(-ECONNREFUSED, "server %s: %s; is `%s` running there?", base, why,
                        program ? program : "gpuwire serve");
    case CURLE_ABORTED_BY_CALLBACK: return gw_error(-EINTR, "interrupted");
    case CURLE_OPERATION_TIMEDOUT:
        return gw_error(-ETIMEDOUT, "server %s: %s; is it stopped, or out of reach?", base, why);
    case CURLE_URL_MALFORMAT: return gw_error(-EINVAL, "server %s: not HOST or HOST:PORT", base);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return gw_error(-EACCES, "server %s: its certificate is not trusted: %s", base, why);
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING: return gw_error(-ECONNRESET, "server %s has gone: %s", base, why);
    default: return gw_error(-EIO, "server %s: %s", base, why);
    }
}

static int http_client_status_error(const struct gw_http *h, long status, const json_t *answer)
{
    const json_t *error = json_object_get(answer, "error");
    const char *said = json_string_value(json_is_object(error) ? json_object_get(error, "message") : error);
    char plain[300];
    int err = status == 404                                    ? -ENOENT
              : status == 421                                  ? -ESTALE
              : status == 401 || status == 403                 ? -EACCES
              : json_is_true(json_object_get(answer, "retry")) ? -EAGAIN
              : status == 503 || status == 429                 ? -EBUSY
              : status >= 400 && status < 500                  ? -EINVAL
                                                               : -EREMOTEIO;
    return gw_error(err, "server %s refused with status %ld: %s", h->base, status,
                    said ? gw_plain_text(plain, sizeof(plain), said) : "no reason given");
}

/* One transfer, to its end. */
static CURLcode perform(struct gw_http *h)
{
    CURLcode rc = CURLE_ABORTED_BY_CALLBACK;
    int running = 1, left;
    if (curl_multi_add_handle(h->multi, h->curl)) return CURLE_OUT_OF_MEMORY;
    while (running && !(h->opts.give_up && h->opts.give_up())) {
        if (curl_multi_perform(h->multi, &running)) return CURLE_OUT_OF_MEMORY;
        if (running) curl_multi_poll(h->multi, NULL, 0, LOOK_MS, NULL);
    }
    for (CURLMsg *m; (m = curl_multi_info_read(h->multi, &left));)
        if (m->msg == CURLMSG_DONE) rc = m->data.result;
    if (curl_easy_getinfo(h->curl, CURLINFO_ACTIVESOCKET, &h->socket)) h->socket = CURL_SOCKET_BAD;
    curl_multi_remove_handle(h->multi, h->curl);
    return rc;
}

int gw_http_socket(const struct gw_http *h)
{
    return h->socket == CURL_SOCKET_BAD ? -1 : h->socket;
}

void gw_http_peer(const struct gw_http *h, char text[GW_HTTP_PEER])
{
    struct sockaddr_storage peer;
    socklen_t length = sizeof(peer);
    text[0] = 0;
    if (h->socket == CURL_SOCKET_BAD || getpeername(h->socket, (struct sockaddr *)&peer, &length) ||
        getnameinfo((struct sockaddr *)&peer, length, text, GW_HTTP_PEER, NULL, 0, NI_NUMERICHOST))
        text[0] = 0;
    text[strcspn(text, "%")] = 0; /* without a link's name */
}

void gw_http_set_timeout(struct gw_http *h, uint64_t timeout_ns)
{
    curl_easy_setopt(h->curl, CURLOPT_TIMEOUT_MS, (long)(timeout_ns / 1000000));
}

int gw_http_hung_up(const struct gw_http *h)
{
    char byte;
    ssize_t n = h->socket == CURL_SOCKET_BAD ? 1 : recv(h->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0) return -1;
    return n == 0 || (errno != EAGAIN && errno != EINTR);
}

int gw_http_call(struct gw_http *h, const char *method, const char *path, const json_t *body, json_t **reply)
{
    *reply = NULL;
    char *url = NULL, *text = NULL;
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (!headers || gw_http_authorize(&headers, h->opts.token) || asprintf(&url, "%s%s", h->base, path) < 0 ||
        (body && !(text = json_dumps(body, JSON_COMPACT)))) {
        curl_slist_free_all(headers);
        free(url);
        return -ENOMEM;
    }
    h->answer_bytes = 0;
    h->why[0] = 0;
    curl_easy_setopt(h->curl, CURLOPT_URL, url);
    curl_easy_setopt(h->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(h->curl, CURLOPT_POSTFIELDS, text);
    curl_easy_setopt(h->curl, CURLOPT_HTTPGET, text ? 0L : 1L);
    if (text) curl_easy_setopt(h->curl, CURLOPT_POST, 1L);
    CURLcode rc = perform(h);
    curl_easy_setopt(h->curl, CURLOPT_POSTFIELDS, NULL);
    curl_slist_free_all(headers);
    free(url);
    free(text);
    if (rc != CURLE_OK) return gw_http_connection_error(h->curl, rc, h->base, h->why, h->opts.program);

    long status = 0;
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
    json_error_t where;
    json_t *answer = h->answer_bytes ? json_loadb(h->answer, h->answer_bytes, 0, &where) : json_object();
    int err = 0;
    if (status < 200 || status > 299)
        err = http_client_status_error(h, status, answer);
    else if (!answer)
        err = gw_error(-EPROTO, "server %s: the answer to %s %s is not JSON", h->base, method, path);
    if (err)
        json_decref(answer);
    else
        *reply = answer;
    return err;
}
