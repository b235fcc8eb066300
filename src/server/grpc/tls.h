/* SPDX-License-Identifier: Apache-2.0 */
/* TLS for the gRPC door: what its connections are encrypted with. */
#ifndef GW_SERVER_GRPC_TLS_H
#define GW_SERVER_GRPC_TLS_H

#include <openssl/ssl.h>

/* PEM files: the certificate and those that vouch for it, and its key. SSL_CTX_free ends it. 0 or a negative
 * errno with the reason in gw_last_error(). */
int gw_grpc_tls_create(const char *cert, const char *key, SSL_CTX **out);

#endif
