/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire cat: what its files share. */
#ifndef GW_CLI_CAT_H
#define GW_CLI_CAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <gpuwire/exec.h>
#include <gpuwire/socket.h>

#include "src/cli/cat/kernels.h"

#define CAT_BYTES    (256u << 10) /* that move at a time */
#define CAT_SLICE_NS 200000000u   /* how long a kernel waits, then the host looks whether to stop */

struct cat_opts {
    bool listen, rdma, verbose;
    const char *exec, *device, *path; /* path: of a UNIX socket; NULL: host and port */
    const char *host, *port;
    uint64_t gpu, wait_s; /* wait_s: connecting and accepting; 0: forever, or until Ctrl-C */
};

/* args.c: -1: go on, else the exit code. */
int cat_parse(int argc, char **argv, struct cat_opts *o);

/* ---- end.c: the socket, as a kernel uses it ------------------------------------------------------------ */

/* Calls that are made one after another; each of the two directions has its own, so that both move at a
 * time. */
struct cat_lane {
    struct gw_exec *exec;
    struct gw_mem mem; /* bytes, then the result and a name; host memory */
};

struct cat_end {
    struct gw_exec *exec;  /* the sockets' */
    struct gw_device *dev; /* RDMA */
    struct gw_sockets *set;
    struct cat_lane out, in; /* to the peer, from it */
    int s;
};

int cat_end_open(struct cat_end *e, const struct cat_opts *o);
void cat_end_close(struct cat_end *e);
/* A lane's bytes, as the CPU sees them. */
void *cat_bytes(const struct cat_lane *l);
/* One call on a socket; n: of bytes. Its result, or an error. */
int64_t cat_do(struct cat_end *e, struct cat_lane *l, enum cat_op op, int s, uint64_t n);
/* Connects e->s, or listens and accepts one connection as e->s. -ECANCELED: Ctrl-C. */
int cat_meet(struct cat_end *e, const struct cat_opts *o);

#endif
