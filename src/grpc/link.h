/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a gRPC server. One thread at a time: it is the one that sends and receives. Its calls are
 * in call.h. */
#ifndef GW_GRPC_LINK_H
#define GW_GRPC_LINK_H

#include "src/grpc/state.h"

/* Connects when the first call is made. 0; -ENOMEM; -EACCES: the certificates' file cannot be read. */
int gw_link_open(const struct gw_link_opts *opts, struct gw_link *l);
/* When no call is left. */
void gw_link_close(struct gw_link *l);

/* Makes a connection if there is none, or none that takes calls. 0, or a negative errno when it cannot be had
 * now; l->error and l->why say more. */
int gw_link_connect(struct gw_link *l);
/* Is there a connection, with TLS where asked? */
bool gw_link_is_up(const struct gw_link *l);
/* Gives the connection up; its calls end without an answer. */
void gw_link_drop(struct gw_link *l, int err, const char *why);

/* Sends and receives, until a call ends or the deadline has passed. */
void gw_link_pump(struct gw_link *l, uint64_t deadline_ns);
/* The same without waiting, for those who have other things to wait for. Returns when to call it again at the
 * latest; GW_NEVER: only when its descriptor has news. */
uint64_t gw_link_step(struct gw_link *l);
/* The descriptor to wait for, and its poll(2) events; -1: there is none. */
int gw_link_fd(const struct gw_link *l, short *events);

#endif
