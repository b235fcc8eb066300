/* SPDX-License-Identifier: Apache-2.0 */
#include "src/grpc/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/error.h>

#define STACK  (128u << 10)
#define BUFFER (32u << 10) /* two records of TLS */

struct gw_grpc_tls {
    SSL_CTX *ctx;
    pthread_mutex_t lock;
    pthread_cond_t fewer;
    uint32_t threads;
};

/* Bytes on their way. */
struct flow {
    size_t from, to;
    unsigned char bytes[BUFFER];
};

struct relay {
    struct gw_grpc_tls *tls;
    SSL *ssl;
    int net, inner;
    short net_wants, inner_wants; /* events that would let us go on */
    struct flow in, out;
};

enum step { STUCK, MOVED, OVER };

/* ---- one connection ---- */

static enum step blocked(struct relay *r, int result)
{
    switch (SSL_get_error(r->ssl, result)) {
    case SSL_ERROR_WANT_READ: r->net_wants |= POLLIN; return STUCK;
    case SSL_ERROR_WANT_WRITE: r->net_wants |= POLLOUT; return STUCK;
    default: ERR_clear_error(); return OVER;
    }
}

static enum step inner_blocked(struct relay *r, ssize_t n, short event)
{
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) return OVER;
    r->inner_wants |= event;
    return STUCK;
}

static enum step decrypt(struct relay *r)
{
    struct flow *f = &r->in;
    if (f->from == f->to) {
        int n = SSL_read(r->ssl, f->bytes, BUFFER);
        if (n <= 0) return blocked(r, n);
        f->from = 0;
        f->to = (size_t)n;
    }
    ssize_t n = send(r->inner, f->bytes + f->from, f->to - f->from, MSG_NOSIGNAL);
    if (n <= 0) return inner_blocked(r, n, POLLOUT);
    f->from += (size_t)n;
    return MOVED;
}

static enum step encrypt(struct relay *r)
{
    struct flow *f = &r->out;
    if (f->from == f->to) {
        ssize_t n = recv(r->inner, f->bytes, BUFFER, 0);
        if (n <= 0) return inner_blocked(r, n, POLLIN);
        f->from = 0;
        f->to = (size_t)n;
    }
    int n = SSL_write(r->ssl, f->bytes + f->from, (int)(f->to - f->from));
    if (n <= 0) return blocked(r, n);
    f->from += (size_t)n;
    return MOVED;
}

static void wait_for(const struct relay *r)
{
    struct pollfd p[2] = {{.fd = r->net, .events = r->net_wants}, {.fd = r->inner, .events = r->inner_wants}};
    poll(p, 2, -1); /* whatever it says, we try again */
}

static int shake_hands(struct relay *r)
{
    for (;;) {
        r->net_wants = r->inner_wants = 0;
        int n = SSL_accept(r->ssl);
        if (n == 1) return 0;
        if (blocked(r, n) == OVER) return -1;
        wait_for(r);
    }
}

static void pass_on(struct relay *r)
{
    for (;;) {
        r->net_wants = r->inner_wants = 0;
        enum step in = decrypt(r), out = in == OVER ? OVER : encrypt(r);
        if (in == OVER || out == OVER) return;
        if (in == STUCK && out == STUCK) wait_for(r);
    }
}

static void *run(void *arg)
{
    struct relay *r = arg;
    struct gw_grpc_tls *t = r->tls;
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, NULL); /* OpenSSL writes with write() */
    if (!shake_hands(r)) {
        pass_on(r);
        SSL_shutdown(r->ssl);
    }
    ERR_clear_error();
    SSL_free(r->ssl);
    shutdown(r->net, SHUT_RDWR); /* whoever watches it hears of the end */
    close(r->net);
    close(r->inner);
    free(r);
    pthread_mutex_lock(&t->lock);
    t->threads--;
    pthread_cond_signal(&t->fewer);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static int start(struct relay *r)
{
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_mutex_lock(&r->tls->lock);
    r->tls->threads++;
    int error = pthread_create(&thread, &attr, run, r);
    if (error) r->tls->threads--;
    pthread_mutex_unlock(&r->tls->lock);
    pthread_attr_destroy(&attr);
    return -error;
}

int gw_grpc_tls_wrap(struct gw_grpc_tls *t, int fd)
{
    int pair[2], error = 0;
    struct relay *r = calloc(1, sizeof(*r));
    SSL *ssl = SSL_new(t->ctx);
    if (!r || !ssl || !SSL_set_fd(ssl, fd)) error = -ENOMEM;
    if (!error && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair)) error = -errno;
    if (!error) {
        *r = (struct relay){.tls = t, .ssl = ssl, .net = fd, .inner = pair[1]};
        error = start(r);
        if (!error) return pair[0];
        close(pair[0]);
        close(pair[1]);
    }
    SSL_free(ssl);
    free(r);
    close(fd);
    return error;
}

/* ---- all of them ---- */

/* gRPC speaks HTTP/2 and nothing else. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *arg)
{
    static const unsigned char h2[] = {2, 'h', '2'};
    (void)ssl, (void)arg;
    return SSL_select_next_proto((unsigned char **)out, out_len, h2, sizeof(h2), in, in_len) ==
                   OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int wrong(const char *what, const char *file)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    int error = gw_error(-EINVAL, "TLS: %s %s: %s", what, file, why ? why : "it cannot be used");
    ERR_clear_error();
    return error;
}

static int load(SSL_CTX *ctx, const char *cert, const char *key)
{
    if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1) return wrong("certificate", cert);
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1) return wrong("key", key);
    return SSL_CTX_check_private_key(ctx) == 1 ? 0 : wrong("the certificate does not belong to the key", key);
}

int gw_grpc_tls_create(const char *cert, const char *key, struct gw_grpc_tls **out)
{
    struct gw_grpc_tls *t = calloc(1, sizeof(*t));
    if (!t) return -ENOMEM;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->fewer, NULL);
    t->ctx = SSL_CTX_new(TLS_server_method());
    int error = t->ctx ? load(t->ctx, cert, key) : -ENOMEM;
    if (error) {
        gw_grpc_tls_free(t);
        return error;
    }
    SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(t->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_alpn_select_cb(t->ctx, choose_protocol, NULL);
    *out = t;
    return 0;
}

void gw_grpc_tls_free(struct gw_grpc_tls *t)
{
    if (!t) return;
    pthread_mutex_lock(&t->lock);
    while (t->threads) pthread_cond_wait(&t->fewer, &t->lock);
    pthread_mutex_unlock(&t->lock);
    SSL_CTX_free(t->ctx);
    pthread_cond_destroy(&t->fewer);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
