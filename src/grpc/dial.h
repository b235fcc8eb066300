/* SPDX-License-Identifier: Apache-2.0 */
/* Reaching a gRPC server: its addresses one after the other, and what encrypts the connection. */
#ifndef GW_GRPC_DIAL_H
#define GW_GRPC_DIAL_H

#include <netdb.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

struct gw_dial {
    struct addrinfo *all, *at; /* at: the one that is tried */
    int fd;                    /* -1: none */
    int error;                 /* why the last one was not reached: a negative errno */
};

/* Finds the addresses of "host:port" or "[ipv6]:port", and begins to connect to the first. 0; or a negative
 * errno and *why, -EHOSTUNREACH: there is no such name. gw_dial_end follows in any case. */
int gw_dial_begin(struct gw_dial *d, const char *authority, const char **why);
/* The socket is writable. 0: connected. -EAGAIN: not yet, maybe at another address. Otherwise no address is
 * left: the last one's error. */
int gw_dial_next(struct gw_dial *d);
/* The descriptor is the caller's when he has taken it out. */
void gw_dial_end(struct gw_dial *d);

/* For TLS to that server, whose certificate `ca_file` vouches for (NULL: the system's). 0; -EACCES: the file
 * cannot be used; -ENOMEM; with the reason in gw_last_error(). */
int gw_dial_encryption(const char *ca_file, SSL_CTX **out);
/* Sets the name that the server has to prove. 0 or -ENOMEM. */
int gw_dial_expect(SSL *ssl, const char *authority);
/* Why a handshake has failed, for people. True: the certificate is not trusted. */
bool gw_dial_tls_error(SSL *ssl, char *why, size_t size);

#endif
