/* SPDX-License-Identifier: Apache-2.0 */
/* load.h: clients of a server of matrix products: ordinary sockets programs, which use nothing of gpuwire.
 * Under librdmacm's preload library they speak RDMA. */
#ifndef MATMUL_LOAD_H
#define MATMUL_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct mm_load_opts {
    const char *server; /* for people */
    struct sockaddr_storage addr;
    socklen_t addr_len;
    uint32_t type, n;
    uint32_t connections, threads, depth; /* depth: requests under way on each connection */
    uint32_t verify;                      /* each how many answers is checked; 0: none */
    double seconds;                       /* 0: `requests` on each connection */
    double warm;                          /* seconds before these, which do not count */
    uint64_t requests;
    int (*stopped)(void); /* to end early? */
};

struct mm_load_result {
    uint64_t answered, verified, wrong, busy;
    uint32_t connected, failed; /* connections */
    char why[160];              /* what the first that failed has met */
    double seconds, cpu;        /* cpu: the clients' processor time */
    double p50, p99, most;      /* µs, of one request */
};

/* Runs it. False: there is no memory; `why` tells. */
bool mm_load_run(const struct mm_load_opts *o, struct mm_load_result *r);

double mm_load_gflops(const struct mm_load_opts *o, const struct mm_load_result *r);

/* "fp32", "TF32", "fp16"; and back, from an option: 0, or an exit code after a line that names them. */
const char *mm_type_name(uint32_t type);
int mm_type_parse(const char *call, const char *name, uint32_t *type);

/* The command `load HOST:PORT …`: returns an exit code. `call` is what is typed after gpuwire. */
int mm_load_main(const char *call, int argc, char **argv, int (*stopped)(void));

#endif
