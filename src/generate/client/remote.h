/* SPDX-License-Identifier: Apache-2.0 */
/* A generator on another host: its sessions are opened over HTTP (src/generate/rdma/sessions.h). One thread
 * at a time uses it. */
#ifndef GW_GENERATE_CLIENT_REMOTE_H
#define GW_GENERATE_CLIENT_REMOTE_H

#include "src/generate/client/client.h"

struct gen_remote;

struct gen_remote_opts {
    const char *url;     /* http://HOST:PORT or https://HOST:PORT */
    const char *model;   /* NULL: the only one */
    const char *token;   /* NULL: none */
    const char *ca_file; /* NULL: the system's */
};

/* Asks the server for its models. 0; -ENOENT: there is no such model; -EINVAL: the address; and what the
 * connection says. The reason is in gw_last_error(). */
int gen_remote_open(const struct gen_remote_opts *opts, struct gen_remote **out);
/* After the client that used it. NULL is allowed. */
void gen_remote_close(struct gen_remote *r);

/* Seconds of processor time that the server has used so far, with its software NIC's. As gen_remote_open. */
int gen_remote_cpu(struct gen_remote *r, double *seconds);

struct gen_link gen_remote_link(struct gen_remote *r);
const char *gen_remote_model(const struct gen_remote *r);
/* The model's; max_tokens is the context. And the most slots that a session has. */
void gen_remote_shape(const struct gen_remote *r, struct gen_source_shape *out, uint32_t *slots);

#endif
