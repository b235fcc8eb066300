/* SPDX-License-Identifier: Apache-2.0 */
#include "src/serve/http_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#define MAX_ANSWER (1u << 20) /* a server that sends more is not one of ours */

#define LOOK_MS 100 /* how often give_up is asked */

struct gw_http {
    CURLM *multi; /* easy calls could not be ended from outside for a second */
    CURL *curl;
    int (*give_up)(void);
    char *server;
    char *answer;
    size_t answer_bytes;
    char why[CURL_ERROR_SIZE];
};

static size_t keep_answer(char *data, size_t size, size_t count, void *arg)
{
    struct gw_http *h = arg;
    size_t bytes = size * count;
    if (bytes > MAX_ANSWER - h->answer_bytes) return 0; /* curl ends the transfer with an error */
    char *bigger = realloc(h->answer, h->answer_bytes + bytes + 1);
    if (!bigger) return 0;
    h->answer = bigger;
    memcpy(h->answer + h->answer_bytes, data, bytes);
    h->answer_bytes += bytes;
    h->answer[h->answer_bytes] = 0;
    return bytes;
}

static int has_port(const char *server)
{
    const char *bracket = strrchr(server, ']');
    return strchr(bracket ? bracket : server, ':') != NULL;
}

int gw_http_open(const char *server, uint64_t timeout_ns, int (*give_up)(void), struct gw_http **out)
{
    struct gw_http *h = calloc(1, sizeof(*h));
    if (!h) return -ENOMEM;
    if (asprintf(&h->server, "http://%s%s/", server, has_port(server) ? "" : ":8000") < 0) {
        free(h);
        return -ENOMEM;
    }
    h->give_up = give_up;
    h->multi = curl_multi_init();
    h->curl = curl_easy_init();
    if (!h->curl || !h->multi) {
        gw_http_close(h);
        return -ENOMEM;
    }
    curl_easy_setopt(h->curl, CURLOPT_ERRORBUFFER, h->why);
    curl_easy_setopt(h->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h->curl, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(h->curl, CURLOPT_PROXY,
                     ""); /* RDMA passes no proxy, so the control path must not either */
    curl_easy_setopt(h->curl, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(h->curl, CURLOPT_TIMEOUT_MS, (long)(timeout_ns / 1000000));
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
    free(h->server);
    free(h->answer);
    free(h);
}

static int connection_error(const struct gw_http *h, CURLcode rc)
{
    const char *why = h->why[0] ? h->why : curl_easy_strerror(rc);
    long number = 0;
    switch (rc) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return gw_error(-EHOSTUNREACH, "server %s: %s; check the name", h->server, why);
    case CURLE_COULDNT_CONNECT:
        curl_easy_getinfo(h->curl, CURLINFO_OS_ERRNO, &number);
        if (number)
            why = strerror((int)number); /* curl's own text says how long it took, each time another */
        return gw_error(-ECONNREFUSED, "server %s: %s; is `gpuwire serve` running there?", h->server, why);
    case CURLE_ABORTED_BY_CALLBACK: return gw_error(-EINTR, "interrupted");
    case CURLE_OPERATION_TIMEDOUT: return gw_error(-ETIMEDOUT, "server %s: %s", h->server, why);
    case CURLE_URL_MALFORMAT: return gw_error(-EINVAL, "server %s: not HOST or HOST:PORT", h->server);
    default: return gw_error(-EIO, "server %s: %s", h->server, why);
    }
}

const char *gw_plain_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
    for (char *c = to; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    return to;
}

static int status_error(const struct gw_http *h, long status, const json_t *answer)
{
    const char *said = json_string_value(json_object_get(answer, "error"));
    char plain[300];
    int error = status == 404                                    ? -ENOENT
                : json_is_true(json_object_get(answer, "retry")) ? -EAGAIN
                : status == 503 || status == 429                 ? -EBUSY
                : status >= 400 && status < 500                  ? -EINVAL
                                                                 : -EREMOTEIO;
    return gw_error(error, "server %s refused with status %ld: %s", h->server, status,
                    said ? gw_plain_text(plain, sizeof(plain), said) : "no reason given");
}

/* One transfer, to its end. */
static CURLcode perform(struct gw_http *h)
{
    CURLcode rc = CURLE_ABORTED_BY_CALLBACK;
    int running = 1, left;
    if (curl_multi_add_handle(h->multi, h->curl)) return CURLE_OUT_OF_MEMORY;
    while (running && !(h->give_up && h->give_up())) {
        if (curl_multi_perform(h->multi, &running)) return CURLE_OUT_OF_MEMORY;
        if (running) curl_multi_poll(h->multi, NULL, 0, LOOK_MS, NULL);
    }
    for (CURLMsg *m; (m = curl_multi_info_read(h->multi, &left));)
        if (m->msg == CURLMSG_DONE) rc = m->data.result;
    curl_multi_remove_handle(h->multi, h->curl);
    return rc;
}

int gw_http_call(struct gw_http *h, const char *method, const char *path, const json_t *body, json_t **reply)
{
    *reply = NULL;
    char *url = NULL, *text = NULL;
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (!headers || asprintf(&url, "%s%s", h->server, path) < 0 ||
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
    if (rc != CURLE_OK) return connection_error(h, rc);

    long status = 0;
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
    json_error_t where;
    json_t *answer = h->answer_bytes ? json_loadb(h->answer, h->answer_bytes, 0, &where) : json_object();
    int error = 0;
    if (status < 200 || status > 299)
        error = status_error(h, status, answer);
    else if (!answer)
        error = gw_error(-EPROTO, "server %s: the answer to %s %s is not JSON", h->server, method, path);
    if (error)
        json_decref(answer);
    else
        *reply = answer;
    return error;
}
