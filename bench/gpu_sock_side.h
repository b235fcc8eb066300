/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_sock_side.h: what the rows of gpu_sock_bench share: a side with its kernels and sockets, puts without
 * streams, and the line that tells of both. A failure ends the program. */
#ifndef GPUWIRE_BENCH_GPU_SOCK_SIDE_H
#define GPUWIRE_BENCH_GPU_SOCK_SIDE_H

#include <gpuwire/verbs.h>

#include "bench/gpu_sock_kernels.h"

enum { ROUNDS = 5, BLOCKS = 32, BIG = 256 << 10, SMALL = 64, TCP = 64 << 10 };

/* In memory of the host, where kernels see it, too. */
struct shared {
    struct sockaddr_storage name;
    socklen_t len;
    int32_t listener;
    int64_t err[BLOCKS];
};

struct side {
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_sockets *set;
    struct gw_mem shared, bytes, socks;
    uint32_t threads;
    struct side_args args;
};

/* For puts: memory of two halves, one for outgoing and one for incoming bytes. */
struct raw {
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mem mem, err;
    struct gw_mr *mr;
};

extern const char *exec_name;
extern uint32_t ring; /* bytes of each buffer; 0: as many as become the row */

void check(int rc, const char *what);

void side_open(struct side *s, uint32_t conns, uint64_t size, int rdma);
void side_close(struct side *s);
void start(struct side *s, const struct gw_kernel *k, uint32_t blocks);
void finish(struct side *s, const char *what);
/* Listens; the port, as it is in addresses. */
uint16_t listening(struct side *s);
/* Connects all of them. */
void meet(struct side *from, struct side *to);
/* One round of both; ns. */
double both(struct side *from, const struct gw_kernel *k, struct side *to, const struct gw_kernel *l,
            uint32_t blocks, uint64_t count);

void raw_open(struct raw *r, struct side *s);
void raw_close(struct raw *r);
void raw_connect(struct raw *a, struct raw *b);
/* Balls are thrown from the first half, and arrive in the second. Fresh ones are 0. */
void raw_start(struct side *s, struct raw *r, const struct raw *peer, const struct gw_kernel *k, uint32_t len,
               uint64_t count);
void raw_finish(struct side *s, const struct raw *r);

/* Sorts both; more: more is better. */
void report(const char *what, const char *unit, double *ours, double *other, int more, double aim);

/* gpu_sock_tcp.c */
void tcp_latency(void);
void tcp_stream(void);

#endif
