/* SPDX-License-Identifier: Apache-2.0 */
/* cma.h: cross-memory attach, the copy between two processes' memory that the kernel makes in one pass. */
#ifndef SOFTNIC_LOCAL_CMA_H
#define SOFTNIC_LOCAL_CMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "softnic/nic/nic.h"

/*
 * May this process read and write the memory of pid, and is it the one that has `nonce` at address
 * nonce_addr? Returns 0. Returns -EPERM where the system refuses: it is another user's, or may not be dumped,
 * or Yama or a container's filter says so. Returns -ENOSYS if there is no such call, -ESRCH if there is no
 * such process, and -EPROTO if it is another process.
 */
int sn_cma_probe(pid_t pid, uint64_t nonce, uint64_t nonce_addr);

/* Is it still that process? One look, for one that sn_cma_probe found. */
bool sn_cma_has(pid_t pid, uint64_t nonce, uint64_t nonce_addr);

/* The reason why processes like this one cannot copy to each other's memory on this host, one line; "": none
 * that can be told without a peer. */
const char *sn_cma_hindrance(void);

/* Why it does not work, in words; err as from the above. */
const char *sn_cma_why(int err);

/* Copies as struct sn_peer_ops' copy does. Bytes copied, -EFAULT if it stopped at the first, or what the
 * system said. */
int64_t sn_cma_copy(pid_t pid, bool write, const struct iovec *here, unsigned n_here,
                    const struct iovec *there, unsigned n_there);

/* The process's plain memory for sn_pieces_copy. */
struct sn_reach sn_cma_reach(pid_t pid);

#endif
