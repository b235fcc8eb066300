/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a test of collectives: what its files share. */
#ifndef TESTS_COLLECTIVE_PEER_H
#define TESTS_COLLECTIVE_PEER_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/collective.h>
#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#define LIMIT_NS UINT64_C(60000000000)
#define LIMIT    gw_deadline(LIMIT_NS)

struct peer {
    struct gw_ranks *ranks;
    struct gw_exec *exec;
    struct gw_device *dev;
    struct gw_comm *comm;
    uint32_t rank, size;
    struct gw_mem send, recv, want; /* of the executor, MOST bytes each; want: host memory */
};

#define MOST (4u << 20) /* bytes of a vector */

#define TRY(cond)                                                                                            \
    do {                                                                                                     \
        if (!(cond)) {                                                                                       \
            fprintf(stderr, "rank %u, %s:%d: %s: %s\n", peer_rank, __FILE__, __LINE__, #cond,                \
                    gw_last_error());                                                                        \
            return __LINE__;                                                                                 \
        }                                                                                                    \
    } while (0)

extern uint32_t peer_rank;

/* Each returns 0, or the line that failed. */
int check_all(struct peer *p);                 /* every operation, type and way beside a plain reference */
int check_kernels(struct peer *p);             /* the calls of kernels */
int check_moe(struct peer *p);                 /* a mixture of experts */
int check_faults(struct peer *p);              /* arguments, deadlines, ranks that differ */
int check_death(struct peer *p, uint32_t who); /* that rank kills itself */

#endif
