/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP connection between two balancers, inside TLS 1.3. Both prove that they have the same key, and the
 * key itself is never sent. Functions return 0 or a negative errno, without words. One thread uses a
 * connection. */
#ifndef GW_BALANCE_CONTROL_SYNC_TLS_H
#define GW_BALANCE_CONTROL_SYNC_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ssl_ctx_st;
struct ssl_st;

/* The common state of connections with this key. */
struct gw_bal_tls_key {
    struct ssl_ctx_st *context;
    unsigned char secret[32];
};

struct gw_bal_tls {
    struct ssl_st *ssl;
    int fd, end_fd; /* end_fd readable: every wait ends with -ECANCELED */
};

/* The key stays where it is while connections use it. */
int gw_bal_tls_key_make(const char *text, struct gw_bal_tls_key *key);
void gw_bal_tls_key_forget(struct gw_bal_tls_key *key);

/* Takes the descriptor, also when it fails. `accepts`: this side waits for the other to begin. */
int gw_bal_tls_open(const struct gw_bal_tls_key *key, int fd, int end_fd, int accepts,
                    struct gw_bal_tls *out);
void gw_bal_tls_close(struct gw_bal_tls *t);

/* Goes on with the handshake as far as it can. -EAGAIN: it waits for *events (poll's). -EACCES: the other
 * side does not have the key, or speaks something else. */
int gw_bal_tls_step(struct gw_bal_tls *t, short *events);
/* The whole handshake, until the deadline. */
int gw_bal_tls_shake(struct gw_bal_tls *t, uint64_t deadline_ns);

/* All bytes. -ETIMEDOUT: the other side took or sent none for `silence_ns`. */
int gw_bal_tls_write(struct gw_bal_tls *t, const void *data, size_t bytes, uint64_t silence_ns);
int gw_bal_tls_read(struct gw_bal_tls *t, void *data, size_t bytes, uint64_t silence_ns);
/* Is there something to read, or an end to see? */
bool gw_bal_tls_ready(const struct gw_bal_tls *t);

#endif
