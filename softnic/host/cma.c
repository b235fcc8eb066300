/* SPDX-License-Identifier: Apache-2.0 */
#include "softnic/host/cma.h"

#include <errno.h>

int64_t sn_cma_copy(pid_t pid, bool write, const struct iovec *here, unsigned n_here,
                    const struct iovec *there, unsigned n_there)
{
    ssize_t n = write ? process_vm_writev(pid, here, n_here, there, n_there, 0)
                      : process_vm_readv(pid, here, n_here, there, n_there, 0);

    return n < 0 ? -errno : n;
}

int sn_cma_probe(pid_t pid, uint64_t nonce, uint64_t nonce_addr)
{
    uint64_t value = 0;
    struct iovec here = {&value, sizeof(value)};
    struct iovec there = {(void *)(uintptr_t)nonce_addr, sizeof(value)};
    int64_t n;

    if (pid <= 0) return -ESRCH; /* it is in another PID namespace */
    n = sn_cma_copy(pid, false, &here, 1, &there, 1);
    if (n == -EFAULT) return -EPROTO;
    if (n < 0) return (int)n;
    if (n != sizeof(value) || value != nonce) return -EPROTO;
    /* A filter may know one call and not the other. Writing back what stands there changes nothing. */
    n = sn_cma_copy(pid, true, &here, 1, &there, 1);
    return n < 0 ? (int)n : 0;
}

const char *sn_cma_why(int err)
{
    switch (err) {
    case 0: return "";
    case -EPERM:
    case -EACCES:
        return "the system does not let one process copy to another's memory (kernel.yama.ptrace_scope, a "
               "container's filter, or a process that may not be dumped)";
    case -ENOSYS: return "the system has no process_vm_readv, or a container's filter hides it";
    case -ESRCH: return "the peer's process number is not known here (another PID namespace)";
    case -EPROTO: return "the peer is not the process that its number names";
    default: return "copying to the peer's memory failed";
    }
}
