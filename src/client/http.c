/* SPDX-License-Identifier: Apache-2.0 */
/* Requests over HTTP: one transfer for each slot, each on a connection that is kept. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>

#include <curl/curl.h>

#include <gpuwire/exec.h>

#include "src/client/http_answer.h"
#include "src/client/http_json.h"
#include "src/client/impl.h"

#define SLOTS       16
#define LOOK_MS     100u
#define JSON_LIMIT  (1u << 20) /* of an answer, beside its tensors */
#define TEXT_FACTOR 32u        /* a number as text takes no more for each byte of it */
#define ANY_LIMIT   (1u << 30) /* of an answer whose size is not known before */
#define CURL_BUFFER (256 << 10)

struct transfer {
    CURL *curl;
    struct gw_client *c;
    uint32_t slot;
    char why[CURL_ERROR_SIZE];
    /* The fields of the request's head; they are kept while requests are alike. */
    uint32_t rows, priority;
    uint64_t budget_ns;
    char *head;
    size_t head_bytes;
    struct curl_slist *headers;
    const uint8_t *from[GW_CLIENT_MAX_IO]; /* the tensors of the request in flight */
    uint64_t sent, bytes;                  /* of its body */
    uint64_t seen;                         /* when the whole answer was there; 0: it is not */
    CURLcode rc;
    int again; /* it is under way for the second time */
    struct gw_answer answer;
};

struct door {
    CURLM *multi;
    char *url;
    struct transfer transfer[];
};

/* ---- what curl calls ---- */

/* The part of the body that begins at t->sent: in the head, or in one of the tensors. */
static size_t client_http_part_of(const struct transfer *t, const uint8_t **at)
{
    const struct gw_client *c = t->c;
    uint64_t before = t->head_bytes;
    if (t->sent < before) {
        *at = (const uint8_t *)t->head + t->sent;
        return before - t->sent;
    }
    for (uint32_t i = 0; i < c->model.inputs; i++) {
        uint64_t bytes = gw_layout_tensor_bytes(&c->in_layout, i, t->rows);
        if (t->sent - before < bytes) {
            *at = t->from[i] + (t->sent - before);
            return bytes - (t->sent - before);
        }
        before += bytes;
    }
    return 0;
}

static size_t client_http_give(char *to, size_t size, size_t count, void *arg)
{
    struct transfer *t = arg;
    const uint8_t *at = NULL;
    size_t room = size * count, given = 0, n;
    while (given < room && (n = client_http_part_of(t, &at)) > 0) {
        if (n > room - given) n = room - given;
        memcpy(to + given, at, n);
        given += n;
        t->sent += n;
    }
    return given;
}

/* A kept connection that the server had closed: curl sends the body again, over another one. */
static int seek_to(void *arg, curl_off_t offset, int origin)
{
    struct transfer *t = arg;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > t->bytes) return CURL_SEEKFUNC_FAIL;
    t->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static size_t take_header(char *line, size_t size, size_t count, void *arg)
{
    struct transfer *t = arg;
    gw_answer_header(&t->answer, line, size * count);
    return size * count;
}

static size_t client_http_take_body(char *data, size_t size, size_t count, void *arg)
{
    struct transfer *t = arg;
    curl_off_t length = -1;
    curl_easy_getinfo(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return gw_answer_take(&t->answer, data, size * count, length > 0 ? (uint64_t)length : 0) ? 0
                                                                                             : size * count;
}

/* ---- opening ---- */

static size_t client_http_answer_limit(const struct gw_client *c)
{
    uint64_t limit = JSON_LIMIT;
    for (uint32_t i = 0; i < c->model.outputs; i++) {
        const struct gw_client_tensor *t = &c->model.output[i];
        if (!t->bytes) return ANY_LIMIT;
        limit += TEXT_FACTOR * t->bytes * (t->batched ? c->rows : 1);
    }
    return limit;
}

static int client_http_prepare(struct gw_client *c, struct transfer *t, uint32_t slot, const char *url)
{
    t->c = c;
    t->slot = slot;
    t->answer.limit = client_http_answer_limit(c);
    t->curl = curl_easy_init();
    if (!t->curl) return -ENOMEM;
    gw_http_prepare(t->curl, &c->http_opts, t->why);
    curl_easy_setopt(t->curl, CURLOPT_URL, url);
    curl_easy_setopt(t->curl, CURLOPT_POST, 1L);
    curl_easy_setopt(t->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)(c->http_opts.timeout_ns / 1000000));
    curl_easy_setopt(t->curl, CURLOPT_UPLOAD_BUFFERSIZE, (long)CURL_BUFFER);
    curl_easy_setopt(t->curl, CURLOPT_BUFFERSIZE, (long)CURL_BUFFER);
    curl_easy_setopt(t->curl, CURLOPT_READFUNCTION, client_http_give);
    curl_easy_setopt(t->curl, CURLOPT_READDATA, t);
    curl_easy_setopt(t->curl, CURLOPT_SEEKFUNCTION, seek_to);
    curl_easy_setopt(t->curl, CURLOPT_SEEKDATA, t);
    curl_easy_setopt(t->curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(t->curl, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, client_http_take_body);
    curl_easy_setopt(t->curl, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(t->curl, CURLOPT_PRIVATE, t);
    return 0;
}

static int client_http_open_door(struct gw_client *c)
{
    c->in_stride = gw_client_align(sizeof(struct gw_serve_request) + gw_layout_bytes(&c->in_layout, c->rows));
    int err = gw_client_fit_slots(c, SLOTS, c->in_stride);
    if (err) return err;
    struct door *d = c->own = calloc(1, sizeof(*d) + c->slots * sizeof(d->transfer[0]));
    c->in = aligned_alloc(GW_CLIENT_ALIGN, c->slots * c->in_stride);
    if (!d || !c->in || asprintf(&d->url, "%s%s/infer", c->url.base, c->path) < 0)
        return gw_error_errno(-ENOMEM, "client");
    d->multi = curl_multi_init();
    if (!d->multi) return gw_error_errno(-ENOMEM, "client");
    curl_multi_setopt(d->multi, CURLMOPT_MAXCONNECTS, (long)c->slots);
    for (uint32_t i = 0; !err && i < c->slots; i++) err = client_http_prepare(c, &d->transfer[i], i, d->url);
    return err ? gw_error_errno(err, "client") : 0;
}

static void client_http_close_door(struct gw_client *c)
{
    struct door *d = c->own;
    for (uint32_t i = 0; d && i < c->slots; i++) {
        struct transfer *t = &d->transfer[i];
        if (t->curl && d->multi) curl_multi_remove_handle(d->multi, t->curl);
        if (t->curl) curl_easy_cleanup(t->curl);
        curl_slist_free_all(t->headers);
        free(t->head);
        gw_answer_free(&t->answer);
    }
    if (d && d->multi) curl_multi_cleanup(d->multi);
    if (d) free(d->url);
    free(d);
    free(c->in);
    c->own = NULL;
}

/* ---- requests ---- */

static int client_http_append(struct curl_slist **list, const char *line)
{
    struct curl_slist *more = curl_slist_append(*list, line);
    if (!more) return -ENOMEM;
    *list = more;
    return 0;
}

static int client_http_write_head(struct transfer *t, const struct gw_client_request *r)
{
    char length[64];
    if (t->head && t->rows == r->rows && t->priority == r->priority && t->budget_ns == r->budget_ns) return 0;
    free(t->head);
    curl_slist_free_all(t->headers);
    t->headers = NULL;
    t->head = gw_json_request(t->c, r);
    if (!t->head) return -ENOMEM;
    t->rows = r->rows;
    t->priority = r->priority;
    t->budget_ns = r->budget_ns;
    t->bytes = t->head_bytes = strlen(t->head);
    for (uint32_t i = 0; i < t->c->model.inputs; i++)
        t->bytes += gw_layout_tensor_bytes(&t->c->in_layout, i, r->rows);
    snprintf(length, sizeof(length), "Inference-Header-Content-Length: %zu", t->head_bytes);
    int err = client_http_append(&t->headers, length);
    if (!err) err = client_http_append(&t->headers, "Content-Type: application/octet-stream");
    if (!err)
        err = client_http_append(&t->headers, "Expect:"); /* else long bodies wait for a round trip first */
    if (!err) err = gw_http_authorize(&t->headers, t->c->token);
    curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, t->headers);
    curl_easy_setopt(t->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->bytes);
    if (!err) return 0;
    free(t->head); /* it is made again next time */
    t->head = NULL;
    return err;
}

static int client_http_start(struct gw_client *c, struct transfer *t, int again)
{
    struct door *d = c->own;
    t->sent = t->seen = 0;
    t->why[0] = 0;
    t->again = again;
    gw_answer_begin(&t->answer);
    curl_easy_setopt(t->curl, CURLOPT_FRESH_CONNECT, (long)again);
    if (!curl_multi_add_handle(d->multi, t->curl)) return 0;
    return gw_error(-ENOMEM, "server %s: curl takes no request", c->url.base);
}

/* A server may close a kept connection just when a request goes there. That request is sent once more, over a
 * new one. */
static bool was_stale(const struct transfer *t)
{
    long connects = 1;
    curl_easy_getinfo(t->curl, CURLINFO_NUM_CONNECTS, &connects);
    return (t->rc == CURLE_SEND_ERROR || t->rc == CURLE_RECV_ERROR || t->rc == CURLE_GOT_NOTHING) &&
           !connects && !t->again && !t->answer.bytes;
}

static void client_http_finish(struct gw_client *c, struct transfer *t, CURLcode rc)
{
    struct door *d = c->own;
    t->rc = rc;
    int stale = was_stale(t);
    curl_multi_remove_handle(d->multi, t->curl);
    if (!stale || client_http_start(c, t, 1)) t->seen = gw_deadline(0);
}

/* Lets curl do what can be done now, and notes whose answers are there. */
static int client_http_advance(struct gw_client *c)
{
    struct door *d = c->own;
    int running, left;
    if (curl_multi_perform(d->multi, &running))
        return gw_error(-EIO, "server %s: curl cannot go on", c->url.base);
    for (CURLMsg *m; (m = curl_multi_info_read(d->multi, &left));) {
        char *own = NULL;
        if (m->msg != CURLMSG_DONE) continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &own);
        client_http_finish(c, (struct transfer *)own, m->data.result);
    }
    return 0;
}

static int client_http_submit(struct gw_client *c, uint32_t slot, const struct gw_client_request *r,
                              const struct gw_client_from *from)
{
    struct door *d = c->own;
    struct transfer *t = &d->transfer[slot];
    int err = client_http_write_head(t, r);
    if (err) return gw_error_errno(err, "client");
    memcpy(t->from, from->at, sizeof(t->from));
    err = client_http_start(c, t, 0);
    return err ? err : client_http_advance(c);
}

/* ---- answers ---- */

static void client_http_take_answer(struct gw_client *c, struct transfer *t, struct gw_client_reply *reply)
{
    const struct gw_client_slot *s = &c->slot[t->slot];
    long status = 0;
    memset(reply, 0, sizeof(*reply));
    reply->slot = t->slot;
    reply->id = s->id;
    reply->rows = s->rows;
    reply->times.total = (int64_t)(t->seen - s->sent);
    if (t->rc == CURLE_OK) {
        curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
        gw_answer_read(c, &t->answer, status, s->rows, reply);
        return;
    }
    int err = t->rc == CURLE_WRITE_ERROR
                  ? gw_error(-EPROTO, "server %s: the answer is too long", c->url.base)
                  : gw_http_connection_error(t->curl, t->rc, c->url.base, t->why, NULL);
    reply->error = err == -ECONNREFUSED || err == -EIO ? -ECONNRESET : err;
    snprintf(t->answer.why, sizeof(t->answer.why), "%s", gw_last_error());
    reply->why = t->answer.why;
}

static struct transfer *client_http_first_seen(struct gw_client *c)
{
    struct door *d = c->own;
    struct transfer *first = NULL;
    for (uint32_t i = 0; i < c->slots; i++) {
        struct transfer *t = &d->transfer[i];
        if (c->slot[i].sent && t->seen && (!first || t->seen < first->seen)) first = t;
    }
    return first;
}

/* Curl counts in milliseconds; sending requests at their times needs less. */
static void client_http_sleep_until_news(CURLM *multi, uint64_t ns)
{
    fd_set readable, writable, broken;
    struct timespec left = {.tv_nsec = (long)ns};
    int most = -1;
    if (ns >= 1000000) {
        uint64_t ms = ns / 1000000;
        curl_multi_poll(multi, NULL, 0, (int)(ms < LOOK_MS ? ms : LOOK_MS), NULL);
        return;
    }
    FD_ZERO(&readable);
    FD_ZERO(&writable);
    FD_ZERO(&broken);
    if (curl_multi_fdset(multi, &readable, &writable, &broken, &most)) most = -1;
    pselect(most + 1, &readable, &writable, &broken, &left, NULL);
}

static int client_http_wait_answer(struct gw_client *c, uint64_t deadline_ns, struct gw_client_reply *reply)
{
    struct door *d = c->own;
    for (;;) {
        struct transfer *t;
        int err = client_http_advance(c);
        if (err) return err;
        if ((t = client_http_first_seen(c))) {
            client_http_take_answer(c, t, reply);
            return 0;
        }
        uint64_t now = gw_deadline(0);
        if (now >= deadline_ns) return gw_error(-ETIMEDOUT, "the server has not answered in time");
        client_http_sleep_until_news(d->multi, deadline_ns - now);
    }
}

const struct gw_client_door gw_client_http = {
    .name = "http",
    .ask = gw_client_ask_http,
    .open = client_http_open_door,
    .close = client_http_close_door,
    .submit = client_http_submit,
    .wait = client_http_wait_answer,
};
