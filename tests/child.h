/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that are two processes. */
#ifndef TESTS_CHILD_H
#define TESTS_CHILD_H

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/exec.h>

/* For functions that both run, and that return 0 or the line on which they failed: a child must not use
 * cmocka. */
#define TRY(cond)                                                                                            \
    do {                                                                                                     \
        if (!(cond)) {                                                                                       \
            fprintf(stderr, "pid %d, %s:%d: %s: %s\n", (int)getpid(), __FILE__, __LINE__, #cond,             \
                    gw_last_error());                                                                        \
            return __LINE__;                                                                                 \
        }                                                                                                    \
    } while (0)

/*
 * As fork, with a socket between the two, each one's end in *fd. The child is killed when its parent ends.
 * Before anything is opened: neither a NIC nor CUDA survives a fork.
 */
static inline pid_t child_fork(int *fd)
{
    pid_t pid, parent = getpid();
    int pair[2];

    *fd = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return -1;
    pid = fork();
    close(pair[!pid ? 0 : 1]);
    *fd = pair[!pid ? 1 : 0];
    if (!pid) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!pid && getppid() != parent) _exit(1); /* it ended before that */
    return pid;
}

/* This program again: its argv is name, the number of its socket, and word. -1: it cannot be. */
static inline pid_t child_exec(const char *name, const char *word, int *fd)
{
    pid_t pid = child_fork(fd);
    char number[12];

    if (pid) return pid;
    snprintf(number, sizeof(number), "%d", *fd);
    execl("/proc/self/exe", name, number, word, NULL);
    _exit(1);
}

#endif
