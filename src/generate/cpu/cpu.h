/* SPDX-License-Identifier: Apache-2.0 */
/* The network that runs a row program on threads of the CPU. */
#ifndef GW_GENERATE_CPU_CPU_H
#define GW_GENERATE_CPU_CPU_H

#include <stdint.h>

#include "src/generate/net/net.h"
#include "src/generate/program/program.h"

struct gen_cpu_opts {
    uint32_t threads;    /* 0: one for each processor that this process may use */
    uint32_t max_rows;   /* of a step; 0: GEN_MAX_ROWS */
    uint32_t dtype;      /* of the cache; 0: GW_DTYPE_F32 */
    const char *kernels; /* "avx512", "avx2" or "plain"; NULL: the best that this processor has */
};

/*
 * Makes a network of a program, which gen_program_check has passed and which must stay until the network is
 * freed. opts may be NULL. The thread that runs the loop is one of the threads. Errors: -EINVAL, -ENOMEM,
 * -EAGAIN (threads), -ENOTSUP (the processor lacks these kernels).
 */
int gen_cpu_net(const struct gen_program *program, const struct gen_cpu_opts *opts, struct gen_net *out);

/* Runs one step of a network of this kind, after bind, on the calling thread and the network's own: what its
 * stage in a loop does. For tests and programs without a loop. 0. */
int gen_cpu_step(struct gen_net *net);

/* "avx512, 4 threads": for messages. Lives as long as the network. */
const char *gen_cpu_name(const struct gen_net *net);

#endif
