/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between two processes by process_vm_readv, and says why it cannot. */
#include "softnic/local/cma.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * As guard.c's accesses, these are ordered by records and completions that ThreadSanitizer does not see.
 * Peers write to memory here, too, at any time. So ThreadSanitizer is not told of the copies that are made
 * from here.
 */
static ssize_t vm_copy(pid_t pid, bool write, const struct iovec *here, unsigned n_here,
                       const struct iovec *there, unsigned n_there)
{
#ifdef __SANITIZE_THREAD__
    return syscall(write ? SYS_process_vm_writev : SYS_process_vm_readv, (long)pid, here,
                   (unsigned long)n_here, there, (unsigned long)n_there, 0L);
#else
    return write ? process_vm_writev(pid, here, n_here, there, n_there, 0)
                 : process_vm_readv(pid, here, n_here, there, n_there, 0);
#endif
}

int64_t sn_cma_copy(pid_t pid, bool write, const struct iovec *here, unsigned n_here,
                    const struct iovec *there, unsigned n_there)
{
    ssize_t n = vm_copy(pid, write, here, n_here, there, n_there);

    return n < 0 ? -errno : n;
}

static int cma_copy_part(void *ctx, bool write, uint64_t addr, void *here, uint32_t len)
{
    struct iovec mine = {here, len}, theirs = {(void *)(uintptr_t)addr, len};
    int64_t n = sn_cma_copy((pid_t)(intptr_t)ctx, write, &mine, 1, &theirs, 1);

    return n == len ? 0 : -EFAULT;
}

static int read_part(void *ctx, uint64_t addr, void *dst, uint32_t len, uint64_t ahead, uint64_t request)
{
    (void)ahead;
    (void)request;
    return cma_copy_part(ctx, false, addr, dst, len);
}

static int write_part(void *ctx, uint64_t addr, const void *src, uint32_t len)
{
    return cma_copy_part(ctx, true, addr, (void *)src, len); /* which it does not write to */
}

struct sn_reach sn_cma_reach(pid_t pid)
{
    static const struct sn_dma_ops ops = {.read = read_part, .write = write_part};

    return (struct sn_reach){&ops, (void *)(intptr_t)pid};
}

bool sn_cma_has(pid_t pid, uint64_t nonce, uint64_t nonce_addr)
{
    uint64_t value = 0;
    struct iovec here = {&value, sizeof(value)};
    struct iovec there = {(void *)(uintptr_t)nonce_addr, sizeof(value)};

    return sn_cma_copy(pid, false, &here, 1, &there, 1) == sizeof(value) && value == nonce;
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

/* CAP_SYS_PTRACE, which Yama lets through. */
static bool may_trace(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {0};

    return syscall(SYS_capget, &head, caps) == 0 && (caps[0].effective >> CAP_SYS_PTRACE & 1);
}

static int yama_scope(void)
{
    FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    int scope = 0;

    if (f && fscanf(f, "%d", &scope) != 1) scope = 0;
    if (f) fclose(f);
    return scope;
}

const char *sn_cma_hindrance(void)
{
    static uint64_t nonce = UINT64_C(0x6e6f6e6365); /* any */
    int err = sn_cma_probe(getpid(), nonce, (uintptr_t)&nonce), scope = yama_scope();

    /* Even to itself: no such call, or a filter. */
    if (err) return sn_cma_why(err);
    if (scope > 2 || (scope && !may_trace()))
        return "the system lets only a debugger copy to other processes' memory: sysctl "
               "kernel.yama.ptrace_scope=0 "
               "allows it to processes of one user";
    if (prctl(PR_GET_DUMPABLE) != 1 && !may_trace())
        return "this process may not be dumped (PR_SET_DUMPABLE, or it was set-user-ID): peers cannot copy "
               "to its "
               "memory";
    return "";
}

const char *sn_cma_why(int err)
{
    switch (err) {
    case 0: return "";
    case -EPERM:
    case -EACCES:
        return "the system does not let one process copy to another's memory: sysctl "
               "kernel.yama.ptrace_scope=0, or in a container a filter that allows process_vm_readv and "
               "process_vm_writev, mends it; never between users, or where a process may not be dumped";
    case -ENOSYS:
        return "the system has no process_vm_readv, or a container's filter hides it: allow it and "
               "process_vm_writev there";
    case -ESRCH: return "the peer's process number is not known here (another PID namespace)";
    case -EPROTO: return "the peer is not the process that its number names";
    default: return "copying to the peer's memory failed";
    }
}
