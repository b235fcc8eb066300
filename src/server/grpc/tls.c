/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the certificate and the key of the gRPC door. */
#include "src/server/grpc/tls.h"

#include <errno.h>
#include <openssl/err.h>

#include <gpuwire/error.h>

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

static int grpc_tls_wrong(const char *what, const char *file)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    int err = gw_error(-EINVAL, "TLS: %s %s: %s", what, file, why ? why : "it cannot be used");
    ERR_clear_error();
    return err;
}

static int grpc_tls_load(SSL_CTX *ctx, const char *cert, const char *key)
{
    if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1) return grpc_tls_wrong("certificate", cert);
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1) return grpc_tls_wrong("key", key);
    return SSL_CTX_check_private_key(ctx) == 1
               ? 0
               : grpc_tls_wrong("the certificate does not belong to the key", key);
}

int gw_grpc_tls_create(const char *cert, const char *key, SSL_CTX **out)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (!ctx) return gw_error_errno(-ENOMEM, "TLS");
    int err = grpc_tls_load(ctx, cert, key);
    if (err) {
        SSL_CTX_free(ctx);
        return err;
    }
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    *out = ctx;
    return 0;
}
