/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP/2 session over a socket that does not block, encrypted or not. Client and server have it; the
 * session's callbacks are theirs. One thread at a time. */
#ifndef GW_SERVER_GRPC_WIRE_H2_H
#define GW_SERVER_GRPC_WIRE_H2_H

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gw_h2 {
    nghttp2_session *session;
    SSL *ssl; /* NULL: in the clear */
    int fd;
    int shaken;   /* the handshake of TLS is over */
    int stuck;    /* the socket takes no more for now: wait until it is writable */
    uint8_t *out; /* made ready to be sent; NULL: nothing is */
    size_t out_from, out_to;
};

/* Encrypts the connection with a session of TLS made of `ctx`; the handshake happens while it is used.
 * 0 or -ENOMEM. The caller sets the rest of *h. */
int gw_h2_encrypt(struct gw_h2 *h, SSL_CTX *ctx, int is_server);
/* Ends session and TLS; the descriptor is the caller's. */
void gw_h2_close(struct gw_h2 *h);

/* Goes on with the handshake. 0: it is over. -EAGAIN: later. -EPROTO: it failed, and OpenSSL's queue of
 * errors says why. -ECONNRESET: the peer has gone. */
int gw_h2_shake(struct gw_h2 *h);

/* Reads once, into `room`, and gives the session what came. 0: it did, and there may be more. -EAGAIN:
 * nothing came. -ECONNRESET: the peer has gone. -EPROTO: what it sent ends the connection. */
int gw_h2_receive(struct gw_h2 *h, uint8_t *room, size_t size);
/* Sends what the session has. 0: all of it, as far as the peer's windows allow. -EAGAIN: later; `stuck` is
 * set. -ECONNRESET: the peer has gone. -EPROTO: the session is over. */
int gw_h2_send(struct gw_h2 *h);

/* For the session's send_data callback: the head of a DATA frame and its payload. 0 or
 * NGHTTP2_ERR_WOULDBLOCK. */
int gw_h2_put_data(struct gw_h2 *h, const uint8_t *head, const uint8_t *data, size_t n);

/* A header, of strings that nghttp2 copies. */
nghttp2_nv gw_h2_header(const char *name, const char *value);
/* Is it that name, or value? */
bool gw_h2_is(const uint8_t *text, size_t n, const char *what);

#endif
