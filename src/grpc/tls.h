/* SPDX-License-Identifier: Apache-2.0 */
/* TLS for the gRPC door. gRPC core takes only connections in the clear from us (see gate.h). So a thread of
 * each connection decrypts and encrypts. gRPC has the other end of a socket pair. */
#ifndef GW_GRPC_TLS_H
#define GW_GRPC_TLS_H

struct gw_grpc_tls;

/* PEM files: the certificate and those that vouch for it, and its key. 0 or a negative errno with the reason
 * in gw_last_error(). */
int gw_grpc_tls_create(const char *cert, const char *key, struct gw_grpc_tls **out);
/* When every wrapped connection has ended; it waits for their threads. NULL is allowed. */
void gw_grpc_tls_free(struct gw_grpc_tls *t);

/* A client's socket, which is then the thread's: the descriptor that gRPC is to have, or a negative errno,
 * and then `fd` is closed. The connection ends when either end is shut down. */
int gw_grpc_tls_wrap(struct gw_grpc_tls *t, int fd);

#endif
