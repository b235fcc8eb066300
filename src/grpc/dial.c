/* SPDX-License-Identifier: Apache-2.0 */
/* Connects to a gRPC server: tries its addresses in turn, and sets up TLS. */
#include "src/grpc/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/error.h>

#define HOST   256     /* bytes of a name, with the final zero */
#define MAX_CA 4194304 /* of a file of certificates */

/* ---- addresses ---- */

/* The host's name without brackets; returns the port's. */
static const char *host_of(const char *authority, char host[HOST])
{
    const char *colon = strrchr(authority, ':'), *from = authority + (*authority == '[');
    size_t n = (size_t)(colon - from) - (*authority == '[');
    if (n >= HOST) n = HOST - 1;
    memcpy(host, from, n);
    host[n] = 0;
    return colon + 1;
}

/* Begins at `at`, or the first after it that can be begun. */
static int dial_try(struct gw_dial *d)
{
    int on = 1;
    for (; d->at; d->at = d->at->ai_next) {
        d->fd = socket(d->at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (d->fd < 0) {
            d->error = -errno;
            continue;
        }
        setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        setsockopt(d->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        if (!connect(d->fd, d->at->ai_addr, d->at->ai_addrlen) || errno == EINPROGRESS) return 0;
        d->error = -errno;
        close(d->fd);
        d->fd = -1;
    }
    return d->error;
}

int gw_dial_begin(struct gw_dial *d, const char *authority, const char **why)
{
    const struct addrinfo wish = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    char host[HOST];
    const char *port = host_of(authority, host);
    *d = (struct gw_dial){.fd = -1};
    int err = getaddrinfo(host, port, &wish, &d->all);
    if (err == EAI_NONAME || err == EAI_ADDRFAMILY) /* an address of a family that this host has not */
        err = getaddrinfo(host, port, &(struct addrinfo){.ai_socktype = SOCK_STREAM}, &d->all);
    if (err) {
        *why = gai_strerror(err);
        return err == EAI_MEMORY ? -ENOMEM : -EHOSTUNREACH;
    }
    d->at = d->all;
    err = dial_try(d);
    if (err) *why = strerror(-err);
    return err;
}

int gw_dial_next(struct gw_dial *d)
{
    int err = 0;
    socklen_t n = sizeof(err);
    struct sockaddr_storage peer;
    socklen_t length = sizeof(peer);
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &err, &n)) err = errno;
    if (!err) return getpeername(d->fd, (struct sockaddr *)&peer, &length) ? -EAGAIN : 0;
    close(d->fd);
    d->fd = -1;
    d->error = -err;
    d->at = d->at->ai_next;
    err = dial_try(d);
    return err ? err : -EAGAIN;
}

void gw_dial_end(struct gw_dial *d)
{
    if (d->fd >= 0) close(d->fd);
    if (d->all) freeaddrinfo(d->all);
    *d = (struct gw_dial){.fd = -1};
}

/* ---- TLS ---- */

/* Is it a file of certificates as text? As with HTTP, one that cannot be read makes the server's not trusted.
 */
static int check_certificates(const char *path)
{
    FILE *f = fopen(path, "re");
    const char *why = f ? NULL : strerror(errno);
    char *text = f ? calloc(1, MAX_CA + 1) : NULL;
    if (text && !fread(text, 1, MAX_CA, f) && ferror(f)) why = strerror(errno);
    if (f) fclose(f);
    if (!why && text && !strstr(text, "-----BEGIN CERTIFICATE-----")) why = "it holds no certificate (PEM)";
    free(text);
    return why ? gw_error(-EACCES, "%s: %s", path, why) : 0;
}

static int trust(SSL_CTX *ctx, const char *ca_file)
{
    if (!ca_file) return SSL_CTX_set_default_verify_paths(ctx) == 1 ? 0 : gw_error_errno(-ENOMEM, "client");
    int err = check_certificates(ca_file);
    if (err || SSL_CTX_load_verify_locations(ctx, ca_file, NULL) == 1) return err;
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    err = gw_error(-EACCES, "%s: %s", ca_file, why ? why : "it cannot be used");
    ERR_clear_error();
    return err;
}

int gw_dial_encryption(const char *ca_file, SSL_CTX **out)
{
    static const unsigned char h2[] = {2, 'h', '2'};
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (!ctx) return gw_error_errno(-ENOMEM, "client");
    int err = trust(ctx, ca_file);
    if (!err && SSL_CTX_set_alpn_protos(ctx, h2, sizeof(h2))) err = gw_error_errno(-ENOMEM, "client");
    if (err) {
        SSL_CTX_free(ctx);
        return err;
    }
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    *out = ctx;
    return 0;
}

static bool dial_is_address(const char *host)
{
    unsigned char any[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, any) == 1 || inet_pton(AF_INET6, host, any) == 1;
}

int gw_dial_expect(SSL *ssl, const char *authority)
{
    char host[HOST];
    host_of(authority, host);
    if (dial_is_address(host))
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1 ? 0 : -ENOMEM;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1 ? 0 : -ENOMEM;
}

bool gw_dial_tls_error(SSL *ssl, char *why, size_t size)
{
    long verified = SSL_get_verify_result(ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    snprintf(why, size, "%s",
             verified != X509_V_OK ? X509_verify_cert_error_string(verified)
             : reason              ? reason
                                   : "the encrypted connection did not come about");
    ERR_clear_error();
    return verified != X509_V_OK;
}
