/* SPDX-License-Identifier: Apache-2.0 */
/* Reads server-sent events by libcurl. */
#include "src/cli/chat/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/door/plain.h"
#include "src/door/text.h"

#define STREAM_LOOK_MS  50         /* how often give_up is asked */
#define STREAM_MAX_LINE (16 << 20) /* of a server that means well, a line is short */

struct gw_chat_stream {
    struct gw_http_opts opts;
    CURLM *multi;
    CURL *curl;
    struct gw_text line; /* what has come since the last line's end */
    void (*take)(void *ctx, const char *text);
    void *ctx;
    bool done; /* [DONE] has come */
    char refused[400];
    char why[CURL_ERROR_SIZE];
};

/* ---- events */

static void chat_stream_refused(struct gw_chat_stream *s, const json_t *error)
{
    const char *said = json_is_string(error) ? json_string_value(error)
                                             : json_string_value(json_object_get(error, "message"));
    gw_plain_text(s->refused, sizeof(s->refused), said ? said : "no reason given");
}

static void chat_stream_event(struct gw_chat_stream *s, const char *data)
{
    json_error_t where;
    if (!strcmp(data, "[DONE]")) s->done = true;
    json_t *event = s->done ? NULL : json_loads(data, 0, &where);
    const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
    const char *text = json_string_value(json_object_get(json_object_get(choice, "delta"), "content"));
    if (json_object_get(event, "error")) chat_stream_refused(s, json_object_get(event, "error"));
    if (text && *text) s->take(s->ctx, text);
    json_decref(event);
}

static void chat_stream_line(struct gw_chat_stream *s)
{
    char *line = s->line.at;
    if (s->line.bytes && line[s->line.bytes - 1] == '\r') line[s->line.bytes - 1] = 0;
    if (!strncmp(line, "data:", 5)) chat_stream_event(s, line + 5 + (line[5] == ' '));
    s->line.bytes = 0;
}

static size_t chat_stream_take(char *data, size_t size, size_t count, void *arg)
{
    struct gw_chat_stream *s = arg;
    size_t bytes = size * count;
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(data + at, '\n', bytes - at);
        size_t n = end ? (size_t)(end - data) - at : bytes - at;
        gw_text_add(&s->line, data + at, n);
        if (s->line.broken || s->line.bytes > STREAM_MAX_LINE) return 0; /* curl ends the transfer */
        if (end && s->line.bytes) chat_stream_line(s);
        at += n + (end != NULL);
    }
    return bytes;
}

/* ---- transfers */

int gw_chat_stream_open(const struct gw_http_opts *opts, struct gw_chat_stream **out)
{
    struct gw_chat_stream *s = calloc(1, sizeof(*s));
    if (!s) return -ENOMEM;
    s->opts = *opts;
    s->multi = curl_multi_init();
    s->curl = curl_easy_init();
    if (!s->multi || !s->curl) {
        gw_chat_stream_close(s);
        return -ENOMEM;
    }
    gw_http_prepare(s->curl, opts, s->why);
    curl_easy_setopt(s->curl, CURLOPT_WRITEFUNCTION, chat_stream_take);
    curl_easy_setopt(s->curl, CURLOPT_WRITEDATA, s);
    *out = s;
    return 0;
}

void gw_chat_stream_close(struct gw_chat_stream *s)
{
    if (!s) return;
    if (s->curl) curl_easy_cleanup(s->curl);
    if (s->multi) curl_multi_cleanup(s->multi);
    free(s->line.at);
    free(s);
}

static CURLcode chat_stream_perform(struct gw_chat_stream *s)
{
    CURLcode rc = CURLE_ABORTED_BY_CALLBACK;
    int running = 1, left;
    if (curl_multi_add_handle(s->multi, s->curl)) return CURLE_OUT_OF_MEMORY;
    while (running && !s->opts.give_up()) {
        if (curl_multi_perform(s->multi, &running)) break;
        if (running) curl_multi_poll(s->multi, NULL, 0, STREAM_LOOK_MS, NULL);
    }
    for (CURLMsg *m; (m = curl_multi_info_read(s->multi, &left));)
        if (m->msg == CURLMSG_DONE) rc = m->data.result;
    curl_multi_remove_handle(s->multi, s->curl); /* one that goes on loses its connection */
    return rc;
}

/* What the transfer was good for. */
static int chat_stream_result(struct gw_chat_stream *s, CURLcode rc)
{
    long status = 0;
    json_error_t where;
    if (rc != CURLE_OK) return gw_http_connection_error(s->curl, rc, s->opts.base, s->why, s->opts.program);
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200 && s->line.bytes) {
        json_t *all = json_loads(s->line.at, 0, &where); /* a refusal is one line without an end */
        chat_stream_refused(s, json_object_get(all, "error"));
        json_decref(all);
    }
    if (status != 200)
        return gw_error(status == 401 || status == 403 ? -EACCES : -EREMOTEIO,
                        "server %s refused with status %ld: %s", s->opts.base, status,
                        s->refused[0] ? s->refused : "no reason given");
    if (s->refused[0]) return gw_error(-EREMOTEIO, "server %s: %s", s->opts.base, s->refused);
    return s->done ? 0 : gw_error(-EPROTO, "server %s: the answer has no end", s->opts.base);
}

int gw_chat_stream_ask(struct gw_chat_stream *s, const json_t *body,
                       void (*take)(void *ctx, const char *text), void *ctx)
{
    char *url = NULL, *text = json_dumps(body, JSON_COMPACT);
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    int err = -ENOMEM;
    s->take = take;
    s->ctx = ctx;
    s->done = false;
    s->line.bytes = 0;
    s->refused[0] = s->why[0] = 0;
    if (text && headers && !gw_http_authorize(&headers, s->opts.token) &&
        asprintf(&url, "%sv1/chat/completions", s->opts.base) >= 0) {
        curl_easy_setopt(s->curl, CURLOPT_URL, url);
        curl_easy_setopt(s->curl, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(s->curl, CURLOPT_POSTFIELDS, text);
        err = chat_stream_result(s, chat_stream_perform(s));
        curl_easy_setopt(s->curl, CURLOPT_HTTPHEADER, NULL);
        free(url);
    }
    curl_slist_free_all(headers);
    free(text);
    return err;
}
