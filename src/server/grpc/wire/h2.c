/* SPDX-License-Identifier: Apache-2.0 */
/* Moves HTTP/2 frames between nghttp2 and a socket, through TLS where asked. */
#include "src/server/grpc/wire/h2.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define OUT        (256u << 10) /* bytes that are put together before they are sent */
#define FRAME_HEAD 9u

/* ---- the socket under TLS. OpenSSL's own writes with write(), which may raise SIGPIPE. ---- */

static int h2_bio_write(BIO *bio, const char *data, int n)
{
    BIO_clear_retry_flags(bio);
    ssize_t sent = send((int)(intptr_t)BIO_get_data(bio), data, (size_t)n, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
    return (int)sent;
}

static int h2_bio_read(BIO *bio, char *data, int n)
{
    BIO_clear_retry_flags(bio);
    ssize_t got = recv((int)(intptr_t)BIO_get_data(bio), data, (size_t)n, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
    return (int)got;
}

static long h2_bio_control(BIO *bio, int what, long n, void *p)
{
    (void)bio, (void)n, (void)p;
    return what == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method;

/* When the program is loaded, so that no thread has to look whether it is there. */
static void __attribute__((constructor)) make_bio_method(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gpuwire");
    if (!bio_method) return;
    BIO_meth_set_write(bio_method, h2_bio_write);
    BIO_meth_set_read(bio_method, h2_bio_read);
    BIO_meth_set_ctrl(bio_method, h2_bio_control);
}

static void __attribute__((destructor)) free_bio_method(void)
{
    BIO_meth_free(bio_method);
    bio_method = NULL;
}

int gw_h2_encrypt(struct gw_h2 *h, SSL_CTX *ctx, int is_server)
{
    BIO *bio = bio_method ? BIO_new(bio_method) : NULL;
    h->ssl = SSL_new(ctx);
    if (!bio || !h->ssl) {
        BIO_free(bio);
        SSL_free(h->ssl);
        h->ssl = NULL;
        return -ENOMEM;
    }
    BIO_set_data(bio, (void *)(intptr_t)h->fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(h->ssl, bio, bio);
    SSL_set_mode(h->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                             SSL_MODE_RELEASE_BUFFERS);
    if (is_server)
        SSL_set_accept_state(h->ssl);
    else
        SSL_set_connect_state(h->ssl);
    return 0;
}

void gw_h2_close(struct gw_h2 *h)
{
    nghttp2_session_del(h->session);
    SSL_free(h->ssl);
    free(h->out);
    h->session = NULL;
    h->ssl = NULL;
    h->out = NULL;
    h->out_from = h->out_to = 0;
}

/* The reason why an operation of TLS did not succeed. */
static int h2_tls_error(struct gw_h2 *h, int result)
{
    switch (SSL_get_error(h->ssl, result)) {
    case SSL_ERROR_WANT_READ: return -EAGAIN;
    case SSL_ERROR_WANT_WRITE: h->stuck = 1; return -EAGAIN;
    case SSL_ERROR_SSL: return -EPROTO;
    default: ERR_clear_error(); return -ECONNRESET;
    }
}

int gw_h2_shake(struct gw_h2 *h)
{
    if (h->shaken) return 0;
    h->stuck = 0;
    ERR_clear_error();
    int result = SSL_do_handshake(h->ssl);
    if (result != 1) return h2_tls_error(h, result);
    h->shaken = 1;
    return 0;
}

static ssize_t h2_read_some(struct gw_h2 *h, uint8_t *room, size_t size)
{
    if (h->ssl) {
        ERR_clear_error();
        int n = SSL_read(h->ssl, room, (int)size);
        return n > 0 ? n : h2_tls_error(h, n);
    }
    ssize_t n = recv(h->fd, room, size, 0);
    return n > 0 ? n : n < 0 && (errno == EAGAIN || errno == EINTR) ? -EAGAIN : -ECONNRESET;
}

static ssize_t h2_write_some(struct gw_h2 *h, const uint8_t *data, size_t n)
{
    if (h->ssl) {
        ERR_clear_error();
        int sent = SSL_write(h->ssl, data, (int)n);
        return sent > 0 ? sent : h2_tls_error(h, sent);
    }
    ssize_t sent = send(h->fd, data, n, MSG_NOSIGNAL);
    if (sent > 0) return sent;
    if (errno != EAGAIN && errno != EINTR) return -ECONNRESET;
    h->stuck = 1;
    return -EAGAIN;
}

int gw_h2_receive(struct gw_h2 *h, uint8_t *room, size_t size)
{
    ssize_t n = h2_read_some(h, room, size);
    if (n < 0) {
        ERR_clear_error();
        return (int)n;
    }
    return nghttp2_session_mem_recv(h->session, room, (size_t)n) == n ? 0 : -EPROTO;
}

/* ---- sending ---- */

static size_t room_left(const struct gw_h2 *h)
{
    return OUT - h->out_to;
}

static int h2_make_room(struct gw_h2 *h)
{
    if (!h->out) h->out = malloc(OUT);
    return h->out ? 0 : -ENOMEM;
}

int gw_h2_put_data(struct gw_h2 *h, const uint8_t *head, const uint8_t *data, size_t n)
{
    if (h2_make_room(h)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (room_left(h) < FRAME_HEAD + n) return NGHTTP2_ERR_WOULDBLOCK;
    memcpy(h->out + h->out_to, head, FRAME_HEAD);
    memcpy(h->out + h->out_to + FRAME_HEAD, data, n);
    h->out_to += FRAME_HEAD + n;
    return 0;
}

/* Sends what is ready. With 0 all of it has gone. */
static int send_ready(struct gw_h2 *h)
{
    while (h->out_from < h->out_to) {
        ssize_t n = h2_write_some(h, h->out + h->out_from, h->out_to - h->out_from);
        if (n < 0) return (int)n;
        h->out_from += (size_t)n;
    }
    free(h->out); /* an idle connection keeps nothing */
    h->out = NULL;
    h->out_from = h->out_to = 0;
    return 0;
}

/* A frame that nghttp2 hands out; it has 16 KiB at most, which gw_h2_send leaves room for. */
static int put_frame(struct gw_h2 *h, const uint8_t *data, size_t n)
{
    if (h2_make_room(h) || n > room_left(h)) return -ENOMEM;
    memcpy(h->out + h->out_to, data, n);
    h->out_to += n;
    return 0;
}

int gw_h2_send(struct gw_h2 *h)
{
    int err;
    h->stuck = 0;
    for (;;) {
        const uint8_t *data;
        ssize_t n = h->out_to < OUT / 2 ? nghttp2_session_mem_send(h->session, &data) : 0;
        if (n < 0) return -EPROTO;
        if (n > 0) {
            if ((err = put_frame(h, data, (size_t)n))) return -EPROTO;
            continue;
        }
        /* The session has no more for now, or the buffer has no room. */
        int is_full = h->out_to >= OUT / 2;
        if ((err = send_ready(h))) return err;
        if (!is_full) return 0;
    }
}

/* ---- headers ---- */

nghttp2_nv gw_h2_header(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE};
}

bool gw_h2_is(const uint8_t *text, size_t n, const char *what)
{
    return n == strlen(what) && !memcmp(text, what, n);
}
