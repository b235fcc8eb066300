/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set-up that the examples share: two connected queue pairs, a and b, of one program. Each has a send and
 * a receive CQ, and BYTES bytes of memory that the CPU, the kernel and the NIC see. As in life a and b may as
 * well lie in two programs on two hosts: record.c and pingpong_kernel.c connect them so.
 *
 * Options of every example: --exec cpu|gpu, --lanes N (threads in a block of the CPU executor).
 */
#ifndef GW_EXAMPLES_PAIR_H
#define GW_EXAMPLES_PAIR_H

#include <gpuwire/verbs_device.h>

#define BYTES 4096u
#define LIMIT 10000000000u /* nanoseconds after which an example gives up waiting */

/* One end, as a kernel sees it. */
struct end {
    struct gw_qp_handle *qp;
    struct gw_cq_handle *send_cq, *recv_cq;
    uint64_t addr;  /* of its memory, as work requests name it */
    uint64_t *word; /* its memory, as the kernel reads and writes it */
    uint32_t lkey, rkey;
};

/* The argument of every example's kernel. */
struct ends {
    struct end a, b;
    int *result; /* 0, or what went wrong, as a negative errno */
};

/* ---- the host's side: every function ends the program with a line that says why, if it fails. ---- */

struct pair;

struct pair *pair_open(int argc, char **argv);
/* a's (0) or b's (1) memory, as the CPU sees it. */
uint64_t *pair_memory(struct pair *p, int side);
struct gw_qp *pair_qp(struct pair *p, int side);
/* Runs one block of the kernel, waits for it and returns its result. Its argument is a struct ends. */
int pair_run(struct pair *p, const struct gw_kernel *kernel, uint32_t threads);
/* Frees everything, says what was seen and returns the program's exit code: ok is whether it was as it must
 * be. */
int pair_close(struct pair *p, int ok);

#endif
