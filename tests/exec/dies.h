/* SPDX-License-Identifier: Apache-2.0 */
/* dies.h: a child process in which a statement of GW_ASSERT fails, and the line that it then prints. */
#ifndef TESTS_EXEC_DIES_H
#define TESTS_EXEC_DIES_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs what(arg) in a child. True: abort() ended it, and `line` is what it wrote to stderr. */
static inline bool dies(void (*what)(void *arg), void *arg, char line[256])
{
    const struct rlimit no_core = {0, 0};
    int out[2], status;
    size_t have = 0;
    pid_t child;
    ssize_t n;

    line[0] = 0;
    if (pipe(out)) return false;
    child = fork();
    if (!child) {
        signal(SIGABRT, SIG_DFL);
        setrlimit(RLIMIT_CORE, &no_core);
        dup2(out[1], 2);
        what(arg);
        _exit(0);
    }
    close(out[1]);
    while (have < 255 && (n = read(out[0], line + have, 255 - have)) > 0) have += (size_t)n;
    line[have] = 0;
    close(out[0]);
    return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGABRT;
}

/* The same, with a line that names this file and this expression. */
static inline bool dies_of(void (*what)(void *arg), void *arg, const char *file, const char *expression)
{
    char line[256];

    if (!dies(what, arg, line)) return false;
    if (strstr(line, "gpuwire: ") && strstr(line, file) && strstr(line, expression)) return true;
    fprintf(stderr, "it says \"%s\"\n", line);
    return false;
}

#endif
