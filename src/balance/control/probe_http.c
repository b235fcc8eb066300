/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP_GET and SSL_GET: a request, and what its answer must be. As keepalived does, SSL_GET verifies no
 * certificate: it asks whether the worker answers, and not who it is. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "src/balance/control/probe_impl.h"

#define MAX_HTTP   (1u << 20) /* bytes of an answer whose digest counts */
#define HTTP_TURNS 16         /* pieces that are read before others have their turn */

struct gw_bal_http {
    SSL *ssl;
    int shaken;  /* hands, with TLS */
    short waits; /* for what TLS waits */
    char request[640];
    unsigned sent, bytes;
    char head[4096]; /* the answer until its empty line */
    unsigned got, body;
    uint64_t length, read; /* of the body */
    EVP_MD_CTX *md5;
};

static SSL_CTX *http_tls(void)
{
    static SSL_CTX *ctx; /* one thread uses the probes */
    if (!ctx && (ctx = SSL_CTX_new(TLS_client_method()))) SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
    return ctx;
}

static void http_request(const struct gw_bal_probe *p, struct gw_bal_http *h)
{
    char host[GW_BAL_NAME + 2];
    const struct gw_bal_ask *a = gw_bal_probe_ask(p);
    const struct gw_bal_addr *to = a->connect.family ? &a->connect : &p->addr;
    char addr[GW_BAL_ADDR];
    if (a->host[0])
        snprintf(host, sizeof(host), "%s", a->host);
    else
        snprintf(host, sizeof(host), to->family == 6 ? "[%s]" : "%s", gw_bal_addr_text(to, addr));
    int n =
        snprintf(h->request, sizeof(h->request),
                 "GET %s HTTP/1.0\r\nHost: %s\r\nUser-Agent: gpuwire-balance\r\nConnection: close\r\n\r\n",
                 a->path, host);
    h->bytes = n > 0 && (size_t)n < sizeof(h->request) ? (unsigned)n : 0;
}

static int http_begin(struct gw_bal_probe *p, char *why, size_t size)
{
    const struct gw_bal_ask *a = gw_bal_probe_ask(p);
    struct gw_bal_http *h = calloc(1, sizeof(*h));
    if (!h) return gw_bal_probe_fails("the check", ENOMEM, why, size);
    p->http = h;
    h->length = UINT64_MAX;
    http_request(p, h);
    if (a->digest[0] && (!(h->md5 = EVP_MD_CTX_new()) || !EVP_DigestInit_ex(h->md5, EVP_md5(), NULL)))
        return gw_bal_probe_fails("MD5", ENOTSUP, why, size);
    if (gw_bal_probe_connect(p, SOCK_STREAM, why, size)) return -1;
    if (a->kind != GW_BAL_SSL_GET) return 0;
    if (!http_tls() || !(h->ssl = SSL_new(http_tls())) || !SSL_set_fd(h->ssl, p->fd))
        return gw_bal_probe_fails("TLS", ENOMEM, why, size);
    if (a->host[0]) SSL_set_tlsext_host_name(h->ssl, a->host);
    return 0;
}

static void http_end(struct gw_bal_probe *p)
{
    if (!p->http) return;
    SSL_free(p->http->ssl);
    EVP_MD_CTX_free(p->http->md5);
    free(p->http);
    p->http = NULL;
}

/* The result of a call of TLS: bytes, 0: the end, -EAGAIN, or another error. */
static int http_tls_result(struct gw_bal_http *h, int n)
{
    switch (SSL_get_error(h->ssl, n)) {
    case SSL_ERROR_NONE: return n;
    case SSL_ERROR_ZERO_RETURN: return 0;
    case SSL_ERROR_WANT_READ: h->waits = POLLIN; return -EAGAIN;
    case SSL_ERROR_WANT_WRITE: h->waits = POLLOUT; return -EAGAIN;
    default: return -EPROTO;
    }
}

/* OpenSSL looks for errors in a queue of the thread's, where another connection may have left some. */
static SSL *http_ssl(struct gw_bal_http *h)
{
    ERR_clear_error();
    return h->ssl;
}

static int http_send(struct gw_bal_probe *p)
{
    struct gw_bal_http *h = p->http;
    while (h->sent < h->bytes) {
        int n =
            h->ssl
                ? http_tls_result(h, SSL_write(http_ssl(h), h->request + h->sent, (int)(h->bytes - h->sent)))
                : (int)send(p->fd, h->request + h->sent, h->bytes - h->sent, MSG_NOSIGNAL);
        if (n <= 0) return h->ssl ? (n ? n : -ECONNRESET) : -errno;
        h->sent += (unsigned)n;
    }
    return 0;
}

static int http_read(struct gw_bal_probe *p, void *to, size_t room)
{
    struct gw_bal_http *h = p->http;
    if (h->ssl) return http_tls_result(h, SSL_read(http_ssl(h), to, (int)room));
    ssize_t n = recv(p->fd, to, room, 0);
    return n < 0 ? -errno : (int)n;
}

int gw_bal_http_status(const char *line, unsigned bytes, const struct gw_bal_range *good, char *why,
                       unsigned size)
{
    static const struct gw_bal_range any[GW_BAL_RANGES] = {{200, 299}};
    unsigned status = 0;
    if (bytes < 12 && !memchr(line, '\n', bytes)) return 0;
    if (bytes < 12 || memcmp(line, "HTTP/1.", 7) || line[8] != ' ') {
        snprintf(why, size, "the answer is not HTTP");
        return -1;
    }
    for (int i = 9; i < 12; i++) {
        if (line[i] < '0' || line[i] > '9') status = 10000;
        status = status * 10 + (unsigned)(line[i] - '0') % 10;
    }
    if (!good || !good[0].from) good = any;
    for (unsigned i = 0; i < GW_BAL_RANGES && good[i].from; i++)
        if (status >= good[i].from && status <= good[i].to) return 1;
    snprintf(why, size, "HTTP status %.3s", line + 9); /* gw_bal_health_done makes it plain */
    return -1;
}

static void http_body(struct gw_bal_http *h, const char *bytes, size_t n)
{
    if (n > h->length - h->read) n = (size_t)(h->length - h->read);
    EVP_DigestUpdate(h->md5, bytes, n);
    h->read += n;
}

/* The header has come, to `end`: how long is the body? */
static void http_header(struct gw_bal_http *h, const char *end)
{
    for (const char *line = memchr(h->head, '\n', h->got); line && line < end;
         line = memchr(line + 1, '\n', h->got - (size_t)(line + 1 - h->head)))
        if (end - line > 16 && !strncasecmp(line + 1, "Content-Length:", 15)) {
            char *stop;
            unsigned long long n = strtoull(line + 16, &stop, 10);
            if (stop != line + 16 && line[16] != '-') h->length = n;
        }
    h->body = 1;
    http_body(h, end, h->got - (size_t)(end - h->head));
}

/* 1: the digest is right. */
static int http_digest(struct gw_bal_probe *p, char *why, size_t size)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    char text[33] = "";
    EVP_DigestFinal_ex(p->http->md5, md, &n);
    for (unsigned i = 0; i < 16 && i < n; i++) snprintf(text + 2 * i, 3, "%02x", md[i]);
    if (!strcasecmp(text, gw_bal_probe_ask(p)->digest)) return 1;
    snprintf(why, size, "the body's digest is %s", text);
    return -1;
}

/* `n` more bytes of the header have come. 1: that is all that counts; 0: go on; -1. */
static int http_take_head(struct gw_bal_probe *p, size_t n, char *why, size_t size)
{
    struct gw_bal_http *h = p->http;
    h->got += (unsigned)n;
    int good = gw_bal_http_status(h->head, h->got, gw_bal_probe_ask(p)->status, why, (unsigned)size);
    if (good < 0 || (good > 0 && !h->md5)) return good;
    char *end = memmem(h->head, h->got, "\r\n\r\n", 4), *bare = memmem(h->head, h->got, "\n\n", 2);
    if (end || bare) http_header(h, end ? end + 4 : bare + 2);
    if (h->body || h->got < sizeof(h->head)) return 0;
    snprintf(why, size, "the answer's header is longer than %zu bytes", sizeof(h->head));
    return -1;
}

static int http_receive(struct gw_bal_probe *p, char *why, size_t size)
{
    struct gw_bal_http *h = p->http;
    char piece[8192];
    for (int turn = 0; turn < HTTP_TURNS; turn++) {
        int n = h->body ? http_read(p, piece, sizeof(piece))
                        : http_read(p, h->head + h->got, sizeof(h->head) - h->got);
        if (n == -EAGAIN) return 0;
        if (n < 0 && !h->body) return gw_bal_probe_fails("reading the answer", -n, why, size);
        int good = n > 0 && !h->body ? http_take_head(p, (size_t)n, why, size) : 0;
        if (good) return good;
        if (n > 0 && !h->body) continue;
        if (n > 0) http_body(h, piece, (size_t)n);
        if (h->body && (n <= 0 || h->read == h->length)) return http_digest(p, why, size);
        if (n <= 0) {
            snprintf(why, size, "the connection was closed without an answer");
            return -1;
        }
        if (h->read <= MAX_HTTP) continue;
        snprintf(why, size, "the answer is longer than %u bytes", MAX_HTTP);
        return -1;
    }
    return 0;
}

static int http_run(struct gw_bal_probe *p, char *why, size_t size)
{
    struct gw_bal_http *h = p->http;
    int ready = gw_bal_probe_connected(p, why, size);
    if (ready <= 0) return ready;
    h->waits = 0;
    if (h->ssl && !h->shaken) {
        int n = http_tls_result(h, SSL_connect(http_ssl(h)));
        if (n == -EAGAIN) return 0;
        if (n <= 0) {
            snprintf(why, size, "TLS: the worker and we do not agree");
            return -1;
        }
        h->shaken = 1;
    }
    int err = http_send(p);
    if (err == -EAGAIN) return 0;
    if (err) return gw_bal_probe_fails("sending the request", -err, why, size);
    return http_receive(p, why, size);
}

static short http_waits(const struct gw_bal_probe *p)
{
    const struct gw_bal_http *h = p->http;
    if (!p->connected) return POLLOUT;
    return h->waits ? h->waits : h->sent < h->bytes ? POLLOUT : POLLIN;
}

const struct gw_bal_probe_kind gw_bal_probe_http = {http_begin, http_run, http_waits, http_end, NULL};
