/* SPDX-License-Identifier: Apache-2.0 */
/* A peer in a process of its own, with a software NIC of its own, which takes whatever comes until it is
 * killed. */
#ifndef GW_TESTS_VERBS_PEER_PROCESS_H
#define GW_TESTS_VERBS_PEER_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

#include <gpuwire/verbs.h>

struct peer_process {
    pid_t pid;
    int fd;
    uint64_t addr; /* 64 KiB of its memory */
    uint32_t rkey;
};

/* Once, before the process opens a device: a NIC does not survive a fork, so a process that has none makes
 * the peers. */
void peer_process_init(void);
/* Makes one and connects qp with it. */
void peer_process_meet(struct peer_process *p, struct gw_qp *qp, const struct gw_connect_opts *opts);
void peer_process_kill(struct peer_process *p);

#endif
