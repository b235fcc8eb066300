/* SPDX-License-Identifier: Apache-2.0 */
/* TLS 1.3 with a shared key between two balancers: handshake, reading, writing. */
#include "src/balance/control/sync_tls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/exec.h>

#define IDENTITY "gpuwire-balance" /* the one key has one name */

/* ---- the key ---- */

static unsigned give_secret(SSL *ssl, unsigned char *out, unsigned room)
{
    const struct gw_bal_tls_key *key = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    if (room < sizeof(key->secret)) return 0;
    memcpy(out, key->secret, sizeof(key->secret));
    return sizeof(key->secret);
}

static unsigned secret_of_client(SSL *ssl, const char *hint, char *identity, unsigned identity_room,
                                 unsigned char *out, unsigned room)
{
    (void)hint;
    if (identity_room < sizeof(IDENTITY)) return 0;
    memcpy(identity, IDENTITY, sizeof(IDENTITY));
    return give_secret(ssl, out, room);
}

static unsigned secret_of_server(SSL *ssl, const char *identity, unsigned char *out, unsigned room)
{
    return identity && !strcmp(identity, IDENTITY) ? give_secret(ssl, out, room) : 0;
}

/* TLS 1.3 alone, with the key alone: no certificate, no tickets, no resumed sessions. */
static SSL_CTX *sync_tls_make_context(struct gw_bal_tls_key *key)
{
    SSL_CTX *c = SSL_CTX_new(TLS_method());
    if (!c) return NULL;
    if (!SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256") || !SSL_CTX_set_num_tickets(c, 0)) {
        SSL_CTX_free(c);
        return NULL;
    }
    SSL_CTX_set_app_data(c, key);
    SSL_CTX_set_options(c, SSL_OP_IGNORE_UNEXPECTED_EOF); /* a side that dies sends no farewell */
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_psk_client_callback(c, secret_of_client);
    SSL_CTX_set_psk_server_callback(c, secret_of_server);
    SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
    return c;
}

int gw_bal_tls_key_make(const char *text, struct gw_bal_tls_key *key)
{
    unsigned bytes = sizeof(key->secret);
    if (!EVP_Digest(text, strlen(text), key->secret, &bytes, EVP_sha256(), NULL)) return -ENOMEM;
    key->context = sync_tls_make_context(key);
    return key->context ? 0 : -ENOMEM;
}

void gw_bal_tls_key_forget(struct gw_bal_tls_key *key)
{
    SSL_CTX_free(key->context);
    OPENSSL_cleanse(key, sizeof(*key));
}

/* ---- a connection ---- */

int gw_bal_tls_open(const struct gw_bal_tls_key *key, int fd, int end_fd, int accepts, struct gw_bal_tls *out)
{
    *out = (struct gw_bal_tls){.ssl = SSL_new(key->context), .fd = fd, .end_fd = end_fd};
    if (!out->ssl || !SSL_set_fd(out->ssl, fd) || fcntl(fd, F_SETFL, O_NONBLOCK)) {
        gw_bal_tls_close(out);
        return -ENOMEM;
    }
    if (accepts)
        SSL_set_accept_state(out->ssl);
    else
        SSL_set_connect_state(out->ssl);
    return 0;
}

void gw_bal_tls_close(struct gw_bal_tls *t)
{
    SSL_free(t->ssl);
    close(t->fd);
    *t = (struct gw_bal_tls){.fd = -1};
}

/* A call returned n <= 0: -EAGAIN and *events, or the end of the connection. */
static int sync_tls_error(const struct gw_bal_tls *t, int n, short *events)
{
    switch (SSL_get_error(t->ssl, n)) {
    case SSL_ERROR_WANT_READ: *events = POLLIN; return -EAGAIN;
    case SSL_ERROR_WANT_WRITE: *events = POLLOUT; return -EAGAIN;
    case SSL_ERROR_SSL: return -EPROTO;
    default: return -ECONNRESET;
    }
}

/* -EAGAIN becomes 0 when the descriptor is ready. */
static int tls_wait(const struct gw_bal_tls *t, short events, uint64_t deadline_ns)
{
    struct pollfd fds[2] = {{.fd = t->fd, .events = events}, {.fd = t->end_fd, .events = POLLIN}};
    for (;;) {
        uint64_t now = gw_deadline(0);
        if (now >= deadline_ns) return -ETIMEDOUT;
        int n = poll(fds, 2, (int)((deadline_ns - now) / 1000000 % INT_MAX) + 1);
        if (n < 0 && errno != EINTR) return -errno;
        if (n > 0 && fds[1].revents) return -ECANCELED;
        if (n > 0) return 0;
    }
}

int gw_bal_tls_step(struct gw_bal_tls *t, short *events)
{
    ERR_clear_error();
    int n = SSL_do_handshake(t->ssl);
    if (n == 1) return 0;
    int err = sync_tls_error(t, n, events);
    return err == -EPROTO ? -EACCES : err;
}

int gw_bal_tls_shake(struct gw_bal_tls *t, uint64_t deadline_ns)
{
    short events = 0;
    int err;
    while ((err = gw_bal_tls_step(t, &events)) == -EAGAIN)
        if ((err = tls_wait(t, events, deadline_ns))) return err;
    return err;
}

/* The bytes that a call which returned n has moved; 0: it may try again. */
static int tls_moved(const struct gw_bal_tls *t, int n, uint64_t silence_ns)
{
    short events = 0;
    if (n > 0) return n;
    int err = sync_tls_error(t, n, &events);
    return err == -EAGAIN ? tls_wait(t, events, gw_deadline(silence_ns)) : err;
}

static int tls_most(size_t bytes)
{
    return bytes > INT_MAX ? INT_MAX : (int)bytes;
}

int gw_bal_tls_write(struct gw_bal_tls *t, const void *data, size_t bytes, uint64_t silence_ns)
{
    const char *at = data;
    for (int n; bytes; at += n, bytes -= (size_t)n) {
        ERR_clear_error();
        n = tls_moved(t, SSL_write(t->ssl, at, tls_most(bytes)), silence_ns);
        if (n < 0) return n;
    }
    return 0;
}

int gw_bal_tls_read(struct gw_bal_tls *t, void *data, size_t bytes, uint64_t silence_ns)
{
    char *at = data;
    for (int n; bytes; at += n, bytes -= (size_t)n) {
        ERR_clear_error();
        n = tls_moved(t, SSL_read(t->ssl, at, tls_most(bytes)), silence_ns);
        if (n < 0) return n;
    }
    return 0;
}

bool gw_bal_tls_ready(const struct gw_bal_tls *t)
{
    struct pollfd p = {.fd = t->fd, .events = POLLIN};
    return SSL_pending(t->ssl) > 0 || SSL_has_pending(t->ssl) || poll(&p, 1, 0) > 0;
}
