/* SPDX-License-Identifier: Apache-2.0 */
/* Copies from and to memory whose pointer may be bad. */
#include "softnic/mem/usercopy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define PIPE_CHUNK 4096u /* what a pipe takes at once without blocking, whatever its state was before */

/*
 * Where a sandbox forbids process_vm_readv, a pipe does the same: the kernel copies from and to the pointers,
 * and says EFAULT instead of sending a signal.
 */
static int copy_by_pipe(void *to, const void *from, size_t bytes)
{
    int fd[2], err = 0;

    if (pipe2(fd, O_CLOEXEC)) return -EFAULT;
    while (bytes && !err) {
        size_t n = bytes < PIPE_CHUNK ? bytes : PIPE_CHUNK;
        if (write(fd[1], from, n) != (ssize_t)n || read(fd[0], to, n) != (ssize_t)n) err = -EFAULT;
        from = (const char *)from + n;
        to = (char *)to + n;
        bytes -= n;
    }
    close(fd[0]);
    close(fd[1]);
    return err;
}

static int usercopy_copy(void *to, const void *from, size_t bytes, bool reading)
{
    if (!bytes) return 0;
    struct iovec ours = {reading ? to : (void *)from, bytes}, theirs = {reading ? (void *)from : to, bytes};
    ssize_t n = reading ? process_vm_readv(getpid(), &ours, 1, &theirs, 1, 0)
                        : process_vm_writev(getpid(), &ours, 1, &theirs, 1, 0);
    if (n == (ssize_t)bytes) return 0;
    if (n < 0 && (errno == EPERM || errno == ENOSYS || errno == ESRCH)) return copy_by_pipe(to, from, bytes);
    return -EFAULT;
}

int uv_copy_in(void *to, uint64_t from, size_t bytes)
{
    return usercopy_copy(to, (const void *)(uintptr_t)from, bytes, true);
}

int uv_copy_out(uint64_t to, const void *from, size_t bytes)
{
    return usercopy_copy((void *)(uintptr_t)to, from, bytes, false);
}

/* Slower than asking for the pages, but needs no permission to fault them in: what /proc says of the
 * mappings. */
static bool mapped_with(uintptr_t start, uintptr_t end, bool write)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[512];
    uintptr_t covered = start;

    if (!f) return false;
    while (covered < end && fgets(line, sizeof(line), f)) {
        unsigned long from, to;
        char perm[5];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, perm) != 3 || to <= covered) continue;
        if (from > covered || perm[0] != 'r' || (write && perm[1] != 'w')) break;
        covered = to;
    }
    fclose(f);
    return covered >= end;
}

int uv_range_ok(uint64_t va, uint64_t bytes, int write)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = va & ~(uint64_t)(page - 1), end;

    if (!bytes) return 0;
    if (__builtin_add_overflow(va, bytes, &end) || __builtin_add_overflow(end, page - 1, &end))
        return -EFAULT;
    end &= ~(page - 1);
#ifdef MADV_POPULATE_WRITE
    /* Faults the pages in just as pinning them would, and fails where the NIC's own access would raise a
     * signal. */
    if (!madvise((void *)start, end - start, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ)) return 0;
    if (errno == EFAULT || errno == ENOMEM) return -EFAULT;
        /* EINVAL: an older kernel, a mapping without permission, or one of a driver (pinned GPU-visible
         * memory). */
#endif
    return mapped_with(start, end, write) ? 0 : -EFAULT;
}
