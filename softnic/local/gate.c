/* SPDX-License-Identifier: Apache-2.0 */
/* Lets the engine into another process's memory, and keeps it out when that one shuts the gate. */
#include "softnic/local/gate.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A length that no list of pieces may have. */
#define SHUT ((size_t)1 << (sizeof(size_t) * 8 - 1))

static bool taken_back(const struct sn_channel *ch, uint32_t epoch)
{
    /*
     * Sequentially consistent, with the fence in sn_gate_shut. Either this sees that the access was taken
     * back. Or the thread that takes it back sees, or overwrites, the earlier stores.
     */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(&ch->revoked, __ATOMIC_RELAXED) == epoch;
}

bool sn_gate_lay(struct sn_channel *ch, uint32_t epoch, const struct iovec *there, unsigned n)
{
    if (!n) return true;
    memcpy(ch->there + 1, there + 1, (n - 1) * sizeof(*there));
    ch->there[0].iov_base = there[0].iov_base;
    __atomic_store_n(&ch->there[0].iov_len, there[0].iov_len, __ATOMIC_RELAXED);
    return !taken_back(ch, epoch);
}

bool sn_gate_is_shut(const struct sn_channel *ch)
{
    return __atomic_load_n(&ch->there[0].iov_len, __ATOMIC_RELAXED) == SHUT;
}

bool sn_gate_pass(struct sn_channel *ch, uint32_t epoch)
{
    __atomic_store_n(&ch->ungated, epoch, __ATOMIC_RELAXED);
    return !taken_back(ch, epoch);
}

bool sn_gate_shut(struct sn_channel *ch, uint32_t epoch)
{
    __atomic_store_n(&ch->revoked, epoch, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&ch->there[0].iov_len, SHUT, __ATOMIC_RELAXED);
    return __atomic_load_n(&ch->ungated, __ATOMIC_RELAXED) != epoch;
}

/* "PID (NAME) STATE …", where NAME may hold anything: stopped, stopped by a tracer, or dead. */
static bool is_still(int tasks, const char *tid)
{
    char path[32], text[512], *end;
    int fd;
    ssize_t n;

    snprintf(path, sizeof(path), "%.20s/stat", tid);
    fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return true; /* it has ended */
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0) return true;
    text[n] = 0;
    end = strrchr(text, ')');
    return end && end[1] == ' ' && strchr("TtZX", end[2]);
}

bool sn_process_stands_still(pid_t pid)
{
    char path[32];
    DIR *tasks;
    struct dirent *e;
    bool still = true;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    if (!tasks) return false;
    while (still && (e = readdir(tasks)))
        if (e->d_name[0] != '.') still = is_still(dirfd(tasks), e->d_name);
    closedir(tasks);
    return still;
}
